"""Frames: a trace made ready to be drawn, exact after every step and in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import TraceError
from kitlib.experiments import get, names
from kitlib.trace import Step, Trace, from_ranges
from kitlib.views.frames import to_frames
from kitlib.views.look import (
    ALARM,
    EXISTS,
    FAILED,
    IS_BELOW_COMMIT,
    IS_GONE,
    IS_READ,
    PENDING,
    PROCESSED,
    REFUSED,
    SKIPPED,
    TWICE,
    WAITING,
    badge_of,
    code_of,
)  # fmt: skip
from kitlib.views.partition.reader import MAX_SPAN
from kitlib.views.partition.strip import cells_of
from kitlib.words.word import place
from tests.views.traces import Spout, long_trace, some_steps_of, story


def brute_force(trace: Trace, number: int, name: str) -> dict[int, tuple[str, int]]:
    """The code and the badge of each offset after a step, by following one record at a time from the start."""
    steps = [
        s
        for s in trace.steps[: number + 1]
        if "topic" in s.data and "partition" in s.data and place(s.data, trace.run) == name
    ]
    state: dict[str, Any] = {}
    is_stored = False  # whether committed_to is what the store holds
    for step in steps:
        if step.what == "start" and "stored" in step.data:
            is_stored = step.data["stored"] == step.state["committed_to"]
        elif step.what != "start" and step.state.get("committed_to", 0) != state.get("committed_to", 0):
            is_stored = True
        state = {**step.state, "committed_to": step.state.get("committed_to", state.get("committed_to", 0))}
    lists = {name: set(from_ranges(state.get(name, []))) for name in ("pending", "failed", "waiting")}
    appended: dict[int, int] = {}
    parts: dict[int, int] = {}  # effects that a record should have, of records whose append says so
    for step in steps:
        if step.what == "append":
            offsets, told = step.data.get("offsets", range(step.data["first"], step.data["last"] + 1)), step.data.get("parts")
            for at, offset in enumerate(offsets):
                appended[offset] = step.number
                if told is not None:
                    parts[offset] = told[at] if isinstance(told, list) else told
    about: dict[int, list[Step]] = {}
    for step in steps:
        about.setdefault(step.data.get("offset", -1), []).append(step)
    moves = [step for step in steps if step.what in ("start", "reset", "compact", "purge", "cut")]
    codes = {}
    for offset, since in appended.items():
        mine = [s for s in about.get(offset, []) if s.number >= since]
        effects = [s.data.get("part") for s in mine if s.what == "process"]
        flags = EXISTS
        flags |= PROCESSED if len(set(effects)) >= parts.get(offset, 1) else 0
        flags |= TWICE if len(effects) > len(set(effects)) else 0
        for name, flag in (("pending", PENDING), ("failed", FAILED), ("waiting", WAITING)):
            flags |= flag if offset in lists[name] else 0
        for step in mine:
            if step.what == "fail" and step.data.get("retry") is False:
                flags |= REFUSED
            if step.what == "emit":
                flags &= ~REFUSED
        emits = [s.number for s in mine if s.what == "emit"]
        for step in moves:
            to = (
                step.data.get("offset")
                if step.what == "start"
                else step.data.get("to")
                if step.what == "reset"
                else None
            )
            if to is not None and since < step.number and offset < to and not [n for n in emits if n < step.number]:
                flags |= SKIPPED
            if step.what in ("compact", "purge") and since < step.number and offset in step.data["offsets"]:
                flags &= ~(EXISTS | REFUSED)
                flags |= REFUSED if step.what == "purge" and not flags & PROCESSED else 0
            if step.what == "cut" and since < step.number and offset >= step.data["to"]:
                flags &= ~(EXISTS | PROCESSED | TWICE | SKIPPED | REFUSED)
        flags |= IS_GONE if offset < state["log_start"] else 0
        flags |= IS_BELOW_COMMIT if offset < state.get("committed_to", 0) else 0
        flags |= IS_READ if offset < state.get("emitted_to_offset", state["committed_to"]) else 0
        code = code_of(flags)
        codes[offset] = code if is_stored else code.replace("C", "D"), badge_of(flags)
    return codes


def check(trace: Trace, numbers: list[int]) -> None:
    frames = to_frames(trace)
    for number in numbers:
        for view in frames.lanes_after(number):
            expected = brute_force(trace, number, view.lane.name)
            shown = enumerate(zip(view.codes.ljust(len(view.flags), "."), view.flags, strict=True), view.lane.base)
            found = {offset: (code, badge_of(flags)) for offset, (code, flags) in shown if offset in expected}
            assert found == expected, (number, frames.said[number])


@pytest.mark.parametrize("name", names())
def test_frames_of_each_experiment_agree_with_a_record_by_record_reading(name: str) -> None:
    """After any step of any experiment each record has the code that its own history gives it."""
    trace = some_steps_of(name, seed=2)
    check(trace, [0, *range(7, len(trace), 23), len(trace) - 1])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(20, 160), st.integers(0, 40), st.integers(0, 159))
def test_frames_of_random_runs_agree_with_a_record_by_record_reading(
    seed: int, steps: int, behind: int, at: int
) -> None:
    """The same for made-up runs with failures, clearings and losses."""
    check(long_trace(steps, seed, records=50, behind=behind), [min(at, steps - 1), steps - 1])


def test_a_refused_record_that_is_emitted_again_is_pending_again() -> None:
    """A failure that was not retried stays so until a restart hands the record out once more."""
    spout = Spout(behind=0)
    spout.append(3)
    spout.start(0)
    spout.emit()
    spout.fail(0)
    spout.start(0)
    spout.emit()
    frames = to_frames(spout.trace)
    codes = [frames.lanes_after(at)[0].codes[0] for at in range(len(frames))]
    assert "".join(codes) == "UUPNUP"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000))
def test_views_in_turn_are_those_that_a_jump_leads_to(seed: int) -> None:
    """Read from the first step to the last, a lane looks at each step as it does when only that step is asked for."""
    frames = to_frames(long_trace(200, seed, records=60))
    views = dict(frames.lanes[0].views())
    for step in range(len(frames)):
        views.setdefault(step, views.get(step - 1))
        assert views[step] == frames.lanes[0].after(step)


def test_frames_count_lag_pending_and_retries() -> None:
    """The curves are the state's own numbers, summed over the partitions."""
    trace = get("same_id_other_topic").run()
    frames = to_frames(trace)
    last: dict[str, dict[str, Any]] = {}
    for step in trace.steps:
        before = last.get(step.data["topic"], {"committed_to": 0, "retries": 0})
        last[step.data["topic"]] = {**before, "pending": [], **step.state}
        assert frames.lag[step.number] == sum(s["log_end"] - s["committed_to"] for s in last.values())
        held = [{*from_ranges(s.get("waiting", [])), *from_ranges(s.get("failed", []))} for s in last.values()]
        in_flight = [{*from_ranges(s["pending"])} - waits for s, waits in zip(last.values(), held, strict=True)]
        assert frames.in_flight[step.number] == sum(map(len, in_flight))
        assert frames.retries[step.number] == sum(s["retries"] for s in last.values())


def test_window_contains_the_record_of_the_step() -> None:
    """The close-up always shows the record that the step is about."""
    frames = to_frames(long_trace(600, records=300))
    for step in range(len(frames)):
        view = frames.lanes[0].after(step)
        assert view.current < 0 or 0 <= view.current - view.at.window < view.lane.boxes, frames.said[step]


def test_frames_of_a_huge_jump_stay_small() -> None:
    """A log of seven million records, jumped over in one step, is a handful of toggles."""
    trace = Trace("jump", "jump")
    end = 6_825_674 + 200
    place = {"topic": "big", "partition": 3}
    trace.record(0, "log", "append", **place, first=100, last=end - 1)
    state = {"log_start": 100, "log_end": end, "committed_to": end, "emitted_to_offset": end}
    trace.record(1, "spout", "start", **place, offset=end, stored=120, why="too far behind", state=state)
    frames = to_frames(trace)
    assert [len(moment.toggles) for moment in frames.lanes[0].moments] == [1, 1]
    codes = frames.lanes[0].after(1).codes
    assert codes.count("S") == len(codes) == end - 100
    assert cells_of(codes, 120) == [(0, len(codes), "S")]


def test_frames_of_an_impossible_span_are_bounded() -> None:
    """A log that claims 2^62 records is drawn by its newest ones, in bounded memory."""
    trace = Trace("huge", "huge")
    trace.record(0, "log", "append", topic="t", partition=0, first=0, last=2**62)
    lane = to_frames(trace).lanes[0]
    assert lane.end - lane.base == MAX_SPAN


BAD = [
    ("append", {"first": "x", "last": 3}),
    ("append", {}),
    ("process", {"offset": [1]}),
    ("compact", {"offsets": 7}),
    ("emit", {}),
]


@pytest.mark.parametrize(("what", "data"), BAD, ids=str)
def test_frames_of_broken_data_raise_a_trace_error(what: str, data: dict[str, Any]) -> None:
    """A step whose data are not what its word needs is a TraceError that says what to do."""
    trace = Trace("bad", "bad")
    trace.record(0, "log", "append", topic="t", partition=0, first=0, last=5)
    trace.steps.append(Step(len(trace), 0, "x", what, {"topic": "t", "partition": 0} | data))
    with pytest.raises(TraceError, match="Record the trace again"):
        to_frames(trace)


def test_unknown_words_are_told_and_change_nothing() -> None:
    """A word that no picture knows is told as it stands."""
    trace = Trace("new", "new")
    trace.steps.append(Step(0, 0, "acker", "tick", {"colour": "<b>"}))
    frames = to_frames(trace)
    assert frames.said == ["acker: tick colour <b>"]
    assert frames.lanes == []


def test_every_word_of_the_experiments_has_a_sentence() -> None:
    """All words that occur are told as sentences, none as raw data."""
    traces = [*map(some_steps_of, names()), story()]
    told = [(step, said) for trace in traces for step, said in zip(trace, to_frames(trace).said, strict=True)]
    assert {step.what for step, said in told if said.startswith(f"{step.actor}: {step.what}")} == set()


def test_lane_of_a_real_topic_is_named_without_the_run() -> None:
    """A topic on the real broker carries the run's name; the picture leaves it out, so that runs can be compared."""
    trace = Trace("happy-path-5b956fc0", "happy_path", "kafka")
    trace.record(0, "log", "append", topic="kit.happy-path-5b956fc0.events", partition=0, first=0, last=3)
    assert to_frames(trace).lanes[0].name == "events, partition 0"


def test_cells_show_the_most_alarming_code() -> None:
    """One lost record among many committed ones is never averaged away."""
    cells = cells_of("C" * 500 + "X" + "C" * 499, 100)
    assert [code for *_, code in cells] == ["C", "X", "C"] and cells[0][0] == 0 and cells[-1][1] == 1000
    assert ALARM.startswith("X")
