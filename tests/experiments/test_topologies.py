"""What the stories about trees and crashes claim, on the model: the source's promises, whatever the luck."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.mechanisms.acker import false_completion_rate, years_to_false_completion
from kitlib.monitor.delivery import judge
from kitlib.trace import Step, Trace
from tests.experiments.knob_values import counted

SEEDS = range(1, 4)


def steps(trace: Trace, what: str) -> list[Step]:
    return [step for step in trace if step.what == what]


def is_whole(trace: Trace) -> bool:
    """Whether every record was processed in all its parts and nothing was lost or violated."""
    verdict = judge(trace)
    return verdict.processed == verdict.appended and not verdict.counts["lost"] and not verdict.violations


@pytest.mark.parametrize("knobs", [{}, {"join": True}, {"depth": 0}, {"depth": 4, "fan_out": 1}, {"topology_ackers": 5},
                                   {"id_bits": 64}, {"acker_release": "2.4.0"}, {"max_spout_pending": 1},
                                   {"transfer_jitter_ms": 500}])  # fmt: skip
@pytest.mark.parametrize("seed", SEEDS)
def test_tuple_tree_without_faults_acks_every_record_once(seed: int, knobs: dict[str, Any]) -> None:
    """With wide ids and nothing that fails, each record's tree is acked once, and only when no tuple of it is open."""
    trace = get("tuple_tree").run(seed=seed, **{"id_bits": 64} | knobs)
    assert counted(trace, "reordered") == {} and is_whole(trace)
    assert sorted(step.data["offset"] for step in steps(trace, "ack")) == list(range(6))
    assert {step.data["outstanding"] for step in steps(trace, "ack")} == {0}


@pytest.mark.parametrize("join", [False, True])
def test_tuple_tree_with_a_bolt_that_forgets_to_anchor_is_acked_before_its_last_tuples(join: bool) -> None:
    """What is sent unanchored is in no tree: the record is acked although those tuples are still on their way."""
    trace = get("tuple_tree").run(fault="unanchored", fault_nth=2, join=join, execute_ms=50)
    loose = [step for step in steps(trace, "send") if not step.data["ids"]]
    [fault] = [step for step in steps(trace, "fault") if step.data["kind"] == "unanchored"]
    assert loose and all(step.actor == fault.actor for step in loose) and is_whole(trace)


@pytest.mark.parametrize(("id_bits", "runs"), [(4, 6), (8, 12)])
def test_false_completions_are_as_many_as_predicted(id_bits: int, runs: int) -> None:
    """Over some runs the measured number of false completions lies within four standard deviations of the predicted one."""
    odds = [steps(get("false_completion").run(seed=seed, id_bits=id_bits), "odds")[0].data for seed in range(1, runs + 1)]
    measured, predicted = (sum(row[name] for row in odds) for name in ("false_completions", "predicted"))
    assert predicted > 50 and abs(measured - predicted) < 4 * predicted**0.5


def test_false_completion_loses_what_was_dropped_with_it() -> None:
    """A false completion costs a record only when a tuple of that tree is lost: the settings allow it, and some are lost."""
    trace = get("false_completion").run(id_bits=4)
    verdict = judge(trace)
    false = steps(trace, "odds")[0].data["false_completions"]
    assert 0 < verdict.counts["lost"] < false and verdict.violations == ()
    assert "id_bits=4" in verdict.first("lost").reason


def test_odds_give_the_sources_fifty_million_years() -> None:
    """64 bits and ten thousand acks a second: the source says 50 million years, the sum gives 58."""
    assert 50e6 < years_to_false_completion(64, 10_000) < 60e6
    assert false_completion_rate(64, 4) == 0.0 or false_completion_rate(64, 4) < 1e-18
    assert false_completion_rate(1, 1) == 0.5 and false_completion_rate(8, 0) == 0


OFF: dict[str, tuple[dict[str, Any], str]] = {
    "no ackers": ({"topology_ackers": 0}, "topology_ackers=0"),
    "no message ids": ({"topology_ackers": 1, "message_ids": False}, "message_ids=false"),
    "no anchors": ({"topology_ackers": 1, "anchored": False}, "anchored=false"),
}


@pytest.mark.parametrize("way", OFF)
@pytest.mark.parametrize("seed", SEEDS)
def test_reliability_off_loses_exactly_what_was_lost_on_the_way(seed: int, way: str) -> None:
    """Each of the three ways never replays: a record is lost if and only if one of its messages was, and the setting is named."""
    knobs, reason = OFF[way]
    trace = get("reliability_off").run(seed=seed, **knobs)
    verdict = judge(trace)
    assert verdict.counts["lost"] == verdict.appended - verdict.processed > 0
    assert verdict.counts["duplicated"] == 0 and verdict.violations == ()
    assert reason in verdict.first("lost").reason


@pytest.mark.parametrize("seed", SEEDS)
def test_reliability_on_loses_nothing_of_the_same(seed: int) -> None:
    """With all three on, the same lost messages cost time and duplicates, and no record."""
    trace = get("reliability_off").run(seed=seed, topology_ackers=1)
    assert is_whole(trace) and counted(trace, "reordered")["duplicated"] > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_reliability_without_time_outs_waits_for_ever(seed: int) -> None:
    """With timeouts off nothing is lost and nothing comes again: what lost a message stays pending, until nothing moves."""
    trace = get("reliability_off").run(seed=seed, topology_ackers=1, topology_enable_message_timeouts=False)
    verdict = judge(trace)
    assert verdict.counts["lost"] == verdict.counts["duplicated"] == 0 == len(steps(trace, "fail"))
    assert verdict.processed < verdict.appended and verdict.violations == ()
    assert max(step.at_ms for step in steps(trace, "emit")) < 10_000 < trace.steps[-1].at_ms


def test_livelock_with_few_tuples_on_their_way_wastes_nothing() -> None:
    """200 pending x 100 ms = 20 s, less than the timeout: each record is worked on once."""
    trace = get("livelock").run(max_spout_pending=200)
    last = steps(trace, "sample")[-1].data
    assert last["failed"] == last["late"] == last["wasted"] == 0 and last["acked"] > 2_300


def test_livelock_with_some_more_wastes_half_of_the_work() -> None:
    """450 pending x 100 ms = 45 s: whoever is emitted late between two ticks times out, and is worked on all the same."""
    last = steps(get("livelock").run(max_spout_pending=450, records=5_000), "sample")[-1].data
    assert 0.3 < last["wasted"] / last["executed"] < 0.6


@pytest.mark.parametrize("pending", [600, 1_000])
def test_livelock_with_too_many_stops_finishing_anything(pending: int) -> None:
    """600 pending x 100 ms = the longest timeout: after the first minute no tree is acked, and the bolt is busy as ever."""
    trace = get("livelock").run(max_spout_pending=pending, records=5_000)
    assert max(step.at_ms for step in steps(trace, "ack")) <= 120_000
    first, *_, last = (step.data for step in steps(trace, "sample") if step.at_ms >= 120_000)
    assert last["acked"] == first["acked"] < 650 and last["executed"] > first["executed"] + 1_000
    assert last["queue"] >= pending


@pytest.mark.parametrize("source", ["kafka", "kestrel"])
@pytest.mark.parametrize("name", ["bolt_crash", "acker_crash", "spout_crash"])
@pytest.mark.parametrize("seed", SEEDS)
def test_crash_loses_nothing(seed: int, name: str, source: str) -> None:
    """Whoever dies, and wherever the records come from: all of them are processed, some of them again."""
    trace = get(name).run(seed=seed, source=source, crash_at_ms=20 + 7 * seed)
    assert is_whole(trace) and len(steps(trace, "crash")) == len(steps(trace, "restart")) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_bolt_crash_replays_only_what_the_dead_task_held(seed: int) -> None:
    """The trees with a tuple in the dead task's hands, and no others, time out after 30 to 60 s and come again."""
    trace = get("bolt_crash").run(seed=seed)
    [crash] = steps(trace, "crash")
    failed = steps(trace, "fail")
    held = crash.data["lost"] + sum(step.data["kind"] == "lose" for step in steps(trace, "fault"))
    assert 0 < len(failed) <= held
    assert {step.data["why"] for step in failed} == {"timeout"} and min(step.at_ms for step in failed) >= 30_000


@pytest.mark.parametrize("seed", SEEDS)
def test_spout_crash_needs_no_time_out(seed: int) -> None:
    """The queue gives the open messages back when the connection breaks, so they come again as soon as a spout is there."""
    trace = get("spout_crash").run(seed=seed)
    [crash], [restart] = steps(trace, "crash"), steps(trace, "restart")
    before = {step.data["offset"] for step in steps(trace, "emit") if step.at_ms <= crash.at_ms}
    done = {step.data["offset"] for step in steps(trace, "ack") if step.at_ms <= crash.at_ms}
    again = [step for step in steps(trace, "emit") if step.data["attempt"] == 2]
    assert {step.data["offset"] for step in again} == before - done
    assert all(restart.at_ms <= step.at_ms < restart.at_ms + 5_000 for step in again) and not steps(trace, "fail")


@pytest.mark.parametrize("seed", SEEDS)
def test_spout_crash_on_a_topic_goes_back_to_the_stored_offset(seed: int) -> None:
    """A log gives nothing back: the new spout begins at the stored offset and does everything after it again."""
    trace = get("spout_crash").run(seed=seed, source="kafka")
    begun = steps(trace, "start")
    [crash] = steps(trace, "crash")
    stored = max((step.data["offset"] for step in steps(trace, "commit") if step.at_ms <= crash.at_ms), default=0)
    assert [step.data["offset"] for step in begun] == [0, stored]


@pytest.mark.parametrize("crash", ["none", "split", "count", "acker", "spout"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_word_count_never_counts_too_few_and_says_so(seed: int, crash: str) -> None:
    """At least once: each count is at least the truth, and what is too much is what the verdict calls duplicated."""
    trace = get("word_count").run(seed=seed, crash=crash)
    result = steps(trace, "result")[0].data
    extra = {word: result["counts"].get(word, 0) - count for word, count in result["truth"].items()}
    assert min(extra.values()) >= 0 and is_whole(trace)
    assert sum(extra.values()) == judge(trace).counts["duplicated"]


def test_word_count_without_faults_is_right() -> None:
    """When nothing fails, at least once is exactly once."""
    result = steps(get("word_count").run(fail_percent=0, lose_percent=0), "result")[0].data
    assert result["counts"] == result["truth"]


def test_word_count_without_ackers_counts_too_few() -> None:
    """At most once: a word lost on the way is missing from its count for ever."""
    trace = get("word_count").run(topology_ackers=0, lose_percent=10, fail_percent=0)
    result = steps(trace, "result")[0].data
    missing = sum(result["truth"].values()) - sum(result["counts"].values())
    assert missing == sum(step.data["kind"] == "lose" for step in steps(trace, "fault")) > 0


def test_word_count_cannot_crash_an_acker_that_it_has_not() -> None:
    """Without ackers none can die: a bad knob, told as one."""
    with pytest.raises(KnobError, match="there is no acker to kill"):
        get("word_count").run(topology_ackers=0, crash="acker")
