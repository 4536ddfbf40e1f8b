"""The verdict beside a slow reference on any list of steps, and what it says of the settings."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kitlib import experiments
from kitlib.monitor.delivery import ANOMALIES, MAX_OFFSET, Verdict, judge, judge_steps
from kitlib.trace import Step, Trace
from tests.monitor import reference

OFFSET = st.integers(0, 12)
BOUND = st.integers(0, 14)


@st.composite
def ranges(draw: st.DrawFn) -> list[list[int]]:
    ends = draw(st.lists(OFFSET, min_size=1, max_size=4, unique=True).map(sorted))
    return [[first, last - 1 if last > first else first] for first, last in pairwise([*ends, ends[-1] + 2])]


@st.composite
def appends(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    offsets = sorted(draw(st.sets(OFFSET, min_size=1, max_size=6)))
    if draw(st.booleans()):
        return "append", {"first": offsets[0], "last": offsets[-1]}
    return "append", {"first": offsets[0], "last": offsets[-1], "offsets": offsets}


WORDS = st.one_of(
    appends(),
    BOUND.map(lambda to: ("delete", {"to": to})),
    BOUND.map(lambda offset: ("start", {"offset": offset, "stored": None, "why": "no stored offset"})),
    OFFSET.map(lambda offset: ("emit", {"offset": offset, "attempt": 1, "parts": 1})),
    st.tuples(BOUND, BOUND).map(lambda pair: ("reset", {"from": pair[0], "to": pair[1]})),
    st.tuples(OFFSET, st.integers(0, 1)).map(lambda pair: ("process", {"offset": pair[0], "part": pair[1]})),
    OFFSET.map(lambda offset: ("process", {"offset": offset})),
    st.tuples(OFFSET, st.booleans()).map(lambda pair: ("fail", {"offset": pair[0], "retry": pair[1]})),
    ranges().map(lambda found: ("clear", {"ranges": found})),
    OFFSET.map(lambda offset: ("give_up", {"offset": offset})),
    st.tuples(BOUND, st.booleans()).map(lambda pair: ("commit", {"offset": pair[0], "written": pair[1]})),
    st.sampled_from([("idle", {}), ("ack", {"offset": 1}), ("error", {"error": "X"}), ("stop", {}), ("dance", {})]),
)
# Commits that do not move are rare by chance; these make stalls.
IDLE_COMMITS = st.integers(3, 8).map(lambda times: [("commit", {"offset": 3, "written": False})] * times)
STRETCH = st.lists(WORDS, max_size=6) | IDLE_COMMITS
LANES = st.sampled_from([("a", 0), ("a", 0), ("a", 0), ("a", 1), ("b", 0)])


@st.composite
def step_lists(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    now = 0
    for stretch in draw(st.lists(STRETCH, max_size=12)):
        lane = draw(LANES)
        for what, data in stretch:
            now += draw(st.integers(0, 5))
            where = {"topic": lane[0], "partition": lane[1]}
            steps.append(Step(len(steps), now, "somebody", what, {**data, **where}))
    if draw(st.booleans()):
        steps.append(Step(len(steps), now, "clock", "tick", {}))
    return steps


def same_as_reference(steps: list[Step], verdict: Verdict) -> None:
    assert [(lane.topic, lane.partition) for lane in verdict.lanes] == reference.lanes(steps)
    for lane in verdict.lanes:
        where = (lane.topic, lane.partition)
        found = {kind: (anomaly.count, anomaly.witness) for kind, anomaly in lane.anomalies.items()}
        assert found == reference.counts(steps, where)
        assert lane.late_ms == reference.late_ms(steps, where)
    for kind in ANOMALIES:
        assert verdict.counts[kind] == sum(reference.counts(steps, lane)[kind][0] for lane in reference.lanes(steps))
    assert verdict.late_ms == max((reference.late_ms(steps, lane) for lane in reference.lanes(steps)), default=0)


@settings(deadline=None, max_examples=250)
@given(step_lists())
def test_verdict_any_steps_counts_as_the_reference(steps: list[Step]) -> None:
    """All six counts, their first witnesses and the lateness are those of the definitions, on every lane and in sum."""
    same_as_reference(steps, judge_steps(steps, {}))


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(experiments.names()),
    st.integers(0, 1_000),
    st.sampled_from([{}, {"max_offset_behind": 3}, {"max_spout_pending": 1}, {"fail_percent": 30}, {"release": "1.1.0"}]),
)
@example("same_id_other_topic", 1, {})
def test_verdict_of_an_experiment_counts_as_the_reference(name: str, seed: int, knobs: dict[str, Any]) -> None:
    """On what the experiments record, too, all counts and witnesses are those of the definitions."""
    experiment = experiments.get(name)
    own = {knob.name for knob in experiment.knobs}
    short = {"max_steps": 150, **({"records": 25} if "records" in own else {})}
    trace = experiment.run(seed=seed, **{key: value for key, value in (short | knobs).items() if key in own})
    same_as_reference(trace.steps, judge(trace))


# -- the marks ------------------------------------------------------------------------------------

Told = list[tuple[str, dict[str, Any]]]
APPEND: tuple[str, dict[str, Any]] = ("append", {"first": 0, "last": 9})
START: tuple[str, dict[str, Any]] = ("start", {"offset": 0, "stored": None, "why": "no stored offset"})


def each(what: str, offsets: list[int] | range, **data: Any) -> Told:
    return [(what, {"offset": offset, **data}) for offset in offsets]


def idle(times: int, at: int = 0) -> Told:
    return [("commit", {"offset": at, "written": False})] * times


def written(offset: int) -> Told:
    return [("commit", {"offset": offset, "written": True})]


def told(story: Told, **knobs: Any) -> Verdict:
    steps = [
        Step(number, 10 * number, "x", what, {**data, "topic": "events", "partition": 0})
        for number, (what, data) in enumerate(story)
    ]
    return judge_steps(steps, knobs)


OUT_OF_RANGE = ("error", {"error": "OFFSET_OUT_OF_RANGE"})
# A story, its knobs -> the anomaly, its count, its first witness, and the reason's words (none: a violation).
MARKS: dict[str, tuple[Told, dict[str, Any], tuple[str, int, int, str]]] = {
    "a record that was cleared is lost by the bound": (
        [APPEND, START, *each("emit", range(3)), ("clear", {"ranges": [[0, 0]]}), *each("process", [1, 2]), *written(3)],
        {"max_offset_behind": 1}, ("lost", 1, 5, "max_offset_behind=1 gives up what lies further back")),
    "a record that was given up is lost by the limit": (
        [APPEND, START, *each("emit", [0]), ("give_up", {"offset": 0}), *written(1)],
        {"retry_limit": 3}, ("lost", 1, 3, "retry_limit=3 gives up")),
    "a record that retention took is lost by retention": (
        [APPEND, ("delete", {"to": 4}), START], {}, ("lost", 4, 1, "retention deleted")),
    "a record that the commit has passed for no reason is a violation": (
        [APPEND, START, *each("emit", [0]), *written(1)], {}, ("lost", 1, 3, "")),
    "a record that a forced start at the end passed over is lost by it": (
        [APPEND, ("start", {"offset": 10, "why": "no stored offset"})], {"force_from_start": False},
        ("lost", 10, 1, "no stored offset (force_from_start=False)")),
    "a record below a stored offset is a violation: nothing says that it was ever read": (
        [APPEND, ("start", {"offset": 10, "why": "stored offset"})], {}, ("skipped", 10, 1, "")),
    "a record jumped over by a reset is skipped by that setting": (
        [APPEND, START, ("reset", {"from": 0, "to": 6})], {"force_from_start": True},
        ("skipped", 6, 2, "goes on from start_offset_time (force_from_start=True)")),
    "a record jumped over by a reset to the end is skipped by that setting": (
        [APPEND, START, ("reset", {"from": 0, "to": 10})], {}, ("skipped", 10, 2, "goes on from the log end")),
    "a record processed again is allowed": (
        [APPEND, START, *each("emit", [0]), *each("process", [0, 0])], {},
        ("duplicated", 1, 4, "at least once hands a record out again")),
    "parts of one record are no duplicates, the same part is": (
        [APPEND, START, *each("process", [0], part=0), *each("process", [0, 0], part=1)], {},
        ("duplicated", 1, 4, "at least once")),
    "an order changed by several tuples at once is allowed": (
        [APPEND, START, *each("emit", [0, 1]), *each("process", [1, 0])], {"max_spout_pending": 10},
        ("reordered", 1, 5, "max_spout_pending=10 lets tuples finish in any order")),
    "an order changed by a retry is allowed": (
        [APPEND, START, *each("emit", [0, 1, 0]), *each("process", [1, 0])], {"max_spout_pending": 1},
        ("reordered", 1, 6, "handed out again")),
    "an order changed with one tuple at a time is a violation": (
        [APPEND, START, *each("emit", [0, 1]), *each("process", [1, 0])], {"max_spout_pending": 1},
        ("reordered", 1, 5, "")),
    "a commit that goes back after a late failure is allowed": (
        [APPEND, START, *written(5), *written(3)], {}, ("rewound", 1, 3, "failed after its ack")),
    "a start from the stored offset that lies back is a violation": (
        [APPEND, START, *written(5), ("start", {"offset": 3, "why": "stored offset"})], {}, ("rewound", 1, 3, "")),
    "a start forced back is allowed": (
        [APPEND, START, *written(5), ("start", {"offset": 0, "why": "another topology id"})], {"force_from_start": True},
        ("rewound", 1, 3, "another topology id (force_from_start=True)")),
    "a reset that goes back is allowed": (
        [APPEND, START, ("reset", {"from": 8, "to": 2})], {}, ("rewound", 1, 2, "out of range")),
    "five commits that do not move for no reason are a violation": (
        [APPEND, START, *idle(5)], {}, ("stalled", 1, 2, "")),
    "a stall behind a failure that is not retried is the bound's": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=False), *idle(5)], {"max_offset_behind": 5},
        ("stalled", 1, 4, "max_offset_behind=5 does not retry")),
    "a stall behind a record that is retried again and again is allowed": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True), *idle(3), *each("emit", [0]), *idle(3)],
        {"max_offset_behind": MAX_OFFSET}, ("stalled", 1, 4, "retried without limit")),
    "a stall behind a failure whose retry never comes is a violation": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True), *idle(6)], {}, ("stalled", 1, 4, "")),
    "a stall behind a retry that waits its turn is allowed": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True), *idle(6)], {"retry_initial_delay_ms": 5},
        ("stalled", 1, 4, "waits for its next retry")),
    "a stall behind a tuple that is neither acked nor failed is allowed": (
        [APPEND, START, *each("emit", [0]), *idle(5)], {}, ("stalled", 1, 3, "neither acked nor failed")),
    "a stall at an offset that retention took is a violation": (
        [APPEND, START, *each("fail", [0], retry=True), ("delete", {"to": 5}), *idle(5)], {}, ("stalled", 1, 4, "")),
    "a stall of a spout that is told to stop there is allowed": (
        [APPEND, ("start", {"offset": 0, "why": "x"}), OUT_OF_RANGE, *idle(5)], {},
        ("stalled", 1, 3, "use_start_offset_time_if_offset_out_of_range=False stops")),
}  # fmt: skip


@pytest.mark.parametrize("case", MARKS)
def test_anomaly_is_allowed_or_a_violation(case: str) -> None:
    """An anomaly that a setting explains is allowed and says which; one that none explains is a violation."""
    story, knobs, (kind, count, witness, words) = MARKS[case]
    verdict = told(story, **knobs)
    found = verdict.first(kind)
    assert (found.count, found.witness) == (count, witness)
    assert words in found.reason and bool(found.reason) is bool(words)
    assert found.is_violation is (kind in verdict.violations) is (not words)
    assert found.unexplained == (0 if words else count)


# A story -> the anomaly that it must not count.
HARMLESS: dict[str, tuple[Told, str]] = {
    "four commits that do not move": ([APPEND, START, *idle(4)], "stalled"),
    "a start between two and three": ([APPEND, START, *idle(4), START, *idle(4)], "stalled"),
    "commits at the end of the log": ([APPEND, START, *written(10), *idle(9, 10)], "stalled"),
    "commits before anything was appended": ([START, *idle(9)], "stalled"),
    "a commit that moves in between": ([APPEND, START, *idle(4), *written(1), *idle(4, 1)], "stalled"),
    "a record that still waits": ([APPEND, START, *each("emit", [0])], "lost"),
    "a record that was processed and then deleted": (
        [("append", {"first": 0, "last": 0}), START, *each("process", [0]), ("delete", {"to": 1})], "lost"),
    "a gap in the offsets": ([("append", {"first": 0, "last": 9, "offsets": [0, 9]}), START, *written(9),
                              *each("process", [0])], "lost"),
    "a record appended after the start": ([("start", {"offset": 10, "why": "x"}), APPEND], "skipped"),
    "a record that was emitted before the jump": (
        [APPEND, START, *each("emit", range(10)), ("reset", {"from": 0, "to": 10})], "skipped"),
    "a jump back": ([APPEND, START, ("reset", {"from": 9, "to": 0})], "skipped"),
    "a second tuple of the same record later": (
        [APPEND, START, *each("process", [0], part=0), *each("process", [1]), *each("process", [0], part=1)], "reordered"),
    "a retry of what was processed already": ([APPEND, START, *each("process", [0, 1, 0])], "reordered"),
    "a first start above nothing": ([("start", {"offset": 5, "why": "x"}), ("start", {"offset": 5, "why": "x"})], "rewound"),
}  # fmt: skip


@pytest.mark.parametrize("case", HARMLESS)
def test_anomaly_that_is_none_is_not_counted(case: str) -> None:
    """What only looks like an anomaly counts as none."""
    story, kind = HARMLESS[case]
    assert told(story).counts[kind] == 0


def test_mark_some_explained_and_some_not_is_a_violation_that_counts_them() -> None:
    """One record without an explanation makes the anomaly a violation, however many are explained."""
    verdict = told([APPEND, START, ("clear", {"ranges": [[0, 2]]}), *written(4)], max_offset_behind=1)
    found = verdict.first("lost")
    assert (found.count, found.unexplained, found.is_violation) == (4, 1, True)
    assert str(found) == "4 lost, first at offset 0 (violation: no setting explains 1)"


# -- the sentence ---------------------------------------------------------------------------------

SENTENCES: dict[str, tuple[Told, dict[str, Any], str]] = {
    "nothing happened": ([], {}, "0 of 0 records were processed."),
    "nothing was processed": ([APPEND], {}, "0 of 10 records were processed; 10 still wait."),
    "all in order": (
        [APPEND, START, *each("process", range(10)), *written(10)], {},
        "10 of 10 records were processed, each of them once and in order."),
    "some in order": (
        [APPEND, START, *each("process", range(4))], {},
        "4 of 10 records were processed, each of them once and in order; 6 still wait."),
    "an allowed anomaly with its setting": (
        [APPEND, START, *each("process", range(10)), *each("process", [9])], {},
        "10 of 10 records were processed: 1 duplicated (allowed: at least once hands a record out again)."),
    "a violation": (
        [APPEND, START, *each("process", range(1, 10)), *written(10)], {},
        "9 of 10 records were processed: 1 lost (violation, no setting explains it)."),
    "a clearing beyond its bound": (
        [APPEND, START, ("clear", {"ranges": [[0, 9]], "by": 14}), *written(10)], {"max_offset_behind": 5},
        "0 of 10 records were processed: 10 lost (violation, no setting explains it)."),
    "a clearing without a bound": (
        [APPEND, START, ("clear", {"ranges": [[0, 9]], "by": 14}), *written(10)], {"max_offset_behind": MAX_OFFSET},
        "0 of 10 records were processed: 10 lost (violation, no setting explains it)."),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_sentence_says_what_happened(case: str) -> None:
    """One sentence: how many of how many, then each anomaly with its mark, or that there is none."""
    story, knobs, sentence = SENTENCES[case]
    verdict = told(story, **knobs)
    assert verdict.sentence == repr(verdict) == sentence


def test_to_json_holds_everything_a_script_needs() -> None:
    """The JSON form has the sums, the marks and each partition's anomalies, and is made of JSON values only."""
    verdict = told([APPEND, START, *each("process", [0, 0])])
    told_json = json.loads(json.dumps(verdict.to_json()))
    assert told_json["counts"] == verdict.counts and list(told_json["counts"]) == list(ANOMALIES)
    assert (told_json["appended"], told_json["processed"], told_json["late_ms"]) == (10, 1, 20)
    assert told_json["sentence"] == verdict.sentence and told_json["violations"] == []
    assert told_json["partitions"][0]["anomalies"]["duplicated"] == {
        "count": 1, "witness": 3, "offset": 0, "reason": "at least once hands a record out again", "unexplained": 0,
    }  # fmt: skip


def test_html_of_a_hostile_reason_is_escaped() -> None:
    """What a trace says reaches the page as text."""
    evil = "<script>alert(1)</script>"
    verdict = told([APPEND, ("start", {"offset": 10, "why": evil})])
    assert evil in verdict.sentence
    assert "<script>" not in verdict._repr_html_() and "&lt;script&gt;" in verdict._repr_html_()


def test_judge_reads_the_traces_own_knobs() -> None:
    """The knobs that a trace was run with decide which anomalies are allowed."""
    trace = Trace("r", "e", knobs={"max_spout_pending": 1})
    for what, data in [APPEND, START, *each("emit", [0, 1]), *each("process", [1, 0])]:
        trace.record(0, "x", what, topic="events", partition=0, **data)
    assert judge(trace).violations == ("reordered",)
    trace.knobs["max_spout_pending"] = 2
    assert judge(trace).violations == ()
