"""The verdict on transactions, by hand-written steps: what is counted, where it is seen first, and what no setting explains."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.monitor.delivery import judge
from kitlib.monitor.figures import READER_WAIT
from kitlib.trace import Trace

Told = list[tuple[str, str, dict[str, Any]]]

OPEN: tuple[str, str, dict[str, Any]] = ("broker", "open", {})


def wrote(tx: int | None, first: int, last: int, offset: int, pid: int = 0) -> Told:
    """Records sent in a transaction and found in the log."""
    return [
        ("producer", "send", {"first": first, "last": last, "tx": tx}),
        ("broker", "write", {"first": first, "last": last, "offset": offset, "tx": tx, "pid": -1 if tx is None else pid, "epoch": 0}),
    ]


def mark(kind: str, offset: int, pid: int = 0) -> Told:
    """A marker."""
    return [("broker", "marker", {"kind": kind, "offset": offset, "pid": pid, "epoch": 0})]


def read(*pairs: tuple[int, int], by: str = "read_committed") -> Told:
    """(offset, record) handed to a reader."""
    return [(by, "read", {"offset": offset, "record": record, "tx": None}) for offset, record in pairs]


COMMITTED: Told = [("producer", "commit_tx", {"tx": 0})]
# A story -> its steps after the first, the knobs, the counts that are not 0, which of them are violations.
STORIES: dict[str, tuple[Told, dict[str, Any], dict[str, int], set[str]]] = {
    "committed and read": ([*wrote(0, 0, 1, 0), *COMMITTED, *mark("COMMIT", 2), *read((0, 0), (1, 1))], {}, {}, set()),
    "committed and not read": ([*wrote(0, 0, 1, 0), *COMMITTED, *mark("COMMIT", 2), *read((0, 0))], {}, {"lost": 1}, {"lost"}),
    "sent, and nobody was told anything": ([*wrote(0, 0, 1, 0)], {}, {}, set()),
    "aborted and not read": ([*wrote(0, 0, 1, 0), ("producer", "abort_tx", {"tx": 0}), *mark("ABORT", 2)], {}, {}, set()),
    "aborted, and a reader of committed records was given it": (
        [*wrote(0, 0, 1, 0), ("producer", "abort_tx", {"tx": 0}), *mark("ABORT", 2), *read((0, 0))], {}, {"aborted_read": 1},
        {"aborted_read"}),
    "given first and aborted later, to the other reader": (
        [*wrote(0, 0, 1, 0), *read((0, 0), (1, 1), by="read_uncommitted"), *mark("ABORT", 2)], {"isolation": "read_uncommitted"},
        {"aborted_read": 2}, set()),
    "what the other reader is given does not count": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *read((0, 0), by="read_uncommitted")], {}, {"lost": 1}, {"lost"}),
    "twice in transactions, with everything inside": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *wrote(1, 0, 0, 2), *read((0, 0), (2, 0))], {"offsets": "inside", "ids": "same"},
        {"duplicated": 1}, {"duplicated"}),
    "twice with the position outside": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *wrote(1, 0, 0, 2), *read((0, 0), (2, 0))], {"offsets": "outside"}, {"duplicated": 1}, set()),
    "out of order": ([*wrote(0, 0, 1, 0), *COMMITTED, *read((0, 1), (1, 0))], {}, {"reordered": 1}, {"reordered"}),
    "twice to the reader of all, where another record was aborted": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *mark("COMMIT", 1), *wrote(1, 5, 5, 2), *mark("ABORT", 3),
         *read((0, 0), (2, 5), (4, 0), by="read_uncommitted")],
        {"isolation": "read_uncommitted"}, {"duplicated": 1, "aborted_read": 1}, {"duplicated"}),
    "out of order to the reader of all, where an older record was aborted": (
        [*wrote(1, 0, 0, 0), *mark("ABORT", 1), *wrote(0, 2, 3, 2), *COMMITTED, *read((0, 0), (2, 3), (3, 2), by="read_uncommitted")],
        {"isolation": "read_uncommitted"}, {"reordered": 1, "aborted_read": 1}, {"reordered"}),
    "lost, where another record timed out and was aborted": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *mark("COMMIT", 1), *wrote(1, 5, 5, 2), *mark("ABORT", 3)], {"on_fenced": "continue"},
        {"lost": 1}, {"lost"}),
    "two producers have no order between them": (
        [*wrote(0, 5, 5, 0), ("producer 2", "send", {"first": 0, "last": 0, "tx": 1}), *COMMITTED, *read((0, 5), (1, 0))], {}, {}, set()),
    "a marker ends its own producer's records alone": (
        [*wrote(0, 0, 0, 0), *wrote(1, 1, 1, 1, pid=1), *mark("ABORT", 2, pid=1), *COMMITTED, *read((0, 0))], {}, {}, set()),
    "a torn transaction: what lies before the late marker is aborted, what lies behind it is not": (
        [*wrote(0, 0, 0, 0), *mark("ABORT", 1), *wrote(0, 1, 1, 2), *COMMITTED, *mark("COMMIT", 3), *read((2, 1))],
        {"late_marker": True, "version": "1"}, {"lost": 1}, set()),
    "the same with epochs of its own is a violation": (
        [*wrote(0, 0, 0, 0), *mark("ABORT", 1), *wrote(0, 1, 1, 2), *COMMITTED, *mark("COMMIT", 3), *read((2, 1))],
        {"late_marker": True, "version": "2"}, {"lost": 1}, {"lost"}),
    "a wait that the producer's own commit ends is none": (
        [*wrote(0, 0, 0, 0), ("read_committed", "waits", {"at": 0}), *COMMITTED, *read((0, 0))], {}, {}, set()),
    "a wait that nobody ends": (
        [*wrote(0, 0, 0, 0), ("read_committed", "waits", {"at": 0}), ("read_committed", "end", {"position": 0})], {},
        {"stalled": 1}, {"stalled"}),
    "a wait that the timeout ends": (
        [*wrote(0, 0, 0, 0), ("read_committed", "waits", {"at": 0}), *mark("ABORT", 1), ("read_committed", "end", {"position": 2})], {},
        {"stalled": 1}, set()),
    "a wait that nobody ends is not verification's doing where nothing came after an end": (
        [*wrote(0, 0, 0, 0), ("read_committed", "waits", {"at": 0}), ("read_committed", "end", {"position": 0})], {"verification": False},
        {"stalled": 1}, {"stalled"}),
    "a batch behind the end of its transaction is": (
        [*wrote(0, 0, 0, 0), ("producer", "abort_tx", {"tx": 0}), *mark("ABORT", 1), *wrote(0, 0, 0, 2),
         ("read_committed", "waits", {"at": 2}), ("read_committed", "end", {"position": 2})], {"verification": False},
        {"stalled": 1}, set()),
    "who takes a fence for nothing loses what was aborted, with what was refused": (
        [*wrote(0, 0, 0, 0), *mark("ABORT", 1), wrote(0, 1, 1, 1)[0], *COMMITTED], {"on_fenced": "continue", "cause": "slow"},
        {"lost": 2}, set()),
    "and nothing that was not": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *mark("COMMIT", 1)], {"on_fenced": "continue", "cause": "slow"}, {"lost": 1}, {"lost"}),
    "nor does a worker that was killed": (
        [*wrote(0, 0, 0, 0), *mark("ABORT", 1), *COMMITTED], {"on_fenced": "continue", "cause": "kill"}, {"lost": 1}, {"lost"}),
    "without transactions, and what was sent once": (
        [*wrote(None, 0, 0, 0, pid=-1), *read((0, 0), (0, 0))], {"transactional": False}, {"duplicated": 1}, {"duplicated"}),
    "the offset first, and the output was committed": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *mark("COMMIT", 1)], {"offsets": "outside", "order": "offsets first"}, {"lost": 1}, {"lost"}),
    "a late marker of another transaction than the lost one's": (
        [*wrote(0, 0, 0, 0), *COMMITTED, *mark("COMMIT", 1)], {"late_marker": True, "version": "1"}, {"lost": 1}, {"lost"}),
    "outside of transactions a write is a promise, and the offset first does not explain its loss": (
        [*wrote(None, 0, 1, 0), *read((0, 0))], {"transactional": False, "order": "offsets first"}, {"lost": 1}, {"lost"}),
}  # fmt: skip


def made(steps: Told, knobs: dict[str, Any], **first: Any) -> Trace:
    """The steps in one lane."""
    trace = Trace("by-hand", "made_up", settings=knobs, domain="transactions")
    for number, (actor, what, data) in enumerate([OPEN, *steps]):
        trace.record(number, actor, what, topic="t", partition=0, **(data | (first if number == 0 else {})))
    return trace


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_verdict_counts_and_marks(story: tuple[Told, dict[str, Any], dict[str, int], set[str]]) -> None:
    """Each anomaly by itself, explained or not."""
    steps, knobs, counts, violations = story
    verdict = judge(made(steps, knobs))
    assert {kind: count for kind, count in verdict.counts.items() if count} == counts
    assert set(verdict.violations) == violations


TWICE: Told = [*wrote(0, 0, 0, 0), *COMMITTED, *wrote(1, 0, 0, 2), *read((0, 0), (2, 0))]
WAITS: Told = [
    *wrote(0, 0, 0, 0), ("read_committed", "waits", {"at": 0}), *mark("ABORT", 1), ("read_committed", "end", {"position": 2}),
]  # fmt: skip
REASONS: dict[str, tuple[Told, dict[str, Any], str]] = {
    "one worker": (TWICE, {"offsets": "outside"}, "offsets=outside: the output was committed, but the group's offset was not"),
    "two workers with ids of their own": (
        TWICE, {"offsets": "outside", "ids": "new per start"},
        "ids=new per start and offsets=outside: a new id fences no one, and an offset committed "
        "outside the transaction does not stop its commit"),
    "whoever left it open, dead or alive": (
        WAITS, {"transaction_timeout_ms": 700},
        "transaction_timeout_ms=700: an open transaction stays open that long, unless a new producer with its id starts"),
}  # fmt: skip


@pytest.mark.parametrize("case", REASONS.values(), ids=REASONS)
def test_verdict_reason_is_the_run_s_own(case: tuple[Told, dict[str, Any], str]) -> None:
    """The reason names what happened in this story, not in one that counts the same."""
    steps, knobs, reason = case
    verdict = judge(made(steps, knobs))
    assert [verdict.first(kind).reason for kind, count in verdict.counts.items() if count] == [reason]


def test_verdict_input_that_the_position_has_passed_is_promised() -> None:
    """Three inputs, the group stands at 2, the output has the first: the second is lost, the third still waits."""
    trace = made([*wrote(0, 0, 0, 0), *COMMITTED, *read((0, 0))], {}, inputs=3)
    trace.record(9, "producer", "commit_offsets", state={"committed_input": 2}, topic="t", partition=0, offset=2)
    verdict = judge(trace)
    assert (verdict.processed, verdict.appended, verdict.counts["lost"]) == (1, 3, 1)
    assert verdict.first("lost").offset == 1 and "1 lost" in verdict.sentence


def test_verdict_effects_are_a_lane_of_their_own() -> None:
    """What was charged twice is duplicated there, explained only where the key is not unique, and another worker did it."""
    for unique, again, violations in ((False, "B", ()), (False, "A", ("duplicated",)), (True, "B", ("duplicated",))):
        trace = Trace("by-hand", "made_up", settings={"unique_key": unique}, domain="transactions")
        for number, (record, charged) in enumerate([(0, True), (1, True), (0, True), (1, False)]):
            by = "A" if number < 2 else again
            trace.record(number, "database", "effect", topic="charges", partition=0, record=record, charged=charged, by=by)
        verdict = judge(trace)
        assert (verdict.processed, verdict.counts["duplicated"], verdict.violations) == (2, 1, violations)
        assert verdict.lanes[0].verb == "charged" and verdict.first("duplicated").witness == 2


@pytest.mark.parametrize(
    ("told", "longest"),
    [
        ([(0, 0, 0), (5, 2, 2)], 0),
        ([(0, 0, 0), (10, 0, 3), (40, 4, 4), (50, 4, 4)], 30),
        ([(0, 0, 1), (20, 2, 2), (30, 2, 3), (90, 2, 4), (100, 5, 5)], 70),
        ([(7, 0, 1), (19, 0, 2)], 12),
    ],
    ids=["never behind", "until the marker", "the longer of two", "still behind at the end"],
)
def test_longest_wait_is_from_the_first_undecided_record_to_its_decision(told: list[tuple[int, int, int]], longest: int) -> None:
    """How long the last stable offset stood below the log's end, by the steps' states."""
    trace = Trace("r", "made_up", domain="transactions")
    for at_ms, lso, end in told:
        trace.record(at_ms, "network", "release", state={"lso": lso, "high_watermark": end})
    assert READER_WAIT.measure(trace, judge(trace)).value == longest
