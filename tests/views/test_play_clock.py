"""The time axis of a run, and the marks on it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.experiments import get, names
from kitlib.monitor.delivery import judge
from kitlib.views.frames import to_frames
from kitlib.views.play_clock import BREAK_S, PAUSE_S, Mark, duration, events, marks_of, pauses, play_clock, signs_of
from kitlib.words import DOMAINS


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60).map(sorted))
def test_each_step_lies_after_the_one_before(at_ms: list[int]) -> None:
    """Whatever the times are, places rise, breaks lie between two steps, and each is as long as that silence."""
    clock = play_clock(at_ms)
    assert all(before < after for before, after in pairwise(clock.places))
    gaps = dict(zip(pairwise(clock.places), (b - a for a, b in pairwise(at_ms)), strict=True))
    for gap in clock.breaks:
        assert [ms for (before, after), ms in gaps.items() if before <= gap.start < gap.end <= after + 1e-9] == [gap.ms]
    assert clock.length > clock.places[-1]


def test_time_is_in_proportion_between_breaks() -> None:
    """Ten milliseconds are ten times as wide as one, besides the room that each step has of its own."""
    clock = play_clock([0, 10, 11, 21, 22, 32, 33, 43])
    wide, narrow = clock.places[1] - clock.places[0], clock.places[2] - clock.places[1]
    step = play_clock([0] * 8).places[1]
    assert (wide - step) / (narrow - step) == pytest.approx(10)


def test_long_silence_is_a_break_with_its_length() -> None:
    """A wait of 298 s among milliseconds takes a break's room and says how long it was."""
    clock = play_clock([0, 5, 10, 15, 20, 25, 298_025, 298_030, 298_035])
    (gap,) = clock.breaks
    assert (gap.label, round(gap.end - gap.start, 6)) == ("298 s", BREAK_S)


def test_waits_of_one_length_are_no_breaks() -> None:
    """What recurs is no silence: ten waits of ten minutes are in proportion."""
    assert play_clock([600_000 * n for n in range(11)]).breaks == []


def test_steps_at_one_time_are_equally_wide() -> None:
    """Where no time passes the axis counts steps, and has no times to tell."""
    clock = play_clock([0] * 5)
    assert len({round(b - a, 9) for a, b in pairwise(clock.places)}) == 1
    assert clock.labels() == []


def test_clock_stands_still_where_something_dies() -> None:
    """The step after a pause comes later by its length; too many pauses are none."""
    plain, paused = play_clock([0] * 9), play_clock([0] * 9, [4])
    assert paused.places[5] - plain.places[5] == pytest.approx(PAUSE_S)
    assert play_clock([0] * 99, range(40)).places == play_clock([0] * 99).places


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "0 ms"),
        (85, "85 ms"),
        (2_500, "2.5 s"),
        (298_000, "298 s"),
        (5_400_000, "90 min"),
        (129_600_000, "36 h"),
        (12 * 86_400_000, "12 d"),
    ],
)
def test_length_of_time_is_told_as_people_say_it(ms: int, told: str) -> None:
    """In milliseconds, seconds, minutes, hours or days, whichever is short."""
    assert duration(ms) == told


@pytest.mark.parametrize("domain", DOMAINS)
def test_marked_verbs_are_verbs_of_their_domain(domain: str) -> None:
    """The table of marks names no verb that the domain has not."""
    assert set(DOMAINS[domain].marks) <= set(DOMAINS[domain].words)


MARKED = {
    "restart": ["first reordered", "crash", "restart", "first duplicated"],
    "small_max_offset_behind": ["clear", "first stalled", "first lost"],
    "poll_too_late": ["time-out", "first duplicated"],
    "unclean_election": ["crash", "no leader", "restart", "unclean election", "log cut", "first lost"],
}


@pytest.mark.parametrize("name", MARKED)
def test_marks_say_what_is_worth_jumping_to(name: str) -> None:
    """A run's crash, restart, reset, clear and time-outs are marked, and the first step of each anomaly."""
    trace = get(name).run()
    told = [mark.name for mark in marks_of(trace, judge(trace))]
    assert [name for name in dict.fromkeys(told) if name in MARKED[name_of(trace)]] == MARKED[name_of(trace)]


def name_of(trace: object) -> str:
    return str(trace.experiment)  # type: ignore[attr-defined]


def test_first_start_is_no_restart() -> None:
    """A run in which nothing dies has no restart, although its spout starts."""
    trace = get("happy_path").run()
    assert "restart" not in {mark.name for mark in events(trace)}


def test_fork_is_marked() -> None:
    """A forked run has a mark at the last step that it shares."""
    base = get("poison_record").run()
    fork = get("poison_record").fork(base, 60)
    assert Mark(60, "fork") in marks_of(fork, judge(fork))


@pytest.mark.parametrize("name", names())
def test_signs_stand_apart_and_keep_every_mark(name: str) -> None:
    """Marks that crowd are one sign, no label covers another one's, and no marked step is forgotten."""
    trace = get(name).run()
    clock, marks = to_frames(trace).clock, marks_of(trace, judge(trace))
    signs = signs_of(marks, clock)
    assert [step for sign in signs for step in sign["steps"]] == list(dict.fromkeys(mark.step for mark in marks))
    for before, after in pairwise(signs):
        assert clock.share(after["steps"][0]) - clock.share(before["steps"][0]) >= 0.0159
    assert len(signs) <= 63
    assert pauses(marks) == [mark.step for mark in marks if mark.name in ("crash", "exit", "broker lost", "restart")]
