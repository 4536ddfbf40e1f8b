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
from tests.exercises.solutions import slips

RULES = ["WARN", "STALL", "OK", "STOP", "REWIND", "OK"]
HIDDEN = [100, 200, 150, 300, 400, 120, 160, 200, 240, 280]
PAIRS = "enumerate(pairwise(offsets), 1)"


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
    *slips(
        "own_lag_rules",
        ("min(log_ends, default=offsets[-1] + 1) > offsets[-1]", "True", "yours returns 'STOP'. The rule that decides is"),
        ("> times[-1] - times[0]", ">= times[-1] - times[0]", "yours returns 'STOP'"),
        (" and max(offsets[back:]) < offsets[back - 1]", "", "yours returns 'REWIND'"),
        ("    offsets =", "    allowed = 0\n    offsets =", "The rule that decides is *no lag*"),
        ("[known for _, _, known in commits if known is not None]", "[known or 0 for *_, known in commits]", "yours returns 'OK'"),
    ),
    ("which_rule", ["OK", *RULES[1:]], "situation 1, keeps up with a distance of 300"),
    ("which_rule", [*RULES[:1], "WARN", *RULES[2:]], "situation 2"),
    ("which_rule", [*RULES[:2], "WARN", *RULES[3:]], "situation 3"),
    ("which_rule", [*RULES[:5], "STOP"], "situation 6, dead for ten minutes, at the end: 'STOP' is not right"),
    ("rings_after", lambda every_s: 9 * every_s, "does not say STOP yet"),
    ("rings_after", lambda every_s: 10 * every_s + 1, "the monitor says STOP before 11 s have passed"),
    ("rings_after", lambda every_s: 10, "commits 5 s apart: 10 s after the last one the monitor does not"),
    ("rings_after", lambda every_s: 0, "0 s, expected 1 to 3600"),
    ("second_rewind", [100, 200, 300, 400, 500, 100, 150, 200, 250, 300], "the monitor notices"),
    ("second_rewind", list(range(10, 110, 10)), "the last commit is the highest"),
    ("second_rewind", [5] * 10, "the last commit is the highest"),
    ("second_rewind", [2000, *HIDDEN[1:]], "offsets are 0 to 1000"),
    ("hidden_stop", 10, "has not said STOP yet"),
    ("hidden_stop", 99, "has not said STOP yet"),
    ("hidden_stop", 101, "has said STOP before"),
    ("hidden_stop", 541, "has said STOP before"),
    ("thin_out", 6, "with 6 s the monitor still takes the pause for a STOP"),
    ("thin_out", 0, "with 0 s the monitor still takes the pause for a STOP"),
    ("thin_out", 8, "7 works too"),
    ("thin_out", 60, "59 works too"),
    *slips(
        "every_step_back",
        ("b < a", "b < a - 1", "[5, 4]: it went back at index 1, but your function returns []"),
        (PAIRS, "((index, (a, b)) for (_, a), (index, b) in pairwise(each for each in enumerate(offsets) if each[1] is not None))",
         "at index 2 there is no step back by 6"),
        (PAIRS, "((at, (max((each for each in offsets[:at] if each is not None), default=-1), b)) for at, b in enumerate(offsets))",
         "at index 2 there is no step back by 6"),
    ),
    ("every_step_back", lambda offsets: solutions.every_step_back(offsets)[:1], "Look at each pair of neighbours"),
    ("every_step_back", lambda offsets: solutions.every_step_back(offsets) * 2, "or your function names it twice"),
    ("every_step_back", lambda offsets: [index for index, _ in solutions.every_step_back(offsets)], "a list of pairs"),
    ("broken_cluster", {"seed": 27, "partition": 0, "fault": "stopped"}, "partition 0 is healthy"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "stalled"}, "partition 1 is the broken one, but"),
    ("broken_cluster", {"seed": 27, "partition": 1, "fault": "slow"}, "partition 1 is the broken one, but"),
    ("broken_cluster", {"seed": 27, "partition": 3, "fault": "stopped"}, "there is no partition 3"),
]  # fmt: skip


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
