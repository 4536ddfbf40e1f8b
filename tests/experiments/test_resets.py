"""The experiments on resets on the model, beyond what `test_claims` counts: policies, the operator; the model's topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.errors import LabError
from kitlib.experiments import get
from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.groups.group import Library, MemberSettings, ModelGroup
from kitlib.experiments.groups.group_knobs import settings_of, work_wave
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.groups.model_topic import ModelTopic
from kitlib.experiments.offsets.reset_stories import BY_HOUR
from kitlib.monitor.delivery import judge
from kitlib.settings import Settings
from kitlib.trace import Trace
from tests.experiments.knob_values import counted

NEW, OUT = ": no offset is committed", ": the offset is out of range"

# (what B finds, its policy) -> the counts that are not 0, a word of the reason of the first of them; None: it stops.
# 40 old records, 20 of them done, 30 young ones while nobody is there, 10 when B has begun; 30 may be deleted.
RESETS: dict[tuple[str, str], tuple[dict[str, int], str] | None] = {
    ("new", "earliest"): ({}, ""),
    ("new", "latest"): ({"lost": 70, "skipped": 70}, NEW),
    ("new", "none"): None,
    ("new", BY_HOUR): ({"lost": 40, "skipped": 40}, NEW),
    ("committed", "earliest"): ({}, ""),
    ("committed", "latest"): ({}, ""),
    ("committed", "none"): ({}, ""),
    ("committed", BY_HOUR): ({}, ""),
    ("committed but deleted", "earliest"): ({"lost": 30, "skipped": 30}, "retention, which deleted"),
    ("committed but deleted", "latest"): ({"lost": 50, "skipped": 50}, "retention, which deleted"),
    ("committed but deleted", "none"): None,
    ("committed but deleted", BY_HOUR): ({"lost": 30, "skipped": 30}, "retention, which deleted"),
    ("committed but forgotten", "earliest"): ({"duplicated": 20, "rewound": 1}, NEW),
    ("committed but forgotten", "latest"): ({"lost": 50, "skipped": 50}, NEW),
    ("committed but forgotten", "none"): None,
    ("committed but forgotten", BY_HOUR): ({"lost": 20, "skipped": 20}, NEW),
    ("beyond the end", "earliest"): ({"duplicated": 20, "rewound": 1}, OUT),
    ("beyond the end", "latest"): ({"lost": 50, "skipped": 50}, OUT),
    ("beyond the end", "none"): None,
    ("beyond the end", BY_HOUR): ({"lost": 20, "skipped": 20}, OUT),
}


def test_reset_policy_table_has_every_question() -> None:
    """Each state with each policy."""
    choices = {knob.name: knob.choices for knob in get("reset_policy").knobs}
    assert set(RESETS) == {(state, policy) for state in choices["state"] for policy in choices["policy"]}


@pytest.mark.parametrize("library", ["librdkafka", "java"])
@pytest.mark.parametrize(("state", "policy"), RESETS)
def test_reset_policy_is_asked_only_without_a_usable_offset(state: str, policy: str, library: str) -> None:
    """With one it changes nothing; without one earliest repeats, latest loses, none stops, and a duration does a bit of each."""
    trace = get("reset_policy").run(state=state, policy=policy, library=library)
    refused = {step.data["error"] for step in trace if step.what == "refused"}
    expected = RESETS[state, policy]
    if expected is None:
        by_name = "NO_OFFSET_FOR_PARTITION" if state in ("new", "committed but forgotten") else "OFFSET_OUT_OF_RANGE"
        assert refused == {"_AUTO_OFFSET_RESET" if library == "librdkafka" else by_name}
        assert not [step for step in trace if step.actor == "B" and step.what in ("start", "emit", "commit")]
        return
    counts, reason = expected
    assert refused == set() and counted(trace) == counts and judge(trace).violations == ()
    for kind in list(counts)[:1]:
        assert reason in judge(trace).first(kind).reason


def test_reset_by_hand_is_refused_while_somebody_is_a_member() -> None:
    """The tool works on a group that nobody is in."""
    altered = [step.data for step in get("reset_by_hand").run() if step.what == "alter"]
    assert [step.get("error") for step in altered] == ["UNKNOWN_MEMBER_ID", None]
    assert [(step["before"], step["offset"]) for step in altered] == [(60, 0), (60, 0)]


def new_run(records: int = 30) -> GroupRun:
    run = GroupRun(Trace("r", "test", domain="groups"), ModelBackend("r"), Settings())
    run.create(1, records)
    return run


def test_operator_is_refused_by_a_group_that_has_members_and_by_one_that_is_not_there() -> None:
    """A commit of nobody's makes a group; to delete an offset there must be one, and nobody in it."""
    run = new_run()
    assert run.forget([0]) == "GROUP_ID_NOT_FOUND"
    assert run.alter({0: 7}) == "NONE" and run.committed == {0: 7}
    run.join("A", settings_of(run))
    run.settle()
    assert run.alter({0: 3}) == "UNKNOWN_MEMBER_ID" and run.forget([0]) == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert run.committed == {0: 7}
    run.close("A")
    assert run.forget([0]) == "NONE" and run.committed == {0: None}
    steps = [(step.what, step.data.get("before"), step.data.get("error", "")) for step in run.trace if step.actor == "operator"]
    assert steps == [
        ("forget", None, "GROUP_ID_NOT_FOUND"), ("alter", None, ""), ("alter", 7, "UNKNOWN_MEMBER_ID"),
        ("forget", 7, "GROUP_SUBSCRIBED_TO_TOPIC"), ("forget", 7, ""),
    ]  # fmt: skip


def test_operator_waits_for_the_session_of_those_who_were_killed() -> None:
    """The coordinator takes a killed member for one until its session has ended."""
    run = new_run()
    run.join("A", settings_of(run))
    run.settle()
    run.kill("A")
    assert run.alter({0: 5}) == "NONE"
    assert run.group.now_ms >= 1_200


def test_consumer_without_a_position_is_told_in_each_poll_and_goes_on_once_an_offset_is_there() -> None:
    """Java's under none: an error each time, and no record; librdkafka's tells once and asks no more."""
    errors: dict[str, list[str]] = {}
    read: dict[str, list[tuple[int, int]]] = {}
    libraries: tuple[Library, ...] = ("java", "librdkafka")
    for library in libraries:
        group = ModelGroup("r")
        group.create(1)
        group.append(0, 10)
        member = group.join("A", MemberSettings(library=library, auto_offset_reset="none"))
        polls = [member.poll(10, 50) for _ in range(6)]
        errors[library] = [event.error for polled in polls for event in polled.events if event.what == "error"]
        assert not any(polled.records for polled in polls)
        assert member.commit({0: 4}) == "NONE"
        read[library] = [record for _ in range(3) for record in member.poll(10, 50).records]
    assert set(errors["java"]) == {"NO_OFFSET_FOR_PARTITION"} and len(errors["java"]) >= 3
    assert read["java"] == [(0, offset) for offset in range(4, 10)]
    assert errors["librdkafka"] == ["_AUTO_OFFSET_RESET"] and read["librdkafka"] == []


def test_consumer_by_duration_waits_for_a_record_that_is_young_enough() -> None:
    """Java's ListOffsets finds none, so there is no position: neither the end nor the start; then it begins with the first young one."""
    group = ModelGroup("r")
    group.create(1)
    group.append(0, 20, age_ms=7_200_000)
    member = group.join("A", MemberSettings(library="java", auto_offset_reset=BY_HOUR))
    assert not any(member.poll(10, 50).records for _ in range(4)) and member.positions() == {0: None}
    group.append(0, 5, age_ms=7_200_000)
    group.append(0, 5)
    assert [record for _ in range(3) for record in member.poll(10, 50).records] == [(0, offset) for offset in range(25, 30)]


def test_new_partition_is_found_when_the_metadata_is_asked_for_again() -> None:
    """Not before: the leader deals out what it knows of, even if it deals for another reason."""
    group = ModelGroup("r")
    group.create(1)
    settings = MemberSettings(library="java", metadata_max_age_ms=1_000, max_poll_interval_ms=60_000)
    member = group.join("A", settings)
    while group.owners() != {0: "A"}:
        member.poll(0, 50)
    group.add_partitions(2)
    while group.now_ms < 990:
        member.poll(0, 10)
    assert group.owners() == {0: "A", 1: None}
    while group.now_ms < 1_200:
        member.poll(0, 10)
    assert group.owners() == {0: "A", 1: "A"} and set(member.positions()) == {0, 1}


def test_leader_that_has_not_asked_deals_out_only_what_it_knows() -> None:
    """Another member joins meanwhile: the new partition still has no owner."""
    group = ModelGroup("r")
    group.create(1)
    settings = MemberSettings(library="java", max_poll_interval_ms=60_000)
    members = [group.join("A", settings)]
    while group.owners() != {0: "A"}:
        members[0].poll(0, 50)
    group.add_partitions(2)
    members.append(group.join("B", settings))
    while group.view().members != ("A", "B") or group.view().state != "Stable":
        for member in members:
            member.poll(0, 50)
    assert group.owners() == {0: "A", 1: None}


def _reads_again(run: GroupRun) -> None:
    run.create(1, 20)
    run.join("A", settings_of(run))
    run.settle()
    run.work("A", run.take("A", 20))
    run.commit_done("A")
    run.close("A")
    run.alter({0: 5})
    run.join("B", settings_of(run))
    run.settle()
    work_wave(run, ["B"], 0, is_committed=True)


def test_verdict_on_an_offset_set_back_by_hand_names_the_hand() -> None:
    """Neither the rewind nor what is repeated is a violation; without the step that tells of the hand both would be."""
    run = GroupRun(Trace("r", "test", domain="groups"), ModelBackend("r"), Settings())
    _reads_again(run)
    verdict = judge(run.trace)
    assert verdict.violations == () and (verdict.counts["duplicated"], verdict.counts["rewound"]) == (15, 1)
    for kind in ("duplicated", "rewound"):
        assert verdict.first(kind).reason == "an operator, who set the committed offset from 20 to 5 by hand"
    untold = Trace("r", "test", steps=[step for step in run.trace.steps if step.what != "alter"], domain="groups")
    assert "rewound" in judge(untold).violations
    for step in run.trace.steps:
        if step.what == "alter":
            step.data["error"] = "UNKNOWN_MEMBER_ID"  # and a hand that was refused explains nothing
    assert "rewound" in judge(run.trace).violations


def topic(*stretches: tuple[int, int], segment_ms: int = 100) -> ModelTopic:
    """One partition with these (count, timestamp)."""
    found = ModelTopic("t", segment_ms=segment_ms)
    found.grow(1, 0)
    for count, stamp_ms in stretches:
        found.append(0, count, stamp_ms)
    return found


# Timestamps of ten records each -> where the log begins when all before 500 is too old; a segment is as long as 100 ms.
RETENTIONS = {
    "nothing is old": ((600, 700), 0),
    "an old segment": ((100, 250, 600), 20),
    "one record that is young keeps its segment": ((450, 520, 700), 0),
    "the active segment goes as well when all of it is old": ((100, 150, 250), 30),
    "a young segment in front keeps what lies behind it": ((600, 100, 800), 0),
    "an empty log": ((), 0),
    "just at the border": ((500, 700), 0),
}


@pytest.mark.parametrize("case", RETENTIONS)
def test_retention_deletes_whole_segments_from_the_front(case: str) -> None:
    """A segment goes when its youngest record is too old, and none behind one that stays."""
    stamps, start = RETENTIONS[case]
    found = topic(*((10, stamp) for stamp in stamps))
    assert found.delete_older(0, 500) == start == found.starts[0]
    assert found.delete_older(0, 500) == start


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1_000)), max_size=8), st.integers(0, 1_000), st.integers(0, 40))
def test_topic_begins_and_ends_where_its_deletions_left_it(stretches: list[tuple[int, int]], stamp_ms: int, before: int) -> None:
    """The start never goes back, never passes the end, and a time is answered with a record that is there."""
    found = topic(*stretches)
    end = found.ends[0]
    first = found.delete_older(0, stamp_ms)
    if before <= end:
        assert found.delete_before(0, before) == max(first, before)
    else:
        with pytest.raises(LabError, match=f"cannot be deleted, it ends at {end}"):
            found.delete_before(0, before)
    at = found.offset_since(0, stamp_ms)
    stamps = [stamp for count, stamp in stretches for _ in range(count)]
    young = [offset for offset in range(found.starts[0], end) if stamps[offset] >= stamp_ms]
    assert at == (young[0] if young else None)
