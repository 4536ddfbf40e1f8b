"""Compaction's experiments: a gap is no loss, and a tombstone is not there for ever."""

from __future__ import annotations

from kitlib.experiments.compaction.compaction_run import CompactionRun, rows_of, told
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob

CUSTOMERS = ("alice", "bob", "carol")

AUTO_OFFSET_RESET = Knob(
    "auto_offset_reset", "choice", "earliest", "Where the reader goes on when its offset is out of range.",
    choices=("earliest", "latest", "none"), live=False,
)  # fmt: skip


@told
def _tell_compacted_topic(run: CompactionRun) -> None:
    knobs, what = run.knobs, run.knobs["what"]
    by_transaction = what == "transactions"
    keys, records = knobs["keys"], knobs["records"]
    run.append([(f"key-{min(at, keys - 1)}", f"value {at}") for at in range(records)], transactional=by_transaction)
    run.start_reader()
    run.read(knobs["read_first"])
    run.append([("last", "value")], rolls=True, transactional=by_transaction)
    if what == "compaction":
        run.clean()
    elif what == "delete records":
        run.delete_before(records)
    run.start_reader()
    run.read()
    run.tell_views()


compacted_topic = Experiment(
    "compacted_topic",
    "A gap is no loss",
    "A reader comes back at offset 3, and the records from there to 8 are gone. What is it handed, and has anything been lost?",
    (
        Knob("what", "choice", "compaction", "What makes the gap.",
             choices=("compaction", "delete records", "transactions", "nothing"), live=False),
        Knob("records", "int", 10, "How many records the first segment gets.", "records", 1, 100, live=False),
        Knob("keys", "int", 3, "How many keys they have: the last key has all the rest of them.", "keys", 1, 100, live=False),
        Knob("read_first", "int", 3, "How many of them the reader processes before it goes.", "records", 0, 100, live=False),
        Knob("min_compaction_lag_ms", "int", 0,
             "How old a record has to be before the cleaner may take it (the topic's min.compaction.lag.ms).", "ms", 0, 3_600_000,
             live=False),
        Knob("age_ms", "int", 0, "How old the records are when the cleaner comes.", "ms", 0, 7_200_000, live=False),
        AUTO_OFFSET_RESET, MAX_STEPS,
    ),
    _tell_compacted_topic,
    kind=CompactionRun,
)  # fmt: skip


@told
def _tell_tombstones(run: CompactionRun) -> None:
    knobs = run.knobs
    retention_ms, away_ms = knobs["delete_retention_ms"], knobs["away_ms"]
    run.append(rows_of(CUSTOMERS, "order 1"))
    run.start_reader()
    run.read()
    run.append([("bob", None), ("alice", "order 2")])
    run.append([("dave", "order 1")], rolls=True)
    run.clean()
    if away_ms < retention_ms:
        _come_back(run, away_ms)
        run.wait(retention_ms - away_ms)
        _clean_again(run)
        run.read()
    else:
        run.wait(away_ms)
        _clean_again(run)
        _come_back(run, 0)
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


tombstones = Experiment(
    "tombstones",
    "A tombstone has its time",
    "Bob is deleted while a reader is away. When the reader comes back, does it hear of that?",
    (
        Knob("delete_retention_ms", "int", 1_500,
             "How long after its first cleaning a tombstone stays (the topic's delete.retention.ms).", "ms", 0, 10_000, live=False),
        Knob("away_ms", "int", 2_500, "How long the reader is away after that cleaning.", "ms", 0, 20_000, live=False),
        Knob("new_records", "bool", True, "Whether new records come meanwhile, for which the cleaner comes again.", live=False),
        MAX_STEPS,
    ),
    _tell_tombstones,
    kind=CompactionRun,
)  # fmt: skip
