"""What the look at a real topic's health leaves out, lets go of, and says of it."""

from __future__ import annotations

from kitlib.experiments.cluster_audit.commit_log import CommitLog
from kitlib.experiments.cluster_audit.topic_health import WrongAnswer, is_answered_again, notes_of, trim, wrong_answers
from kitlib.lab.brokers.health import Answers
from kitlib.lab.offsets_topic import Bounds
from kitlib.monitor.commit_history import Committed, GroupPartition, GroupSeen

WHERE = GroupPartition("mail", "orders", 0)


def log_with(*times_ms: int, hidden: int = 0) -> CommitLog:
    """A commit at each time, of offsets 0, 1, ...; so many offsets of the topic's only partition are hidden."""
    log = CommitLog(bounds={0: Bounds(0, 0, 9, 9 + hidden)})
    log.history.commits[WHERE] = [Committed(offset, at_ms, offset) for offset, at_ms in enumerate(times_ms)]
    return log


def test_groups_behind_an_open_transaction_are_not_compared() -> None:
    """What the coordinator answers is newer than what can be read."""
    answers = {"mail": {("orders", 0): 7}}
    assert len(wrong_answers(answers, log_with(10, 20), 1_000)) == 1
    hidden = log_with(10, 20, hidden=2)
    assert wrong_answers(answers, hidden, 1_000) == []
    assert notes_of(Answers(answers), (), hidden)[0].startswith("1 groups were not compared")
    assert notes_of(Answers(answers), (), log_with(1)) == []


def test_answer_is_wrong_only_when_the_coordinator_stands_by_it() -> None:
    """A transaction that ended between the answer and the reading is no fault of the cache."""
    wrong = WrongAnswer(WHERE, 7, 1)
    assert is_answered_again(wrong, {"mail": {("orders", 0): 7}})
    assert not is_answered_again(wrong, {"mail": {("orders", 0): 1}})
    assert not is_answered_again(wrong, {"mail": {}}) and not is_answered_again(wrong, {})
    assert is_answered_again(WrongAnswer(WHERE, None, 1), {"mail": {}})


def test_what_was_left_out_is_counted_and_named() -> None:
    """Groups without an answer, with the reason; topics that one may not describe."""
    silent = Answers({}, {f"g{number}": "no answer" for number in range(5)})
    groups, topics = notes_of(silent, {"b", "a"}, CommitLog())
    assert groups == "5 groups were left out, their coordinators did not answer: g0: no answer; g1: no answer; g2: no answer."
    assert topics == "2 topics were left out, one may not describe them, so no coordinator tells of them: a, b."


def test_trim_keeps_what_the_check_needs() -> None:
    """The commits since then and the one before them; of each group its last word."""
    for times_ms, kept in (((1, 2, 3), [2]), ((1, 2, 30, 40), [1, 2, 3]), ((30, 40), [0, 1]), ((5,), [0])):
        log = log_with(*times_ms)
        log.history.groups["mail"] = [GroupSeen(order, order, order) for order in (1, 2)]
        trim(log, 30)
        assert [each.order for each in log.history.commits[WHERE]] == kept and [each.order for each in log.history.groups["mail"]] == [2]
