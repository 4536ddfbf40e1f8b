"""Who is spoken to: the broker that leads the partition, as Metadata tells; where there is one broker, the address given."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments.idempotence.protocol_producer import IdempotentProducer
from kitlib.lab.wire.connection import Metadata, Wire

BROKERS = {1: ("localhost", 101), 2: ("localhost", 102), 3: ("localhost", 103)}


class Brokers:
    """Stands for `Wire.open`: connections that know nothing but Metadata, each answer after the other, the last for ever."""

    def __init__(self, *answers: Metadata) -> None:
        self.answers = list(answers)
        self.opened: list[tuple[str, int]] = []
        self.open_now: list[tuple[str, int]] = []

    def open(self, host: str, port: int, *_: Any, **__: Any) -> Any:
        self.opened.append((host, port))
        self.open_now.append((host, port))
        return Connection(self, (host, port))


class Connection:
    def __init__(self, brokers: Brokers, where: tuple[str, int]) -> None:
        self.brokers, self.address, self.where = brokers, where, f"{where[0]}:{where[1]}"

    def metadata(self, topics: list[str], timeout_s: float | None = None) -> Metadata:
        answers = self.brokers.answers
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def close(self) -> None:
        if self.address in self.brokers.open_now:
            self.brokers.open_now.remove(self.address)


def led_by(leader: int, brokers: dict[int, tuple[str, int]] = BROKERS) -> Metadata:
    return Metadata(brokers, 1, {"t": (0, {0: (0, leader)})})


def stub(monkeypatch: pytest.MonkeyPatch, *answers: Metadata) -> Brokers:
    brokers = Brokers(*answers)
    monkeypatch.setattr(Wire, "open", brokers.open)
    return brokers


def test_leader_that_is_not_there_yet_is_waited_for_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition without a leader, or one of whose leader no address is told: asked again, then an error and no open connection."""
    brokers = stub(monkeypatch, led_by(-1), led_by(7), led_by(2))
    Wire.open_leader("localhost:101", "t")
    assert brokers.open_now == [("localhost", 102)]
    brokers = stub(monkeypatch, led_by(-1))
    with pytest.raises(LabError, match="No broker leads t-0"):
        Wire.open_leader("localhost:101", "t", timeout_s=0.1)
    with pytest.raises(LabError, match="have no leader"):
        IdempotentProducer("t", "localhost:101")
    assert brokers.open_now == []
