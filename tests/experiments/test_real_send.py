"""The send path's experiments on the real broker, beyond what notebook 09 compares: the order of the words, stalls, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments import run
from kitlib.experiments.send_path import real_librdkafka
from kitlib.lab.clients import Cluster
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace

pytestmark = pytest.mark.kafka

WORDS = ("call", "connect", "metadata_request", "update", "send", "new_batch", "request", "answer")


def both(name: str, **knobs: Any) -> tuple[Trace, Trace]:
    """The model's run and the real one, whose verdicts are the same sentence."""
    model, real = run(name, **knobs), run(name, backend="kafka", **knobs)
    assert str(judge(real)) == str(judge(model))
    return model, real


def undelivered(trace: Trace) -> dict[int, str]:
    """What the user was told of the records that failed."""
    told = [step.data for step in trace if step.what == "undelivered"]
    return {record: each["error"] for each in told for record in range(each["first"], each["last"] + 1)}


def test_two_sends_real_log_has_the_models_nine_steps(broker: Cluster) -> None:
    """librdkafka's log has the nine steps of the source, in its order and in the model's words; the second send asks nothing."""
    model, real = both("two_sends", pause_ms=100)
    steps = [[(step.data["stage"], step.actor, step.what) for step in trace if "stage" in step.data] for trace in (model, real)]
    assert steps[0] == steps[1] and [stage for stage, *_ in steps[1]] == list(range(1, 10))
    ninth = [next(step.number for step in trace if step.data.get("stage") == 9) for trace in (model, real)]
    after = [[step.what for step in trace.steps[at + 1 :] if step.what in WORDS] for trace, at in zip((model, real), ninth, strict=True)]
    assert after[0][0] == "call" and after[0][1:] == after[1] == ["send", "new_batch", "request", "answer"]
    frames = next(step.data["stages"] for step in real if step.what == "frames")
    assert frames == [[2, 3, 4, 7, 8, 9], [8, 9]]


@pytest.mark.parametrize(
    ("stall", "stored"),
    [("accepts and never answers", [[0, 0]]), ("writes and never answers", [[0, 2]])],
)
def test_expired_batch_is_told_at_delivery_timeout_and_says_nothing_of_the_log(broker: Cluster, stall: str, stored: Any) -> None:
    """A broker that does not answer: the same word after the same time, whether it has written or not."""
    _, real = both("expired_batch", stall=stall, delivery_timeout_ms=3_000, request_timeout_ms=1_000, records=2)
    assert undelivered(real).keys() == {1, 2} and set(undelivered(real).values()) == {"TimeoutException"}
    assert real.steps[-1].data["records"] == stored


def test_expired_batch_broker_back_in_time_stores_all(broker: Cluster) -> None:
    """The stall ends before the time is up: nobody is told of anything."""
    both("expired_batch", stall_ms=600, delivery_timeout_ms=30_000, request_timeout_ms=400, records=2)


def test_unflushed_sends_program_that_fails_is_told_by_its_last_words(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what its empty output is to a reader of JSON."""
    monkeypatch.setattr(real_librdkafka, "PROGRAM", "kitlib.no_such_program")
    with pytest.raises(LabError, match=r"exit code 1, it said: .*No module named kitlib\.no_such_program"):
        run("unflushed_sends", backend="kafka")


def test_real_run_with_one_broker_says_that_three_are_needed(broker: Cluster) -> None:
    """Asked for the impossible, the kit says what to do."""
    with pytest.raises(LabError, match=r"stale_metadata needs three brokers.*`kit down`, then `kit up --brokers 3`"):
        run("stale_metadata", backend="kafka")
