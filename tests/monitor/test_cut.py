"""The verdict on a log whose end is cut off and whose offsets are given out again, and why the settings allow that."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.monitor.reasons import Begin, RecordHistory, ReplicaReasons
from kitlib.settings import Settings
from tests.monitor.stories import APPEND, START, Told, each, told, written

CUT: tuple[str, dict[str, Any]] = ("cut", {"from": 10, "to": 6, "why": "an unclean election"})
AGAIN: tuple[str, dict[str, Any]] = ("append", {"first": 6, "last": 7})

# Story -> processed and appended records, the counts that are not 0. Ten records; [6, 10) is cut off; two new ones at 6 and 7.
STORIES: dict[str, tuple[Told, tuple[int, int], dict[str, int]]] = {
    "nothing was read: four are gone": ([APPEND, START, CUT], (0, 10), {"lost": 4}),
    "all was processed before: nothing is lost": ([APPEND, START, *each("process", range(10)), *written(10), CUT], (10, 10), {}),
    "what was processed stays done, its offset begins anew": (
        [APPEND, START, *each("emit", range(8)), *each("process", range(8)), *written(8), CUT, AGAIN,
         ("start", {"offset": 6, "why": "stored offset"}), *each("emit", [6, 7]), *each("process", [6, 7]),
         *written(8)], (10, 12), {"lost": 2}),
    "a reader that goes on behind the new ones skips them": (
        [APPEND, START, *each("emit", range(8)), *each("process", range(8)), *written(8), CUT, AGAIN,
         ("start", {"offset": 8, "why": "stored offset"}), *written(8)], (8, 12), {"lost": 4, "skipped": 2}),
    "a commit beyond the end has passed nothing that is there": (
        [APPEND, START, *each("process", range(10)), *written(10), CUT, AGAIN], (10, 12), {}),
    "read again from the start: twice, and back": (
        [APPEND, START, *each("process", range(10)), *written(10), CUT, ("start", {"offset": 0, "why": "stored offset"}),
         *each("process", range(6))], (10, 10), {"duplicated": 6, "rewound": 1}),
    "skipped before the cut, and the new ones again": (
        [APPEND, START, ("start", {"offset": 8, "why": "stored offset"}), CUT, AGAIN, ("start", {"offset": 8, "why": "stored offset"}),
         *written(8)], (0, 12), {"lost": 12, "skipped": 10}),
    "a cut at the end takes nothing": ([APPEND, START, ("cut", {"from": 10, "to": 10})], (0, 10), {}),
    "two cuts": ([APPEND, START, CUT, AGAIN, ("cut", {"from": 8, "to": 2})], (0, 12), {"lost": 10}),
}  # fmt: skip


@pytest.mark.parametrize("case", STORIES)
def test_verdict_after_a_cut(case: str) -> None:
    """Old and new records at the same offset are two records."""
    story, (processed, appended), counts = STORIES[case]
    verdict = told(story)
    assert (verdict.processed, verdict.appended) == (processed, appended)
    assert {kind: count for kind, count in verdict.counts.items() if count} == counts


def test_cut_without_replicas_is_a_violation() -> None:
    """No setting of a topology lets a log's end vanish; the cut is the witness."""
    verdict = told([APPEND, START, CUT])
    assert verdict.violations == ("lost",) and (verdict.first("lost").witness, verdict.first("lost").offset) == (2, 6)


@pytest.mark.parametrize(("knobs", "why", "named"), [
    ({"unclean_leader_election": True}, "an unclean election", "unclean.leader.election.enable=true"),
    ({"unclean_leader_election": False}, "an unclean election", ""),
    ({"replicas": 1}, "a flipped bit", "replicas=1"),
    ({"replicas": 2, "unclean_leader_election": True}, "a flipped bit", ""),
])  # fmt: skip
def test_cut_is_explained_by_the_setting_that_caused_it(knobs: dict[str, Any], why: str, named: str) -> None:
    """Another setting explains nothing."""
    reason = ReplicaReasons(Settings(knobs)).cut(why)
    assert reason.startswith(named) and bool(reason) is bool(named)


@pytest.mark.parametrize(("knobs", "why", "named"), [
    ({"leader_epoch": False, "library": "java"}, "committed offset", "leader_epoch=false"),
    ({"leader_epoch": True, "library": "java"}, "committed offset", ""),
    ({"leader_epoch": True, "library": "librdkafka"}, "committed offset", "library=librdkafka"),
    ({"leader_epoch": True}, "log truncation", ""),
    ({}, "latest", "auto.offset.reset=latest"),
])  # fmt: skip
def test_start_is_explained_by_what_was_committed(knobs: dict[str, Any], why: str, named: str) -> None:
    """Java with the epoch has no excuse, and nobody has one whose committed offset never left the log."""
    reason = ReplicaReasons(Settings(knobs)).start(why, Begin())
    assert reason.startswith(named) and bool(reason) is bool(named)
    assert ReplicaReasons(Settings(knobs)).start(why, Begin(is_outside=False)) == ""


def test_twice_is_explained_by_the_policy_that_reads_again() -> None:
    """Only earliest reads again, and only as often as the log was begun; nothing makes old records come late."""
    earliest, record = ReplicaReasons(Settings()), RecordHistory(2, False, False)
    assert earliest.again(record, 2, 2) and not earliest.again(record, 2, 1)
    assert not ReplicaReasons(Settings(auto_offset_reset="latest")).again(record, 2, 2) and not earliest.reorder(record)
