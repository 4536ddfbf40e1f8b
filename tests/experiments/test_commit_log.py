"""A commit log put together from raw records, good and bad, and what is told of it; no broker here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.cluster_audit.commit_log import CommitLog, add_records, check_times, watched
from kitlib.experiments.cluster_audit.commit_report import commit_rows, group_report, groups_report, signs_in, who
from kitlib.experiments.cluster_audit.topic_health import wrong_answers
from kitlib.lab.offsets_topic import NO_TIME, Bounds, RawRecord
from kitlib.monitor.commit_history import Committed, GroupPartition
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


def history(*offsets: int | None, group: str = "mail") -> list[RawRecord]:
    """Commits a second apart."""
    return [commit(offset, 1_000 * order, order, group) for order, offset in enumerate(offsets)]


# -- bad input ---------------------------------------------------------------------------------------


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
    assert [each.offset for each in log.reading.told] == [1, 2, 3, 4]
    assert log.notes()[0].startswith("4 records could not be read and were skipped; the first one is at offset 1: ")


def test_clock_that_goes_back_is_counted_and_changes_no_order() -> None:
    """Commits stand in the order of the log; a smaller timestamp is no step back of the offset."""
    log = log_of([commit(1, 9_000), commit(2, 4_000, 1), commit(3, 8_000, 2), commit(4, 9_500, 3)])
    assert [each.offset for each in log.history.commits[WHERE]] == [1, 2, 3, 4]
    assert log.clock_went_back == 2 and [(each.offset, each.by_ms) for each in log.clock_steps] == [(1, 5_000), (2, 1_000)]
    assert "the clock went back 2 times, by up to 5000 ms (at offset 1 of partition 0)" in log.notes()[0]
    assert signs_in(log) == {} and log.newest_ms == 9_500
    add_records(log, watched([commit(5, 9_100, 4)], log))  # a later look at the same partition
    assert (log.clock_went_back, log.clock_steps[-1].by_ms, log.newest_ms) == (3, 400, 9_500)


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
    report = group_report(log, "mail")
    assert (report.rows, report.faults) == ((), 0) and report.verdict == "No committed offset went back or vanished."


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


def test_group_whose_name_is_part_of_another_s_gets_its_own_commits_alone() -> None:
    """The quick look at the key's bytes lets others through; the decoded name decides."""
    log = log_of([*history(1), commit(9, 1_000, 1, "mailing"), commit(8, 1_000, 2, "e")], group="mail")
    assert log.groups() == ["mail"] and log.outside == 2


def test_what_compaction_took_and_what_a_transaction_hides_are_told() -> None:
    """Offsets without a record, and offsets that cannot be read yet."""
    log = log_of([commit(1, 0, 7), commit(2, 0, 9)])
    log.bounds = {0: Bounds(0, 3, 10, 14)}
    assert (log.removed, log.hidden) == (5, 4)
    assert "4 offsets lie behind a transaction that is still open" in log.notes()[0]
    assert any("5 offsets of the topic have no record any more" in note for note in group_report(log, "mail").notes)


# -- what is told ------------------------------------------------------------------------------------


def test_report_says_when_by_how_much_and_who() -> None:
    """The stale offset of the incident, in one line."""
    log = log_of([group_of(0, 0, "a", "b"), commit(95_000, 1_000, 1), commit(120, 2_000, 2), commit(620, 3_000, 3)])
    report = group_report(log, "mail", {("orders", 0): 95_100})
    assert report.rows == (("orders-0", "3", "95000", "620", "1970-01-01 00:00:03.000", "95100", "94480", "1", "0", "0", "2"),)
    assert report.signs == (
        "1970-01-01 00:00:02.000 orders-0: the committed offset went back by 94,880, from 95000 to 120; by one of 2 members; "
        "nothing excuses it.",
    )
    assert report.faults == 1 and "nothing excuses 1 of these" in report.verdict
    told = report.data["partitions"][0]["signs"][0]
    assert (told["kind"], told["at_ms"], told["from"], told["to"], told["is_fault"]) == ("rewind", 2_000, 95_000, 120, True)


def test_commit_of_an_empty_group_is_told_to_come_from_outside() -> None:
    """A reset by hand is excused, and says so."""
    log = log_of([group_of(0, 0, "a"), commit(50, 1_000, 1), group_of(2, 1_500), commit(10, 2_000, 3)])
    report = group_report(log, "mail")
    assert report.faults == 0 and "each has an excuse" in report.verdict
    assert "by somebody outside: the group had no members; excused: the group had no members" in report.signs[0]


def test_vanished_commit_is_told_with_where_the_group_began_again() -> None:
    """The -1 of the second incident, and what the reset policy then cost."""
    log = log_of(history(500, None, 40))
    (line,) = group_report(log, "mail").signs
    assert line == (
        "1970-01-01 00:00:01.000 orders-0: the committed offset vanished at 500; the next commit is 40, 460 back; by the coordinator, "
        "or who deleted it; nothing excuses it."
    )
    (gone,) = group_report(log_of(history(500, None)), "mail").signs
    assert "vanished at 500 and has not come again" in gone


def test_cluster_s_own_retention_decides_what_has_only_expired() -> None:
    """An hour of silence is an expiry where offsets are kept for an hour, and a loss where they are kept for a week."""
    log = log_of([commit(500, 0), commit(None, HOUR_MS, 1)])
    assert group_report(log, "mail", retention_ms=HOUR_MS).faults == 0


def test_deleted_topic_excuses_what_vanished_with_it() -> None:
    """In the report of the group and in that of all groups; of another topic nothing is said."""
    log = log_of(history(500, None))
    for topics, faults in (({"orders": ""}, 0), ({"bills": ""}, 1), (None, 1)):
        reports = group_report(log, "mail", topics=topics), groups_report(log, topics=topics)
        assert [each.faults for each in reports] == [faults, faults]
    (line,) = group_report(log, "mail", topics={"orders": ""}).signs
    assert line.endswith("excused: the topic was deleted.")
    assert group_report(log, "mail", retention_ms=HOUR_MS + 1).faults == 1


def test_log_end_that_is_not_known_leaves_its_cells_empty_and_says_why() -> None:
    """A topic that is gone, or that one may not see, is a note and no error."""
    report = group_report(log_of(history(5)), "mail", {}, {("orders", 0): "there is no such topic"})
    assert report.rows[0][5:7] == ("", "") and "orders-0: there is no such topic" in report.notes


def test_groups_report_has_a_row_for_each_group() -> None:
    """All groups of a cluster, and whose offset went back."""
    log = log_of([*history(9, 3), commit(4, 5_000, 2, "web"), commit(5, 6_000, 3, "web", 1)])
    report = groups_report(log)
    assert [row[:3] for row in report.rows] == [("mail", "1", "2"), ("web", "2", "2")]
    assert report.signs[0].startswith("mail: ") and report.faults == 1
    assert "web" in repr(report) and "<td>mail</td>" in report._repr_html_()


def test_last_commits_stand_in_the_order_of_the_log_with_their_steps() -> None:
    """Two partitions, a step back and a tombstone."""
    log = log_of([commit(5, 0), commit(7, 1, 1, partition=1), commit(3, 2, 2), commit(None, 3, 3)])
    assert [(row[1], row[2], row[3]) for row in commit_rows(log, "mail", 3)] == [
        ("orders-1", "7", ""),
        ("orders-0", "3", "-2"),
        ("orders-0", "none (tombstone)", ""),
    ]
    assert commit_rows(log, "mail", 0) == []


def test_who_names_the_member_when_the_group_s_records_tell() -> None:
    """A member with its host; the number of members; nobody."""
    assert who(Committed(0, 0, 5, by="a at /10.0.0.1", members=2)) == "a at /10.0.0.1"
    assert who(Committed(0, 0, 5, members=3)) == "one of 3 members"
    assert who(Committed(0, 0, 5)) == "not told"


def test_names_that_are_markup_are_escaped_in_a_notebook() -> None:
    """A group may be called anything."""
    page = groups_report(log_of(history(1, group="<img src=x>")))._repr_html_()
    assert "<img" not in page and "&lt;img src=x&gt;" in page


# -- answers of the coordinator ----------------------------------------------------------------------

ASKED_MS = 2_500


@pytest.mark.parametrize(
    ("answered", "wrong"),
    [
        pytest.param(30, False, id="what the topic says last before the question"),
        pytest.param(40, False, id="what was committed between the question and the reading"),
        pytest.param(20, True, id="an offset that was replaced before the question: a stale cache"),
        pytest.param(None, True, id="no offset, and no tombstone in the topic: a cache that was loaded too short"),
    ],
)
def test_answer_is_wrong_when_no_record_explains_it(answered: int | None, wrong: bool) -> None:
    """The coordinator's answer is held against the log."""
    log = log_of(history(10, 20, 30, 40))
    answers = {"mail": {} if answered is None else {("orders", 0): answered}}
    assert [each.answered for each in wrong_answers(answers, log, ASKED_MS)] == ([answered] if wrong else [])


def test_answer_for_a_tombstone_is_none_and_for_others_groups_nothing_is_said() -> None:
    """After a tombstone the right answer is that there is none; a group that did not answer is no wrong answer."""
    log = log_of(history(10, None))
    assert wrong_answers({"mail": {}}, log, ASKED_MS) == [] == wrong_answers({}, log, ASKED_MS)
    (found,) = wrong_answers({"mail": {("orders", 0): 10}}, log, ASKED_MS)
    assert str(found) == "mail on orders-0: the coordinator answers 10, and the last record of the topic says none"
