"""Who is spoken to: the broker that leads the partition, as Metadata tells; where there is one broker, the address given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments.idempotence.protocol_producer import IdempotentProducer
from kitlib.lab.wire.connection import Metadata, Wire

BROKERS = {1: ("localhost", 101), 2: ("localhost", 102), 3: ("localhost", 103)}


@dataclass
class Connection:
    """Stands for a wire that knows nothing but Metadata, each answer after the other, the last for ever."""

    where: str
    answers: list[Metadata]
    open_now: list[str]

    def metadata(self, topics: list[str], timeout_s: float | None = None) -> Metadata:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        self.open_now.remove(self.where)


def opened(monkeypatch: pytest.MonkeyPatch, *leaders: int) -> list[str]:
    """What is open now, where brokers name these leaders."""
    open_now, answers = list[str](), [Metadata(BROKERS, 1, {"t": (0, {0: (0, leader)})}) for leader in leaders]

    def connect(host: str, port: int, *_: Any, **__: Any) -> Any:
        open_now.append(f"{host}:{port}")
        return Connection(open_now[-1], answers, open_now)

    monkeypatch.setattr(Wire, "open", connect)
    return open_now


def test_leader_that_is_not_there_yet_is_waited_for_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition without a leader, or one of whose leader no address is told: asked again, then an error and no open connection."""
    open_now = opened(monkeypatch, -1, 7, 2)
    Wire.open_leader("localhost:101", "t")
    assert open_now == ["localhost:102"]
    open_now = opened(monkeypatch, -1)
    with pytest.raises(LabError, match="No broker leads t-0"):
        Wire.open_leader("localhost:101", "t", timeout_s=0.1)
    with pytest.raises(LabError, match="No broker leads t-0"):
        IdempotentProducer("t", "localhost:101", timeout_s=0.1)
    assert open_now == []
