"""A coordinator that forgets, moves and loads, and the log that it reads, on the model: what each release tells a consumer."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from tests.experiments.knob_values import counted


def answers(trace: Trace, topic: str) -> list[Any]:
    """What the consumer was told of a topic's offset, in order: an offset or an error; the same one in a row once."""
    told = [step.data.get("error", step.data["offset"]) for step in trace if step.what == "answer" and step.data["topic"] == topic]
    return [each for at, each in enumerate(told) if at == 0 or each != told[at - 1]]


EARLIEST, LATEST = {"auto_offset_reset": "earliest"}, {"auto_offset_reset": "latest"}
# (rules, group, policy) -> (the answers on the busy topic, on the quiet one), counts
EXPIRY: dict[str, tuple[dict[str, Any], tuple[int, int], dict[str, int]]] = {
    "today a live group keeps the offset of a quiet partition": ({"rules": "4.3.1"}, (14, 10), {}),
    "by the old clock the quiet partition begins anew, the busy one goes on": (
        {"rules": "0.9.0"}, (14, -1), {"duplicated": 10, "rewound": 1}),
    "0.8.2 does the same": ({"rules": "0.8.2"}, (14, -1), {"duplicated": 10, "rewound": 1}),
    "and with the other policy what came meanwhile is lost": ({"rules": "0.9.0", **LATEST}, (14, -1), {"lost": 4, "skipped": 4}),
    "an empty group loses all its offsets": ({"group": "empty"}, (-1, -1), {"duplicated": 20, "rewound": 2}),
    "an empty group with the other policy loses records": ({"group": "empty", **LATEST}, (-1, -1), {"lost": 8, "skipped": 8}),
    "who comes back in time finds its offsets": ({"group": "empty", "away_ms": 1_000}, (10, 10), {}),
    "an offset that is kept for longer is there": ({"group": "empty", "offsets_retention_ms": 10_000}, (10, 10), {}),
    "it is gone only when somebody looks": ({"group": "empty", "check_interval_ms": 60_000}, (10, 10), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPIRY)
def test_offset_expiry_is_told_and_explained(case: str) -> None:
    """Each sentence, with the answers and the verdict; every anomaly has the retention for its reason."""
    knobs, (busy, quiet), expected = EXPIRY[case]
    trace = run("offset_expiry", **knobs)
    assert (answers(trace, "orders")[-1], answers(trace, "refunds")[-1]) == (busy, quiet)
    assert counted(trace) == expected
    verdict = judge(trace)
    assert verdict.violations == () and (not expected or "has expired" in str(verdict))


LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
# rules -> what the new coordinator tells, counts
MOVES: dict[str, tuple[list[Any], dict[str, int]]] = {
    "4.3.1": ([LOADING, 20], {}),
    "0.9.0": ([LOADING, 20], {}),
    "0.8.2": ([LOADING, 20], {}),
    "2015-04": ([-1], {"duplicated": 20, "rewound": 1}),
}


@pytest.mark.parametrize("rules", MOVES)
def test_coordinator_moves_what_is_told_after_the_load(rules: str) -> None:
    """While the cache is loaded the consumer is told to ask again; what it is told then hangs on the release."""
    trace = run("coordinator_moves", rules=rules)
    told, expected = MOVES[rules]
    moved = next(step.number for step in trace if step.what == "move")
    after = [step.data.get("error", step.data["offset"]) for step in trace.steps[moved:] if step.what == "answer"]
    asked = [each for at, each in enumerate(after) if at == 0 or each != after[at - 1]]
    assert asked == ["NOT_COORDINATOR", *told]  # the first one is asked of who was the coordinator
    assert counted(trace) == expected and judge(trace).violations == ()
    assert any(step.what == "load_failed" for step in trace) is (told[-1] != 20)


@pytest.mark.parametrize(("others", "speed", "ms"), [(0, 50, 40), (60, 50, 1_240), (60, 1_000, 62), (600, 50, 12_040)])
def test_coordinator_moves_load_takes_as_long_as_the_log_is(others: int, speed: int, ms: int) -> None:
    """Records by reading speed, chunk by chunk; the consumer begins no earlier."""
    trace = run("coordinator_moves", others_records=others, load_records_per_s=speed)
    ended = [step for step in trace if step.what == "load_end"][-1]
    assert (ended.data["records"], ended.data["ms"]) == (others + 2, ms)
    started = [step for step in trace if step.what == "start"][-1]
    assert started.at_ms >= ended.at_ms and started.data["offset"] == 20
    assert ended.state["offsets"]["loading"] is None and ended.state["offsets"]["cache"]["billing orders-0"] == 20
