"""The rules of a diagnosis: one case for each finding, and that what was not observed never counts as good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.monitor.commit_history import Committed, GroupSeen
from kitlib.monitor.diagnosis import (
    NOW,
    Diagnosis,
    Grade,
    GroupSnapshot,
    Look,
    OpenTransaction,
    PartitionSeen,
    burrow,
    diagnose,
    patience_ms,
)
from kitlib.monitor.rewinds import NO_TOPIC

NOW_MS, S = 1_000_000, 1_000
WELL = {
    "committed": 100, "start": 0, "end": 100, "stable": 100, "held_by": "app", "topic_id": "a",
    "commits": (Committed(1, NOW_MS - 9 * S, 90, "a", "app", 1), Committed(2, NOW_MS - 4 * S, 100, "a", "app", 1)),
}  # fmt: skip
GROUP = {"protocol": "classic", "state": "Stable", "members": ("app",), "seen": (GroupSeen(0, NOW_MS - 600 * S, 1),)}


def seen(part: dict[str, Any], **group: Any) -> Diagnosis:
    """One partition, as WELL but for what is given."""
    return diagnose(GroupSnapshot("g", NOW_MS, [PartitionSeen("t", 0, **(WELL | part))], **(GROUP | group)))


def at(*commits: tuple[int, int | None]) -> tuple[Committed, ...]:
    """(seconds ago, offset) of each commit, by the member."""
    return tuple(Committed(order, NOW_MS - ago * S, offset, "a", "app", 1) for order, (ago, offset) in enumerate(commits))


WAITS = {"end": 150, "stable": 150}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int, str, str]] = {  # partition, group, exit code, rule, words of the sentence
    "a member holds it and nothing waits": ({}, {}, 0, "caught up", "app holds it"),
    "an empty log of a member": ({"committed": None, "end": 0, "stable": 0, "commits": ()}, {}, 0, "nothing to read", ""),
    "committed beyond the end": ({"committed": 900}, {}, 1, "outside the log, beyond its end", "the 800 records from 100 on are skipped"),
    "committed below the start": ({"start": 130, **WAITS}, {}, 1, "outside the log, below its start", "30 below the start of the log, 130"),
    "at the start and at the end is inside": ({"committed": 100, "start": 100}, {}, 0, "caught up", ""),
    "the topic has another id": ({"topic_id": "b"}, {}, 1, "topic made anew", "committed for topic id a, and the topic's id is now b"),
    "no ids, and the log is younger than the commit": (
        {"commits": (Committed(1, NOW_MS - 60 * S, 100),), "first_at_ms": NOW_MS - 30 * S}, {}, 1, "topic made anew",
        "30 s before the first"),
    "no ids, and the log is older than the commit": (
        {"commits": (Committed(1, NOW_MS - 3 * S, 100),), "first_at_ms": NOW_MS - 30 * S}, {}, 0, "caught up", ""),
    "the log could not be asked": ({"end": None, "trouble": "no leader"}, {}, 2, "not observed", "no leader"),
    "members were not observed": ({"held_by": None}, {"members": None}, 2, "members not observed", ""),
    "no member, nothing waits": ({"held_by": None}, {"members": ()}, 1, "no member", "what comes will not be read"),
    "no member, records came after the last commit": (
        {"held_by": None, "waiting_since_ms": NOW_MS - 2 * S, **WAITS}, {"members": ()}, 1, "died while caught up", "then 50 records came"),
    "no member, records were waiting already": (
        {"held_by": None, "waiting_since_ms": NOW_MS - 99 * S, **WAITS}, {"members": ()}, 1, "no member", "50 offsets wait"),
    "no member ever: one look at a fresh commit": (
        {"held_by": None, **WAITS}, {"members": (), "seen": ()}, 2, "without membership", "cannot be judged from one look"),
    "no member ever, and the offset has moved": (
        {"held_by": None, "looks": [Look(NOW_MS - 2 * S, 80, 150)], **WAITS}, {"members": (), "seen": ()}, 0, "without membership", ""),
    "members left, and compaction has taken their record": (
        {"held_by": None, **WAITS}, {"members": (), "seen": (GroupSeen(0, NOW_MS - 600 * S, 0),)}, 1, "no member", "50 offsets wait"),
    "members read other topics": ({"held_by": None, **WAITS}, {}, 1, "no longer subscribed", "--delete-offsets"),
    "members read other topics, and nothing waits": ({"held_by": None}, {}, 0, "no longer subscribed", "nothing waits now"),
    "a rebalance": ({"held_by": None}, {"state": "PreparingRebalance"}, 2, "rebalancing", ""),
    "never committed, assigned for long": ({"committed": None, "commits": ()}, {}, 1, "assigned and never committed", "for 10 min"),
    "never committed, assigned just now": (
        {"committed": None, "commits": ()}, {"seen": (GroupSeen(0, NOW_MS - 3 * S, 1),)}, 2, "never committed", "only for 3 s"),
    "the offset vanished": (
        {"committed": None, "commits": at((60, 100), (50, None))}, {}, 1, "offset vanished", "nothing has been committed since"),
    "a record waits, and the consumer commits in its rhythm": (
        {**WAITS, "waiting_since_ms": NOW_MS - 3 * S, "commits": at((14, 80), (9, 90), (4, 100))}, {}, 0, "reads", "50 offsets wait"),
    "a record waits, and the rhythm is broken": (
        {**WAITS, "waiting_since_ms": NOW_MS - 3 * S, "commits": at((70, 80), (69, 90), (68, 100))}, {}, 2, "waits", "for 3 s"),
    "a record waits for too long": (
        {**WAITS, "waiting_since_ms": NOW_MS - 45 * S, "commits": at((70, 80), (65, 90), (60, 100))}, {}, 1, "assigned and nobody polls",
        "nothing was committed for 45 s"),
    "a record waits, by a producer's clock that is ahead": (
        {**WAITS, "waiting_since_ms": NOW_MS + 9 * S, "is_producer_time": True, "commits": at((70, 80), (69, 90), (68, 100))}, {}, 2,
        "waits", "since when is not known"),
    "whether a record waits could not be read": ({**WAITS, "is_unread": True}, {}, 2, "not observed", "could not be read"),
    "a slow rhythm is waited for": (
        {**WAITS, "waiting_since_ms": NOW_MS - 45 * S, "commits": at((200, 80), (140, 90), (110, 100))}, {}, 2, "waits", "for 45 s"),
    "one offset again and again": (
        {**WAITS, "waiting_since_ms": NOW_MS - 45 * S, "commits": at((40, 100), (30, 100), (20, 100))}, {}, 1, "stuck",
        "3 times within 20 s"),
    "one offset again and again, by the producer's clock while a record waited": (
        {**WAITS, "waiting_since_ms": NOW_MS - 45 * S, "is_producer_time": True, "commits": at((40, 100), (30, 100), (20, 100))}, {}, 2,
        "waits", "for 20 s"),
    "one offset again and again while nothing waited": (
        {**WAITS, "waiting_since_ms": NOW_MS - 3 * S, "commits": at((14, 100), (9, 100), (4, 100))}, {}, 2, "waits", ""),
    "it moved between two looks": (
        {**WAITS, "waiting_since_ms": NOW_MS - 90 * S, "commits": (), "looks": [Look(NOW_MS - 5 * S, 60, 150)]}, {}, 0, "reads", ""),
    "an open transaction": (
        {"end": 150, "transaction": OpenTransaction(100, 7, "pay", NOW_MS - 30 * S, 60_000)}, {}, 1, "stands before an open transaction",
        "producer 7 ('pay'), open for 30 s; 50 offsets lie behind it"),
    "a transaction that has just begun": (
        {"end": 150, "transaction": OpenTransaction(100, 7, "pay", NOW_MS - 2 * S, 60_000)}, {}, 2, "stands before an open transaction",
        "not long yet"),
    "a hanging transaction": (
        {"end": 150, "transaction": OpenTransaction(100, 7)}, {}, 1, "stands before a hanging transaction", "--start-offset 100"),
    "an open transaction behind records that can be read": (
        {"committed": 90, "end": 150, "waiting_since_ms": NOW_MS - 45 * S, "commits": at((70, 80), (65, 90)),
         "transaction": OpenTransaction(100, 7, "pay", NOW_MS - 30 * S, 60_000)}, {}, 1, "assigned and nobody polls", "waits at 90"),
    "only markers are left": (WAITS, {}, 0, "caught up", "hold no record to read"),
    "the coordinator's cache is old": (
        {"committed": 90, "end": 90, "stable": 90, "asked_ms": NOW_MS}, {}, 1, "coordinator differs from its log", "answers 90"),
    "a commit came after the coordinator was asked": (
        {"committed": 90, "end": 90, "stable": 90, "asked_ms": NOW_MS - 5 * S}, {}, 0, "caught up", ""),
    "a share group that has finished everything": (
        {"committed": 0, "told_lag": 0, "commits": ()}, {"protocol": "share"}, 0, "caught up", ""),
    "a share group whose start offset retention has passed, when it had finished everything": (
        {"committed": 0, "start": 90, "told_lag": 0, "commits": ()}, {"protocol": "share"}, 0, "caught up", "accepted or given up"),
    "a share group that was not done with what retention took": (
        {"committed": 0, "start": 90, "told_lag": 30, "commits": ()}, {"protocol": "share"}, 1, "outside the log, below its start",
        "20 were deleted before the group was done. It goes on at 90"),
    "a share group that has answered for nothing yet": (
        {"committed": None, "commits": ()}, {"protocol": "share"}, 2, "no answer yet", "cannot be judged from one look"),
    "a share group, one look": (
        {"committed": 0, "told_lag": 40, "commits": (), "waiting_since_ms": NOW_MS}, {"protocol": "share"}, 2, "waits", "40 offsets wait"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_situation_has_its_finding_its_numbers_and_one_verdict(case: str) -> None:
    """Title, sentence and exit code say one thing."""
    part, group, code, rule, words = CASES[case]
    found = seen(part, **group)
    assert (found.findings[0].rule, found.exit_code) == (rule, code), found.sentence
    assert words in found.sentence and found.verdict == ("healthy", "not healthy", "cannot be judged")[code]
    assert found.sentence.startswith(f"Group g: {found.verdict}. t-0: {rule}: ")


def test_each_rule_decides_a_case() -> None:
    """No rule of the moment is without one."""
    decided = set()
    for part, group, *_ in CASES.values():
        snapshot = seen(part, **group).snapshot
        decided.add(next(rule for rule in NOW if rule(snapshot, snapshot.partitions[0])))
    assert {rule.__name__ for rule in NOW} - {rule.__name__ for rule in decided} == {"why_slow"}


def test_slow_needs_looks_and_a_lag_that_grows() -> None:
    """The same commits: without looks Burrow's rule has no lags to compare, with them it has, and one that stands is no proof."""
    commits = at((40, 70), (30, 80), (20, 90), (1, 100))
    part = {"end": 400, "stable": 400, "waiting_since_ms": NOW_MS - 50 * S, "commits": commits}
    looks = [Look(NOW_MS - ago * S, offset, end) for ago, offset, end in ((45, 60, 150), (35, 70, 200), (25, 80, 300), (15, 90, 390))]
    assert seen(part).findings[0].rule == "reads"
    found = seen(part | {"looks": looks})
    assert (found.findings[0].rule, found.exit_code) == ("slow", 1) and "never shrinks" in found.sentence
    assert seen(part | {"looks": looks, "end": 190, "stable": 190}).findings[0].rule == "reads"


def test_burrow_says_nothing_that_takes_more_looks_than_there_were() -> None:
    """A stop needs the ends that were seen; where a log ended at an old commit cannot be asked afterwards."""
    part = PartitionSeen("t", 0, **(WELL | WAITS | {"commits": at((400, 80), (390, 90), (380, 100))}))
    group = GroupSnapshot("g", NOW_MS, [part])
    assert burrow(group, part) is None and burrow(group, replace(part, commits=())) is None
    stopped = burrow(group, replace(part, looks=[Look(NOW_MS - 4 * S, 100, 140), Look(NOW_MS - 2 * S, 100, 145)]))
    assert stopped is not None and stopped.status.name == "STOP"
    assert burrow(group, replace(part, looks=[Look(NOW_MS - 4 * S, 100, 100), Look(NOW_MS - 2 * S, 100, 145)])) is None  # no lag is known
    tombstone = at((400, 80), (390, None))
    assert burrow(group, replace(part, commits=tombstone)) is None


HISTORY: dict[str, tuple[tuple[Committed, ...], Grade | None, str]] = {
    "a late commit": (at((9, 80), (8, 75), (4, 100)), None, ""),
    "a step back by a member": (at((9, 100), (8, 40), (7, 41), (4, 42)), Grade.WRONG, "rewound: at 992000 the offset went back by 60"),
    "a step back that is reached again": (at((9, 100), (8, 40), (7, 41), (4, 100)), Grade.NOTE, "reached again since"),
    "a reset by hand": (
        (*at((9, 100)), replace(at((8, 40))[0], order=5, members=0, by=None)), Grade.NOTE, "reset by hand: at 992000 the offset went back"),
    "a reset by hand to the front": (
        (*at((9, 60)), replace(at((8, 100))[0], order=5, members=0, by=None)), Grade.NOTE, "up to 40 records were skipped"),
    "a topic made anew": ((*at((9, 100)), replace(at((4, 7))[0], order=5, topic_id="b")), Grade.NOTE, "topic made anew: "),
}  # fmt: skip


@pytest.mark.parametrize("case", HISTORY)
def test_past_is_told_and_only_what_still_holds_is_wrong(case: str) -> None:
    """By the group's own records."""
    commits, grade, words = HISTORY[case]
    last = commits[-1].offset or 0
    found = seen({"commits": commits, "committed": last, "end": last, "stable": last, "topic_id": commits[-1].topic_id})
    told = [each for each in found.findings if each.rule != "caught up"]
    assert [each.grade for each in told] == ([] if grade is None else [grade]) and all(words in str(each) for each in told)
    assert found.exit_code == (1 if grade is Grade.WRONG else 0)


def test_commits_of_a_group_that_never_had_members_are_no_resets() -> None:
    """A consumer with assign() commits like this all the time."""
    commits = tuple(replace(each, members=0, by=None) for each in at((9, 60), (5, 80), (4, 100)))
    found = seen({"commits": commits, "held_by": None}, members=(), seen=())
    assert [each.rule for each in found.findings] == ["without membership"]


def test_group_of_which_nothing_is_known_is_not_healthy_by_that() -> None:
    """An empty snapshot is a sentence, and 2."""
    assert diagnose(GroupSnapshot("g", NOW_MS)).exit_code == 2
    found = diagnose(GroupSnapshot("g", NOW_MS, members=("a", "b"), state="COMPLETING_REBALANCE"))
    assert (found.exit_code, found.total_lag) == (2, 0) and "it has 2 members" in found.sentence
    assert [seen({"topic_id": NO_TOPIC}, members=each).findings[0].rule for each in ((), ("a",))] == ["no member", "nothing assigned"]


@given(case=st.sampled_from(sorted(CASES)), hidden=st.sets(st.sampled_from(["start", "end", "members"]), min_size=1))
def test_what_is_not_observed_never_counts_as_good(case: str, hidden: set[str]) -> None:
    """Without the log's bounds or the members, no situation is healthy."""
    part, group, *_ = CASES[case]
    is_blind = "members" in hidden
    blank = dict.fromkeys(hidden - {"members"}) | ({"held_by": None} if is_blind else {})
    found = seen(part | blank, **(group | ({"members": None} if is_blind else {})))
    assert found.exit_code != 0


@pytest.mark.parametrize(
    ("gaps_s", "patience_s"), [((), 10), ((1, 1), 10), ((5, 5), 15), ((60, 60), 180), ((3_600,), 300), ((5, 5, 3_600), 15)]
)
def test_patience_is_the_group_s_own_within_bounds(gaps_s: tuple[int, ...], patience_s: int) -> None:
    """Three times its usual gap: a night without records does not make it slow."""
    times = [0]
    for gap in gaps_s:
        times.append(times[-1] + gap)
    part = PartitionSeen("t", 0, 1, commits=[Committed(order, at_s * S, order) for order, at_s in enumerate(times)])
    assert patience_ms(part) == patience_s * S
