"""The signs of a rewind over a commit history: what they find, and what they must not take for one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.monitor.commit_history import Committed, GroupPartition, GroupSeen
from kitlib.monitor.rewinds import NO_TOPIC, WEEK_MS, Excuse, Sample, lag_spikes, rewinds, surges, vanished
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.records import OffsetsRecord
from tests.more.offsets.commit_bytes import history_of


def commits(*offsets: int | None) -> list[Committed]:
    """Commits of these offsets, a second apart; None is a tombstone."""
    return [Committed(order, order * 1_000, offset) for order, offset in enumerate(offsets)]


def test_rewind_is_told_with_when_by_how_much_and_who() -> None:
    """The incident: a caught-up group jumps back to an old offset and stays behind."""
    history = commits(95_000, 96_000, 120, 5_120)
    history[2] = replace(history[2], by="c1-uuid at /10.0.0.1", members=2)
    (found,) = rewinds(history)
    assert (found.records, found.is_fault, found.made_good_at) == (95_880, True, None)
    assert str(found) == (
        "at 2000 the offset went back by 95880, from 96000 to 120, by c1-uuid at /10.0.0.1: nothing excuses it"
    )


def test_every_rewind_is_found_not_only_the_first() -> None:
    """Burrow looks at the first one in a window; the history has them all."""
    assert [(each.before.offset, each.after.offset) for each in rewinds(commits(1_000, 900, 1_100, 10, 20, 5))] == [
        (1_000, 900),
        (1_100, 10),
        (20, 5),
    ]


NO_REWINDS: dict[str, list[Committed]] = {
    "the same offset again": commits(5, 5, 5, 6),
    "one commit alone": commits(5),
    "none at all": [],
    "records that were read out of order": list(reversed(commits(1, 2, 3))),
    "a record that was read twice": [*commits(1, 2, 3), *commits(1, 2, 3)],
    "a commit that vanished before": commits(100, None, 0, 10),
    "a clock that goes back": [replace(each, at_ms=-each.at_ms) for each in commits(1, 2, 3)],
}


@pytest.mark.parametrize("case", NO_REWINDS)
def test_history_without_a_rewind_has_none(case: str) -> None:
    """What only looks like going back is not told at all."""
    assert rewinds(NO_REWINDS[case]) == []


def test_late_commit_at_a_rebalance_is_excused_when_it_is_made_good_at_once() -> None:
    """The old owner commits what it had in hand; the next commit is past it again, equality is enough."""
    (found,) = rewinds(commits(1_000, 1_100, 1_080, 1_100))
    assert (found.excuse, found.is_fault) == (Excuse.MADE_GOOD, False)
    assert found.made_good_at is not None and found.made_good_at.order == 3
    (late,) = rewinds(commits(1_000, 1_100, 1_080, 1_090, 1_100))
    assert late.is_fault and late.made_good_at is not None
    (cut,) = rewinds(commits(100, 50, None, 200))
    assert cut.is_fault and cut.made_good_at is None


def test_topic_that_was_made_anew_is_excused() -> None:
    """Another topic id says so; without ids nobody can tell."""
    before, after = commits(1_000, 10)
    pairs = [(replace(before, topic_id="a"), replace(after, topic_id=other)) for other in ("b", "a", None)]
    assert [rewinds(pair)[0].excuse for pair in pairs] == [Excuse.NEW_TOPIC, Excuse.NONE, Excuse.NONE]


def test_vanished_commit_is_told_with_what_the_reset_policy_did() -> None:
    """The other incident: a tombstone for a living group, and then the policy decides."""
    told = [str(vanished(commits(500, None, *after))[0]) for after in ([0], [900], [500], [])]
    start = "at 1000 the committed offset 500 vanished: nothing excuses it; "
    assert told == [
        start + "the next commit is 0, and 500 records were repeated",
        start + "the next commit is 900, and up to 400 records were skipped",
        start + "the next commit is 500",
        start + "nothing has been committed since",
    ]


def test_tombstone_for_nothing_is_no_vanished_commit() -> None:
    """A second tombstone, or one for a group-partition that never committed, takes nothing away."""
    assert [vanished(commits(*offsets)) for offsets in ([None], [None, 5], [None, None, 5])] == [[], [], []]
    assert len(vanished(commits(5, None, None, 6, None))) == 2


@pytest.mark.parametrize(
    ("silent_ms", "groups", "excuse"),
    [
        (WEEK_MS, (), Excuse.EXPIRED),
        (WEEK_MS - 1, (), Excuse.NONE),
        (5_000, (GroupSeen(9, 5_010, 0, is_gone=True),), Excuse.GROUP_GONE),
        (5_000, (GroupSeen(9, 5_011, 0, is_gone=True),), Excuse.NONE),
        (5_000, (GroupSeen(9, 5_000, 0),), Excuse.NONE),
    ],
)
def test_vanished_commit_is_excused_by_expiry_and_by_the_group_s_end(
    silent_ms: int, groups: tuple[GroupSeen, ...], excuse: Excuse
) -> None:
    """Retention counts from the last commit; a group's end must be near, and be an end."""
    history = [Committed(1, 0, 500), Committed(2, silent_ms, None)]
    assert [each.excuse for each in vanished(history, groups)] == [excuse]


def test_week_of_silence_and_the_end_of_the_group_are_innocent_where_the_topic_was_made_anew() -> None:
    """Its id decides before any coincidence in time: the group that has no offsets left ends in the same second."""
    history = [Committed(1, 0, 500, "a"), Committed(2, 2 * WEEK_MS, None)]
    for topic_now, excuse in (("b", Excuse.NEW_TOPIC), (NO_TOPIC, Excuse.TOPIC_GONE), ("a", Excuse.EXPIRED), (None, Excuse.EXPIRED)):
        assert [each.excuse for each in vanished(history, [GroupSeen(3, 2 * WEEK_MS, 0, is_gone=True)], topic_now=topic_now)] == [excuse]


def test_week_of_silence_is_innocent_where_a_member_held_the_partition() -> None:
    """An offset expires only when no member holds its partition: however old the last commit was, this is no expiry."""
    history = [Committed(1, 0, 500), Committed(2, 2 * WEEK_MS, None, by="a at /h", members=1)]
    assert [each.excuse for each in vanished(history)] == [Excuse.NONE]


@pytest.mark.parametrize(
    ("topic_id", "again", "topic_now", "excuse"),
    [
        pytest.param(None, None, NO_TOPIC, Excuse.TOPIC_GONE, id="the topic is deleted"),
        pytest.param("a", None, "b", Excuse.NEW_TOPIC, id="another topic has its name by now"),
        pytest.param("a", None, "a", Excuse.NONE, id="the topic is there"),
        pytest.param(None, None, "b", Excuse.NONE, id="a commit that does not tell its topic's id"),
        pytest.param("a", None, None, Excuse.NONE, id="nobody knows"),
        pytest.param("a", "b", "b", Excuse.NEW_TOPIC, id="the next commit is one of the new topic"),
        pytest.param("a", "a", NO_TOPIC, Excuse.NONE, id="the topic outlived the loss"),
    ],
)
def test_vanished_commit_is_excused_by_the_end_of_its_topic(
    topic_id: str | None, again: str | None, topic_now: str | None, excuse: Excuse
) -> None:
    """A deleted topic takes every group's offsets with it; one that the group went on to read has not."""
    history = [replace(each, topic_id=topic_id) for each in commits(500, None)]
    history += [] if again is None else [Committed(2, 2_000, 0, again)]
    assert [each.excuse for each in vanished(history, topic_now=topic_now)] == [excuse]


@pytest.mark.parametrize(("again", "words"), [(20, "the next commit is 20"), (500, "the next commit is 500, the same number")])
def test_offsets_of_a_topic_and_of_the_one_made_anew_are_not_subtracted(again: int, words: str) -> None:
    """They count the records of two logs: nothing was repeated, and the same number may have been carried over."""
    [sign] = vanished([Committed(1, 0, 500, "a"), Committed(2, 1_000, None), Committed(3, 2_000, again, "b")])
    assert words in str(sign) and "repeated" not in str(sign) and ("carried" in str(sign)) == (again == 500)


def test_surge_is_output_that_neither_input_nor_backlog_explains() -> None:
    """96,000 were committed, 100 come in a second, and 5,000 go out: 4,900 of them for another time."""
    before = Sample(0, 96_100, 96_000, emitted=0)
    after = Sample(1_000, 96_200, 5_000, emitted=5_000)
    later = Sample(2_000, 96_300, 10_000, emitted=10_000)
    found = surges([before, after, later])
    assert [each.repeated for each in found] == [4_800, 4_700]
    assert "5000 records were delivered, while 100 arrived and 100 were waiting: at least 4800 were repeated" in str(found[0])


NO_SURGES: dict[str, list[Sample]] = {
    "a backlog that is worked off": [Sample(0, 10_000, 0, 0), Sample(1, 10_000, 9_000, 9_000), Sample(2, 10_000, 10_000, 10_000)],
    "a burst that is worked at once": [Sample(0, 100, 100, 100), Sample(1, 9_100, 9_100, 9_100)],
    "work ahead of its commit": [Sample(0, 100, 50, 100), Sample(1, 100, 50, 150)],
    "a counter that begins again": [Sample(0, 100, 100, 100), Sample(1, 110, 110, 10)],
    "a clock that goes back": [Sample(9, 100, 100, 0), Sample(3, 100, 100, 100)],
    "a group that has never committed": [Sample(0, 100, None, 0), Sample(1, 100, None, 500)],
    "nothing at all": [],
}  # fmt: skip


@pytest.mark.parametrize("case", NO_SURGES)
def test_output_that_can_be_explained_is_no_surge(case: str) -> None:
    """More output alone is not a sign."""
    assert surges(NO_SURGES[case]) == []


def test_lag_spike_is_lag_that_the_log_s_growth_does_not_explain() -> None:
    """The lag rises from 100 to 96,080 while the log grows by 100."""
    (found,) = lag_spikes([Sample(0, 96_100, 96_000), Sample(1_000, 96_200, 120)])
    assert str(found) == (
        "from 0 to 1000 the lag rose from 100 to 96080, while the log grew by 100: the committed offset went from 96000 to 120"
    )


NO_SPIKES: dict[str, list[Sample]] = {
    "a consumer that has stopped": [Sample(0, 100, 50), Sample(1, 900, 50)],
    "a burst": [Sample(0, 100, 100), Sample(1, 90_000, 110)],
    "a log end that was read late": [Sample(0, 100, 180), Sample(1, 200, 190)],
    "a log that was cut": [Sample(0, 100, 90), Sample(1, 60, 60)],
    "a clock that goes back": [Sample(9, 100, 100), Sample(1, 100, 0)],
    "a commit that is not there yet": [Sample(0, 100, None), Sample(1, 900, 5)],
}


@pytest.mark.parametrize("case", NO_SPIKES)
def test_lag_that_rises_with_the_log_is_no_spike(case: str) -> None:
    """A rise of the lag alone is not a sign."""
    assert lag_spikes(NO_SPIKES[case]) == []


OFFSETS = st.lists(st.none() | st.integers(0, 9), max_size=12)


@settings(max_examples=150, deadline=None)
@given(OFFSETS)
def test_signs_of_any_history_add_up(offsets: list[int | None]) -> None:
    """A history without steps back and tombstones has no sign; each step back is one rewind, each taken offset one vanished."""
    history = commits(*offsets)
    pairs = list(pairwise(offsets))
    assert len(rewinds(history)) == sum(a is not None and b is not None and b < a for a, b in pairs)
    assert len(vanished(history)) == sum(a is not None and b is None for a, b in pairs)
    growing = sorted(each for each in offsets if each is not None)
    looks = [Sample(at, at * 3, offset, emitted=offset) for at, offset in enumerate(growing)]
    assert rewinds(commits(*growing)) == [] and lag_spikes(looks) == []


def commit(offset: int | None, at_ms: int = 0, **more: Any) -> OffsetsRecord:
    """A commit of group g on t-0, or its tombstone."""
    key = {"group": "g", "topic": "t", "partition": 0}
    if offset is None:
        return OffsetsRecord(RECORD_TYPES[1], key)
    value = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": at_ms} | more
    return OffsetsRecord(RECORD_TYPES[1], key, 4, value)


def generation(*members: str) -> OffsetsRecord:
    """A generation of group g, whose first member has t-0."""
    raw = bytes.fromhex("000300000001000174000000010000000000000000")
    told = [
        {"memberId": each, "clientId": "c", "clientHost": "/h", "sessionTimeout": 1, "subscription": b"",
         "assignment": raw if not index else b""} for index, each in enumerate(members)
    ]  # fmt: skip
    group = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": None, "members": told}
    return OffsetsRecord(RECORD_TYPES[2], {"group": "g"}, 0, group)


WHERE = GroupPartition("g", "t", 0)


def test_history_tells_who_had_the_partition_and_whether_anyone_was_there() -> None:
    """The members' last generation stands before the commit; a group that is gone has nobody."""
    gone = OffsetsRecord(RECORD_TYPES[2], {"group": "g"})
    history = history_of(
        [(0, 5, commit(8, 5)), (1, 10, generation("a", "b")), (2, 20, commit(9, 19, topicId="ESIzRFVmd4iZqrvM3e7_AA")),
         (3, 30, generation()), (4, 40, commit(3, 40)), (5, 50, gone), (6, 60, commit(None))]
    )  # fmt: skip
    found = history.commits[WHERE]
    assert [(each.offset, each.at_ms, each.by, each.members) for each in found] == [
        (8, 5, None, None), (9, 19, "a at /h", 2), (3, 40, None, 0), (None, 60, None, 0),
    ]  # fmt: skip
    assert found[1].topic_id == "ESIzRFVmd4iZqrvM3e7_AA" and str(WHERE) == "g on t-0"
    assert [(each.members, each.is_gone) for each in history.groups["g"]] == [(2, False), (0, False), (0, True)]
    assert [each.excuse for each in rewinds(found)] == [Excuse.BY_HAND]
    assert [each.excuse for each in vanished(found, history.groups["g"])] == [Excuse.GROUP_GONE]


def test_group_that_is_gone_has_no_members_and_no_owners() -> None:
    """A commit after the end is nobody's, until a generation says otherwise; a topic id of zeros is none."""
    gone = OffsetsRecord(RECORD_TYPES[2], {"group": "g"})
    records = [generation("a"), gone, commit(5, topicId="A" * 22), generation("b"), commit(6)]
    found = history_of((order, order, each) for order, each in enumerate(records)).commits[WHERE]
    assert [(each.by, each.members, each.topic_id) for each in found] == [(None, 0, None), ("b at /h", 1, None)]


def test_history_counts_the_members_of_newer_groups() -> None:
    """Members come and go by their own records; the group ends by the tombstone of its epoch."""
    key = {"groupId": "g", "memberId": "m"}
    member = OffsetsRecord(RECORD_TYPES[5], key, 0, {})
    left, end = OffsetsRecord(RECORD_TYPES[5], key), OffsetsRecord(RECORD_TYPES[3], {"groupId": "g"})
    epoch = OffsetsRecord(RECORD_TYPES[3], {"groupId": "g"}, 0, {"epoch": 1})
    history = history_of(
        (order, order, each) for order, each in enumerate([member, commit(5), left, commit(1), end, epoch])
    )
    assert [each.members for each in history.commits[WHERE]] == [1, 0]
    assert [(each.members, each.is_gone) for each in history.groups["g"]] == [(1, False), (0, False), (0, True)]
