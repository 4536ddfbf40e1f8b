"""A query that is killed between two of its writes: on the model in every way, on Spark where it counts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Step
from kitlib.views import show

AFTER = ("offsets", "state", "half the sink", "sink", "commit")
SINKS = ("append", "idempotent", "transactional")
# Rows too many with the sink that appends; the others never have one.
AGAIN = {"offsets": 0, "state": 0, "half the sink": 2, "sink": 4, "commit": 0}


@pytest.mark.parametrize(("after", "sink", "checkpoint"), list(product(AFTER, SINKS, ("kept", "deleted"))))
def test_what_is_in_the_sink_twice_is_what_was_in_it_when_the_query_died(after: str, sink: str, checkpoint: str) -> None:
    """Nothing is ever lost; rows are doubled by append alone: those of the batch that runs again, or all, if the checkpoint is gone."""
    trace = run("checkpoint_kill", killed_after=after, sink=sink, checkpoint=checkpoint)
    verdict = judge(trace)
    before = 4 + {"offsets": 0, "state": 0, "half the sink": 2}.get(after, 4)
    twice = before if checkpoint == "deleted" else AGAIN[after]
    assert verdict.counts["duplicated"] == (twice if sink == "append" else 0)
    assert verdict.counts["lost"] == verdict.counts["skipped"] == 0 and not verdict.violations
    assert verdict.counts["rewound"] == (checkpoint == "deleted")


def test_a_kill_that_never_comes_leaves_nothing_to_do() -> None:
    """There is no batch 50: the first query ends by itself, and the second finds the records that came later."""
    trace = run("checkpoint_kill", killed_in_batch=50)
    assert "kill" not in [step.what for step in trace] and judge(trace).counts["duplicated"] == 0


def test_the_picture_names_what_each_batch_has_written_when_the_query_dies() -> None:
    """Killed after the sink: batch 1 has all but its commit; at the end its rows are there twice."""
    trace = run("checkpoint_kill")
    [kill] = [step.number for step in trace if step.what == "kill"]
    assert "batch 1: offsets 4–7, state v2, sink 4 rows; batch 1 is not in commits" in repr(show(trace, at=kill))
    assert "batch 1: offsets 4–7, state v2, sink 4 +4, commits done" in repr(show(trace))
    assert "the next start runs this batch again" in show(trace, at=kill).svg


def as_told(step: Step) -> tuple[Any, ...]:
    """A step without the topic's own name."""
    data = {name: value for name, value in step.data.items() if name != "topic"}
    return step.actor, step.what, data, step.state.get("checkpoint"), step.state.get("sink")


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "knobs",
    [
        {"killed_after": "sink", "sink": "append"},
        {"killed_after": "state", "sink": "idempotent"},
        {"killed_after": "half the sink", "sink": "transactional", "checkpoint": "deleted"},
        {"killed_after": "commit", "sink": "append"},
    ],
    ids=str,
)
def test_spark_writes_and_does_again_what_the_model_does(broker: Any, spark: Any, knobs: dict[str, Any]) -> None:
    """Step by step the same: what the folder holds is read from Spark's own, the rows from the sink's database."""
    model, real = run("checkpoint_kill", **knobs), run("checkpoint_kill", backend="kafka", **knobs)
    assert [as_told(step) for step in real] == [as_told(step) for step in model]
    assert judge(real).counts == judge(model).counts
