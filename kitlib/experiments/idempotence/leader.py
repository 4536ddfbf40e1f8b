"""The broker's side of a producer's experiment: the model of a leader, or the leader of a real topic.

A producer's run needs one partition that takes batches with producer ids, and that can be restarted,
shortened and made to forget. Both leaders here answer in no time; the run's network adds the delays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from kitlib.mechanisms.broker.leader import BrokerConfig, Leader, Outcome
from kitlib.mechanisms.protocol import InitProducerIdAnswer, PartitionAnswer, ProduceRequest

Restart = Literal["clean", "kill"]
PARTITION = 0


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What a leader did with one batch, and what it answers."""

    outcome: Outcome
    answer: PartitionAnswer
    differs: str = ""  # how a real broker's answer differs from what the model would have said


@dataclass(slots=True)
class ModelLeader:
    """The leader of a topic's partitions, asked for one batch after the other; on a real broker `on_kafka` takes its place."""

    on_kafka: ClassVar[str] = "kitlib.experiments.idempotence.kafka_leader:KafkaLeader"

    topic: str
    config: BrokerConfig = field(default_factory=BrokerConfig)
    is_attacked: bool = False  # whether a script does something to its messages; a real one is then behind the proxy
    is_ended: bool = False  # whether it will be restarted or its settings changed; a real one is then the kit's own
    partitions: int = 1
    leader: Leader = field(init=False)

    def __post_init__(self) -> None:
        self.leader = Leader(self.config, self.partitions)

    def init_producer_id(self, now_ms: int) -> InitProducerIdAnswer:
        """A fresh producer id, or an error after which it is to be asked for again."""
        return self.leader.init_producer_id(now_ms)

    def produce(self, request: ProduceRequest, now_ms: int, deeds: Mapping[str, int] | None = None) -> AppendResult:
        """Take the request's one batch. `deeds` are what the proxy does to a real request or its answer, and for how many ms."""
        partition = request.batches[0].partition
        answers = self.leader.produce(request, now_ms)  # with acks=0 for the trace alone
        return AppendResult(self.leader.last_outcomes[partition], answers[partition])

    def lose(self, request: ProduceRequest) -> None:
        """The network loses this request: the proxy does it to a real one, and here nothing has arrived."""

    def restart(self, how: Restart, now_ms: int) -> None:
        """Stop or kill the broker and let it come back with what it kept."""
        self.leader.restart(how, now_ms)

    def fail_over(self, now_ms: int) -> None:
        """A replica that had copied everything becomes the leader. KnobError where there is none."""
        self.leader.fail_over(now_ms)

    def expire(self, producer_id: int, now_ms: int) -> None:
        """Make it forget a producer id as it does when the id has been idle for producer.id.expiration.ms."""
        self.leader.expire(now_ms + self.config.producer_id_expiration_ms)

    def delete_before(self, offset: int) -> None:
        """Move the start of partition 0's log."""
        self.leader.delete_before(PARTITION, offset)

    def shown(self, producer_id: int, partition: int = PARTITION) -> dict[str, Any]:
        """What it remembers of a producer in a partition, and the log's bounds, as a step's state holds them."""
        log = self.leader.logs[partition]
        entry = log.state.entries.get(producer_id)
        remembered = [] if entry is None else [
            [batch.first_seq, batch.last_seq, batch.first_offset, batch.last_offset] for batch in entry.batches
        ]  # fmt: skip
        epoch = -1 if entry is None else entry.epoch
        return {"log_start": log.start, "log_end": log.end, "epoch": epoch, "remembered": remembered}

    def read(self, partition: int = PARTITION) -> tuple[int, list[bytes]]:
        """The log's first offset, and the values of all records from there on."""
        log = self.leader.logs[partition]
        values = (
            value
            for stored in log.batches
            for offset, value in enumerate(stored.batch.values, start=stored.base_offset)
            if offset >= log.start
        )
        return log.start, list(values)
