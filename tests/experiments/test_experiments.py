"""Experiments on the model, whatever they claim (`test_claims`): forks, seeds and the cut."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from kitlib import experiments
from kitlib.errors import KnobError, TraceError
from kitlib.experiments import every, get
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.idempotence.producer_run import ProducerRun
from kitlib.experiments.replication.replication_run import ReplicaRun
from kitlib.experiments.send_path.send_run import SendRun
from kitlib.experiments.storm import spout_run
from kitlib.experiments.storm.spout_run import SpoutRun
from kitlib.experiments.storm.tree_stories import TopologyStory
from kitlib.experiments.transactions.transaction_run import TransactionRun
from kitlib.mechanisms.partition_manager import SpoutConfig
from kitlib.monitor.delivery import Verdict, judge
from kitlib.trace import Trace, from_ranges
from tests.experiments.knob_values import counted, own_run, with_any_knobs


@pytest.mark.parametrize("seed", range(1, 6))
def test_experiment_headlines_do_not_depend_on_luck(seed: int) -> None:
    """Whatever the seed, the happy path is whole, the poison record is the only one missing, and a redeploy at the latest loses."""
    assert counted(get("happy_path").run(seed=seed), "reordered") == {}
    poison = judge(get("poison_record").run(seed=seed))
    assert poison.processed == 39 and poison.counts["lost"] == 0 and poison.counts["stalled"] >= 1
    redeploy = get("restart").run(seed=seed, same_topology_id=False, force_from_start=True, start_offset_time="latest")
    assert judge(redeploy).counts["lost"] > 0 and judge(redeploy).violations == ()


A1 = list(itertools.product((True, False), (True, False), ("earliest", "latest")))


def restart_knobs(same: bool, forced: bool, time: str) -> dict[str, Any]:
    return {"same_topology_id": same, "force_from_start": forced, "start_offset_time": time, "records_while_down": 50}


@pytest.mark.parametrize(("same", "forced", "time"), A1)
def test_restart_eight_futures_only_a_forced_redeploy_asks_the_settings(same: bool, forced: bool, time: str) -> None:
    """A crash goes on from the stored offset whatever the settings; a forced redeploy replays all, or loses what was not done."""
    found = counted(get("restart").run(**restart_knobs(same, forced, time)), "reordered")
    if same or not forced:
        assert found == {"duplicated": 1}
    elif time == "earliest":
        assert found == {"duplicated": 21, "rewound": 1}
    else:
        assert found == {"lost": 69, "skipped": 59}


@pytest.mark.parametrize("knobs", [{}, {"stuck_offset": 5}, {"process_ms": 1_000}], ids=["drained", "stuck", "slow"])
@pytest.mark.parametrize("crash_at_ms", [45, 400, 1_000])
def test_restart_crash_comes_when_its_knob_says(knobs: dict[str, Any], crash_at_ms: int) -> None:
    """The worker dies at crash_at_ms, also when everything that could be done was done long before."""
    trace = get("restart").run(crash_at_ms=crash_at_ms, **knobs)
    assert [step.at_ms for step in trace if step.what == "crash"] == [crash_at_ms]


def test_happy_path_bolt_slower_than_many_commits_processes_every_record() -> None:
    """A run is not over while a tuple is in flight, however many commits had nothing new to write."""
    assert judge(get("happy_path").run(process_ms=1_000)).processed == 40


def test_retry_with_backoff_retry_planned_after_many_commits_still_comes() -> None:
    """A run is not over while a retry is planned: each of the waits of 50, 100, 200 and 400 ms ends within 1,500 ms."""
    trace = get("retry_with_backoff").run(retry_limit=-1)
    assert trace.steps[-1].state["retries"] == 4


@pytest.mark.parametrize("release", ["0.9.2", "0.9.3"])
def test_failed_offset_deleted_every_reset_names_the_offset_that_was_asked_for(release: str) -> None:
    """The offset out of range is the failed one, and not the position, which lies within the log."""
    resets = [step for step in get("failed_offset_deleted").run(release=release) if step.what == "reset"]
    assert len(resets) > 90 and {step.data["asked"] for step in resets} == {5}


FORCED = {"force_from_start": True}


@pytest.mark.parametrize("knobs", [{}, FORCED, FORCED | {"start_offset_time": "latest"}], ids=str)
@pytest.mark.parametrize("name", [each for each in experiments.names() if experiments.get(each).kind in (SpoutRun, TopologyStory)])
def test_start_without_a_stored_offset_lies_where_the_knobs_say(name: str, knobs: dict[str, Any]) -> None:
    """A start that says "no stored offset" lies at `configured_offset()`: what the knobs shown name, or else the earliest offset."""
    trace = experiments.run(name, **{knob.name: knobs[knob.name] for knob in experiments.get(name).knobs if knob.name in knobs})
    shown = {"force_from_start": True, "start_offset_time": "earliest"} | trace.settings
    end = "log_start" if shown["force_from_start"] and shown["start_offset_time"] == "earliest" else "log_end"
    starts = [step for step in trace if step.what == "start" and step.data["why"] == "no stored offset"]
    assert [step.data["offset"] for step in starts] == [step.state[end] for step in starts]


# The others are in test_producers.py, test_groups.py, test_transactions.py and test_sends.py.
ELSEWHERE = (ReplicaRun, ProducerRun, GroupRun, TransactionRun, SendRun)
DELIVERING = [name for name in experiments.names() if not issubclass(get(name).kind, ELSEWHERE)]

WITHOUT_CHANCE = (  # every seed gives the same run
    "zookeeper_group", "connect_layouts", "connect_worker_lost", "connect_source_crash", "streams_tasks",
    "streams_failover", "streams_thread_lost", "streams_queries", "partitions_added", "compacted_topic", "tombstones",
    "stale_offset", "dead_cleaner", "offset_expiry", "coordinator_moves",
    "checkpoint_kill",
)  # fmt: skip
WITH_CHANCE = ("worker_pool", "two_sends")  # of the others, those in which the seed decides something


@pytest.mark.parametrize("name", DELIVERING)
def test_experiment_any_knobs_gives_a_trace_that_holds_together(name: str) -> None:
    """Whatever the knobs, a trace has all of them, and its states agree with its steps."""

    def check(trace: Trace, verdict: Verdict) -> None:
        assert trace.settings == {knob.name: trace.settings[knob.name] for knob in get(name).knobs}
        processed: dict[tuple[str, int], set[int]] = {}
        for step in trace:
            topic, state = step.data.get("topic"), step.state
            lane = (str(topic), step.data.get("partition", 0))
            if topic is None:  # a step inside of a topology is about no partition
                continue
            if step.what == "process":
                processed.setdefault(lane, set()).add(step.data["offset"])
            assert from_ranges(state["processed"]) == sorted(processed.get(lane, ()))
            assert 0 <= state["log_start"] <= state["log_end"]
            if step.what == "commit":
                assert state["committed_to"] == step.data["offset"]
            if step.what == "emit":
                assert step.data["offset"] < state["log_end"]

    with_any_knobs(name, 12, check)


@pytest.mark.parametrize("name", experiments.names())
def test_run_same_seed_gives_the_same_trace_and_another_seed_another(name: str) -> None:
    """A run is decided by its knobs and its seed: the same ones give the same lines."""
    first, again, other = own_run(name), get(name).run(), get(name).run(seed=8)
    assert list(first.to_json_lines()) == list(again.to_json_lines())
    has_chance = name in WITH_CHANCE or (name in DELIVERING and name not in WITHOUT_CHANCE)
    assert (other.steps != first.steps) is has_chance


@pytest.mark.parametrize("steps", [10, 57])
@pytest.mark.parametrize("name", experiments.names())
def test_run_cut_at_max_steps_is_a_beginning_of_the_whole(name: str, steps: int) -> None:
    """max_steps cuts the trace, whose last step says so, and changes nothing before the cut."""
    whole = own_run(name)
    cut = get(name).run(max_steps=steps)
    if len(whole) < steps - 1:
        assert (cut.steps, cut.cut_at, judge(cut).cut_at) == (whole.steps, None, None)
        return
    assert cut.steps[:-1] == whole.steps[: steps - 1] and (len(cut), cut.cut_at) == (steps, steps)
    last, before = cut.steps[-1], cut.steps[-2]
    assert (last.actor, last.what, last.data) == ("run", "halt", {"max_steps": steps})
    assert (last.at_ms, last.state) == (before.at_ms, before.state)


@pytest.mark.parametrize("name", experiments.names())
def test_verdict_on_a_run_that_is_cut_says_so_and_finds_no_violation_of_its_own(name: str) -> None:
    """Wherever a run is cut, the verdict says that it was, and calls nothing a violation that the whole run does not."""
    whole = own_run(name)
    known = set(judge(whole).violations)
    for steps in {10, 14, *range(17, min(len(whole), 400), 9)}:
        if steps <= len(whole):
            last = replace(whole.steps[steps - 2], number=steps - 1, actor="run", what="halt", data={"max_steps": steps})
            verdict = judge(replace(whole, steps=[*whole.steps[: steps - 1], last]))  # as the test above says of real ones
            assert verdict.sentence.startswith(f"The run was cut at max_steps={steps}, so the rest of its story is missing; ")
            assert verdict.to_json()["cut_at"] == steps and set(verdict.violations) <= known, verdict.sentence


def test_record_in_flight_at_the_cut_is_unfinished_and_not_lost() -> None:
    """A pool's records that a commit has passed are not lost while a worker still has them; the sentence counts them."""
    cut = get("worker_pool").run(max_steps=120)
    whole = judge(replace(cut, steps=cut.steps[:-1]))
    assert whole.counts["lost"] > 0 == judge(cut).counts["lost"]
    assert f"; {judge(cut).appended - judge(cut).processed} unfinished." in judge(cut).sentence


def test_fork_of_a_run_that_was_cut_is_cut_too() -> None:
    """Any step but the last can be forked; at the last one, which cut the run, nothing can follow."""
    parent = get("happy_path").run(max_steps=50)
    assert get("happy_path").fork(parent, 48).steps == parent.steps
    fork = get("happy_path").fork(parent, 20, fail_percent=50)
    assert fork.cut_at == 50 and fork.steps[:21] == parent.steps[:21] and fork.steps != parent.steps
    with pytest.raises(TraceError, match="step 49 is the last one, so a fork there would change nothing"):
        get("happy_path").fork(parent, 49)


# Experiment -> a live knob and a value that makes another future.
OTHER_FUTURES: dict[str, dict[str, Any]] = {
    "happy_path": {"fail_percent": 50}, "small_max_offset_behind": {"max_offset_behind": 1_000},
    "poison_record": {"poison_offset": -1}, "retry_with_backoff": {"retry_limit": 1}, "out_of_range": {"process_ms": 5},
    "restart": {"commit_every_ms": 500}, "same_id_other_topic": {"max_spout_pending": 1}, "several_tuples": {"fail_offset": 19},
    "uncommitted_cap": {"process_ms": 5}, "failed_offset_deleted": {"process_ms": 5}, "tuple_tree": {"fail_percent": 50},
    "bolt_crash": {"execute_ms": 25}, "reliability_off": {"lose_percent": 0}, "livelock": {"max_spout_pending": 100},
    "word_count": {"lose_percent": 50}, "answers_lost": {"delay_ms": 400}, "broker_restart": {"delay_ms": 400},
}  # fmt: skip


def test_spout_is_constructed_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spout's live settings are there when its configuration is made; a fork changes them later."""
    made: list[dict[str, Any]] = []

    def construct(**settings: Any) -> SpoutConfig:
        made.append(settings)
        return SpoutConfig(**settings)

    monkeypatch.setattr(spout_run, "SpoutConfig", construct)
    get("out_of_range").run(max_offset_behind=7, use_start_offset_time_if_offset_out_of_range=False)
    wanted = {"max_offset_behind": 7, "use_start_offset_time_if_offset_out_of_range": False}
    assert made and all(settings | wanted == settings for settings in made)


FORKABLE = [name for name in experiments.names() if any(knob.live for knob in get(name).knobs)]


@pytest.mark.parametrize("name", OTHER_FUTURES)
def test_fork_keeps_the_past_and_changes_the_future(name: str) -> None:
    """Up to the fork's step the traces are equal, step by step; after it the changed knob rules; the parent stays as it was."""
    parent = own_run(name)
    lines, at = list(parent.to_json_lines()), 20
    fork = get(name).fork(parent, at, **OTHER_FUTURES[name])
    assert fork.steps[: at + 1] == parent.steps[: at + 1] and fork.steps != parent.steps
    assert fork.parent == {"run": parent.run, "at": at}
    assert fork.settings == parent.settings | OTHER_FUTURES[name]
    assert list(parent.to_json_lines()) == lines


@pytest.mark.parametrize("name", FORKABLE)
def test_fork_without_a_change_is_the_same_run(name: str) -> None:
    """A fork that changes nothing meets the same luck and goes the same way."""
    parent = own_run(name)
    assert get(name).fork(parent, len(parent) // 2).steps == parent.steps


def test_fork_of_a_fork_is_refused() -> None:
    """A fork's past has two sets of knobs; it says to fork the run that it came from."""
    fork = get("happy_path").fork(own_run("happy_path"), 30, fail_percent=50)
    with pytest.raises(KnobError, match=r"is a fork already\. Fork the run that it came from\."):
        get("happy_path").fork(fork, 40)


def test_fork_of_another_experiments_run_is_refused() -> None:
    """A story cannot be gone on with by another story."""
    with pytest.raises(KnobError, match=r"poison_record: run happy-path-model-1 is one of happy_path\."):
        get("poison_record").fork(own_run("happy_path"), 5)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"records": 5}, r"happy_path: records cannot change in the middle of a run, expected one of .*fail_percent"),
        ({"max_steps": 50}, "max_steps cannot change in the middle"),
        ({"release": "1.1.0"}, "release cannot change in the middle"),
        ({"nonsense": 5}, "nonsense cannot change in the middle"),
        ({"fail_percent": 101}, r"fail_percent is 101, expected 0 to 100 %"),
        ({"fail_percent": True}, r"fail_percent is True, expected 0 to 100 %"),
    ],
)
def test_fork_with_a_bad_knob_is_refused(knobs: dict[str, Any], words: str) -> None:
    """Only a live knob may change at a fork, and only to a value in its range."""
    with pytest.raises(KnobError, match=words):
        get("happy_path").fork(own_run("happy_path"), 5, **knobs)


@pytest.mark.parametrize("at", [-1, 10**6])
def test_fork_at_a_step_that_there_is_not_is_refused(at: int) -> None:
    """A fork begins at a step of the trace."""
    with pytest.raises(TraceError, match=f"there is no step {at}"):
        get("happy_path").fork(own_run("happy_path"), at)


def test_fork_at_the_last_step_is_refused_with_the_steps_to_fork_at() -> None:
    """Nothing follows the last step, so a fork there would have only dead knobs."""
    parent = own_run("happy_path")
    last = len(parent) - 1
    words = f"happy_path: step {last} is the last one, .* Go back to one of the steps 0 to {last - 1} and fork there"
    with pytest.raises(TraceError, match=words):
        get("happy_path").fork(parent, last, fail_percent=50)


@pytest.mark.parametrize("name", sorted({*experiments.names()} - {*FORKABLE}))
def test_fork_of_a_story_without_live_knobs_is_refused(name: str) -> None:
    """Where no knob can change in the middle of a run, a fork cannot change anything."""
    with pytest.raises(KnobError, match=f"{name}: all of its knobs shape a run from its first step"):
        get(name).fork(get(name).run(max_steps=20), 2)


def test_experiments_are_named_asked_and_documented() -> None:
    """Every experiment has a title, a question for the learner, and knob names that occur once."""
    assert experiments.names() == [experiment.name for experiment in every()]
    for experiment in every():
        assert experiment.question.endswith("?") and experiment.title and experiment.title in repr(experiment)
        assert len({knob.name for knob in experiment.knobs}) == len(experiment.knobs)


@pytest.mark.parametrize("name", ["bolt_crash", "acker_crash", "spout_crash"])
def test_a_task_dies_when_its_knob_says_so_also_after_all_is_done(name: str) -> None:
    """The knob acts over its whole range: a story that has settled waits for its crash."""
    trace = get(name).run(crash_at_ms=5_000)
    assert [step.at_ms for step in trace if step.what == "crash"] == [5_000]


def test_registry_loads_no_story_before_it_is_asked_for() -> None:
    """`import kitlib.experiments` loads at most 40 of our modules, and the story of none."""
    program = "import sys, kitlib.experiments; print(*[name for name in sys.modules if name.startswith('kitlib')])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = answer.stdout.split()
    assert len(loaded) <= 40 and not [name for name in loaded if name.endswith(("_run", "stories", "_story"))]
