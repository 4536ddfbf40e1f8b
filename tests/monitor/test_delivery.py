"""The verdict beside a slow reference on any list of steps, and how it is told."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kitlib import experiments
from kitlib.errors import TraceError
from kitlib.experiments.checkpoint.checkpoint_stories import CheckpointRun
from kitlib.experiments.connect.connect_stories import SourceRun
from kitlib.experiments.idempotence.producer_run import ProducerRun
from kitlib.experiments.replication.replication_run import ReplicaRun
from kitlib.experiments.share.share_run import ShareRun
from kitlib.experiments.transactions.transaction_run import TransactionRun
from kitlib.monitor.delivery import ANOMALIES, Verdict, judge
from kitlib.trace import Step, Trace
from tests.monitor import reference
from tests.monitor.stories import APPEND, APPEND_2, DELIVERY, START, Told, each, idle, told, written

OFFSET = st.integers(0, 12)
BOUND = st.integers(0, 14)


@st.composite
def ranges(draw: st.DrawFn) -> list[list[int]]:
    ends = draw(st.lists(OFFSET, min_size=1, max_size=4, unique=True).map(sorted))
    return [[first, last - 1 if last > first else first] for first, last in pairwise([*ends, ends[-1] + 2])]


@st.composite
def appends(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    offsets = sorted(draw(st.sets(OFFSET, min_size=1, max_size=6)))
    data: dict[str, Any] = {"first": offsets[0], "last": offsets[-1]}
    if draw(st.booleans()):
        data["offsets"] = offsets
    records = len(offsets) if "offsets" in data else offsets[-1] - offsets[0] + 1
    counts = st.integers(0, 2)
    parts = draw(st.none() | counts | st.lists(counts, min_size=records, max_size=records))
    return "append", data if parts is None else data | {"parts": parts}


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
    st.tuples(st.sampled_from(["compact", "purge"]), st.lists(OFFSET, max_size=4)).map(lambda made: (made[0], {"offsets": made[1]})),
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
        assert lane.processed == reference.processed(steps, where)
        assert lane.replaced == reference.replaced(steps, where)
        assert lane.late_ms == reference.late_ms(steps, where)
    for kind in ANOMALIES:
        assert verdict.counts[kind] == sum(reference.counts(steps, lane)[kind][0] for lane in reference.lanes(steps))
    assert verdict.late_ms == max((reference.late_ms(steps, lane) for lane in reference.lanes(steps)), default=0)


@settings(deadline=None, max_examples=250)
@given(step_lists())
def test_verdict_any_steps_counts_as_the_reference(steps: list[Step]) -> None:
    """All six counts, their first witnesses and the lateness are those of the definitions, on every lane and in sum."""
    same_as_reference(steps, judge(Trace("r", "e", steps=steps, domain=DELIVERY)))


# Runs told in words that the reference does not know.
OTHER_WORDS = (ReplicaRun, ProducerRun, TransactionRun, SourceRun, CheckpointRun, ShareRun)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([each.name for each in experiments.every() if each.kind not in OTHER_WORDS]),
    st.integers(0, 1_000),
    st.sampled_from([{}, {"max_offset_behind": 3}, {"max_spout_pending": 1}, {"fail_percent": 30}, {"release": "1.1.0"}]),
)
@example("same_id_other_topic", 1, {})
@example("two_sends", 1, {"release": "1.1.0"})
def test_verdict_of_an_experiment_counts_as_the_reference(name: str, seed: int, knobs: dict[str, Any]) -> None:
    """On what the experiments record, too, all counts and witnesses are those of the definitions."""
    experiment = experiments.get(name)
    own = {knob.name for knob in experiment.knobs if knob.name != "release" or "1.1.0" in knob.choices}  # Storm's releases
    short = {"max_steps": 150, **({"records": 25} if "records" in own else {})}
    trace = experiment.run(seed=seed, **{key: value for key, value in (short | knobs).items() if key in own})
    verdict = judge(trace)
    assume(verdict.kinds == ANOMALIES)  # the others' lanes: test_producing.py, test_transactions.py
    same_as_reference(trace.steps, verdict)


# A story -> the anomaly that it must not count.
HARMLESS: dict[str, tuple[Told, str]] = {
    "four commits that do not move": ([APPEND, START, *idle(4)], "stalled"),
    "a start between two and three": ([APPEND, START, *idle(4), START, *idle(4)], "stalled"),
    "commits at the end of the log": ([APPEND, START, *written(10), *idle(9, 10)], "stalled"),
    "commits before anything was appended": ([START, *idle(9)], "stalled"),
    "a commit that moves in between": ([APPEND, START, *idle(4), *written(1), *idle(4, 1)], "stalled"),
    "a record that still waits": ([APPEND, START, *each("emit", [0])], "lost"),
    "a record with nothing to do": (
        [("append", {"first": 0, "last": 1, "parts": [0, 1]}), START, *each("process", [1]), *written(2)], "lost"),
    "a record with all its parts": ([APPEND_2, START, *each("process", [0], part=1), *each("process", [0]), *written(1)], "lost"),
    "a record whose number of parts nobody knows": ([APPEND, START, *each("process", [0], part=3), *written(1)], "lost"),
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


SENTENCES: dict[str, tuple[Told, dict[str, Any], str]] = {
    "nothing happened": ([], {}, "No record was followed in this run."),
    "nothing to process": ([START], {}, "0 of 0 records were processed."),
    "nothing was processed": ([APPEND], {}, "0 of 10 records were processed; 10 still wait."),
    "all in order": (
        [APPEND, START, *each("process", range(10)), *written(10)], {},
        "10 of 10 records were processed, each of them once and in order."),
    "some in order": (
        [APPEND, START, *each("process", range(4))], {},
        "4 of 10 records were processed, each of them once and in order; 6 still wait."),
    "parts of some": (
        [("append", {"first": 0, "last": 2, "parts": [2, 0, 2]}), START, *each("process", [0], part=0),
         *each("process", [0], part=1), *each("process", [2])], {},
        "2 of 3 records were processed, each of them once and in order; 1 still waits."),
    "some replaced": (
        [APPEND, START, ("compact", {"offsets": [2, 3, 4]}), *each("process", [0, 1, 4, *range(5, 9)]), *written(9)], {},
        "7 of 10 records were processed (2 replaced by compaction), each of them once and in order; 1 still waits."),
    "a tombstone that is gone": (
        [("append", {"first": 0, "last": 9, "values": ["x"] * 9 + [None]}), START, ("pass", {"to": 10}), *each("process", range(9)),
         ("purge", {"offsets": [9]}), *written(10)], {"delete_retention_ms": 5},
        "9 of 10 records were processed: 1 lost. Explained by delete.retention.ms=5: that long after "
        "it was cleaned, a tombstone may be removed."),
    "an explained anomaly with its setting": (
        [APPEND, START, *each("process", range(10)), *each("fail", [9]), *each("process", [9])], {},
        "10 of 10 records were processed: 1 duplicated. Explained by at-least-once delivery: a record may be delivered again."),
    "a violation": (
        [APPEND, START, *each("process", range(1, 10)), *written(10)], {},
        "9 of 10 records were processed: 1 lost. Violation of the promise that no record is lost; no setting explains it."),
    "a clearing beyond its bound": (
        [APPEND, START, ("clear", {"ranges": [[0, 9]], "by": 14}), *written(10)], {"max_offset_behind": 5},
        "0 of 10 records were processed: 10 lost. Violation of the promise that no record is lost; no setting explains 1 of 10."),
    "a clearing in a run without the setting, which has no bound either": (
        [APPEND, START, ("clear", {"ranges": [[0, 9]], "by": 14}), *written(10)], {},
        "0 of 10 records were processed: 10 lost. Violation of the promise that no record is lost; no setting explains it."),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_sentence_says_what_happened(case: str) -> None:
    """One sentence: how many of how many, then each anomaly with its mark, or that there is none."""
    story, knobs, sentence = SENTENCES[case]
    verdict = told(story, **knobs)
    assert verdict.sentence == sentence
    assert max(map(len, repr(verdict).splitlines())) <= 110
    by_mark = {mark: [kind for kind, told in verdict.reasons.items() if told == mark] for mark in verdict.reasons.values()}
    reasons = [f"{' and '.join(kinds)}: {mark}" for mark, kinds in by_mark.items()]
    assert " ".join(repr(verdict).split()) == " ".join([verdict.sums, *reasons] if len(verdict.reasons) > 1 else [sentence])


def test_append_with_parts_for_other_records_is_refused() -> None:
    """A trace whose append says how many parts some of its records have, but not all, cannot be judged."""
    with pytest.raises(TraceError, match=r"step 0: append to events-0 has parts for 2 records, expected 10"):
        told([("append", {"first": 0, "last": 9, "parts": [1, 2]})])


def test_to_json_holds_everything_a_script_needs() -> None:
    """The JSON form has the sums, the marks and each partition's anomalies, and is made of JSON values only."""
    verdict = told([APPEND, START, *each("process", [0]), *each("fail", [0]), *each("process", [0])])
    told_json = json.loads(json.dumps(verdict.to_json()))
    assert told_json["counts"] == verdict.counts and list(told_json["counts"]) == list(ANOMALIES)
    assert (told_json["appended"], told_json["processed"], told_json["late_ms"]) == (10, 1, 20)
    assert told_json["sentence"] == verdict.sentence and told_json["violations"] == []
    assert told_json["partitions"][0]["anomalies"]["duplicated"] == {
        "count": 1, "witness": 4, "offset": 0, "reason": "at-least-once delivery: a record may be delivered again", "unexplained": 0,
    }  # fmt: skip


def test_html_of_a_hostile_reason_is_escaped() -> None:
    """What a trace says reaches the page as text."""
    evil = "<script>alert(1)</script>"
    verdict = told([APPEND, ("start", {"offset": 10, "why": evil})])
    assert evil in verdict.sentence
    assert "<script>" not in verdict._repr_html_() and "&lt;script&gt;" in verdict._repr_html_()
