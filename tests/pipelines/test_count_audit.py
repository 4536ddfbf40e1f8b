"""The audit of a word count: what is missing, and what is too many."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kitlib.errors import LabError, TraceError
from kitlib.experiments import get
from kitlib.pipelines.count_audit import (
    WORDS_SHOWN,
    CountAudit,
    Counted,
    Guarantees,
    WordAudit,
    audit_frames,
    count_audits,
)
from kitlib.pipelines.word_count import Emit
from kitlib.trace import Trace

LINES = [b"storm bolt storm", b"bolt spout"]
Record = tuple[bytes | None, bytes | None]  # key and value

# emit, counts -> (equal, missing, extra, repeated, fell, unreadable, guarantee) of 3 words, 5 in all
CASES: dict[str, tuple[Emit, list[Record], tuple[int, int, int, int, int, int, str]]] = {
    "no counts at all": ("totals", [], (0, 5, 0, 0, 0, 0, "at most once")),
    "the last total of a word counts": (
        "totals", [(b"storm", b"1"), (b"bolt", b"2"), (b"storm", b"2"), (b"spout", b"1")], (3, 0, 0, 0, 0, 0, "exactly once")),
    "a total that is written again does no harm": (
        "totals", [(b"storm", b"2"), (b"bolt", b"2"), (b"storm", b"2"), (b"spout", b"1")], (3, 0, 0, 1, 0, 0, "exactly once")),
    "a count that begins anew falls": (
        "totals", [(b"storm", b"2"), (b"bolt", b"2"), (b"storm", b"1"), (b"spout", b"1")], (2, 1, 0, 0, 1, 0, "at most once")),
    "a total too high": ("totals", [(b"storm", b"4"), (b"bolt", b"2"), (b"spout", b"1")], (2, 0, 2, 0, 0, 0, "at least once")),
    "some too low and some too high": ("totals", [(b"storm", b"4"), (b"bolt", b"2")], (1, 1, 2, 0, 0, 0, "none")),
    "a word that no line has": (
        "totals", [(b"storm", b"2"), (b"bolt", b"2"), (b"spout", b"1"), (b"ghost", b"3")], (3, 0, 3, 0, 0, 0, "at least once")),
    "a ghost counted 0 is no word": (
        "totals", [(b"storm", b"2"), (b"bolt", b"2"), (b"spout", b"1"), (b"ghost", b"0")], (3, 0, 0, 0, 0, 0, "exactly once")),
    "increments are added up": (
        "increments", [(b"storm", b"1"), (b"storm", b"1"), (b"bolt", b"2"), (b"spout", b"1")], (3, 0, 0, 0, 0, 0, "exactly once")),
    "increments that come again count twice": (
        "increments", [*[(b"storm", b"1")] * 3, (b"bolt", b"2"), (b"spout", b"1")], (2, 0, 1, 0, 0, 0, "at least once")),
    "what cannot be read is passed over": (
        "totals", [(b"storm", b"2"), (None, b"7"), (b"bolt", None), (b"\xff", b"1"), (b"bolt", b"2 "), (b"bolt", b"-2"), (b"bolt", b"2\n"),
                   (b"bolt", b"[2]"), (b"bolt", b"9" * 30), (b"bolt", "\u0662".encode()), (b"bolt", b"1e3"), (b"bolt", b"")],
        (1, 3, 0, 0, 0, 11, "at most once")),
}  # fmt: skip


def test_audit_says_what_to_take_away() -> None:
    """One sentence, and a table of the words that are furthest off, with nothing that a screen obeys."""
    rows = (WordAudit("storm", 2, 4), WordAudit("spout", 1, 0), WordAudit("<b>\x1b[31m", 1, 0))
    found = CountAudit(5, 1, 7, 3, 2, records=4, repeated=1, fell=1, unreadable=1, wrong=rows)
    assert found.sentence == (
        "1 of 5 words have the right count: 3 of 7 are missing; 2 are counted too many. 1 of 4 records were written again. "
        "1 times a count fell. 1 lines or records could not be read."
    )
    assert repr(found).splitlines()[2].split() == ["storm", "2", "4", "0", "2"]
    assert "\x1b" not in repr(found) and "<b>" in repr(found) and "<b>[" not in found._repr_html_() and "&lt;b&gt;" in found._repr_html_()
    assert repr(CountAudit(0, 0, 0, 0, 0)) == "0 of 0 words have the right count."


def test_guarantees_are_put_side_by_side() -> None:
    """One line for each job with its name and the guarantee that was measured."""
    good, bad = CountAudit(1, 1, 1, 0, 0, records=1), CountAudit(1, 0, 3, 1, 0, wrong=(WordAudit("a", 3, 2),))
    table = Guarantees({"one": good, "<two>": bad})
    assert [row[-1] for row in table.rows()] == ["exactly once", "at most once"]
    assert repr(table).splitlines()[2].startswith("<two>") and "&lt;two&gt;" in table._repr_html_()


Job = tuple[list[bytes | None], list[Record], Emit]


@pytest.fixture(scope="session")
def audit_in_spark(spark: Any) -> Callable[[Sequence[Job]], list[CountAudit]]:
    """The Spark job over records that lie in memory, of many word counts at once."""

    def audited(jobs: Sequence[Job]) -> list[CountAudit]:
        lines = [(f"lines-{number}", line) for number, (values, _, _) in enumerate(jobs) for line in values]
        counts = [
            (f"counts-{number}", 0, offset, *record)
            for number, (_, records, _) in enumerate(jobs) for offset, record in enumerate(records)
        ]  # fmt: skip
        found = audit_frames(
            {str(number): Counted(f"lines-{number}", f"counts-{number}", emit) for number, (_, _, emit) in enumerate(jobs)},
            spark.createDataFrame(lines, "topic STRING, value BINARY"),
            spark.createDataFrame(counts, "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY"),
        )
        return [found[str(number)] for number in range(len(jobs))]

    return audited


@pytest.mark.spark
def test_counts_against_the_lines(audit_in_spark: Callable[[Sequence[Job]], list[CountAudit]]) -> None:
    """What is missing and what is too many, by word and in all, and the guarantee that this agrees with."""
    jobs: list[Job] = [(list(LINES), counts, emit) for emit, counts, _ in CASES.values()]
    for case, found in zip(CASES, audit_in_spark(jobs), strict=True):
        told = found.equal, found.missing, found.extra, found.repeated, found.fell, found.unreadable, found.guarantee
        assert told == CASES[case][2], case
        assert found.truth == 5 and found.words - found.equal == len(found.wrong), case


@pytest.mark.spark
def test_words_are_told_apart_as_they_lie_in_the_topic(audit_in_spark: Callable[[Sequence[Job]], list[CountAudit]]) -> None:
    """Case, blanks of Unicode and bytes that are no text: no two words are taken for one; of many wrong ones the first are shown."""
    odd = "storm Storm ä a\u3000b".encode()
    found, many, none = audit_in_spark([
        ([odd, b"\xff", None], [*((word, b"1") for word in odd.split(b" ")), (b"\xff", b"1")], "totals"),
        ([b"%d" % number for number in range(50)], [], "totals"), ([], [], "increments"),
    ])  # fmt: skip
    assert (found.words, found.equal, found.unreadable) == (4, 4, 3)
    assert len(many.wrong) == WORDS_SHOWN and many.missing == 50 and none.words == 0


def test_topics_of_a_run_are_known_from_its_trace() -> None:
    """A run on a broker that counted words names its topics; any other run is told to be none."""
    trace = Trace("a-run", "word_count", "kafka", domain="topology")
    trace.record(0, "log", "append", topic="kit.a-run.lines", partition=0, first=0, last=3)
    assert Counted.by(trace) == Counted("kit.a-run.lines", "kit.a-run.counts")
    for other in (get("happy_path").run(), get("word_count").run(lines=1), Trace("empty", "word_count", "kafka", domain="topology")):
        with pytest.raises(TraceError, match="left no counts in a topic"):
            Counted.by(other)


@pytest.mark.spark
@pytest.mark.kafka
def test_topic_that_is_not_there_is_a_sentence(broker: Any, spark: Any) -> None:
    """A missing topic is named at once, and Spark does not wait for it."""
    missing = f"kit.{uuid.uuid4().hex}.counts"
    with pytest.raises(LabError, match=f"there is no topic {missing}"):
        count_audits({"x": Counted(missing, missing)})
