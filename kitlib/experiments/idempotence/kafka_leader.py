"""The leader of a real topic, spoken to over its own protocol, with the model's leader beside it.

Every batch of a run goes to the real broker, in a request of its own, and to the kit's model as well: where the two answer
differently, the run says so in a step `differs`, and a test fails. The model beside it is also what
the pictures' five slots are drawn from, as a real broker tells only the last sequence number of each
producer. A broker is restarted, killed and made to forget for real.

What a script does to a message, the chaos proxy does to the real one: the request is sent and lost on its way, or
its answer is, each on a connection of its own. What the broker made of a request without an answer is read from its log.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.idempotence.leader import PARTITION, ModelLeader
from kitlib.experiments.idempotence.protocol_producer import on_wire
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, KafkaTopic, TopicReader
from kitlib.experiments.script import ScriptError
from kitlib.lab import kafka_server
from kitlib.lab.brokers.settings import EXPIRATION, broker_setting
from kitlib.lab.clients import Cluster, must_be_own
from kitlib.lab.processes import wait_until
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.lab.wire.connection import Wire
from kitlib.mechanisms.broker.leader import BrokerConfig, Outcome
from kitlib.mechanisms.protocol import Batch, ErrorCode, InitProducerIdAnswer, PartitionAnswer, ProduceRequest

LONGEST_DELAY_MS = 10_000  # of a script's message
EXPIRY_MS = 1_000  # for as long as an idle id is kept while `forget` waits for the broker to forget it


@dataclass(slots=True, kw_only=True)
class KafkaLeader(ModelLeader):
    """The partitions of a real topic, by a connection of one's own. The lab's broker leads all of them."""

    cluster: Cluster
    reader: TopicReader
    proxy: ChaosProxy | None = None  # where a script does something to messages
    began_ms: int = field(default_factory=lambda: int(time.time() * 1000))  # real time of the run's virtual 0
    ends: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # of the logs, by partition

    @classmethod
    def open(
        cls, backend: KafkaBackend, config: BrokerConfig | None = None, partitions: int = 1, *,
        is_attacked: bool = False, is_ended: bool = False,
    ) -> KafkaLeader:  # fmt: skip
        """Create the topic and connect to its leader, through the proxy if it is attacked.

        KnobError for rules that a real broker does not have; LabError if it will be ended and is not the kit's own.
        """
        if is_ended:
            must_be_own(backend.cluster, "a run that restarts the broker or changes its settings")
        if config not in (None, BrokerConfig()):
            raise KnobError(
                "a real broker remembers five batches and follows its own release's rules: remembered_batches, "
                "older_is_duplicate and release are knobs of the model. Use their defaults, or backend='model'."
            )
        topic, cluster = KafkaTopic.create(backend, "events", partitions=partitions).name, backend.cluster
        with ExitStack() as undo:
            proxy = undo.enter_context(ChaosProxy.before(cluster)) if is_attacked else None
            cluster = proxy.cluster if proxy else cluster
            reader = TopicReader.open(cluster, topic)
            undo.pop_all()
        return cls(partitions=partitions, topic=topic, cluster=cluster, reader=reader, proxy=proxy)

    @property
    def wire(self) -> Wire:
        """The connection to the broker; another one after a restart."""
        return self.reader.wire

    def init_producer_id(self, now_ms: int) -> InitProducerIdAnswer:
        error, producer_id, epoch = self.wire.init_producer_id()
        return InitProducerIdAnswer(ErrorCode.of(error), producer_id, epoch)

    def produce(self, request: ProduceRequest, now_ms: int, deeds: Mapping[str, int] | None = None) -> dict[int, PartitionAnswer]:
        (batch,), sent, deeds = request.batches, on_wire(request.batches[0], self.began_ms), deeds or {}
        expected, partition = ModelLeader.produce(self, request, now_ms), batch.partition
        self.differs = ""
        if "second_copy" in deeds:  # the proxy has sent it with the first one
            return self._seen(expected, batch)
        longest_ms = max(deeds.values(), default=0)
        if longest_ms > LONGEST_DELAY_MS:
            raise ScriptError(
                f"a delay of {longest_ms:,} ms takes that long on a real broker, expected at most {LONGEST_DELAY_MS:,} ms. "
                'Shorten it, or use backend="model".'
            )
        for action, ms in deeds.items():
            self._attack(action, ms)
        if "lose_answer" in deeds:
            self._lose(request, "lose_answer")
            return self._seen(expected, batch)
        if request.acks == 0:
            self.wire.send_produce(self.topic, [sent], acks=0)
            self.reader.bounds()  # asked on the same connection, so after it
            answer = PartitionAnswer(base_offset=self.ends[partition])
        else:
            answers = self.wire.produce(self.topic, [sent], acks=request.acks, timeout_s=DEADLINE_S + longest_ms / 1000)
            error, base_offset, log_start = answers[partition]
            answer = PartitionAnswer(ErrorCode.of(error), base_offset, log_start)
        outcome = (
            Outcome.REJECTED if answer.error else Outcome.APPENDED if answer.base_offset >= self.ends[partition] else Outcome.DUPLICATE
        )
        if outcome is Outcome.APPENDED:
            self.ends[partition] = answer.base_offset + batch.count
        told, model = (
            f"{done.name} {said.error.name} at offset {said.base_offset}"
            for done, said in ((outcome, answer), (self.last_outcomes[partition], expected[partition]))
        )
        if told != model and request.acks:
            self.differs = f"the broker says {told}, the model {model}"
        self.last_outcomes[partition] = outcome
        return {partition: answer}

    def lose(self, request: ProduceRequest) -> None:
        """It leaves, and the proxy loses it. A story's is not sent."""
        if self.proxy is not None:
            self._attack("lose_request")
            self._lose(request, "lose_request")

    def _attack(self, action: str, ms: int = 0) -> None:
        """Have the proxy do this to the next request, or to its answer."""
        assert self.proxy is not None, "a run with a script opens its leader behind the proxy"
        self.proxy.add(Rule(action, count=1, ms=ms))

    def _lose(self, request: ProduceRequest, deed: str) -> None:
        """Send a request, wait until the proxy has lost it or its answer, and give up the connection, which is dead from then on."""
        assert self.proxy is not None
        proxy, before = self.proxy, self.proxy.counts().get(deed, 0)
        self.wire.send_produce(self.topic, [on_wire(request.batches[0], self.began_ms)], acks=request.acks)
        proxy.wait_for(lambda: proxy.counts().get(deed, 0) > before, DEADLINE_S, f"it has done {deed}")
        self.reader.close()
        self.reader = TopicReader.open(self.cluster, self.topic)

    def _seen(self, expected: dict[int, PartitionAnswer], batch: Batch) -> dict[int, PartitionAnswer]:
        """What the broker made of a request without an answer: its log has grown or it has not; for the rest it is the model's word."""
        partition, end = batch.partition, self.reader.bounds(batch.partition)[1]
        grown, self.ends[partition] = end - self.ends[partition], end
        wanted = batch.count if self.last_outcomes[partition] is Outcome.APPENDED else 0
        if grown != wanted:
            self.differs = f"the broker's log grew by {grown} records, the model's by {wanted}"
        return expected

    def restart(self, how: str, now_ms: int) -> None:
        self.reader.close()
        kafka_server.restart("kill" if how == "kill" else "clean")
        self.reader = TopicReader.open(self.cluster, self.topic)
        ModelLeader.restart(self, how, now_ms)

    def fail_over(self, now_ms: int) -> None:
        raise KnobError(
            "the kit's own broker has no replica to fail over to. Use restart='clean' or 'kill', or backend='model'."
        )

    def forget(self, producer_id: int, now_ms: int) -> None:
        """Waits until the broker has forgotten the id, with a short producer.id.expiration.ms meanwhile."""
        with broker_setting(self.cluster, EXPIRATION, str(EXPIRY_MS)):
            wait_until(lambda: producer_id not in self._known(), DEADLINE_S, f"the broker forgets producer id {producer_id}")
        ModelLeader.forget(self, producer_id, now_ms)

    def _known(self) -> set[int]:
        """The producer ids that the broker remembers."""
        return {found.producer_id for found in self.wire.describe_producers(self.topic, PARTITION)}

    def delete_before(self, partition: int, offset: int) -> int:
        self.wire.delete_records(self.topic, partition, offset)
        return ModelLeader.delete_before(self, partition, offset)

    def shown(self, producer_id: int, partition: int = PARTITION) -> dict[str, Any]:
        return ModelLeader.shown(self, producer_id, partition) | {"log_end": self.ends[partition]}

    def read(self, partition: int = PARTITION) -> tuple[int, list[bytes]]:
        return self.reader.read(partition)

    def close(self) -> None:
        """Let go of the connections."""
        self.reader.close()
        if self.proxy is not None:
            self.proxy.stop()
