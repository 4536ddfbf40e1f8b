"""Compacted topics: what a gap means, and when a tombstone goes; on the model and on the broker."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments import get
from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.compaction.compaction_stories import CompactionRun, ModelCompactedLog
from kitlib.lab.kafka_server import Cluster
from kitlib.mechanisms.log import FetchError
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace


def found(trace: Trace, what: str, *fields: str) -> list[tuple[Any, ...]]:
    """The given fields of each step of this kind."""
    return [tuple(step.data[name] for name in fields) for step in trace if step.what == what]


# (experiment, knobs) -> processed, replaced, appended, anomalies; the same on both backends.
Claim = tuple[str, dict[str, Any], tuple[int, int, int], dict[str, int]]
CLAIMS: dict[str, Claim] = {
    "records that compaction has replaced are not lost": ("compacted_topic", {}, (5, 6, 11), {}),
    "records that were deleted are": ("compacted_topic", {"what": "delete records"}, (4, 0, 11), {"lost": 7, "skipped": 7}),
    "with latest the one that was left is lost too": (
        "compacted_topic", {"what": "delete records", "auto_offset_reset": "latest"}, (3, 0, 11), {"lost": 8, "skipped": 8}),
    "with none the reader stops, and what was deleted is lost all the same": (
        "compacted_topic", {"what": "delete records", "auto_offset_reset": "none"}, (3, 0, 11), {"lost": 7}),
    "markers lose nothing": ("compacted_topic", {"what": "transactions"}, (11, 0, 11), {}),
    "nothing happens": ("compacted_topic", {"what": "nothing"}, (11, 0, 11), {}),
    "a reader who had read all has nothing replaced": ("compacted_topic", {"read_first": 10}, (11, 0, 11), {}),
    "a reader who is away for too long never sees the tombstone": ("tombstones", {}, (6, 0, 7), {"lost": 1}),
    "one who is back in time does": ("tombstones", {"away_ms": 500}, (7, 0, 7), {}),
    "without new records the tombstone stays for ever": ("tombstones", {"new_records": False}, (6, 0, 6), {}),
    "with no retention the first cleaning still leaves it": (
        "tombstones", {"delete_retention_ms": 0, "away_ms": 0, "new_records": False}, (6, 0, 6), {}),
    "away for longer than a short retention": ("tombstones", {"delete_retention_ms": 300, "away_ms": 400}, (6, 0, 7), {"lost": 1}),
    "and for less": ("tombstones", {"delete_retention_ms": 600, "away_ms": 100}, (7, 0, 7), {}),
    "and the second takes it": ("tombstones", {"delete_retention_ms": 0, "away_ms": 0}, (6, 0, 7), {"lost": 1}),
}  # fmt: skip


def of(trace: Trace) -> tuple[tuple[int, int, int], dict[str, int]]:
    verdict = judge(trace)
    assert verdict.violations == ()
    counts = {kind: count for kind, count in verdict.counts.items() if count}
    return (verdict.processed, verdict.replaced, verdict.appended), counts


@pytest.mark.parametrize("case", CLAIMS)
def test_experiment_shows_what_it_claims(case: str) -> None:
    """Each headline is what the verdict says, and a setting explains every loss."""
    name, knobs, counted, anomalies = CLAIMS[case]
    assert of(get(name).run(**knobs)) == (counted, anomalies)


def test_compaction_leaves_a_gap_that_a_reader_is_led_over() -> None:
    """Offset 3 is asked for, 9 is handed out, and nobody says an error."""
    trace = get("compacted_topic").run()
    assert found(trace, "compact", "offsets") == [([2, 3, 4, 5, 6, 7, 8],)]
    assert found(trace, "gap", "after", "next", "missing") == [(2, 9, 6)]
    assert found(trace, "error", "error") == [] and found(trace, "delete", "to") == []
    assert found(trace, "view", "stale", "missing") == [([], []), ([], [])]
    assert "6 replaced by compaction" in judge(trace).sentence and "still wait" not in judge(trace).sentence


def test_clean_names_what_is_replaced_and_what_is_purged() -> None:
    """A record with a later one of its key is replaced, be it a tombstone; a tombstone that was the last is purged."""

    def story(run: CompactionRun) -> None:
        run.append([("a", "1"), ("a", None), ("b", None), ("a", "2")])
        run.append([("c", "1")], rolls=True)
        run.clean()
        run.append([("d", "1")], rolls=True)
        run.clean()

    trace = Trace("deletes", "deletes", settings={"delete_retention_ms": 0}, domain="compaction")
    story(CompactionRun(trace, ModelBackend("deletes"), trace.settings))
    assert found(trace, "compact", "offsets") == [([0, 1],)] and found(trace, "purge", "offsets") == [([2],)]


def test_model_log_answers_fetches_as_a_broker_does() -> None:
    """From the start to the end, both included, a fetch is answered; a cut inside of a batch hides what is below it."""
    log = ModelCompactedLog("customers", 0)
    log.write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    assert log.delete_before(1) == 1
    assert [record.offset for record in log.fetch(1).records] == [1, 2]
    assert log.fetch(0).error is log.fetch(4).error is FetchError.OFFSET_OUT_OF_RANGE and log.fetch(3).records == []
    assert [offset for offset, _, _ in log.snapshot().records] == [1, 2]


REAL = [
    "records that compaction has replaced are not lost", "records that were deleted are", "markers lose nothing",
    "away for longer than a short retention", "and for less",
]  # fmt: skip


def plain(trace: Trace) -> list[tuple[str, str, dict[str, Any]]]:
    """Who did what, without the run's name in the topic."""
    return [
        (step.actor, step.what, {name: value for name, value in step.data.items() if name != "topic"}) for step in trace
    ]


@pytest.mark.kafka
@pytest.mark.parametrize("case", REAL)
def test_experiment_on_the_broker_does_what_the_model_does(broker: Cluster, case: str) -> None:
    """The real cleaner, consumer and producer take the steps of the model, and leave the same records in the same segments."""
    name, knobs, counted, anomalies = CLAIMS[case]
    model, real = get(name).run(**knobs), get(name).run(backend="kafka", **knobs)
    assert of(real) == (counted, anomalies)
    assert plain(real) == plain(model)
    # A segment below the log's start goes when the broker next looks for such, within a second.
    parts = ("records", "keys") if knobs.get("what") == "delete records" else ("segments", "records", "keys")
    for ours, theirs in zip(model, real, strict=True):
        assert [ours.state["offsets"][part] for part in parts] == [theirs.state["offsets"][part] for part in parts], ours


def test_cleaner_of_a_foreign_broker_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of brokers that are not the kit's cannot be read: the run says so before it makes a topic."""
    from kitlib.experiments.compaction.kafka_compacted_log import KafkaCompactedLog
    from kitlib.experiments.kafka_backend import KafkaBackend

    backend = KafkaBackend.__new__(KafkaBackend)
    backend.cluster = Cluster("broker.example:9092", "id", 3, "external")
    with pytest.raises(LabError, match=r"brokers at broker\.example:9092 are not the kit's\. Unset KIT_KAFKA_BOOTSTRAP"):
        KafkaCompactedLog.open(backend, "customers", 0)
