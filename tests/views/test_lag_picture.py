"""A window of commits as a picture: which rule fires, on what, and why the ones before it did not."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.lag import RULES, Commit, Status, Window, evaluate
from kitlib.views import draw_window
from kitlib.views.pictures.history import figure
from kitlib.views.scenes.timeline import FILLS
from tests.views.test_scene import texts

T0 = 1_700_000_000
UP = [100, 110, 120, 130]


def window(
    offsets: list[int | None], lags: list[int | None], *, silence_s: int = 5, ends: tuple[int, ...] = (1_000,), lag: int | None = None
) -> Window:
    """A commit every ten seconds; None is an empty slot."""
    commits = [
        None if offset is None else Commit(offset, (T0 + 10 * slot) * 1000, lags[slot], slot) for slot, offset in enumerate(offsets)
    ]
    now = T0 + 10 * (len(offsets) - 1) + silence_s
    last = next((each for each in reversed(offsets) if each is not None), 0)
    return Window(commits, ends, max(0, max(ends) - last) if lag is None else lag, now)


# What the window is like -> the window, the rule that fires, and why the rule before it does not.
CASES: dict[str, tuple[Window, str, str]] = {
    "nothing waits": (window(UP, [0] * 4, lag=0), "no lag", ""),
    "silence": (window(UP, [9] * 4, silence_s=60), "stopped", "no: the lag is 870, more than 0"),
    "a step back": (
        window([100, 90, 95, 98], [9] * 4), "rewound", "no: the last commit is 5 s old, not longer than the 30 s of the window"),
    "silence with an old log end": (
        window([100, 90, 95, 98], [9] * 4, silence_s=60, ends=(98, 900)), "rewound",
        "no: silent for 60 s, but a known log end (98) is not above its last commit"),
    "caught up": (window(UP, [9, 0, 9, 9]), "caught up once", "no: no commit is smaller than the one before it"),
    "a step back, made good, and one that nobody looks at": (
        window([100, 90, 120, 80], [9, 0, 9, 9]), "caught up once",
        "no: commit 2 went back, but commit 3 has reached 100 again; commit 4, which went back too, is never looked at"),
    "the same offset": (window([100] * 4, [9, 8, 7, 6]), "stalled", "no: the smallest known lag is 6, more than 0"),
    "the same offset, no lag known": (window([100] * 4, [None] * 4), "stalled", "no: no commit has a known lag"),
    "too slow": (window(UP, [6, 7, 8, 9]), "slow", "no: the commits differ, from 100 to 130"),
    "on its way": (window(UP, [9, 7, 8, 9]), "behind and moving", "no: at commit 2 the lag shrank from 9 to 7"),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_the_rule_that_fires_is_told_with_its_reason_and_the_ones_before_with_theirs(what: str) -> None:
    """All rules stand in their order; the fired one says why, those before it why not, those behind are not asked."""
    given, rule, why_not = CASES[what]
    judgement, picture = evaluate(given).judgement, draw_window(given)
    told = texts(picture.svg)
    place = [each.name for each in RULES].index(rule)
    assert f"rule: {rule}" in told and judgement.status.name in told and told.count("not asked") == len(RULES) - place - 1
    assert why_not in told.replace(" | ", " ") and repr(picture) == f"{judgement}."


def test_a_step_back_is_red_and_one_that_the_rules_never_look_at_is_dashed() -> None:
    """Only the first step back counts; the second has another line and says so."""
    svg = draw_window(window([100, 90, 120, 80], [9, 9, 9, 9])).svg
    assert svg.count("the commit goes back") == 1 and svg.count("the rules look at the first only") == 1
    assert "goes back" not in draw_window(window(UP, [9] * 4)).svg
    with_empty = draw_window(window([None, None, 100, 90], [None, None, 9, 9])).svg
    assert with_empty.count("the commit goes back") == 1, "empty slots in front do not move the place"


def test_empty_slots_unknown_lags_and_what_counts_as_none_are_seen() -> None:
    """Three kinds of lag: a bar, a question mark, a check; empty slots are dashes and numbered commits begin after them."""
    told = draw_window(window([None, 100, 110, 120], [None, None, 0, 7])).svg
    assert "empty slots" in told and ">?<" in told and "counts as none" in told and "3 of 4 slots" in told


def test_the_time_strip_says_how_long_and_when_clocks_disagree() -> None:
    """Silence and span in words; times that go back are no strip."""
    told = texts(draw_window(window(UP, [9] * 4, silence_s=60)).svg)
    assert "commits over 30 s" in told and "silent for 60 s, longer than that; now" in told
    back = Window([Commit(1, 9_000), Commit(2, 4_000)], [9], 7, 5)
    assert "the clocks disagree: the window spans -5 s" in texts(draw_window(back).svg)


def test_windows_without_commits_are_pictures_that_say_so() -> None:
    """No slot, or only empty ones: no crash where Burrow has one, and every rule is left unasked."""
    for given, why in ((Window([], [5], 3, 5), "there is no window to judge by"), (Window([None] * 3, [5], 3, 5), "has an empty slot")):
        told = texts(draw_window(given).svg)
        assert why in draw_window(given).sentence
        assert told.count("not asked") == len(RULES) and "no commit in the window" in told
    assert draw_window(Window([None] * 3, [5], 0, 5)).sentence.startswith("OK: the lag is 0")


def test_a_wide_window_and_huge_numbers_fit() -> None:
    """Of 40 commits the last one has its number; the same window gives the same bytes."""
    many = window(list(range(1_000_000, 1_000_040)), list(range(40)))
    told = texts(draw_window(many).svg)
    assert "1,000,039" in told and "1,000,038" not in told and draw_window(many) == draw_window(many)
    huge = Window([Commit(2**62, 5_000, 2**61), Commit(7, 6_000, 2**61)], [2**63 - 1], 2**62, 7)
    assert "4.61e+18" in texts(draw_window(huge).svg)
    assert [figure(each) for each in (9_999_999, 12_345_678, 4_500_000_000, -5)] == ["9,999,999", "12.35 M", "4.5 G", "-5"]


def test_every_status_has_its_words() -> None:
    """Each of Burrow's words is explained."""
    assert set(Status.__members__) <= set(FILLS)
