"""A client with its broker's answers made by hand, for tests that say one thing each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Completion, Sender
from kitlib.mechanisms.protocol import (
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceRequest,
)


@dataclass
class Rig:
    """One client, its clock, and the requests that it made. Ids are 1000, 1001 ... with epoch 0."""

    sender: Sender
    now_ms: int = 1_000
    next_id: int = 1_000
    told: list[Completion] = field(default_factory=list)

    def poll(self, connected: bool = True) -> list[ProduceRequest]:
        """One run of the loop; a request for an id is answered, and in 2.0 the run goes on."""
        made: list[ProduceRequest] = []
        for request in self.sender.poll(self.now_ms, connected):
            if isinstance(request, InitProducerIdRequest):
                self.sender.receive_id(InitProducerIdAnswer(ErrorCode.NONE, self.next_id, 0))
                self.next_id += 1
                made += self.poll() if self.sender.config.release == "2.0" else []
            else:
                made.append(request)
        self.told += self.sender.completed()
        return made

    def send(self, count: int = 1, partition: int = 0) -> ProduceRequest | None:
        """Hand over a closed batch and let it leave, if it may."""
        self.sender.send(partition, self.now_ms, [b"0000"] * count)
        made = self.poll()
        return made[0] if made else None

    def answer(
        self, number: int, error: str = "NONE", offset: int = -1, log_start: int = -1, partition: int = 0
    ) -> list[ProduceRequest]:
        """Answer a request for one partition, and let the client look at it: what it sends in that run."""
        self.sender.receive(number, {partition: PartitionAnswer(ErrorCode[error], offset, log_start)})
        return self.poll()

    def queue(self, partition: int = 0) -> list[tuple[int, int, int]]:
        """What waits: (send, epoch, base sequence), in order."""
        return [
            (batch.send, batch.producer_epoch, batch.base_sequence) for batch in self.sender.accumulator.queues[partition]
        ]

    def errors(self) -> dict[int, str | None]:
        """What the user was told, by send: an exception class, or None for stored."""
        return {completion.send: completion.error for completion in self.told}


def rig(partitions: tuple[int, ...] = (0,), **settings: Any) -> Rig:
    """A client that has its id; no back-off and no linger unless they are given."""
    made = Rig(Sender(ProducerConfig(**{"retry_backoff_ms": 0} | settings), partitions))
    made.poll()
    return made


def numbers(request: ProduceRequest | None) -> list[tuple[int, int, int]]:
    """The numbers on the wire: (producer id, epoch, base sequence) of each batch."""
    batches = request.batches if request else ()
    return [(batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in batches]


def refused(error: str) -> PartitionAnswer:
    """An answer with this error and nothing else."""
    return PartitionAnswer(ErrorCode[error])


def unfinished(sender: Sender) -> bool:
    """Whether the user is still waiting for any batch."""
    out = (batch for batches in sender.in_flight_batches.values() for batch in batches)
    return any(sender.accumulator.queues.values()) or any(not batch.is_done for batch in out)
