"""A broker that never had a group: its coordinator is asked for again until it is there, and no longer than is said."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kitlib.errors import LabError
from kitlib.experiments import kafka_backend
from kitlib.experiments.groups import kafka_members
from kitlib.experiments.groups.kafka_members import find_coordinator
from kitlib.lab.clients import Cluster

CLUSTER = Cluster("127.0.0.1:1", None, 1, "kit")


class Asking:
    """A consumer whose questions are answered with these errors, then with an offset; the last error for ever if `is_stuck`."""

    def __init__(self, codes: list[int], is_stuck: bool = False) -> None:
        self.codes, self.is_stuck, self.asked, self.is_closed = codes, is_stuck, 0, False

    def __call__(self, config: dict[str, Any]) -> Asking:
        return self

    def committed(self, partitions: list[Any], timeout: float) -> list[Any]:
        self.asked += 1
        if self.codes:
            raise KafkaException(KafkaError(self.codes[0] if self.is_stuck else self.codes.pop(0)))
        return partitions

    def close(self) -> None:
        self.is_closed = True


def test_coordinator_that_is_not_there_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading, not available and not this broker: each of the protocol's three words for it."""
    consumer = Asking([14, 15, 16])
    monkeypatch.setattr(kafka_members, "Consumer", consumer)
    find_coordinator(CLUSTER, "t", "g")
    assert (consumer.asked, consumer.is_closed) == (4, True)


@pytest.mark.parametrize(
    ("code", "asked"), [(KafkaError.NOT_COORDINATOR, range(2, 12)), (KafkaError.GROUP_AUTHORIZATION_FAILED, range(1, 2))]
)
def test_coordinator_that_does_not_come_is_a_sentence(monkeypatch: pytest.MonkeyPatch, code: int, asked: range) -> None:
    """After the deadline, or at once when it is no matter of time; the consumer is closed."""
    consumer = Asking([code], is_stuck=True)
    monkeypatch.setattr(kafka_members, "Consumer", consumer)
    monkeypatch.setattr(kafka_backend, "DEADLINE_S", 0.2)
    with pytest.raises(LabError, match=r"^group g: no coordinator was found: Broker: .* Look at `kit status`"):
        find_coordinator(CLUSTER, "t", "g")
    assert consumer.asked in asked and consumer.is_closed
