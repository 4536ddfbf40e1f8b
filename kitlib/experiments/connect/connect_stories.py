"""Connect's experiments: layouts of workers, a worker that is lost, and a source task that crashes between two flushes."""

from __future__ import annotations

from kitlib.experiments.connect.connect_run import MODEL_ONLY, ConnectRun, SourceRun
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.kafka.connect.settings import ConnectSettings
from kitlib.kafka.connect.source_task import SourceSettings

_CLUSTER, _SOURCE = ConnectSettings(), SourceSettings()

WORKERS = Knob("workers", "int", 3, "How many workers the cluster has.", "workers", 1, 6, live=False)
SOURCE_TASKS = Knob(
    "source_tasks", "int", 2, "How many tasks the source connector asks for.", "tasks", 0, 12, live=False
)
SINK_TASKS = Knob("sink_tasks", "int", 2, "How many tasks the sink connector asks for.", "tasks", 0, 12, live=False)
PROTOCOL = Knob(
    "protocol", "choice", _CLUSTER.protocol, "connect.protocol: eager stops everybody at each rebalance.",
    choices=("sessioned", "compatible", "eager"), live=False,
)  # fmt: skip
JOIN_MS = Knob("join_ms", "int", _CLUSTER.join_ms, "How long a rebalance takes.", "ms", 0, 10_000, live=False)
DELAY_MS = Knob(
    "scheduled_rebalance_max_delay_ms", "int", _CLUSTER.scheduled_rebalance_max_delay_ms,
    "How long the work of a lost worker waits for it to come back.", "ms", 0, 600_000, live=False,
)  # fmt: skip
SESSION_MS = Knob(
    "session_timeout_ms", "int", _CLUSTER.session_timeout_ms, "Without a heartbeat for this long a worker is given up.",
    "ms", 1_000, 60_000, live=False,
)  # fmt: skip


def _tell_layouts(run: ConnectRun) -> None:
    knobs = run.knobs
    try:
        run.configure({"source": knobs["source_tasks"], "sink": knobs["sink_tasks"]})
        for number in range(1 if run.alone is not None else knobs["workers"]):
            run.start(f"w{number + 1}")
            run.run_for(10_000)
        run.tell_idle()
    finally:
        run.close()


connect_layouts = Experiment(
    "connect_layouts",
    "Workers, connectors and tasks",
    "Workers come one after the other. Who runs what, and what moves each time?",
    (
        WORKERS, SOURCE_TASKS, SINK_TASKS,
        Knob("mode", "choice", "distributed", "One process for everything, or a group of workers.",
             choices=("distributed", "standalone"), live=False),
        PROTOCOL, JOIN_MS, MAX_STEPS,
    ),
    _tell_layouts,
    ConnectRun,
)  # fmt: skip


def _tell_worker_lost(run: ConnectRun) -> None:
    knobs = run.knobs
    run.configure({"source": knobs["source_tasks"], "sink": knobs["sink_tasks"]})
    for number in range(knobs["workers"]):
        run.start(f"w{number + 1}")
    run.run_for(20_000)
    run.count_from_here()
    lost = f"w{knobs['workers']}" if knobs["lost"] == "a member" else "w1"
    run.kill(lost)
    back_ms = knobs["back_after_ms"]
    if back_ms:
        run.run_for(back_ms)
        run.start(lost)
    run.run_for(2 * knobs["scheduled_rebalance_max_delay_ms"] + 60_000)
    run.tell_idle()


connect_worker_lost = Experiment(
    "connect_worker_lost",
    "A worker dies, and its tasks are nowhere",
    "One of three workers is killed. For how long does nobody run its tasks, and what moves when it comes back?",
    (
        WORKERS,
        Knob("source_tasks", "int", 3, SOURCE_TASKS.help, "tasks", 0, 12, live=False),
        Knob("sink_tasks", "int", 3, SINK_TASKS.help, "tasks", 0, 12, live=False),
        Knob("back_after_ms", "int", 0, "When the worker is started again; 0: never.", "ms", 0, 600_000, live=False),
        Knob("lost", "choice", "a member", "Who dies: one that does not lead, or the leader.",
             choices=("a member", "the leader"), live=False),
        DELAY_MS, SESSION_MS, PROTOCOL, JOIN_MS, MAX_STEPS,
    ),
    _tell_worker_lost,
    ConnectRun,
    model_only=MODEL_ONLY,
)  # fmt: skip


def _tell_source_crash(run: SourceRun) -> None:
    knobs = run.knobs
    run.begin()
    run.poll_until(knobs["crash_at_ms"])
    if knobs["ending"] == "crash":
        run.crash()
    else:
        run.stop()
    run.now_ms += knobs["restart_ms"]
    run.begin()
    run.poll_until(run.now_ms + knobs["crash_at_ms"] + 10_000)  # past all that it had produced before
    run.stop()


connect_source_crash = Experiment(
    "connect_source_crash",
    "The source remembers, but not everything",
    "A source task writes 100 records a second and its offset once a minute. It crashes a second before. How many records come twice?",
    (
        Knob("records_per_s", "int", 100, "How many records the task produces in a second.", "records/s", 1, 1_000, live=False),
        Knob(
            "offset_flush_interval_ms", "int", _SOURCE.offset_flush_interval_ms, "How often the source offset is stored.",
            "ms", 1_000, 600_000, scale="log", live=False,
        ),
        Knob("crash_at_ms", "int", 59_000, "When the worker ends.", "ms", 1_000, 200_000, live=False),
        Knob("ending", "choice", "crash", "How it ends: it dies, or it is stopped in order.", choices=("crash", "stop"), live=False),
        Knob("exactly_once", "bool", _SOURCE.exactly_once, "exactly.once.source.support: records and offset in one transaction.",
             live=False),
        Knob("transaction_boundary", "choice", _SOURCE.transaction_boundary, "A transaction for each poll, or for each flush interval.",
             choices=("poll", "interval"), live=False),
        Knob("restart_ms", "int", 2_000, "How long until the task runs again.", "ms", 0, 60_000, live=False),
        MAX_STEPS,
    ),
    _tell_source_crash,
    SourceRun,
    model_only=MODEL_ONLY,
)  # fmt: skip
