"""What the lag rules say in words, and what they cannot see."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.mechanisms.lag import (
    RULES,
    Commit,
    Status,
    Window,
    calculate,
    evaluate,
    evaluate_group,
)

START_S = 1_700_000_000


def window(
    *offsets: int,
    end: int = 1_000,
    every_s: int = 60,
    silent_s: int = 10,
    lags: list[int | None] | None = None,
    ends: tuple[int, ...] | None = None,
    allowed_lag: int = 0,
) -> Window:
    """Commits of these offsets, `every_s` apart, looked at `silent_s` after the last; the log's end is `end`."""
    known = lags or [end - each for each in offsets]
    commits = [
        Commit(each, (START_S + index * every_s) * 1000, lag)
        for index, (each, lag) in enumerate(zip(offsets, known, strict=True))
    ]
    now_s = START_S + (len(offsets) - 1) * every_s + silent_s
    return Window(commits, (end,) if ends is None else ends, max(0, end - offsets[-1]), now_s, allowed_lag)


WHYS = [
    (window(900, 1_000), "no lag", Status.OK, "the lag is 0, and up to 0 counts as none"),
    (window(900, 950, allowed_lag=50), "no lag", Status.OK, "the lag is 50, and up to 50 counts as none"),
    (
        window(100, 200, silent_s=61),
        "stopped",
        Status.STOP,
        "the last commit is 61 s old, which is longer than the 60 s that the window spans, with a lag of 800",
    ),
    (
        window(900, 950, 20, 30),
        "rewound",
        Status.REWIND,
        "commit 3 of 4 went back from 950 to 20, and none has reached 950 since",
    ),
    (
        window(100, 200, 300, lags=[0, 5, 9]),
        "caught up once",
        Status.OK,
        "commit 1 of 3 had a lag of 0, and up to 0 counts as none",
    ),
    (window(777, 777, 777), "stalled", Status.STALL, "all 3 commits are of offset 777, with a lag of 223"),
    (window(777, silent_s=0), "stalled", Status.STALL, "the only commit is of offset 777, with a lag of 223"),
    (
        window(100, 200, lags=[5, 9]),
        "slow",
        Status.WARN,
        "the lag never shrinks from one commit to the next: 5 at first, 9 at last",
    ),
    (
        window(100, 200, lags=[None, None]),
        "slow",
        Status.WARN,
        "none of the 2 commits has a known lag, so none is seen to shrink; it is 800 now",
    ),
    (
        window(100, 200),
        "behind and moving",
        Status.OK,
        "there is a lag of 800, and it has shrunk within the window",
    ),
]


@pytest.mark.parametrize(("given_", "rule", "status", "why"), WHYS, ids=[f"{why[1]}: {why[3]}" for why in WHYS])
def test_rule_that_applies_is_told_with_its_numbers(given_: Window, rule: str, status: Status, why: str) -> None:
    """Whoever is woken at night is told which rule it was, and by which numbers."""
    found = calculate(given_)
    assert (found.rule, found.status, found.why) == (rule, status, why)
    assert str(evaluate(given_)) == f"{status.name}: {why} (window 100% full)"


def test_every_rule_can_be_the_answer() -> None:
    """No rule stands behind one that always applies before it."""
    assert {rule for _, rule, _, _ in WHYS} == {rule.name for rule in RULES}


def test_window_that_is_not_full_enough_is_not_judged() -> None:
    """A share of exactly minimum_complete is enough, in 32 bits as Burrow reckons it."""
    stalled = window(7, 7, 7)
    slots = Window([*[None] * 7, *stalled.commits], stalled.log_ends, stalled.current_lag, stalled.now_s)
    assert (evaluate(slots, 0.3).status, evaluate(slots, 0.31).status) == (Status.STALL, Status.OK)
    assert evaluate(slots, 0.31).judgement.why == "only 3 of 10 slots are filled, less than a share of 0.31"
    assert evaluate(Window([], (), 9, 0)).judgement.why == "there is no window to judge by"


def test_group_is_as_well_as_its_worst_partition() -> None:
    """STOP, STALL and REWIND are all ERR for a group; completeness counts full windows only."""
    fine, bad, half = window(900, 1_000), window(7, 7), window(5)
    slots = Window([None, *half.commits], half.log_ends, 0, half.now_s)
    found = evaluate_group({("t", 0): fine, ("t", 1): bad, ("t", 2): slots})
    assert (found.status, round(found.complete, 4), found.total_lag, found.max_lag) == (
        Status.ERR,
        0.6667,
        993,
        ("t", 1),
    )
    assert evaluate_group(None).status is Status.NOTFOUND
    assert (evaluate_group({}).status, evaluate_group({}).complete, evaluate_group({}).max_lag) == (
        Status.OK,
        0.0,
        None,
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.builds(Commit, st.integers(0, 9), st.integers(-9, 9).map(lambda s: s * 500), st.none() | st.integers(0, 9)),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.integers(0, 9), max_size=3),
    st.integers(0, 9),
    st.integers(-9, 9),
    st.integers(0, 3),
)
def test_every_window_has_one_answer_and_a_sentence(
    commits: list[Commit], ends: list[int], lag: int, now_s: int, allowed_lag: int
) -> None:
    """The first rule that applies; the rules before it said nothing."""
    given_ = Window(commits, ends, lag, now_s, allowed_lag)
    found = calculate(given_)
    names = [rule.name for rule in RULES]
    passed = [rule.answer(given_) for rule in RULES[: names.index(found.rule)]]
    assert found.why and all(why and not applies for applies, why in passed)
    assert lag > allowed_lag or found.status is Status.OK
