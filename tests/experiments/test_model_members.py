"""The model's consumers: what a poll gives up and takes over, what runs behind it, and when each library commits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.groups.group import MemberSettings, ModelGroup, ModelMember

JAVA = MemberSettings(library="java", max_poll_interval_ms=10_000)
COOPERATIVE = replace(JAVA, strategies=("cooperative-sticky",))
AUTO = replace(JAVA, auto_commit=True)
RD = replace(JAVA, library="librdkafka")
RD_AUTO = replace(RD, auto_commit=True)
NEW = JAVA.release


def group(partitions: int = 2, records: int = 100) -> ModelGroup:
    found = ModelGroup("r")
    found.create(partitions)
    for partition in range(partitions):
        found.append(partition, records)
    return found


def alone(settings: MemberSettings, partitions: int = 1) -> tuple[ModelGroup, ModelMember]:
    """One member that holds everything."""
    found = group(partitions)
    member = found.join("A", settings)
    member.poll(0, 50)
    return found, member


def settled(*members: ModelMember) -> list[tuple[str, str, tuple[int, ...]]]:
    """Let these members take part until nothing happens any more; what they were told, in order."""
    told: list[tuple[str, str, tuple[int, ...]]] = []
    quiet = 0
    while quiet < 10:
        new = [
            (member.name, event.what, event.partitions)
            for member in members for event in member.poll(0, 50).events
            if event.partitions and event.what != "committed"
        ]  # fmt: skip
        told, quiet = told + new, 0 if new else quiet + 1
    return told


def test_eager_member_gives_up_everything_before_it_joins_again() -> None:
    """And begins at the committed offset in what it gets back."""
    found, a = alone(JAVA, 2)
    assert len(a.poll(10, 50).records) == 10
    b = found.join("B", JAVA)
    told = settled(a, b)
    assert told == [("A", "revoked", (0, 1)), ("A", "assigned", (0,)), ("B", "assigned", (1,))]
    assert a.poll(1, 50).records == ((0, 0),) and found.view().generation == 2


def test_cooperative_member_keeps_what_stays_and_goes_on_reading() -> None:
    """Only what moves is given up, after the first of two generations; the rest keeps its position."""
    found, a = alone(COOPERATIVE, 2)
    assert a.poll(10, 50).records[-1] == (0, 9)
    b = found.join("B", COOPERATIVE)
    told = settled(a, b)
    assert told == [("A", "revoked", (1,)), ("B", "assigned", (1,))]
    assert (0, 10) in a.poll(150, 50).records and found.view().generation == 3


def test_records_are_handed_out_to_a_cooperative_member_in_the_middle_of_a_rebalance() -> None:
    """An eager one gets none, as it holds none."""
    for settings, count in ((COOPERATIVE, 5), (JAVA, 0)):
        found, a = alone(settings, 2)
        b, c = found.join("B", settings), found.join("C", settings)
        settled(a, b)
        c.poll(0, 50)
        found.pass_ms(400)  # A's heartbeat is told of the rebalance
        a.poll(0, 50)
        assert found.view().state == "PreparingRebalance" and len(a.poll(5, 50).records) == count


def test_leaders_of_java_deal_when_they_poll_and_librdkafkas_at_once() -> None:
    """A leader that is busy holds up the generation of everybody, unless its library joins without it."""
    for settings, state in ((JAVA, "CompletingRebalance"), (RD, "Stable")):
        found, a = alone(settings, 2)
        b, c = found.join("B", settings), found.join("C", settings)
        settled(a, b)
        c.poll(0, 50)
        found.pass_ms(400)
        a.poll(0, 0)
        b.poll(0, 0)  # the last one: A's join is answered while A is busy
        assert found.view().state == state


def test_java_commits_in_poll_what_an_earlier_poll_handed_out() -> None:
    """Not before the interval is over, and never what is worked on now."""
    found, a = alone(AUTO)
    a.poll(10, 50)
    found.pass_ms(1_000)
    assert found.committed() == {0: None}
    a.poll(10, 50)
    assert found.committed() == {0: 10}
    a.poll(10, 50)
    assert found.committed() == {0: 10}  # the next interval has begun
    a.kill()
    assert found.committed() == {0: 10}


def test_librdkafka_commits_behind_the_poll_what_was_handed_out() -> None:
    """Whatever the user is doing with it."""
    found, a = alone(RD_AUTO)
    a.poll(10, 50)
    found.pass_ms(250)
    assert found.committed() == {0: 10}
    events = a.poll(0, 0).events
    assert [(event.what, event.partitions, event.error) for event in events] == [("committed", (0,), "")]


REBALANCES: dict[str, tuple[MemberSettings, int | None]] = {
    "with auto-commit: everything": (AUTO, 10),
    "librdkafka: everything": (RD_AUTO, 10),
    "in a callback: everything": (replace(JAVA, commit_on_revoke=True), 10),
    "not at all": (JAVA, None),
}


@pytest.mark.parametrize("case", REBALANCES)
def test_commit_before_an_eager_rebalance(case: str) -> None:
    """The old generation's last word, before everything is given up."""
    settings, committed = REBALANCES[case]
    found, a = alone(replace(settings, auto_commit_interval_ms=60_000), 2)
    a.poll(10, 50)
    b = found.join("B", settings)
    settled(a, b)
    assert found.committed() == {0: committed, 1: None if committed is None or "librd" in case else 0}


def test_commit_of_lost_partitions_is_refused_and_told() -> None:
    """Auto-commit tries in vain before the next join."""
    found, a = alone(replace(AUTO, max_poll_interval_ms=2_000))
    a.poll(10, 50)
    found.pass_ms(2_100)
    events = a.poll(0, 50).events
    assert [(event.what, event.error) for event in events[:2]] == [("committed", "UNKNOWN_MEMBER_ID"), ("lost", "")]
    assert found.committed() == {0: None}


@pytest.mark.parametrize(
    ("release", "late", "committed"),
    [(NEW, "", 100), (NEW, "STATE", 100), ((1, 8, 2), "", 100), ((1, 8, 2), "NONE", 40), ((1, 4, 1), "", 40), ((1, 4, 1), "NONE", 40)],
)
def test_offset_stored_before_or_after_the_partition_went(release: tuple[int, int, int], late: str, committed: int) -> None:
    """Kept until it comes back, if nothing forgets it when it goes (1.4.2); stored later it is refused from 1.9.0 on."""
    found, a = alone(replace(RD_AUTO, auto_store=False, release=release), 2)
    a.poll(200, 50)
    a.store(1, 40)
    b = found.join("B", RD)
    settled(a, b)
    assert b.commit({1: 100}) == "NONE"
    if late:
        assert a.store(1, 40) == late
    b.close()
    settled(a)
    found.pass_ms(500)
    assert found.committed()[1] == committed


def test_user_commits_his_positions_or_what_he_says() -> None:
    """Nothing new is nothing to commit."""
    found, a = alone(JAVA, 2)
    a.poll(150, 50)
    assert a.commit() == "NONE" and found.committed() == {0: 100, 1: 50}
    assert a.commit({1: 20}) == "NONE" and found.committed() == {0: 100, 1: 20}


def test_commit_that_nobody_waits_for_counts_until_the_member_joins_again() -> None:
    """A group that prepares a rebalance still takes it; Java refuses it at home once it joins, and a later poll tells of that."""
    settings = replace(COOPERATIVE, max_poll_interval_ms=3_000)
    found, a = alone(settings, 3)
    busy = found.join("B", settings)
    settled(a, busy)
    found.join("C", settings).poll(0, 50)
    assert found.view().state == "PreparingRebalance"
    a.commit_later({0: 5})
    assert found.committed()[0] == 5
    for _ in range(10):
        assert not [event for event in a.poll(0, 50).events if event.what == "committed" and event.error]
    a.commit_later({0: 7})
    told = [(event.what, event.partitions, event.error) for event in a.poll(0, 50).events]
    assert told == [("committed", (0,), "REBALANCE_IN_PROGRESS")] and found.committed()[0] == 5


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "the newer protocol": ({"protocol": "consumer"}, "no protocol 'consumer', only a real broker does"),
    "Java's policy": ({"library": "librdkafka", "auto_offset_reset": "by_duration:PT1H"}, "has no reset policy by_duration:PT1H"),
    "librdkafka's strategy": ({"library": "librdkafka", "strategies": ("sticky",)}, "member A: librdkafka has no sticky assignor"),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_without_a_model_are_refused(case: str) -> None:
    """Before anybody joins."""
    more, words = BAD[case]
    with pytest.raises(KnobError, match=words):
        group().join("A", replace(JAVA, **more))


def test_start_at_the_latest_without_a_committed_offset() -> None:
    """And at the committed one with it."""
    found, a = alone(replace(JAVA, auto_offset_reset="latest"))
    assert a.poll(5, 50).records == ()
    found.append(0, 1)
    assert a.poll(5, 50).records == ((0, 100),) and a.commit() == "NONE"
    a.close()
    again = found.join("A", JAVA)
    again.poll(0, 50)
    found.append(0, 1)
    assert again.poll(5, 50).records == ((0, 101),)
