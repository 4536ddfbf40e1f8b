"""The stock clients through the proxy: what a lost connection and a killed broker make of five unanswered batches."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.experiments.idempotence.vendor_clients import restart_with_answers_withheld
from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.lab.kafka_server import Cluster
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace

pytestmark = pytest.mark.kafka

ONCE = [[sequence, 0, 0, sequence] for sequence in range(5)]  # offset, producer, epoch, sequence
TWICE = ONCE + [[5 + sequence, 0, 1, sequence] for sequence in range(5)]


def batches(trace: Trace) -> Any:
    return trace.steps[-1].data["batches"]


@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_stock_client_answers_lost_writes_each_batch_once(broker: Cluster, client: str) -> None:
    """Five answers lost with their connection: the retries are recognised, all five."""
    trace = restart_with_answers_withheld(client, "no")
    assert batches(trace) == ONCE and judge(trace).counts == dict.fromkeys(judge(trace).kinds, 0)
    assert sum(step.what == "delivered" for step in trace) == 5


@pytest.mark.slow
def test_java_broker_killed_writes_all_five_twice_and_says_nothing(broker: Cluster) -> None:
    """The killed broker remembers the last batch alone: Java's client raises its epoch and writes all of them again."""
    trace = restart_with_answers_withheld("java", "kill")
    told = [step.data["offset"] for step in trace if step.what == "delivered"]
    assert batches(trace) == TWICE and told == [5, 6, 7, 8, 9]
    assert judge(trace).counts["duplicated"] == 5 and judge(trace).violations == ()


@pytest.mark.slow
def test_librdkafka_broker_killed_gives_up_and_doubles_nothing(broker: Cluster) -> None:
    """librdkafka takes the gap for a fatal error: the first record is told failed, though it is there; none is doubled."""
    trace = restart_with_answers_withheld("librdkafka", "kill")
    told = [step.data["error"] for step in trace if step.what == "undelivered"]
    assert batches(trace) == ONCE and "OUT_OF_ORDER_SEQUENCE_NUMBER" in told
    counts = judge(trace).counts
    assert (counts["duplicated"], counts["lost"], counts["indefinite"]) == (0, 0, len(told))


def test_stock_client_that_is_not_there_or_refuses_is_told() -> None:
    """An unknown client or ending, and settings that the client refuses, each in one sentence."""
    with pytest.raises(KnobError, match=r"client is 'c' .*one of java, librdkafka"):
        restart_with_answers_withheld("c")
    with pytest.raises(KnobError, match="how one of no, clean, kill"):
        restart_with_answers_withheld("java", "burn")
    for name in ("records", "max_in_flight"):
        for number in (0, 101, 2.5):
            with pytest.raises(KnobError, match=f"{name} is {number}, expected 1 to 100"):
                restart_with_answers_withheld("java", **{name: number})  # type: ignore[arg-type]
    with JavaClient.open() as java, pytest.raises(RefusedSettings, match=r"at most 5\. Current value is 6"):
        java.producer({"max.in.flight.requests.per.connection": 6})


@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_stock_client_six_in_flight_does_not_start(broker: Cluster, client: str) -> None:
    """Six in flight with idempotence: no stock client begins, and nothing is written."""
    with pytest.raises(LabError, match=r"max\.in\.flight"):
        restart_with_answers_withheld(client, "no", max_in_flight=6)
