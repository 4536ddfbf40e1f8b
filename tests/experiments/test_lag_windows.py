"""Stories told to the lag monitor: what it says of them, its false alarms and its blind spots."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.lag.lag_windows import window_after
from kitlib.mechanisms.lag import evaluate

RISING = [100 * each for each in range(1, 11)]


@pytest.mark.parametrize(
    ("story", "status", "rule"),
    [
        pytest.param({"commits": RISING, "log_ends": [10_000], "every_s": 1, "silent_s": 9}, "OK", "behind and moving",
                     id="a group that commits every second may be silent for 9 s"),
        pytest.param({"commits": RISING, "log_ends": [10_000], "every_s": 1, "silent_s": 10}, "STOP", "stopped",
                     id="false alarm: a fast group that pauses for 10 s is told to have stopped"),
        pytest.param({"commits": RISING, "log_ends": [10_000], "every_s": 60, "silent_s": 540}, "OK", "behind and moving",
                     id="a slow group may be silent for 9 minutes"),
        pytest.param({"commits": RISING, "log_ends": [10_000], "every_s": 60, "silent_s": 541}, "STOP", "stopped",
                     id="a slow group is told to have stopped after 541 s"),
        pytest.param({"commits": RISING, "log_ends": [1_000], "every_s": 1, "silent_s": 3_600}, "OK", "no lag",
                     id="a group that has read everything may be silent for ever"),
        pytest.param({"commits": RISING, "log_ends": [1_000, *[2_000] * 9], "every_s": 1, "ends_every_s": 10, "silent_s": 10}, "OK",
                     "caught up once", id="blind spot: an old log end hides a dead group"),
        pytest.param({"commits": RISING, "log_ends": [1_000, *[2_000] * 10], "every_s": 1, "ends_every_s": 10}, "STOP", "stopped",
                     id="when ten later log ends have been read, it hides nothing"),
        pytest.param({"commits": [100, 200, 150, 300, 400, 120, 160, 200, 240, 280], "log_ends": [1_000]}, "OK", "behind and moving",
                     id="blind spot: the second step back of a window is never looked at"),
        pytest.param({"commits": [1], "log_ends": [2]}, "STALL", "stalled", id="false alarm: the only commit of a slow topic stands still"),
        pytest.param({"commits": [None, 5, None, 5], "log_ends": [9]}, "STALL", "stalled", id="commits that are left out are not there"),
    ],
)  # fmt: skip
def test_story_is_judged_by_the_rule_that_its_sentence_names(story: dict[str, Any], status: str, rule: str) -> None:
    """The status, and the rule that gave it."""
    found = evaluate(window_after(**story))
    assert (found.status.name, found.judgement.rule) == (status, rule), found


def test_thinned_out_commits_make_a_longer_window() -> None:
    """With min_distance_s a fast group's window spans more time than ten commits."""
    commits = [10 * each for each in range(100)]
    assert evaluate(window_after(commits, [10_000], 1, 60)).status.name == "STOP"
    assert evaluate(window_after(commits, [10_000], 1, 60, min_distance_s=7)).status.name == "OK"


@pytest.mark.parametrize(
    ("story", "words"),
    [
        ({"commits": [], "log_ends": [1]}, "at least one commit"),
        ({"commits": [None], "log_ends": [1]}, "at least one commit"),
        ({"commits": [1], "log_ends": []}, "and one log end"),
        ({"commits": [1], "log_ends": [1], "every_s": 0}, "every_s is 0"),
        ({"commits": [1], "log_ends": [1], "silent_s": -1}, "silent_s -1"),
        ({"commits": [1], "log_ends": [1], "ends_every_s": 0}, "ends_every_s 0"),
        ({"commits": [1], "log_ends": [1], "silent_s": 10**6}, "is forgotten"),
    ],
)
def test_story_without_sense_is_refused(story: dict[str, Any], words: str) -> None:
    """An empty window, and times that go nowhere, are told as such."""
    with pytest.raises(KnobError, match=re.escape(words)):
        window_after(**story)
