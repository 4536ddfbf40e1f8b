"""Kafka Streams' experiments: how many tasks there are, an instance that dies, and queries meanwhile."""

from __future__ import annotations

from dataclasses import replace

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.streams.streams_run import MODEL_ONLY, StreamsRun
from kitlib.kafka.streams.app import StreamsSettings
from kitlib.kafka.streams.assignor import AssignmentSettings

_APP, _DECIDES = StreamsSettings(), AssignmentSettings()

PARTITIONS = Knob("partitions", "int", 6, "How many partitions the input topic has.", "partitions", 1, 24, live=False)
REPARTITION = Knob(
    "repartition_partitions",
    "int",
    4,
    "How many partitions the repartition topic has.",
    "partitions",
    1,
    24,
    live=False,
)
INSTANCES = Knob("instances", "int", 2, "How many instances run.", "instances", 1, 4, live=False)
THREADS = Knob(
    "threads", "int", 1, "How many threads each instance has (num.stream.threads).", "threads", 1, 12, live=False
)
STANDBYS = Knob(
    "num_standby_replicas", "int", _DECIDES.num_standby_replicas, "How many copies of each store follow its changelog.",
    "replicas", 0, 2, live=False,
)  # fmt: skip
LAG = Knob(
    "acceptable_recovery_lag", "int", _DECIDES.acceptable_recovery_lag,
    "A copy that is behind by no more than this may take its task over at once.", "records", 0, 1_000_000, scale="log", live=False,
)  # fmt: skip
SESSION_MS = Knob(
    "session_timeout_ms", "int", _APP.session_timeout_ms, "Without a heartbeat for this long an instance is given up.",
    "ms", 1_000, 60_000, live=False,
)  # fmt: skip
RUN_S = Knob(
    "run_s", "int", 120, "For how long the application has run when the instance dies.", "s", 1, 900, live=False
)


def _tell_tasks(run: StreamsRun) -> None:
    for number in range(run.knobs["instances"]):
        run.start(f"i{number + 1}")
        run.run_for(2_000)
    run.run_until_settled(60_000)
    run.tell_idle()


streams_tasks = Experiment(
    "streams_tasks",
    "As many tasks as partitions, and no more",
    "Instances and threads are added. When do more of them help, and what does a narrow topic in the middle do?",
    (PARTITIONS, REPARTITION, INSTANCES, replace(THREADS, default=2), STANDBYS, MAX_STEPS),
    _tell_tasks,
    StreamsRun,
    model_only=MODEL_ONLY,
)


def _begin(run: StreamsRun) -> str:
    """The instances run for a while; the one that will die."""
    for number in range(run.knobs["instances"]):
        run.start(f"i{number + 1}")
    run.run_for(run.knobs["run_s"] * 1_000)
    run.count_from_here()
    return f"i{run.knobs['instances']}"


def _tell_failover(run: StreamsRun) -> None:
    lost = _begin(run)
    run.kill(lost)
    back_ms = run.knobs["back_after_s"] * 1_000
    if back_ms:
        run.run_for(back_ms)
        run.start(lost, disk=run.knobs["keeps_disk"])
    elif run.knobs["instances"] == 1:
        run.start("i2")
    run.run_for(run.knobs["session_timeout_ms"] + 2_000)
    run.run_until_settled(300_000)
    run.tell_idle()


streams_failover = Experiment(
    "streams_failover",
    "An instance dies with its stores",
    "An instance is killed. Who takes its tasks, and how much of the changelog must be read before they go on?",
    (
        PARTITIONS, REPARTITION, INSTANCES, THREADS, STANDBYS, LAG, RUN_S,
        Knob("back_after_s", "int", 0, "When the instance is started again; 0: never.", "s", 0, 300, live=False),
        Knob("keeps_disk", "bool", True, "Whether it finds its stores on its disk then.", live=False),
        Knob("restore_per_s", "int", _APP.restore_per_s, "How fast a changelog is read.", "records/s", 100, 100_000,
             scale="log", live=False),
        SESSION_MS, MAX_STEPS,
    ),
    _tell_failover,
    StreamsRun,
    model_only=MODEL_ONLY,
)  # fmt: skip


def _tell_queries(run: StreamsRun) -> None:
    key, stale = run.knobs["key"], run.knobs["stale"]
    other = "i1"
    lost = _begin(run)
    run.ask(key, stale=stale)
    run.ask(key, other, stale=stale)
    run.kill(lost)
    run.run_for(1_500)
    run.ask(key, stale=stale)
    run.ask(key, other, stale=stale)
    while run.app.generation < 2:
        run.run_for(100)
    for _ in range(6):
        run.run_for(500)
        run.ask(key, stale=stale)
    run.run_until_settled(300_000)
    run.ask(key, stale=stale)
    run.tell_idle()


streams_queries = Experiment(
    "streams_queries",
    "Who holds the key, and what does it say?",
    "The count of one customer is asked for while its instance dies. Which answers are right, old, missing, or an error?",
    (
        PARTITIONS, REPARTITION, replace(INSTANCES, low=2), STANDBYS, RUN_S,
        Knob("key", "choice", "alice", "The customer.", choices=("alice", "bob", "carol", "dave"), live=False),
        Knob("stale", "bool", False, "Whether standbys and restoring copies may answer (enableStaleStores).", live=False),
        THREADS, SESSION_MS, MAX_STEPS,
    ),
    _tell_queries,
    StreamsRun,
    model_only=MODEL_ONLY,
)  # fmt: skip
