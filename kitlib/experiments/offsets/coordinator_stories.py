"""The experiments with a coordinator that forgets what nobody uses, or moves to another broker."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.coordinator_run import CoordinatorRun

Rules = Annotated[
    Literal["0.8.2", "2015-04", "0.9.0", "4.3.1"],
    Knob("The coordinator's rules: those of Kafka 0.8.2, its trunk of April 2015, 0.9.0, or today."),
]
Group = Annotated[
    Literal["alive", "empty"], Knob("Whether the group always has its member, or is empty for a while.")
]
RetentionMs = Annotated[
    int, Knob("How long a committed offset is retained; a broker's setting is in minutes.", "ms", 100, 600_000)
]
CheckMs = Annotated[int, Knob("How often the model's coordinator looks for expired offsets.", "ms", 100, 600_000)]
AwayMs = Annotated[int, Knob("How long one of the two topics is idle.", "ms", 0, 600_000)]
Records = Annotated[int, Knob("How many records each topic has at first.", "records", 1, 500)]
WhileAway = Annotated[
    int, Knob("How many arrive after the wait, before the consumer asks where to start.", "records", 0, 500)
]
Reset = Annotated[Literal["earliest", "latest"], Knob("Where a consumer without a committed offset starts.")]
OddRecord = Annotated[
    Literal["none", "unknown type", "later version"],
    Knob("A record of a later release in the middle of the offsets topic: of an unknown type, or a commit in a later version."),
]
Others = Annotated[
    int, Knob("Commits of other groups to the same partition of the offsets topic.", "records", 0, 1_000)
]
OthersKeys = Annotated[int, Knob("For how many group-partitions they commit.", "keys", 1, 100)]
LoadSpeed = Annotated[
    int, Knob("How fast the model's new coordinator reads the log.", "records/s", 1, 1_000_000, scale="log")
]
LoadChunk = Annotated[int, Knob("Records that it reads at a time.", "records", 1, 10_000)]
RetryMs = Annotated[int, Knob("How long the consumer waits between requests.", "ms", 10, 60_000)]
Between = Annotated[int, Knob("Records that arrive between its requests.", "records", 0, 100)]

RequireStable = Annotated[
    bool, Knob("Whether the consumer asks for stable offsets only, as today's Java and librdkafka clients do.")
]
Unreplicated = Annotated[
    int,
    Knob("Model only: how many of the last records the new leader does not yet know to be on all replicas.", "records", 0, 1_000),
]

FIRST_ANSWER_MS = 10_000
TOLD_WITHIN_MS = 20_000  # a consumer that is told nothing for so long has stopped, for this story
ROUNDS = 4  # of records on the busy topic while the other one is quiet


@experiment("A committed offset expires", CoordinatorRun)
def offset_expiry(
    run: CoordinatorRun,
    rules: Rules = "4.3.1",
    group: Group = "alive",
    offsets_retention_ms: RetentionMs = 1_500,
    away_ms: AwayMs = 3_500,
    check_interval_ms: CheckMs = 1_000,
    auto_offset_reset: Reset = "earliest",
    records: Records = 10,
    records_while_away: WhileAway = 4,
) -> None:
    """A consumer reads two topics, and one of them is idle for longer than offsets are retained. Where does the
    consumer start there?
    """
    # All is read and committed; then one topic is quiet for a while, or nobody is there; then the consumer asks where
    # to begin.
    try:
        run.create("orders", "refunds")
        run.resume(auto_offset_reset, FIRST_ANSWER_MS)
        run.join()
        for name in ("orders", "refunds"):
            run.append(name, records)
            run.read(name)
        if group == "empty":
            run.leave()
            run.wait(away_ms)
        else:
            for _ in range(ROUNDS):
                run.wait(away_ms // ROUNDS)
                run.append("orders", 1)
                run.read("orders")
        for name in ("orders", "refunds"):
            run.append(name, records_while_away)
        run.resume(auto_offset_reset, FIRST_ANSWER_MS)
        for name in ("orders", "refunds"):
            run.read(name)
    finally:
        run.keeper.close()
@experiment("A coordinator moves", CoordinatorRun)
def coordinator_moves(
    run: CoordinatorRun,
    rules: Rules = "4.3.1",
    odd_record: OddRecord = "none",
    require_stable: RequireStable = True,
    unreplicated: Unreplicated = 0,
    auto_offset_reset: Reset = "earliest",
    records: Records = 10,
    others_records: Others = 60,
    others_keys: OthersKeys = 10,
    load_records_per_s: LoadSpeed = 50,
    load_chunk_records: LoadChunk = 10,
    retry_ms: RetryMs = 250,
    records_while_loading: Between = 1,
) -> None:
    """Another broker becomes the coordinator and has to read the offsets topic first. What answer does a consumer get
    that asks in the meantime?
    """
    # The consumer commits before and after a time in which other groups do; then the coordinator moves, and it asks
    # where to begin.
    try:
        run.create("orders")
        run.resume(auto_offset_reset, FIRST_ANSWER_MS)
        run.append("orders", records)
        run.read("orders")
        run.others_commit(others_records, others_keys)
        run.append("orders", records)
        run.read("orders")
        run.move()
        if run.resume(auto_offset_reset, TOLD_WITHIN_MS, records_while_loading):
            run.read("orders")
    finally:
        run.keeper.close()
