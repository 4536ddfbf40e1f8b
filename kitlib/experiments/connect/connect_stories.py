"""Connect's experiments: layouts of workers, a worker that is lost, and a source task that crashes between two flushes."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.connect.connect_run import MODEL_ONLY, ConnectRun, SourceRun
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.kafka.connect.settings import ConnectSettings
from kitlib.kafka.connect.source_task import SourceSettings

_CLUSTER, _SOURCE = ConnectSettings(), SourceSettings()

Workers = Annotated[int, Knob("How many workers the cluster has.", "workers", 1, 6)]
SourceTasks = Annotated[int, Knob("How many tasks the source connector asks for.", "tasks", 0, 12)]
SinkTasks = Annotated[int, Knob("How many tasks the sink connector asks for.", "tasks", 0, 12)]
Protocol = Annotated[
    Literal["sessioned", "compatible", "eager"], Knob("connect.protocol: eager stops every worker at each rebalance.")
]
JoinMs = Annotated[int, Knob("How long a rebalance takes.", "ms", 0, 10_000)]
DelayMs = Annotated[int, Knob("How long a lost worker's tasks stay unassigned, in case it comes back.", "ms", 0, 600_000)]
SessionMs = Annotated[int, Knob("A worker without a heartbeat for this long is removed.", "ms", 1_000, 60_000)]


@experiment("Workers, connectors and tasks", ConnectRun)
def connect_layouts(
    run: ConnectRun,
    workers: Workers = 3,
    source_tasks: SourceTasks = 2,
    sink_tasks: SinkTasks = 2,
    mode: Annotated[Literal["distributed", "standalone"], Knob("One process for everything, or a group of workers.")] = "distributed",
    protocol: Protocol = _CLUSTER.protocol,
    join_ms: JoinMs = _CLUSTER.join_ms,
) -> None:
    """Workers join one after another. Who runs what, and what moves each time?"""
    try:
        run.configure({"source": source_tasks, "sink": sink_tasks})
        for number in range(1 if run.alone is not None else workers):
            run.start(f"w{number + 1}")
            run.run_for(10_000)
        run.tell_idle()
    finally:
        run.close()


@experiment("A worker dies, and no one runs its tasks", ConnectRun, model_only=MODEL_ONLY)
def connect_worker_lost(
    run: ConnectRun,
    workers: Workers = 3,
    source_tasks: SourceTasks = 3,
    sink_tasks: SinkTasks = 3,
    back_after_ms: Annotated[int, Knob("When the worker is restarted; 0: never.", "ms", 0, 600_000)] = 0,
    lost: Annotated[Literal["a member", "the leader"], Knob("Who dies: a follower or the leader.")] = "a member",
    scheduled_rebalance_max_delay_ms: DelayMs = _CLUSTER.scheduled_rebalance_max_delay_ms,
    session_timeout_ms: SessionMs = _CLUSTER.session_timeout_ms,
    protocol: Protocol = _CLUSTER.protocol,
    join_ms: JoinMs = _CLUSTER.join_ms,
) -> None:
    """One of three workers is killed. How long do its tasks run nowhere, and what moves when it comes back?"""
    run.configure({"source": source_tasks, "sink": sink_tasks})
    for number in range(workers):
        run.start(f"w{number + 1}")
    run.run_for(20_000)
    run.count_from_here()
    name = f"w{workers}" if lost == "a member" else "w1"
    run.kill(name)
    if back_after_ms:
        run.run_for(back_after_ms)
        run.start(name)
    run.run_for(2 * scheduled_rebalance_max_delay_ms + 60_000)
    run.tell_idle()


@experiment("The source remembers, but not everything", SourceRun, model_only=MODEL_ONLY)
def connect_source_crash(
    run: SourceRun,
    records_per_s: Annotated[int, Knob("Records that the task produces per second.", "records/s", 1, 1_000)] = 100,
    offset_flush_interval_ms: Annotated[
        int, Knob("How often the source offset is stored.", "ms", 1_000, 600_000, scale="log")
    ] = _SOURCE.offset_flush_interval_ms,
    crash_at_ms: Annotated[int, Knob("When the worker stops.", "ms", 1_000, 200_000)] = 59_000,
    ending: Annotated[Literal["crash", "stop"], Knob("How it stops: it dies, or it shuts down cleanly.")] = "crash",
    exactly_once: Annotated[bool, Knob("exactly.once.source.support: records and offset in one transaction.")] = _SOURCE.exactly_once,
    transaction_boundary: Annotated[
        Literal["poll", "interval"], Knob("One transaction per poll, or per flush interval.")
    ] = _SOURCE.transaction_boundary,
    restart_ms: Annotated[int, Knob("How long until the task is running again.", "ms", 0, 60_000)] = 2_000,
) -> None:
    """A source task writes 100 records a second and its offset once a minute. It crashes a second before the next
    offset is due. How many records arrive twice?
    """
    run.begin()
    run.poll_until(crash_at_ms)
    if ending == "crash":
        run.crash()
    else:
        run.stop()
    run.now_ms += restart_ms
    run.begin()
    run.poll_until(run.now_ms + crash_at_ms + 10_000)  # past all that it had produced before
    run.stop()
