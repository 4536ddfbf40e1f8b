"""Compaction's experiments: a gap is no loss, and a tombstone is not there for ever."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.compaction.compaction_run import CompactionRun, rows_of, told
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob

CUSTOMERS = ("alice", "bob", "carol")

AutoOffsetReset = Annotated[
    Literal["earliest", "latest", "none"], Knob("Where the reader continues when its offset is out of range.")
]


@experiment("A gap is no loss", CompactionRun)
@told
def compacted_topic(
    run: CompactionRun,
    what: Annotated[Literal["compaction", "delete records", "transactions", "nothing"], Knob("What makes the gap.")] = "compaction",
    records: Annotated[int, Knob("Records in the first segment.", "records", 1, 100)] = 10,
    keys: Annotated[int, Knob("Distinct keys among them; all remaining records have the last key.", "keys", 1, 100)] = 3,
    read_first: Annotated[int, Knob("How many of them the reader processes before it leaves.", "records", 0, 100)] = 3,
    min_compaction_lag_ms: Annotated[
        int, Knob("Minimum age of a record before the cleaner may remove it (the topic's min.compaction.lag.ms).", "ms", 0, 3_600_000)
    ] = 0,
    age_ms: Annotated[int, Knob("Age of the records when the cleaner runs.", "ms", 0, 7_200_000)] = 0,
    auto_offset_reset: AutoOffsetReset = "earliest",
) -> None:
    """A reader comes back at offset 3, and the records from there to 8 are gone. What does it receive, and has anything
    been lost?
    """
    by_transaction = what == "transactions"
    run.append([(f"key-{min(at, keys - 1)}", f"value {at}") for at in range(records)], transactional=by_transaction)
    run.start_reader()
    run.read(read_first)
    run.append([("last", "value")], rolls=True, transactional=by_transaction)
    if what == "compaction":
        run.clean()
    elif what == "delete records":
        run.delete_before(records)
    run.start_reader()
    run.read()
    run.tell_views()


def _come_back(run: CompactionRun, after_ms: int) -> None:
    run.wait(after_ms)
    run.start_reader()
    run.read()


def _clean_again(run: CompactionRun) -> None:
    """Only new records bring the cleaner back to a log."""
    if run.knobs["new_records"]:
        run.append([("dave", "order 2")], rolls=True)
    run.clean()


@experiment("A tombstone has its time", CompactionRun)
@told
def tombstones(
    run: CompactionRun,
    delete_retention_ms: Annotated[
        int, Knob("How long after its first cleaning a tombstone stays (the topic's delete.retention.ms).", "ms", 0, 10_000)
    ] = 1_500,
    away_ms: Annotated[int, Knob("How long the reader stays away after that cleaning.", "ms", 0, 20_000)] = 2_500,
    new_records: Annotated[bool, Knob("Whether new records arrive in the meantime, so that the cleaner runs again.")] = True,
) -> None:
    """Bob is deleted while a reader is away. When the reader comes back, does it find out?"""
    run.append(rows_of(CUSTOMERS, "order 1"))
    run.start_reader()
    run.read()
    run.append([("bob", None), ("alice", "order 2")])
    run.append([("dave", "order 1")], rolls=True)
    run.clean()
    if away_ms < delete_retention_ms:
        _come_back(run, away_ms)
        run.wait(delete_retention_ms - away_ms)
        _clean_again(run)
        run.read()
    else:
        run.wait(away_ms)
        _clean_again(run)
        _come_back(run, 0)
    run.tell_views()
