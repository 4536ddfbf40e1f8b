"""The capstone's check: right for the fault and the partition of each seed, and in words of its own for everything else."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.exercises.capstone import CAPSTONE
from kitlib.exercises.frame import find
from kitlib.experiments.cluster_audit.broken_cluster import (
    BY_HAND,
    FAULTS,
    PARTITIONS,
    REWOUND,
    STOPPED,
    VANISHED,
    Plan,
)

SEED_OF = {Plan.of(seed).fault: seed for seed in range(60)}
NONSENSE: dict[str, tuple[Any, str]] = {
    "a number": (3, "should be a dict of seed, partition, fault"),
    "half an answer": ({"seed": 1}, "should be a dict of seed, partition, fault"),
    "a seed that is none": ({"seed": -1, "partition": 0, "fault": STOPPED}, "seed is '-1'"),
    "a text for a seed": ({"seed": "a", "partition": 0, "fault": STOPPED}, "the seed should be a number"),
    "a partition that there is not": ({"seed": 1, "partition": 9, "fault": STOPPED}, "there is no partition 9"),
    "a fault that there is not": ({"seed": 1, "partition": 0, "fault": "gremlins"}, "the fault should be one of"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_right_answer_is_told_with_its_evidence(fault: str) -> None:
    """And every other fault and partition is wrong, with what the named partition does not show."""
    plan = Plan.of(SEED_OF[fault])
    for partition in range(PARTITIONS):
        for named in FAULTS:
            found = find(CAPSTONE, {"seed": plan.seed, "partition": partition, "fault": named.upper()})
            assert found.passed == (partition == plan.partition and named == fault), found
            if partition != plan.partition:
                assert found.said.startswith(f"partition {partition} is well: its ")
            elif named != fault:
                assert found.said.startswith(f"partition {partition} is the broken one, but ") and fault not in found.said
            else:
                assert found.said.startswith(FAULTS[fault]) and f"Partition {partition}: " in found.said


def test_wrong_fault_is_refused_by_what_is_not_there() -> None:
    """The members of the group tell a rewind from a reset; a tombstone tells a lost offset from both."""

    def said(fault: str, named: str) -> str:
        plan = Plan.of(SEED_OF[fault])
        return find(CAPSTONE, {"seed": plan.seed, "partition": plan.partition, "fault": named}).said

    assert said(REWOUND, BY_HAND).endswith("look how many members the group had when the offset went back: 1.")
    assert said(BY_HAND, REWOUND).endswith("look how many members the group had when the offset went back: 0.")
    assert "there is a tombstone before its offsets go on" in said(VANISHED, BY_HAND)
    assert "never goes back" in said(STOPPED, REWOUND) and "there is none among its records" in said(STOPPED, VANISHED)


@pytest.mark.parametrize("case", NONSENSE)
def test_answer_of_a_wrong_shape_is_told_so(case: str) -> None:
    """In one sentence, without a hint."""
    answer, says = NONSENSE[case]
    found = find(CAPSTONE, answer)
    assert not found.passed and says in found.said and not found.look
