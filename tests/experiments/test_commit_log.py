"""A commit log put together from raw records, good and bad, and what is told of it; no broker here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.cluster_audit.commit_log import CommitLog, add_records, check_times, watched
from kitlib.experiments.cluster_audit.commit_table import commit_rows, sentence, who
from kitlib.experiments.cluster_audit.group_reader import snapshots_of
from kitlib.lab.offsets_topic import NO_TIME, Bounds, RawRecord
from kitlib.monitor.commit_history import Committed, GroupPartition
from kitlib.monitor.diagnosis import diagnose, signs
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.records import OffsetsRecord, encode

HOUR_MS = 3_600_000
WHERE = GroupPartition("mail", "orders", 0)


def commit(
    offset: int | None, at_ms: int, order: int = 0, group: str = "mail", partition: int = 0, log_ms: int | None = None
) -> RawRecord:
    """A commit's record, or with None its tombstone."""
    value = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": at_ms}
    key = {"group": group, "topic": "orders", "partition": partition}
    record = OffsetsRecord(RECORD_TYPES[1], key, None, None) if offset is None else OffsetsRecord(RECORD_TYPES[1], key, 3, value)
    return RawRecord(0, order, at_ms if log_ms is None else log_ms, *encode(record))


def group_of(order: int, at_ms: int, *members: str, group: str = "mail") -> RawRecord:
    """A generation of a group, without assignments; no member: the empty group."""
    each = {"groupInstanceId": None, "rebalanceTimeout": 1, "sessionTimeout": 1, "subscription": b"", "assignment": b""}
    value = {
        "protocolType": "consumer", "generation": order, "protocol": "range", "leader": None, "currentStateTimestamp": at_ms,
        "members": [{"memberId": name, "clientId": name, "clientHost": "/10.0.0.1", **each} for name in members],
    }  # fmt: skip
    return RawRecord(0, order, at_ms, *encode(OffsetsRecord(RECORD_TYPES[2], {"group": group}, 3, value)))


def log_of(records: Iterable[RawRecord], **asked: Any) -> CommitLog:
    """What becomes of these records."""
    log = CommitLog()
    add_records(log, watched(records, log), **asked)
    return log


def told(log: CommitLog, **asked: Any) -> list[str]:
    """The signs in what was read, a sentence each."""
    return [sentence(each) for found in snapshots_of(log, **asked) for part in found.partitions for each in signs(found, part)]


def history(*offsets: int | None, group: str = "mail") -> list[RawRecord]:
    """Commits a second apart."""
    return [commit(offset, 1_000 * order, order, group) for order, offset in enumerate(offsets)]


def test_broken_records_are_counted_and_told_and_end_nothing() -> None:
    """A value cut short, a type that nobody knows, a record without a key: the commits around them are there."""
    good = commit(5, 1_000)
    assert good.value is not None
    bad = [
        RawRecord(0, 1, 1_000, good.key, good.value[:9]),
        RawRecord(0, 2, 1_000, b"\x00\x63", b"\x00\x00"),
        RawRecord(0, 3, 1_000, None, b"\x00\x00"),
        RawRecord(0, 4, 1_000, b"", b""),
    ]
    log = log_of([good, *bad, commit(7, 2_000, 5)])
    assert [each.offset for each in log.history.commits[WHERE]] == [5, 7]
    assert (log.reading.decoded, log.reading.broken, log.records) == (2, 4, 6)
    assert log.notes()[0].startswith("4 records could not be read and were skipped; the first one is at offset 1: ")


def test_clock_that_goes_back_is_counted_and_changes_no_order() -> None:
    """Commits stand in the order of the log; a smaller timestamp is no step back of the offset."""
    log = log_of([commit(1, 9_000), commit(2, 4_000, 1), commit(3, 8_000, 2), commit(4, 9_500, 3)])
    assert [each.offset for each in log.history.commits[WHERE]] == [1, 2, 3, 4]
    assert log.clock_went_back == 2 and log.clock_worst == (5_000, 1, 0)
    assert "the clock went back 2 times, by up to 5000 ms (at offset 1 of partition 0)" in log.notes()[0]
    assert told(log) == [] and log.newest_ms == 9_500
    add_records(log, watched([commit(5, 9_100, 4)], log))  # a later look at the same partition
    assert (log.clock_went_back, log.newest_ms) == (3, 9_500)


def test_record_without_a_time_is_no_step_of_the_clock() -> None:
    """The oldest formats have no timestamps."""
    assert log_of([commit(1, 5_000), commit(2, 0, 1, log_ms=NO_TIME), commit(3, 6_000, 2)]).clock_went_back == 0


@pytest.mark.parametrize(
    ("records", "words"),
    [
        pytest.param([], "there is no record at all.", id="an empty topic"),
        pytest.param([group_of(0, 0, "a")], "none of the 1 records is a commit that was asked for.", id="no commit among the records"),
        pytest.param(history(1, 2, group="other"), "none of the 2 records is a commit that was asked for.", id="commits of others only"),
    ],
)
def test_nothing_to_tell_is_a_sentence(records: list[RawRecord], words: str) -> None:
    """An empty window has a clear answer and an empty table."""
    log = log_of(records, group="mail")
    assert log.notes() == [words]
    assert snapshots_of(log, "mail") == []


def test_times_are_both_included_and_the_rest_is_counted() -> None:
    """Records before `since` and after `until` are passed over, and said to be."""
    log = log_of(history(10, 20, 30, 40, 50), since_ms=1_000, until_ms=3_000)
    assert [each.offset for each in log.history.commits[WHERE]] == [20, 30, 40]
    assert (log.records, log.outside) == (5, 2)


@pytest.mark.parametrize(
    ("since_ms", "until_ms", "words"),
    [(5, 4, "Swap them"), (-1, None, "since is -1"), (None, 10**19, "until is 1.*, 0 to 253402300799999")],
)
def test_times_without_sense_are_refused(since_ms: int | None, until_ms: int | None, words: str) -> None:
    """The wrong way round, and before 1970."""
    with pytest.raises(KnobError, match=words):
        check_times(since_ms, until_ms)
    check_times(4, 4)


def test_group_that_is_asked_for_alone_is_told_nothing_of_the_others() -> None:
    """Neither the commits of one whose name holds its own, nor records of others that are broken, nor those of nobody."""
    other = commit(9, 1_000, 1, "mailing")
    broken = [RawRecord(0, 3, 1_000, key, b"\x00") for key in (other.key, commit(1, 0, group="e").key, b"", None)]
    log = log_of([*history(1), other, commit(8, 1_000, 2, "e"), *broken], group="mail")
    assert (log.groups(), log.outside, log.reading.broken, log.notes()) == (["mail"], 6, 0, [])
    assert log_of(history(1), group="x" * 70_000).groups() == []


def test_what_compaction_took_and_what_a_transaction_hides_are_told() -> None:
    """Offsets without a record, and offsets that cannot be read yet."""
    log = log_of([commit(1, 0, 7), commit(2, 0, 9)])
    log.bounds = {0: Bounds(0, 3, 10, 14)}
    assert (log.removed, log.hidden) == (5, 4)
    assert "4 offsets lie behind a transaction that is still open" in log.notes()[0]


def test_vanished_commit_is_told_with_where_the_group_began_again() -> None:
    """The -1 of the second incident, and what the reset policy then cost."""
    (line,) = told(log_of(history(500, None, 40)))
    assert line == (
        "1970-01-01 00:00:01.000, by the coordinator, or who deleted it: at 1000 the committed offset 500 vanished: nothing excuses it; "
        "the next commit is 40, and 460 records were repeated"
    )


def test_cluster_s_own_retention_decides_what_has_only_expired() -> None:
    """An hour of silence is an expiry where offsets are kept for an hour, and a loss where they are kept for a week."""
    log = log_of([commit(500, 0), commit(None, HOUR_MS, 1)])
    assert ["excused: " in line for kept_ms in (HOUR_MS, HOUR_MS + 1) for line in told(log, retention_ms=kept_ms)] == [True, False]


def test_last_commits_stand_in_the_order_of_the_log_with_their_steps() -> None:
    """Two partitions, a step back and a tombstone."""
    log = log_of([commit(5, 0), commit(7, 1, 1, partition=1), commit(3, 2, 2), commit(None, 3, 3)])
    (found,) = snapshots_of(log)
    assert [(row[1], row[2], row[3]) for row in commit_rows(found.partitions, 3)] == [
        ("orders-1", "7", ""),
        ("orders-0", "3", "-2"),
        ("orders-0", "none (tombstone)", ""),
    ]


def test_who_names_the_member_when_the_group_s_records_tell() -> None:
    """A member with its host; the number of members; nobody; a tombstone is written by the coordinator, whoever held the partition."""
    assert who(Committed(0, 0, 5, by="a at /10.0.0.1", members=2)) == "a at /10.0.0.1"
    assert who(Committed(0, 0, 5, members=3)) == "one of 3 members"
    assert who(Committed(0, 0, 5)) == "not told"
    assert who(Committed(0, 0, None, by="a at /10.0.0.1")) == "the coordinator, or who deleted it"


def test_log_alone_says_nothing_of_this_moment() -> None:
    """Who is a member, and where the log ends, is not in it: the moment cannot be judged, and the past is told."""
    (found,) = snapshots_of(log_of([group_of(0, 0, "a"), *history(9, 3, 4)]))
    diagnosis = diagnose(found)
    assert {each.rule for each in diagnosis.findings} == {"not observed", "rewound"} and diagnosis.exit_code == 1
    assert diagnose(snapshots_of(log_of(history(3, 9)))[0]).exit_code == 2
