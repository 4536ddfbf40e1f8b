"""The leader of a real topic, spoken to over its own protocol, with the model's leader beside it.

Every request of a run goes to the real broker, and to the kit's model as well: where the two answer
differently, the run says so in a step `differs`, and a test fails. The model beside it is also what
the pictures' five slots are drawn from, as a real broker tells only the last sequence number of each
producer. A broker is restarted, killed and made to forget for real.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.idempotence.leader import PARTITION, AppendResult, ModelLeader, Restart
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.experiments.kafka_group import DEADLINE_S
from kitlib.experiments.topic_reader import TopicReader
from kitlib.kafka.broker.leader import BrokerConfig, Outcome
from kitlib.kafka.protocol import ErrorCode, InitProducerIdAnswer, PartitionAnswer, ProduceRequest
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster
from kitlib.lab.processes import wait_until
from kitlib.lab.wire import Wire
from kitlib.lab.wire_records import WireBatch

EXPIRY_MS = 1_000  # for as long as an idle id is kept while `expire` waits for the broker to forget it


@dataclass(slots=True)
class KafkaLeader:
    """Partition 0 of a real topic, by a connection of one's own."""

    topic: str
    cluster: Cluster
    reader: TopicReader
    model: ModelLeader
    began_ms: int = field(default_factory=lambda: int(time.time() * 1000))  # real time of the run's virtual 0
    end: int = 0

    @classmethod
    def open(cls, backend: KafkaBackend, topic: str, config: BrokerConfig | None = None) -> KafkaLeader:
        """Create the topic and connect to its leader. KnobError for rules that a real broker does not have."""
        if config not in (None, BrokerConfig()):
            raise KnobError(
                "a real broker remembers five batches and follows its own release's rules: remembered_batches, "
                "older_is_duplicate and release are knobs of the model. Use their defaults, or backend='model'."
            )
        topic = backend.create_topic(topic, 500).name
        return cls(topic, backend.cluster, TopicReader.open(backend.cluster, topic), ModelLeader(topic))

    @property
    def wire(self) -> Wire:
        """The connection to the broker; another one after a restart."""
        return self.reader.wire

    def init_producer_id(self, now_ms: int) -> InitProducerIdAnswer:
        error, producer_id, epoch = self.wire.init_producer_id()
        return InitProducerIdAnswer(ErrorCode.of(error), producer_id, epoch)

    def produce(self, request: ProduceRequest, now_ms: int) -> AppendResult:
        (batch,) = request.batches
        sent = WireBatch(
            PARTITION, batch.values, batch.producer_id, batch.producer_epoch, batch.base_sequence,
            self.began_ms + batch.timestamp_ms, batch.is_transactional,
        )  # fmt: skip
        expected = self.model.produce(request, now_ms)
        if request.acks == 0:
            self.wire.send_produce(self.topic, [sent], acks=0)
            self.reader.bounds()  # asked on the same connection, so after it
            self.end += batch.count
            return AppendResult(Outcome.APPENDED, PartitionAnswer(base_offset=self.end - batch.count))
        error, base_offset, log_start = self.wire.produce(self.topic, [sent], acks=request.acks)[PARTITION]
        answer = PartitionAnswer(ErrorCode.of(error), base_offset, log_start)
        outcome = Outcome.REJECTED if error else Outcome.APPENDED if base_offset >= self.end else Outcome.DUPLICATE
        if outcome is Outcome.APPENDED:
            self.end = base_offset + batch.count
        told, model = (
            (outcome, answer.error, base_offset),
            (expected.outcome, expected.answer.error, expected.answer.base_offset),
        )
        if told == model:
            return AppendResult(outcome, answer)
        texts = (f"{done.name} {code.name} at offset {offset}" for done, code, offset in (told, model))
        return AppendResult(outcome, answer, "the broker says {}, the model {}".format(*texts))

    def restart(self, how: Restart, now_ms: int) -> None:
        self.reader.close()
        kafka_server.restart(how)
        self.reader = TopicReader.open(self.cluster, self.topic)
        self.model.restart(how, now_ms)

    def fail_over(self, now_ms: int) -> None:
        raise KnobError(
            "the kit's own broker has no replica to fail over to. Use restart='clean' or 'kill', or backend='model'."
        )

    def expire(self, producer_id: int, now_ms: int) -> None:
        """Waits until the broker has forgotten the id, with a short producer.id.expiration.ms meanwhile."""
        with kafka_server.producer_id_expiration(EXPIRY_MS):
            wait_until(lambda: producer_id not in self._known(), DEADLINE_S, f"the broker forgets producer id {producer_id}")
        self.model.expire(producer_id, now_ms)

    def _known(self) -> set[int]:
        """The producer ids that the broker remembers."""
        return {found.producer_id for found in self.wire.describe_producers(self.topic, PARTITION)}

    def delete_before(self, offset: int) -> None:
        self.wire.delete_records(self.topic, PARTITION, offset)
        self.model.delete_before(offset)

    def shown(self, producer_id: int) -> dict[str, Any]:
        return self.model.shown(producer_id) | {"log_end": self.end}

    def read(self) -> tuple[int, list[bytes]]:
        return self.reader.read()

    def close(self) -> None:
        """Let go of the connection."""
        self.reader.close()

