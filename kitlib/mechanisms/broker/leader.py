"""One broker that leads the partitions of a topic: what it answers to each request, and in which order it asks.

Authorization comes first, so a client that may not write learns nothing and changes nothing. Then whether
the topic's partition is there, then the batch itself, and only then what is remembered of its producer:
a batch that is too large is refused even if it is a duplicate, and a duplicate is answered as a success
even if its sequence number is far behind. Left out: replicas (`mechanisms/replication`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kitlib.errors import KnobError
from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.producer_ids import (
    BrokerProducerIds,
    ProducerIdControlManager,
    ProducerIdNode,
    ProducerIdsExhaustedError,
    ZkProducerIdManager,
)
from kitlib.mechanisms.broker.producer_state import Outcome
from kitlib.mechanisms.broker.unified_log import StoredBatch, UnifiedLog
from kitlib.mechanisms.protocol import (
    BATCH_OVERHEAD_BYTES,
    Batch,
    ErrorCode,
    InitProducerIdAnswer,
    PartitionAnswer,
    ProduceRequest,
)

__all__ = ["BrokerConfig", "Leader", "Outcome", "StoredBatch"]

RECORD_OVERHEAD_BYTES = 21  # at most: lengths, deltas and the rest of a record without key and headers


@dataclass(slots=True)
class Leader:
    """A broker that leads `partitions` partitions of one topic; nothing here reads a clock or a socket.

    Source: Apache Kafka 4.3.1, `KafkaApis.handleProduceRequest`, `ReplicaManager.appendRecords`,
    `Partition.appendRecordsToLeader`, `UnifiedLog.append`, `LogValidator.validateBatch`; 2.0.0, `KafkaApis`.
    Differs: a topic has no other settings than those of BrokerConfig. What a request with acks=0 led to is
    returned like any other. A batch without values has no size. There is no coordinator of transactions to
    ask: with `transaction_verification` no transaction can begin here, only at a log with a guard.
    """

    config: BrokerConfig = field(default_factory=BrokerConfig)
    partitions: int = 1
    broker: int = 0  # its id; that of the new leader after a failover
    controller: ProducerIdControlManager = field(default_factory=ProducerIdControlManager)  # release 4.3: hands out ids
    node: ProducerIdNode = field(default_factory=ProducerIdNode)  # release 2.0: where brokers take blocks of ids
    logs: dict[int, UnifiedLog] = field(init=False)  # by partition
    producer_ids: BrokerProducerIds | ZkProducerIdManager = field(init=False)
    last_outcomes: dict[int, Outcome] = field(default_factory=dict)  # of the last request, by partition

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= 100_000:
            raise KnobError(f"partitions is {self.partitions}, expected 1 to 100,000.")
        self.logs = {partition: UnifiedLog(self.config) for partition in range(self.partitions)}
        self._take_ids()

    def _take_ids(self) -> None:
        if self.config.release == "2.0":
            self.producer_ids = ZkProducerIdManager(self.broker, self.node)
        else:
            self.producer_ids = BrokerProducerIds(self.broker, self.controller)

    def init_producer_id(self, now_ms: int) -> InitProducerIdAnswer:
        """A producer id with epoch 0; COORDINATOR_LOAD_IN_PROGRESS when there are none left (2.0: UNKNOWN_SERVER_ERROR).

        Release 4.3 gives one to whoever may write to any topic; 2.0 only to who may write idempotently
        on the cluster.
        """
        config = self.config
        if not config.may_write_idempotently and (config.release == "2.0" or not config.may_write_topic):
            return InitProducerIdAnswer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        try:
            return InitProducerIdAnswer(ErrorCode.NONE, self.producer_ids.generate(), 0)
        except ProducerIdsExhaustedError:
            is_told = config.release == "2.0"
            return InitProducerIdAnswer(ErrorCode.UNKNOWN_SERVER_ERROR if is_told else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def produce(self, request: ProduceRequest, now_ms: int) -> dict[int, PartitionAnswer]:
        """What became of each partition's batch; `last_outcomes` says what was done.

        With acks=0 the broker sends none of this, and hangs up when a batch was refused.
        """
        self.last_outcomes = {}
        batches = request.batches
        refused = self._unauthorized(batches)
        if refused is not None:
            answers = {batch.partition: self._reject(batch.partition, refused) for batch in batches}
        else:
            count = {batches[0].partition: 1} if len(batches) == 1 else Counter(batch.partition for batch in batches)
            answers = {batch.partition: self._append(batch, now_ms, request.acks, count[batch.partition] == 1) for batch in batches}
        return answers

    def _unauthorized(self, batches: tuple[Batch, ...]) -> ErrorCode | None:
        """The error of all partitions when the client may not write this; None when it may."""
        config = self.config
        if (
            not config.may_write_idempotently
            and config.release == "2.0"
            and any(batch.has_producer_id for batch in batches)
            and not any(batch.is_transactional for batch in batches)
        ):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return None if config.may_write_topic else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _append(self, batch: Batch, now_ms: int, acks: int, is_only_one: bool) -> PartitionAnswer:
        """Write one batch, or say why not; `is_only_one` is false when the request has another one for this partition."""
        log = self.logs.get(batch.partition)
        if log is None:
            return self._reject(batch.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not is_only_one:
            return self._reject(batch.partition, ErrorCode.INVALID_RECORD)
        if acks not in (-1, 0, 1):
            return self._reject(batch.partition, ErrorCode.INVALID_REQUIRED_ACKS)
        if batch.values and self._is_too_large(batch):
            return self._reject(batch.partition, ErrorCode.MESSAGE_TOO_LARGE)
        ahead_ms = self.config.timestamp_after_max_ms
        if (
            batch.count < 1
            or (batch.values and len(batch.values) != batch.count)
            or (batch.base_sequence < 0 <= batch.producer_id)
        ):
            return self._reject(batch.partition, ErrorCode.INVALID_RECORD, log.start)
        if ahead_ms is not None and batch.timestamp_ms - now_ms > ahead_ms and self.config.release != "2.0":
            return self._reject(batch.partition, ErrorCode.INVALID_TIMESTAMP, log.start)
        try:
            done = log.append(batch)
        except BatchRefusedError as error:
            return self._reject(batch.partition, error.error, log.start)
        self.last_outcomes[batch.partition] = done.outcome
        return PartitionAnswer(ErrorCode.NONE, done.base_offset, log.start)

    def _is_too_large(self, batch: Batch) -> bool:
        most = self.config.max_message_bytes
        upper_bound = BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES * batch.count + sum(map(len, batch.values))
        return upper_bound > most and batch.size_bytes > most

    def _reject(self, partition: int, error: ErrorCode, log_start: int = -1) -> PartitionAnswer:
        self.last_outcomes[partition] = Outcome.REJECTED
        return PartitionAnswer(error, log_start_offset=log_start)

    def restart(self, how: str, now_ms: int) -> None:
        """The broker goes down ("clean" or "kill") and comes up again: one batch of each producer is left, and a new block of ids."""
        for log in self.logs.values():
            log.restart(how, now_ms)
        self.producer_ids.restart()

    def fail_over(self, now_ms: int) -> None:
        """A follower that had replicated everything takes over all partitions. It knows what the logs from their starts tell."""
        for log in self.logs.values():
            log.fail_over()
        self.broker += 1
        self._take_ids()

    def expire(self, now_ms: int) -> dict[int, list[int]]:
        """Forget the producers that have been idle for too long; their ids by partition, of those that had any."""
        gone = {partition: log.expire(now_ms) for partition, log in self.logs.items()}
        return {partition: producer_ids for partition, producer_ids in gone.items() if producer_ids}

    def delete_before(self, partition: int, offset: int) -> int:
        """Records of the partition below `offset` may not be read any more; its new start.

        KnobError when there is no such partition, OffsetOutOfRangeError when its log ends below `offset`.
        """
        if partition not in self.logs:
            raise KnobError(f"there is no partition {partition}, expected 0 to {self.partitions - 1}.")
        return self.logs[partition].delete_before(offset)

    def __repr__(self) -> str:
        return f"<Leader: broker {self.broker}, {', '.join(f'{number}: {log!r}' for number, log in self.logs.items())}>"
