"""The send path's experiments on the real broker: the model's verdict, the model's words, and what real clients tell besides."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments import run
from kitlib.experiments.send_path import real_librdkafka
from kitlib.experiments.stored import records_per_request
from kitlib.lab.clients import Cluster
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace

pytestmark = pytest.mark.kafka

NEARLY, LATE_MS = 0.95, 5_000  # a client may round down, and this machine may be busy: the other clocks are further away still
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


BLOCKED = {"max_block_ms": 600, "delivery_timeout_ms": 8_000, "request_timeout_ms": 400}


@pytest.mark.parametrize("fault", ["dead bootstrap", "missing topic"])
def test_blocked_send_without_metadata_fails_at_max_block(broker: Cluster, fault: str) -> None:
    """Nobody to ask, or nothing to find: each call returns, late, what has failed already."""
    model, real = both("blocked_send", fault=fault, records=2, **BLOCKED)
    assert undelivered(real) == undelivered(model) == {0: "TimeoutException", 1: "TimeoutException"}
    waited = [step.data["waited_ms"] for step in real if step.what == "undelivered"]
    assert all(NEARLY * 600 <= ms <= 600 + LATE_MS for ms in waited)
    assert [step.data["on"] for step in real if step.what == "blocked"] == ["metadata", "metadata"]


def test_blocked_send_wrong_address_passes_and_expires(broker: Cluster) -> None:
    """The address that the broker tells leads nowhere: the call returns at once, and the record waits in vain."""
    knobs = BLOCKED | {"max_block_ms": 10_000, "delivery_timeout_ms": 1_500}
    model, real = both("blocked_send", fault="wrong advertised address", records=1, **knobs)
    assert undelivered(real) == undelivered(model) == {0: "TimeoutException"}
    sent, told = (next(step for step in real if step.what == what) for what in ("send", "undelivered"))
    called_ms = sent.at_ms - sent.data["waited_ms"]  # the client's clock starts within the call
    assert "waited_ms" not in told.data and told.at_ms - called_ms >= NEARLY * 1_500 and told.at_ms - sent.at_ms <= 1_500 + LATE_MS


def test_blocked_send_full_buffer_fails_at_max_block_in_other_words(broker: Cluster) -> None:
    """Two batches fill the memory; the third call waits for room until its time is up, the two expire later."""
    model, real = both("blocked_send", fault="buffer full", records=3, max_block_ms=1_500, delivery_timeout_ms=6_000)
    assert undelivered(real) == undelivered(model) == {0: "TimeoutException", 1: "TimeoutException", 2: "BufferExhaustedException"}
    assert [step.data["on"] for step in real if step.what == "blocked"] == ["memory"]


@pytest.mark.parametrize(
    ("stall", "stored"),
    [("nobody listens", [[0, 0]]), ("accepts and never answers", [[0, 0]]), ("writes and never answers", [[0, 2]])],
)
def test_expired_batch_is_told_at_delivery_timeout_and_says_nothing_of_the_log(broker: Cluster, stall: str, stored: Any) -> None:
    """A broker that does not answer: the same word after the same time, whether it has written or not."""
    _, real = both("expired_batch", stall=stall, delivery_timeout_ms=3_000, request_timeout_ms=1_000, records=2)
    assert undelivered(real).keys() == {1, 2} and set(undelivered(real).values()) == {"TimeoutException"}
    assert real.steps[-1].data["records"] == stored


def test_expired_batch_broker_back_in_time_stores_all(broker: Cluster) -> None:
    """The stall ends before the time is up: nobody is told of anything."""
    both("expired_batch", stall_ms=600, delivery_timeout_ms=30_000, request_timeout_ms=400, records=2)


@pytest.mark.parametrize(
    ("knobs", "stored"),
    [
        ({"ending": "exit", "batch_size": 1_000_000}, 1),
        ({"ending": "flush"}, 1_001),
        ({"ending": "close", "queue_records": 100}, 101),
        ({"ending": "flush", "queue_records": 100, "poll_on_full": True, "linger_ms": 1}, 1_001),
    ],
    ids=["exit loses what waits", "flush sends it", "one retry on a full queue is none", "a retry that lets the client work"],
)
def test_unflushed_sends_real_program_leaves_what_the_model_says(broker: Cluster, knobs: dict[str, Any], stored: int) -> None:
    """A program that really ends: what it had not flushed is gone, what was refused was never there."""
    _, real = both("unflushed_sends", **({"records": 1_000, "linger_ms": 1_000} | knobs))
    assert sum(last - first + 1 for first, last in real.steps[-1].data["records"]) == stored


def test_unflushed_sends_program_that_fails_is_told_by_its_last_words(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what its empty output is to a reader of JSON."""
    monkeypatch.setattr(real_librdkafka, "PROGRAM", "kitlib.no_such_program")
    with pytest.raises(LabError, match=r"exit code 1, it said: .*No module named kitlib\.no_such_program"):
        run("unflushed_sends", backend="kafka")


def test_linger_and_batches_zero_linger_fills_batches_by_the_round_trip(broker: Cluster) -> None:
    """With linger 0 and a long round trip the records that come meanwhile go together; spread out they go alone."""
    dense = records_per_request(both("linger_and_batches", records=300, round_trip_ms=40)[1])[1:]
    sparse = records_per_request(both("linger_and_batches", records=20, rate_per_s=20, round_trip_ms=10)[1])[1:]
    assert mean(dense) > 10 and mean(dense) > 5 * mean(sparse)


def test_real_run_with_one_broker_says_that_three_are_needed(broker: Cluster) -> None:
    """Asked for the impossible, the kit says what to do."""
    with pytest.raises(LabError, match=r"stale_metadata needs three brokers.*`kit down`, then `kit up --brokers 3`"):
        run("stale_metadata", backend="kafka")
