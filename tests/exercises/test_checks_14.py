"""The exercises of notebook 14: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.exercises import check
from kitlib.experiments.cluster_audit.broken_cluster import (
    BY_HAND,
    FAULTS,
    PARTITIONS,
    REWOUND,
    STOPPED,
    VANISHED,
    Plan,
)
from tests.exercises import solutions


def more_than_one(offsets: list[int | None]) -> Any:
    return [(index, records) for index, records in solutions.every_step_back(offsets) if records > 1]


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


RULES = ["WARN", "STALL", "OK", "STOP", "REWIND", "OK"]
HIDDEN = [100, 200, 150, 300, 400, 120, 160, 200, 240, 280]
def no_excuse(commits: list[Any], log_ends: list[int], lag: int, now_s: int, allowed: int) -> str:
    return solutions.judged(commits, [], lag, now_s, allowed)


def as_long_is_a_stop(commits: list[Any], log_ends: list[int], lag: int, now_s: int, allowed: int) -> str:
    return solutions.judged(commits, log_ends, lag, now_s + 1, allowed)


def any_step_back(commits: list[Any], log_ends: list[int], lag: int, now_s: int, allowed: int) -> str:
    word = solutions.judged(commits, log_ends, lag, now_s, allowed)
    offsets = [offset for offset, _, _ in commits]
    return "REWIND" if word in ("OK", "WARN") and lag > allowed and offsets != sorted(offsets) else word


def allows_nothing(commits: list[Any], log_ends: list[int], lag: int, now_s: int, allowed: int) -> str:
    return solutions.judged(commits, log_ends, lag, now_s, 0)


def unknown_is_none(commits: list[Any], log_ends: list[int], lag: int, now_s: int, allowed: int) -> str:
    return solutions.judged([[offset, at_ms, known or 0] for offset, at_ms, known in commits], log_ends, lag, now_s, allowed)


def sorts_what_it_gets(commits: list[Any], log_ends: list[int], lag: int, now_s: int, allowed: int) -> str:
    log_ends.sort(reverse=True)
    return solutions.judged(commits, log_ends, lag, now_s, allowed)


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("which_rule", ..., "the order decides"),
    ("which_rule", tuple(map(str.lower, RULES)), "order decides"),
    ("rings_after", ..., "a second more than the window spans"),
    ("second_rewind", ..., "It looks only at the first step back"),
    ("second_rewind", [5, 4, 5, 4, 4, 4, 4, 4, 4, 4], "It looks only at the first step back"),
    ("hidden_stop", ..., "100 s, though"),
    ("thin_out", ..., "ten slots that far apart"),
    ("own_lag_rules", ..., "windows recorded from Burrow 1.9.5"),
    ("every_step_back", ..., "30 histories"),
    ("broken_cluster", ..., "no longer processed"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("own_lag_rules", no_excuse, "yours returns 'STOP'. The rule that decides is"),
    ("own_lag_rules", as_long_is_a_stop, "yours returns 'STOP'"),
    ("own_lag_rules", any_step_back, "yours returns 'REWIND'"),
    ("own_lag_rules", allows_nothing, "The rule that decides is *no lag*"),
    ("own_lag_rules", unknown_is_none, "yours returns 'OK'"),
    ("own_lag_rules", sorts_what_it_gets, "your function changes argument 2 from"),
    ("which_rule", ["OK", *RULES[1:]], "situation 1, keeps up with a distance of 300"),
    ("which_rule", [*RULES[:1], "WARN", *RULES[2:]], "situation 2"),
    ("which_rule", [*RULES[:2], "WARN", *RULES[3:]], "situation 3"),
    ("which_rule", [*RULES[:5], "STOP"], "situation 6, dead for ten minutes, at the end: 'STOP' is not right"),
    ("which_rule", RULES[:5], "a list of 6 words"),
    ("which_rule", [*RULES[:5], "ERR"], "should be one of"),
    ("rings_after", lambda every_s: 9 * every_s, "does not say STOP yet"),
    ("rings_after", lambda every_s: 10 * every_s + 1, "the monitor says STOP before 11 s have passed"),
    ("rings_after", lambda every_s: 10, "commits 5 s apart: 10 s after the last one the monitor does not"),
    ("rings_after", lambda every_s: 9 * every_s / 60 + 1, "a whole number"),
    ("rings_after", lambda every_s: 0, "0 s, expected 1 to 3600"),
    ("rings_after", 541, "should be a function"),
    ("second_rewind", [100, 200, 300, 400, 500, 100, 150, 200, 250, 300], "the monitor notices"),
    ("second_rewind", list(range(10, 110, 10)), "the last commit is the highest"),
    ("second_rewind", [5] * 10, "the last commit is the highest"),
    ("second_rewind", [100, 50, 100], "a list of 10 offsets"),
    ("second_rewind", [2000, *HIDDEN[1:]], "offsets are 0 to 1000"),
    ("hidden_stop", 10, "has not said STOP yet"),
    ("hidden_stop", 99, "has not said STOP yet"),
    ("hidden_stop", 101, "has said STOP before"),
    ("hidden_stop", 541, "has said STOP before"),
    ("hidden_stop", "100", "should be a number"),
    ("thin_out", 6, "with 6 s the monitor still takes the pause for a STOP"),
    ("thin_out", 0, "with 0 s the monitor still takes the pause for a STOP"),
    ("thin_out", 8, "7 works too"),
    ("thin_out", 60, "59 works too"),
    ("thin_out", 601, "expected 0 to 600"),
    ("every_step_back", more_than_one, "[5, 4]: it went back at index 1, but your function returns []"),
    ("every_step_back", lambda offsets: solutions.every_step_back(offsets)[:1], "Look at each pair of neighbours"),
    ("every_step_back", over_tombstones, "at index 2 there is no step back by 6"),
    ("every_step_back", from_the_highest, "at index 2 there is no step back by 6"),
    ("every_step_back", lambda offsets: [index for index, _ in solutions.every_step_back(offsets)], "a list of pairs"),
    ("every_step_back", lambda offsets: solutions.every_step_back(offsets) * 2, "or your function names it twice"),
    ("broken_cluster", {"seed": 27, "partition": 0, "fault": "stopped"}, "partition 0 is healthy"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "stalled"}, "partition 1 is the broken one, but"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "slow"}, "partition 1 is the broken one, but"),
    ("broken_cluster", {"seed": 27, "partition": 3, "fault": "stopped"}, "there is no partition 3"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "broken"}, "should be one of"),
    ("broken_cluster", {"partition": 1, "fault": "stopped"}, "a dict of seed, partition, fault"),
    ("broken_cluster", 3, "should be a dict of seed, partition, fault"),
    ("broken_cluster", {"seed": 1}, "should be a dict of seed, partition, fault"),
    ("broken_cluster", {"seed": -1, "partition": 0, "fault": STOPPED}, "seed is '-1'"),
    ("broken_cluster", {"seed": "a", "partition": 0, "fault": STOPPED}, "the seed should be a number"),
    ("broken_cluster", {"seed": 1, "partition": 9, "fault": STOPPED}, "there is no partition 9"),
    ("broken_cluster", {"seed": 1, "partition": 0, "fault": "gremlins"}, "the fault should be one of"),
]


SEED_OF = {Plan.of(seed).fault: seed for seed in range(60)}
@pytest.mark.parametrize("fault", FAULTS)
def test_right_answer_is_told_with_its_evidence(fault: str) -> None:
    """And every other fault and partition is wrong, with what the named partition does not show."""
    plan = Plan.of(SEED_OF[fault])
    for partition in range(PARTITIONS):
        for named in FAULTS:
            found = check("broken_cluster", {"seed": plan.seed, "partition": partition, "fault": named.upper()})
            assert found.passed == (partition == plan.partition and named == fault), found
            if partition != plan.partition:
                assert found.said.startswith(f"partition {partition} is healthy: its ")
            elif named != fault:
                assert found.said.startswith(f"partition {partition} is the broken one, but ") and fault not in found.said
            else:
                assert found.said.startswith(FAULTS[fault]) and f"Partition {partition}: " in found.said


def test_wrong_fault_is_refused_by_what_is_not_there() -> None:
    """The members of the group tell a rewind from a reset; a tombstone tells a lost offset from both."""

    def said(fault: str, named: str) -> str:
        plan = Plan.of(SEED_OF[fault])
        return check("broken_cluster", {"seed": plan.seed, "partition": plan.partition, "fault": named}).said

    assert said(REWOUND, BY_HAND).endswith("when the offset went back, the group had 1 member.")
    assert said(BY_HAND, REWOUND).endswith("when the offset went back, the group had 0 members.")
    assert "there is a tombstone before its offsets go on" in said(VANISHED, BY_HAND)
    assert "never goes back" in said(STOPPED, REWOUND) and "there is none among its records" in said(STOPPED, VANISHED)
