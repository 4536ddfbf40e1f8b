"""Reads the raw records of __consumer_offsets, or of any partition with records of that kind, and knows where they end.

Kafka keeps every group's commits in a topic of its own, and any client that is allowed to may read it. All
commits of one group lie in one partition, so a history of one group needs that partition alone. `read` ends
at the offset that was the partition's end when it began, although commits go on coming; `follow` and `more`
give what comes after.

Transactional commits that were aborted never took effect and are left out (isolation read_committed). The
other side of that: behind a transaction that is still open nothing can be read, and `Bounds.hidden` says how
much.

A client with a group id looks for its coordinator as soon as it is made, and a broker that is asked for one
makes __consumer_offsets where it is missing. So the consumer is made only when there is something to read, and
what its group may not do is passed over. Left out: what the bytes mean (`kitlib.more.offsets.messages`).
Source: Apache Kafka 4.3.1, `Topic.GROUP_METADATA_TOPIC_NAME`, `KafkaApis.getCoordinator`; librdkafka 2.16, isolation.level.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from kitlib.errors import LabError
from kitlib.lab.clients import DENIED, Cluster, client_config

OFFSETS_TOPIC = "__consumer_offsets"
DEADLINE_S = 30.0  # how long the brokers may be silent
BATCH = 5_000  # records a call
NO_TIME = -1  # of a record without a timestamp
# A broker's words, and the client's, for a partition whose leader will answer in a moment.
NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION,
)  # fmt: skip
ASK_AGAIN_S = 0.1
ADVICE = "Look at `kit status`; start a broker with `kit up`."

Answer = TypeVar("Answer")


class RawRecord(NamedTuple):
    """One record as it lies in the log."""

    partition: int
    offset: int
    at_ms: int  # its time in the log; NO_TIME when it has none
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where one partition's records begin and end when it was read."""

    first: int  # of the log
    begin: int  # of the reading; later than `first` when only newer records were asked for
    end: int  # of the reading: that of the next record
    high_watermark: int

    @property
    def hidden(self) -> int:
        """So many offsets at the end lie behind a transaction that is still open."""
        return self.high_watermark - self.end


@dataclass(slots=True)
class OffsetsTopic:
    """A connection to the topic, not for two threads at once. Nothing is joined and nothing committed."""

    admin: AdminClient  # who knows where the log ends behind an open transaction
    connect: Callable[[], Consumer]
    topic: str = OFFSETS_TOPIC
    bounds: dict[int, Bounds] = field(default_factory=dict)  # of each partition that was read to its end
    reader: Consumer | None = None

    @classmethod
    @contextmanager
    def open(cls, cluster: Cluster, topic: str = OFFSETS_TOPIC) -> Iterator[OffsetsTopic]:
        """Connect as soon as something is to be read, and close in the end."""
        settings = {
            "group.id": f"kit.reader.{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # what retention took away meanwhile is passed over
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
        source = cls(AdminClient(client_config(cluster)), lambda: Consumer(client_config(cluster, **settings)), topic)
        try:
            yield source
        finally:
            if source.reader is not None:
                source.reader.close()

    @property
    def consumer(self) -> Consumer:
        """Who reads; made at the first call."""
        if self.reader is None:
            self.reader = self.connect()
        return self.reader

    def partitions(self) -> int:
        """How many partitions the topic has, 0 when there is no such topic. LabError when it may not be seen."""
        return self._asked(self._described)

    def read(self, partition: int, since_ms: int | None = None) -> Iterator[RawRecord]:
        """The records that lie there now, in the order of the log; from the first one that is not older than `since_ms`.

        LabError when the partition may not be read, or the broker is silent for DEADLINE_S.
        """
        where = TopicPartition(self.topic, partition)
        first, readable = self._asked(lambda: self.consumer.get_watermark_offsets(where, timeout=DEADLINE_S)) or (0, 0)
        high_watermark = max(readable, self._high_watermark(where))
        begin = first if since_ms is None else self._offset_at(partition, since_ms, readable)
        end = readable
        if readable > begin:
            self.follow(partition, begin)
            end = yield from self._until(partition, begin, readable)
        self.bounds[partition] = Bounds(first, begin, end, high_watermark)

    def follow(self, partition: int, offset: int) -> None:
        """Let `more` begin at this offset of this partition."""
        self.consumer.assign([TopicPartition(self.topic, partition, offset)])

    def more(self, wait_s: float = 0.1) -> list[RawRecord]:
        """What has come since the last call, as much as arrives within `wait_s`; LabError when it may not be read."""
        return [_raw(message) for message in self._consumed(wait_s) if message.error() is None]

    def _described(self) -> int:
        """Topics are described, not looked up: a look-up may make one."""
        asked = self.admin.describe_topics(TopicCollection([self.topic]), request_timeout=DEADLINE_S)[self.topic]
        try:
            return len(asked.result(DEADLINE_S).partitions)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return 0
            raise

    def _high_watermark(self, where: TopicPartition) -> int:
        """Where the log ends for those who read what is not committed, too: a consumer is told the other end alone."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        found = self._asked(lambda: self.admin.list_offsets({where: latest}, request_timeout=DEADLINE_S)[where].result(DEADLINE_S))
        return int(found.offset)

    def _until(self, partition: int, begin: int, readable: int) -> Generator[RawRecord, None, int]:
        """Yields the records below the end of what is readable; returns where reading ended."""
        heard_s, end = time.monotonic(), begin
        while end < readable:
            for message in self._consumed(0.2):
                error, offset = message.error(), int(message.offset() or 0)
                if error is None and offset < readable:
                    heard_s, end = time.monotonic(), offset + 1
                    yield _raw(message)
                elif error is None or error.code() == KafkaError._PARTITION_EOF:
                    return min(offset, readable)
            if time.monotonic() - heard_s > DEADLINE_S:
                raise LabError(
                    f"{self.topic}-{partition}: nothing came for {DEADLINE_S:g} s after offset {end}, expected the records up to "
                    f"{readable}. {ADVICE}"
                )
        return end

    def _consumed(self, wait_s: float) -> list[Message]:
        """Messages, and errors that time may mend. LabError for the others."""
        messages = self.consumer.consume(BATCH, timeout=wait_s)
        for message in messages:
            error = message.error()
            if error is not None and (error.fatal() or error.code() in DENIED):
                raise refused(self.topic, error)
        return messages

    def _offset_at(self, partition: int, at_ms: int, readable: int) -> int:
        asked = [TopicPartition(self.topic, partition, at_ms)]
        found = self._asked(lambda: self.consumer.offsets_for_times(asked, timeout=DEADLINE_S))[0]
        return found.offset if found.offset >= 0 else readable

    def _asked(self, question: Callable[[], Answer]) -> Answer:
        """The answer; asked again while a broker has not found out yet that it leads. LabError after DEADLINE_S."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                return question()
            except KafkaException as error:
                if error.args[0].code() not in NOT_YET or time.monotonic() > deadline_s:
                    raise refused(self.topic, error.args[0]) from error
            except TimeoutError as error:
                raise LabError(f"topic {self.topic}: no answer within {DEADLINE_S:g} s. {ADVICE}") from error
            time.sleep(ASK_AGAIN_S)


def refused(topic: str, error: KafkaError) -> LabError:
    """What to say about a topic that cannot be read."""
    if error.code() in DENIED:
        return LabError(
            f"topic {topic} may not be read: the broker answers {error.str()}. Ask its owner for the right to describe and read "
            "it, or name a client that has it in the file of KIT_KAFKA_CONFIG."
        )
    return LabError(f"topic {topic} could not be read: {error.str()}. {ADVICE}")


def _raw(message: Message) -> RawRecord:
    kind, at_ms = message.timestamp()
    time_ms = NO_TIME if kind == TIMESTAMP_NOT_AVAILABLE else int(at_ms)
    return RawRecord(int(message.partition() or 0), int(message.offset() or 0), time_ms, message.key(), message.value())
