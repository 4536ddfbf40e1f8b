"""The leader that a producer's experiment talks to: the model's, or on a real broker the model's with the real one behind it.

Both answer in no time; the run's network adds the delays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kitlib.mechanisms.broker.leader import Leader
from kitlib.mechanisms.protocol import PartitionAnswer, ProduceRequest

PARTITION = 0


@dataclass(slots=True)
class ModelLeader(Leader):
    """The leader of a topic's partitions; on a real broker `on_kafka` takes its place."""

    on_kafka: ClassVar[str] = "kitlib.experiments.idempotence.kafka_leader:KafkaLeader"

    topic: str = "events"
    is_attacked: bool = False  # whether a script does something to its messages; a real one is then behind the proxy
    is_ended: bool = False  # whether it will be restarted or its settings changed; a real one is then the kit's own
    differs: str = ""  # how a real broker's last answer differs from what the model says

    def produce(self, request: ProduceRequest, now_ms: int, deeds: Mapping[str, int] | None = None) -> dict[int, PartitionAnswer]:
        """Take the request. `deeds` are what the proxy does to a real request or its answer, and for how many ms."""
        return Leader.produce(self, request, now_ms)  # with acks=0 for the trace alone

    def lose(self, request: ProduceRequest) -> None:
        """The network loses this request: the proxy does it to a real one, and here nothing has arrived."""

    def forget(self, producer_id: int, now_ms: int) -> None:
        """Make it forget a producer id as it does when the id has been idle for producer.id.expiration.ms."""
        self.expire(now_ms + self.config.producer_id_expiration_ms)

    def shown(self, producer_id: int, partition: int = PARTITION) -> dict[str, Any]:
        """What it remembers of a producer in a partition, and the log's bounds, as a step's state holds them."""
        log = self.logs[partition]
        entry = log.state.entries.get(producer_id)
        remembered = [] if entry is None else [
            [batch.first_seq, batch.last_seq, batch.first_offset, batch.last_offset] for batch in entry.batches
        ]  # fmt: skip
        return {"log_start": log.start, "log_end": log.end, "epoch": -1 if entry is None else entry.epoch, "remembered": remembered}

    def read(self, partition: int = PARTITION) -> tuple[int, list[bytes]]:
        """The log's first offset, and the values of all records from there on."""
        log = self.logs[partition]
        stored = (entry for each in log.batches for entry in enumerate(each.batch.values, each.base_offset))
        return log.start, [value for offset, value in stored if offset >= log.start]
