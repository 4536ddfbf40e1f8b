"""The exercises of notebook 14: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import nb_14

OURS = {"14_watching_lag": nb_14.EXERCISES}


def one_more_than_the_span(every_s: int) -> Any:
    return 9 * every_s + 1


def as_long_as_the_span(every_s: int) -> Any:
    return 9 * every_s


def ten_gaps(every_s: int) -> Any:
    return 10 * every_s + 1


def always_ten(every_s: int) -> Any:
    return 10


def in_minutes(every_s: int) -> Any:
    return 9 * every_s / 60 + 1


def all_neighbours(offsets: list[int | None]) -> Any:
    found = []
    for index in range(1, len(offsets)):
        before, after = offsets[index - 1], offsets[index]
        if before is not None and after is not None and after < before:
            found.append((index, before - after))
    return found


def more_than_one(offsets: list[int | None]) -> Any:
    return [(index, records) for index, records in all_neighbours(offsets) if records > 1]


def the_first_alone(offsets: list[int | None]) -> Any:
    return all_neighbours(offsets)[:1]


def over_tombstones(offsets: list[int | None]) -> Any:
    known = [(index, each) for index, each in enumerate(offsets) if each is not None]
    found = []
    for place in range(1, len(known)):
        (_, before), (index, after) = known[place - 1], known[place]
        if after < before:
            found.append((index, before - after))
    return found


def from_the_highest(offsets: list[int | None]) -> Any:
    found, highest = [], -1
    for index, each in enumerate(offsets):
        if each is not None and each < highest:
            found.append((index, highest - each))
        highest = max(highest, each or -1)
    return found


def indices_alone(offsets: list[int | None]) -> Any:
    return [index for index, _ in all_neighbours(offsets)]


def told_twice(offsets: list[int | None]) -> Any:
    return all_neighbours(offsets) * 2


RULES = ["WARN", "STALL", "OK", "STOP", "REWIND", "OK"]
HIDDEN = [100, 200, 150, 300, 400, 120, 160, 200, 240, 280]
SOLUTIONS: list[tuple[str, Any, str]] = [
    ("which_rule", RULES, "the order decides"),
    ("which_rule", tuple(map(str.lower, RULES)), "order decides"),
    ("rings_after", one_more_than_the_span, "a second more than the window spans"),
    ("second_rewind", HIDDEN, "the first step back alone"),
    ("second_rewind", [5, 4, 5, 4, 4, 4, 4, 4, 4, 4], "the first step back alone"),
    ("hidden_stop", 100, "100 s, though"),
    ("thin_out", 7, "ten slots that far apart"),
    ("every_step_back", all_neighbours, "30 histories"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "stopped"}, "not worked on any more"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("which_rule", ["OK", *RULES[1:]], "story 1, keeps up"),
    ("which_rule", [*RULES[:1], "WARN", *RULES[2:]], "story 2"),
    ("which_rule", [*RULES[:2], "WARN", *RULES[3:]], "story 3"),
    ("which_rule", [*RULES[:5], "STOP"], "story 6, dead for ten minutes, at the end: it is not STOP"),
    ("which_rule", RULES[:5], "a list of 6 words"),
    ("which_rule", [*RULES[:5], "ERR"], "should be one of"),
    ("rings_after", as_long_as_the_span, "does not say STOP yet"),
    ("rings_after", ten_gaps, "has said STOP before 11 s"),
    ("rings_after", always_ten, "commits 5 s apart: 10 s after the last one the monitor does not"),
    ("rings_after", in_minutes, "a whole number"),
    ("rings_after", 541, "should be a function"),
    ("second_rewind", [100, 200, 300, 400, 500, 100, 150, 200, 250, 300], "the monitor sees it"),
    ("second_rewind", list(range(10, 110, 10)), "the last commit is the highest"),
    ("second_rewind", [5] * 10, "the last commit is the highest"),
    ("second_rewind", [100, 50, 100], "a list of 10 offsets"),
    ("second_rewind", [2000, *HIDDEN[1:]], "offsets are 0 to 1000"),
    ("hidden_stop", 10, "has not said STOP yet"),
    ("hidden_stop", 99, "has not said STOP yet"),
    ("hidden_stop", 101, "has said STOP before"),
    ("hidden_stop", 541, "has said STOP before"),
    ("hidden_stop", "100", "should be a number"),
    ("thin_out", 6, "is still told as STOP"),
    ("thin_out", 0, "is still told as STOP"),
    ("thin_out", 8, "is quiet, too"),
    ("thin_out", 60, "is quiet, too"),
    ("thin_out", 601, "expected 0 to 600"),
    ("every_step_back", more_than_one, "[5, 4]: it went back at index 1, and your function says []"),
    ("every_step_back", the_first_alone, "Look at each pair of neighbours"),
    ("every_step_back", over_tombstones, "that is none"),
    ("every_step_back", from_the_highest, "that is none"),
    ("every_step_back", indices_alone, "a list of pairs"),
    ("every_step_back", told_twice, "tells one twice"),
    ("broken_cluster", {"seed": 27, "partition": 0, "fault": "stopped"}, "partition 0 is well"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "stalled"}, "partition 1 is the broken one, but"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "slow"}, "partition 1 is the broken one, but"),
    ("broken_cluster", {"seed": 27, "partition": 3, "fault": "stopped"}, "there is no partition 3"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "broken"}, "should be one of"),
    ("broken_cluster", {"partition": 1, "fault": "stopped"}, "a dict of seed, partition, fault"),
]
