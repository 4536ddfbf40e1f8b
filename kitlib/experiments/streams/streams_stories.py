"""Kafka Streams' experiments: how many tasks there are, an instance that dies, and queries meanwhile."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.streams.streams_run import MODEL_ONLY, StreamsRun
from kitlib.kafka.streams.app import StreamsSettings
from kitlib.kafka.streams.assignor import AssignmentSettings

_APP, _DECIDES = StreamsSettings(), AssignmentSettings()

Partitions = Annotated[int, Knob("How many partitions the input topic has.", "partitions", 1, 24)]
Repartition = Annotated[int, Knob("How many partitions the repartition topic has.", "partitions", 1, 24)]
Instances = Annotated[int, Knob("How many instances run.", "instances", 1, 4)]
Threads = Annotated[int, Knob("How many threads each instance has (num.stream.threads).", "threads", 1, 12)]
Standbys = Annotated[int, Knob("Standby replicas of each store (num.standby.replicas).", "replicas", 0, 2)]
Lag = Annotated[
    int, Knob("A standby that is no further behind than this may take over its task at once.", "records", 0, 1_000_000, scale="log")
]
SessionMs = Annotated[int, Knob("An instance without a heartbeat for this long is removed.", "ms", 1_000, 60_000)]
RunS = Annotated[int, Knob("How long the application has been running when the instance dies.", "s", 1, 900)]


class ApplicationKnobs:
    """The application's topics, threads and stores."""

    partitions: Partitions = 6
    repartition_partitions: Repartition = 4
    threads: Threads = 1
    num_standby_replicas: Standbys = _DECIDES.num_standby_replicas


@experiment("As many tasks as partitions, and no more", StreamsRun, shared=(ApplicationKnobs,), model_only=MODEL_ONLY)
def streams_tasks(run: StreamsRun, instances: Instances = 2, threads: Threads = 2) -> None:
    """Instances and threads are added. When do more of them help, and what does a narrow topic in the middle do?"""
    for number in range(instances):
        run.start(f"i{number + 1}")
        run.run_for(2_000)
    run.run_until_settled(60_000)
    run.tell_idle()


def _begin(run: StreamsRun) -> str:
    """The instances run for a while; the one that will die."""
    for number in range(run.knobs["instances"]):
        run.start(f"i{number + 1}")
    run.run_for(run.knobs["run_s"] * 1_000)
    run.count_from_here()
    return f"i{run.knobs['instances']}"


@experiment("An instance dies with its stores", StreamsRun, shared=(ApplicationKnobs,), model_only=MODEL_ONLY)
def streams_failover(
    run: StreamsRun,
    instances: Instances = 2,
    acceptable_recovery_lag: Lag = _DECIDES.acceptable_recovery_lag,
    run_s: RunS = 120,
    back_after_s: Annotated[int, Knob("When the instance is restarted; 0: never.", "s", 0, 300)] = 0,
    keeps_disk: Annotated[bool, Knob("Whether it then finds its stores on disk.")] = True,
    restore_per_s: Annotated[int, Knob("How fast a changelog is read.", "records/s", 100, 100_000, scale="log")] = _APP.restore_per_s,
    session_timeout_ms: SessionMs = _APP.session_timeout_ms,
) -> None:
    """An instance is killed. Who takes over its tasks, and how much of the changelog must be read before they resume?"""
    lost = _begin(run)
    run.kill(lost)
    back_ms = back_after_s * 1_000
    if back_ms:
        run.run_for(back_ms)
        run.start(lost, disk=keeps_disk)
    elif instances == 1:
        run.start("i2")
    run.run_for(session_timeout_ms + 2_000)
    run.run_until_settled(300_000)
    run.tell_idle()


@experiment("Who holds the key, and what does it say?", StreamsRun, shared=(ApplicationKnobs,), model_only=MODEL_ONLY)
def streams_queries(
    run: StreamsRun,
    instances: Annotated[int, Knob("How many instances run.", "instances", 2, 4)] = 2,
    run_s: RunS = 120,
    key: Annotated[Literal["alice", "bob", "carol", "dave"], Knob("Which customer.")] = "alice",
    stale: Annotated[bool, Knob("Whether standbys and restoring copies may answer (enableStaleStores).")] = False,
    session_timeout_ms: SessionMs = _APP.session_timeout_ms,
) -> None:
    """One customer's count is queried while its instance dies. Which answers are right, stale, missing, or an error?"""
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
