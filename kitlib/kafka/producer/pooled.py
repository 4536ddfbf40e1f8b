"""The accumulator of a whole producer: it knows when memory has run out, and when a leader has changed.

Two reasons to send sooner than `linger.ms` and the backoff say: somebody waits for memory, so every
batch goes as it is; and a retry whose partition has a newer leader than at its last attempt goes at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.kafka.producer.accumulator import RecordAccumulator
from kitlib.kafka.producer.batch import ProducerBatch
from kitlib.kafka.producer.earlier import EarlierAccumulator


@dataclass(slots=True)
class PooledAccumulator(RecordAccumulator):
    """The queues of a producer with limited memory.

    Source: Apache Kafka 4.3.1, `RecordAccumulator.batchReady`, `ProducerBatch.maybeUpdateLeaderEpoch`.
    Differs: as its base class, but for memory.
    """

    is_exhausted: bool = False  # somebody waits for memory
    leader_epochs: dict[int, int] = field(default_factory=dict)  # partition -> the newest that is known
    seen: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # batch -> (its leader's epoch, attempts when that changed)

    def ready(self, now_ms: int) -> tuple[bool, int | None]:
        """Whether any partition has something to send; without memory whatever waits is sent."""
        self._look_at_leaders()
        if self.is_exhausted and any(
            queue and partition not in self.muted and not self.is_backing_off(queue[0], now_ms)
            for partition, queue in self.queues.items()
        ):
            return True, 0
        return RecordAccumulator.ready(self, now_ms)

    def is_backing_off(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether a retry still has to wait; not when its leader changed since the last attempt."""
        attempts = self.seen.get(batch.number, (-1, 0))[1]
        has_changed = batch.attempts >= 1 and attempts == batch.attempts
        return not has_changed and RecordAccumulator.is_backing_off(self, batch, now_ms)

    def _look_at_leaders(self) -> None:
        for partition, queue in self.queues.items():
            epoch = self.leader_epochs.get(partition)
            if queue and epoch is not None:
                known = self.seen.get(queue[0].number)
                if known is None or epoch > known[0]:
                    self.seen[queue[0].number] = (epoch, queue[0].attempts)


@dataclass(slots=True)
class EarlierPooledAccumulator(EarlierAccumulator):
    """The same by earlier rules, which know nothing of leaders' epochs.

    Source: Apache Kafka 0.10.1.0, `RecordAccumulator.ready`; 2.0.0 for the rest.
    Differs: as its base class, but for memory.
    """

    is_exhausted: bool = False

    def ready(self, now_ms: int) -> tuple[bool, int | None]:
        """Whether any partition has something to send; without memory whatever waits is sent."""
        if self.is_exhausted and any(
            queue and partition not in self.muted and not self.is_backing_off(queue[0], now_ms)
            for partition, queue in self.queues.items()
        ):
            return True, 0
        return EarlierAccumulator.ready(self, now_ms)
