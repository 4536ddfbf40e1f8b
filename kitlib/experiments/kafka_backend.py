"""The real backend: topics of a real broker, offsets in a compacted topic, the trace in one of its own.

What the model does in memory is done here over sockets, with the same answers. A fetch outside the
log is reported as out of range and never silently reset; retention is the broker's own DeleteRecords;
a stored offset is acknowledged by the broker before the spout goes on, and it outlives every process.
A broker that dies and comes back within `DEADLINE_S` is waited for. Where a group's consumer begins, a real
member of a real group is asked.
"""

from __future__ import annotations

import pkgutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from kitlib.errors import LabError
from kitlib.experiments.backend import MemoryTable, ModelBackend, read_between
from kitlib.lab import created_resources, kafka_server
from kitlib.lab.clients import POLICY, RIGHTS, Cluster, client_config, kafka_python_config
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.connection import EARLIEST, LATEST, Wire
from kitlib.lab.wire.records import FetchedBatch
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME, Fetch, FetchError, PartitionLog, Record
from kitlib.mechanisms.positions import ResetPolicy, start_position
from kitlib.trace import Trace

ADVICE = "Look at `kit status`; start a broker with `kit up`."
DEADLINE_S = 30.0  # how long any one call waits for the broker


def wait_until_led(admin: AdminClient, topic: str, partitions: int) -> None:
    """Wait until the topic has so many partitions, and the leader of each answers for it. LabError after DEADLINE_S.

    A broker tells in its metadata that it leads a partition a moment before it does, and refuses what comes in between.
    """

    def is_led() -> bool:
        try:
            topics = admin.list_topics(topic, timeout=DEADLINE_S).topics
            found = topics[topic].partitions if topic in topics else {}
            if len(found) != partitions or any(each.leader < 0 for each in found.values()):
                return False
            ends = {TopicPartition(topic, number): OffsetSpec.latest() for number in found}  # type: ignore[no-untyped-call]
            for end in admin.list_offsets(ends, request_timeout=DEADLINE_S).values():
                end.result(DEADLINE_S)
        except KafkaException:  # nobody answers; the deadline is this function's
            return False
        return True

    wait_until(is_led, DEADLINE_S, f"all {partitions} partitions of topic {topic} have a leader")


def first_position(cluster: Cluster, group: str, topic: Topic, policy: ResetPolicy) -> int:
    """The offset at which a consumer of this group begins under this policy, by a real one that joins it.

    It waits for the first record, the end of the partition or an error. NoOffsetForPartitionError or
    OffsetOutOfRangeError under the policy "none"; LabError after DEADLINE_S.
    """
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error" if policy == "none" else policy,  # librdkafka's word for none
        "enable.partition.eof": True,
    }
    with closing(Consumer(client_config(cluster, **settings))) as member:
        member.subscribe([topic.name])
        for message in polled(member):
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return int(message.offset() or 0)
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                committed = member.committed([TopicPartition(topic.name, 0)], timeout=DEADLINE_S)[0].offset
                start_position(committed if committed >= 0 else None, topic.start, topic.end, "none")
                raise LabError(f"{topic.name}-0: the consumer refused to start: {error.str()}. {ADVICE}")
    raise LabError(f"{topic.name}-0: the group's consumer got no position within {DEADLINE_S:g} s. {ADVICE}")


def polled(consumer: Consumer) -> Iterator[Message]:
    """What the consumer is given, errors among it, until nobody asks any more or DEADLINE_S is over."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if (message := consumer.poll(0.2)) is not None:
            yield message


PARTITION = 0


@dataclass(slots=True)
class TopicReader:
    """A connection to the leader of partition 0, for questions and for whatever else one has to say to it."""

    topic: str
    wire: Wire

    @classmethod
    def open(cls, cluster: Cluster, topic: str) -> TopicReader:
        """Connect, and wait until the broker answers for the partition: it serves a moment before it knows that it leads.

        LabError when it does not within DEADLINE_S.
        """
        reader = cls(topic, Wire.open_leader(cluster.bootstrap, topic, PARTITION, timeout_s=DEADLINE_S, **kafka_python_config(cluster)))
        try:
            reader.bounds()
        except BaseException:
            reader.close()
            raise
        return reader

    def bounds(self, partition: int = PARTITION) -> tuple[int, int]:
        """The first offset and that of the next record."""
        return (
            self.wire.list_offsets(self.topic, partition, EARLIEST),
            self.wire.list_offsets(self.topic, partition, LATEST),
        )

    def batches(self, partition: int = PARTITION) -> list[FetchedBatch]:
        """All batches that are there now, the first one without its deleted records."""
        return self.wire.read_all(self.topic, partition, DEADLINE_S)

    def read(self, partition: int = PARTITION) -> tuple[int, list[bytes]]:
        """The first offset, and the values of all records from there on."""
        first, _ = self.bounds(partition)
        return first, [value for batch in self.batches(partition) for value in batch.values]

    def close(self) -> None:
        self.wire.close()

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


OFFSETS_TOPIC = "kit.offsets"
TRACE_PREFIX = "kit.trace."
ANY_PARTITION = -1  # librdkafka's word for: the one that the partitioner chooses
NOW = 0  # and for the timestamp of now
OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def create_topic(
    admin: AdminClient, name: str, replicas: int | Cluster, config: dict[str, str] | None = None, shared: bool = False, partitions: int = 1
) -> None:
    """Create a topic and wait until the leader of each partition is known; one that is there already is kept.

    With a cluster in the place of `replicas` it has as many as the kit's topics have there: three, or one on each of fewer brokers.
    A `shared` topic is no notebook's own, so `kit reset NOTEBOOK` leaves it alone.

    LabError when the broker refuses or does not answer within DEADLINE_S.
    """
    if not shared:
        created_resources.remember("topic", name)
    copies = replicas if isinstance(replicas, int) else min(3, max(1, replicas.brokers))
    topic = NewTopic(name, num_partitions=partitions, replication_factor=copies, config=config or {})

    def create() -> None:
        try:
            admin.create_topics([topic], operation_timeout=DEADLINE_S, request_timeout=DEADLINE_S)[name].result(DEADLINE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    asked(create, f"topic {name} could not be created")
    wait_until_led(admin, name, partitions)


Row = tuple[bytes | None, bytes | None]  # key, value


def write(producer: Producer, topic: str, records: Sequence[Row], timestamp_ms: int = NOW) -> list[int]:
    """Append (key, value) records to partition 0; their offsets once the broker has acknowledged all of them.

    LabError as `deliver`.
    """
    return [offset for _, offset in deliver(producer, topic, records, 0, timestamp_ms)]


def deliver(
    producer: Producer, topic: str, records: Sequence[Row], partition: int = ANY_PARTITION, timestamp_ms: int = NOW
) -> list[tuple[int, int]]:
    """Append (key, value) records to a topic; (partition, offset) of each once the broker has acknowledged all of them.

    LabError when one is refused or its fate is unknown after DEADLINE_S.
    """
    places: list[tuple[int, int] | None] = [None] * len(records)
    troubles: list[str] = []

    def delivered(index: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                troubles.append(error.str())
            else:
                places[index] = int(message.partition() or 0), int(message.offset() or 0)

        return note

    for index, (key, value) in enumerate(records):
        hand_over(producer, topic, value, key, partition, on_delivery=delivered(index), timestamp=timestamp_ms)
    left = producer.flush(DEADLINE_S)
    if troubles or left:
        reason = troubles[0] if troubles else f"no answer within {DEADLINE_S:g} s"
        raise LabError(f"topic {topic}: {len(troubles) + left} of {len(records)} records were not acknowledged: {reason}. {ADVICE}")
    return [place for place in places if place is not None]


def hand_over(producer: Producer, topic: str, value: bytes | None, key: bytes | None, partition: int, **more: Any) -> None:
    """`Producer.produce`, waiting for as long as the client's queue is full. LabError when the client refuses the record."""
    while True:
        try:
            producer.produce(topic, value, key, partition, **more)
            return
        except BufferError:  # let it drain
            producer.poll(0.1)
        except KafkaException as error:  # such as: too large
            size = len(value or b"") + len(key or b"")
            raise LabError(f"topic {topic}: a record of {size:,} bytes was refused: {error.args[0].str()}. It was not sent.") from error


def delete_records(admin: AdminClient, topic: str, partition: int, before: int) -> int:
    """DeleteRecords: the broker moves the log's start and drops what lies below; the new start. LabError as `asked`."""
    wanted = TopicPartition(topic, partition, before)
    done = asked(
        lambda: admin.delete_records([wanted], request_timeout=DEADLINE_S)[wanted].result(DEADLINE_S),
        f"{topic}-{partition}: records below {before} could not be deleted",
    )
    return int(done.low_watermark)


def consume_to_end(consumer: Consumer, begins: Sequence[TopicPartition], who: str) -> tuple[list[Message], dict[int, int]]:
    """The records of these partitions of one topic, each from its offset to its end, and where each one ends.

    The consumer has `enable.partition.eof`. LabError when it is told of an error, or when the ends are not reached within DEADLINE_S.
    """
    consumer.assign(list(begins))
    topic, left = begins[0].topic, {each.partition for each in begins}
    messages: list[Message] = []
    ends: dict[int, int] = {}
    for message in polled(consumer):
        error, partition = message.error(), int(message.partition() or 0)
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ends[partition] = int(message.offset() or 0)
            if ends.keys() == left:
                return messages, ends
        else:
            raise LabError(f"{topic}-{partition}: {who} is told {error.str()}. {ADVICE}")
    raise LabError(f"{topic}: {who} met no end of partitions {sorted(left - ends.keys())} within {DEADLINE_S:g} s. {ADVICE}")


@dataclass(slots=True)
class KafkaTopic:
    """Partition 0 of a real topic: the writer's side, and a LogReader.

    Differs from the model's log: records that lie below the offset asked for in the same batch are
    filtered out by librdkafka before they come here.
    """

    name: str
    consumer: Consumer
    producer: Producer
    admin: AdminClient
    max_fetch_records: int = 10
    asker: Consumer | None = None  # for questions: on the reader's connection they wait behind a fetch that waits
    position: int | None = None  # where the consumer reads on without a seek

    @classmethod
    def create(
        cls, backend: KafkaBackend, /, name: str, max_fetch_records: int = 500, config: dict[str, str] | None = None,
        group: str = "", partitions: int = 1, **more: Any,
    ) -> Self:  # fmt: skip
        """A new topic `kit.<run>.<name>`, closed with the backend; its reader commits for `group`, and never joins it."""
        full_name = f"kit.{backend.run}.{name}"
        config = {"retention.ms": "-1"} | (config or {})
        create_topic(backend.admin, full_name, backend.cluster, config, partitions=partitions)
        if group:
            created_resources.remember("group", group)
        reader = reader_of(backend.cluster, group or f"kit.{backend.run}")
        backend.opened.callback(reader.close)
        asker = backend.offsets.topic.asker
        topic = cls(full_name, reader, backend.producer, backend.admin, max_fetch_records, asker, **more)
        backend.topics.append(topic)
        return topic

    @property
    def start(self) -> int:
        return self._watermarks()[0]

    @property
    def end(self) -> int:
        return self._watermarks()[1]

    def append(self, values: Sequence[bytes | None]) -> list[int]:
        return write(self.producer, self.name, [(None, value) for value in values])

    def write_transaction(self, producer: Producer, rows: Sequence[Row], timestamp_ms: int = NOW) -> list[int]:
        """Append the records in a transaction; their offsets, once it is committed and its marker is there."""
        producer.begin_transaction()
        offsets = write(producer, self.name, rows, timestamp_ms)
        asked(lambda: producer.commit_transaction(DEADLINE_S), f"topic {self.name}: a transaction was not committed")
        end = offsets[-1] + 2
        wait_until(lambda: self.end >= end, DEADLINE_S, f"{self.name}-0 ends at {end}, with the transaction's marker")
        return offsets

    def delete_before(self, offset: int) -> int:
        return delete_records(self.admin, self.name, 0, offset)

    def offset_before(self, time: int) -> int | None:
        if time in (LATEST_TIME, EARLIEST_TIME):
            return self._watermarks()[1 if time == LATEST_TIME else 0]
        found = self._ask(lambda: self.consumer.offsets_for_times([TopicPartition(self.name, 0, time)], timeout=DEADLINE_S))
        return int(found[0].offset) if found[0].offset >= 0 else None

    def fetch(self, offset: int) -> Fetch:
        """At most `max_fetch_records` records from `offset` on. TimeoutError when the broker is silent for too long."""
        start, end = self._watermarks()
        if not start <= offset <= end:
            return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
        if offset == end:
            return Fetch()
        if self.position != offset:
            self.consumer.assign([TopicPartition(self.name, 0, offset)])
        self.position = None  # what comes next is known again once records have come
        records: list[Record] = []
        for message in polled(self.consumer):
            error = message.error()
            if error is None:
                records.append(_record(message))
                if len(records) == self.max_fetch_records or records[-1].offset + 1 >= end:
                    break
            elif error.code() in OUT_OF_RANGE:
                return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
            elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= end:
                return Fetch(records)  # an older one tells of the end of an earlier fetch
        else:
            raise TimeoutError(f"no records of {self.name}-0 from offset {offset} within {DEADLINE_S:g} s")
        self.position = records[-1].offset + 1
        return Fetch(records)

    def commit(self, offset: int) -> None:
        """The reader commits for its group."""
        wanted = [TopicPartition(self.name, 0, offset)]
        self._ask(lambda: self.consumer.commit(offsets=wanted, asynchronous=False))

    def committed(self) -> int | None:
        """What the reader's group has committed; None before that."""
        wanted = [TopicPartition(self.name, 0)]
        found = self._ask(lambda: self.consumer.committed(wanted, timeout=DEADLINE_S))
        return int(found[0].offset) if found[0].offset >= 0 else None

    def _watermarks(self) -> tuple[int, int]:
        partition, asker = TopicPartition(self.name, 0), self.asker or self.consumer
        low, high = self._ask(lambda: asker.get_watermark_offsets(partition, timeout=DEADLINE_S, cached=False))
        return int(low), int(high)

    def _ask(self, question: Callable[[], Any]) -> Any:
        return asked(question, f"{self.name}-0: the broker did not answer")


@dataclass(slots=True)
class KafkaTable:
    """A compacted topic as a map from keys to texts: the last record of a key counts, one without a value removes it.

    A put returns once the broker has acknowledged it; a get sees every put acknowledged before it.
    """

    topic: KafkaTopic
    texts: dict[str, str] = field(default_factory=dict)  # what the topic held up to `read_to`
    read_to: int = 0

    def get(self, key: str) -> str | None:
        self._catch_up()
        return self.texts.get(key)

    def put(self, key: str, text: str) -> None:
        write(self.topic.producer, self.topic.name, [(key.encode(), text.encode())])

    def all(self) -> dict[str, str]:
        self._catch_up()
        return dict(self.texts)

    def _catch_up(self) -> None:
        end = self.topic.end
        for record in read_between(self.topic, self.read_to, end):
            key = (record.key or b"").decode(errors="replace")
            if record.value is None:
                self.texts.pop(key, None)
            else:
                self.texts[key] = record.value.decode(errors="replace")
        self.read_to = end


@dataclass(slots=True)
class KafkaOffsetStore(KafkaTable):
    """Stored offsets: the keys are paths, in a table that all runs share."""

    read = KafkaTable.get

    def write(self, path: str, text: str) -> None:
        created_resources.remember("offset", path, store=self.topic.name)
        self.put(path, text)


@dataclass(slots=True)
class KafkaBackend:
    """A real broker as the backend of one run; topics are named `kit.<run>.<name>`."""

    run: str
    cluster: Cluster
    admin: AdminClient
    producer: Producer
    offsets: KafkaOffsetStore
    topics: list[KafkaTopic] = field(default_factory=list)
    name: str = "kafka"
    opened: ExitStack = field(default_factory=ExitStack)  # what is closed with the backend, the last one first
    began_s: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, run: str, cluster: Cluster | None = None) -> KafkaBackend:
        """Connect to `cluster`; without it find the broker or start it. LabError when there is none to be had."""
        cluster = cluster or kafka_server.ensure()
        admin = AdminClient(client_config(cluster))
        settings = {"enable.idempotence": True, "linger.ms": 2, "delivery.timeout.ms": int(DEADLINE_S * 1000)}
        producer = Producer(client_config(cluster, **settings))
        create_topic(admin, OFFSETS_TOPIC, cluster, {"cleanup.policy": "compact"}, shared=True)
        reader, asker = reader_of(cluster, f"kit.{run}"), reader_of(cluster, f"kit.{run}")
        store = KafkaTopic(OFFSETS_TOPIC, reader, producer, admin, 500, asker)
        backend = cls(run, cluster, admin, producer, KafkaOffsetStore(store))
        backend.opened.callback(reader.close)
        backend.opened.callback(asker.close)
        return backend

    @property
    def now_ms(self) -> int:
        return int((time.monotonic() - self.began_s) * 1000)

    def provide(self, facet: type[Any], *given: Any, **settings: Any) -> Any:
        return self.on_kafka(facet.on_kafka, *given, **settings)

    def on_kafka(self, twin: str, *given: Any, **settings: Any) -> Any:
        found = pkgutil.resolve_name(twin).open(self, *given, **settings)
        self.opened.callback(found.close)
        return found

    @property
    def store(self) -> KafkaOffsetStore:
        return self.offsets

    def create_topic(self, name: str, max_fetch_records: int) -> KafkaTopic:
        return KafkaTopic.create(self, name, max_fetch_records)

    def create_table(self, name: str) -> KafkaTable:
        return KafkaTable(KafkaTopic.create(self, name, config={"cleanup.policy": "compact"}))

    def transactional_producer(self, name: str) -> Producer:
        """A producer with this transactional id, ready to begin. LabError when the broker refuses or is too slow."""
        settings = {"transactional.id": name, "delivery.timeout.ms": int(DEADLINE_S * 1000)}
        producer = Producer(client_config(self.cluster, **settings))
        asked(lambda: producer.init_transactions(DEADLINE_S), f"the producer {name} cannot begin")
        return producer

    def publish(self, trace: Trace) -> None:
        publish(trace, self.cluster, self.admin, self.producer)

    def close(self) -> None:
        self.opened.close()


Topic = PartitionLog | KafkaTopic
Table = MemoryTable | KafkaTable
Backend = ModelBackend | KafkaBackend  # where a run takes place: `ModelBackend` says what each gives


def publish(trace: Trace, cluster: Cluster, admin: AdminClient | None = None, producer: Producer | None = None) -> str:
    """Write a trace to its topic `kit.trace.<run>`, one JSON line a record; the topic's name.

    The header's key is `header`, a step's key its number.
    """
    admin = admin or AdminClient(client_config(cluster))
    producer = producer or Producer(client_config(cluster, **{"enable.idempotence": True}))
    name = TRACE_PREFIX + trace.run
    create_topic(admin, name, cluster, {"retention.ms": "-1"})
    keys = (b"header" if number < 0 else b"%d" % number for number in range(-1, len(trace)))
    write(producer, name, [(key, line.encode()) for key, line in zip(keys, trace.to_json_lines(), strict=True)])
    return name


def reader_of(cluster: Cluster, group: str) -> Consumer:
    """A consumer whose partitions are assigned by hand: it never joins its group."""
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "fetch.error.backoff.ms": 50,
    }
    return Consumer(client_config(cluster, **settings))


def _record(message: Message) -> Record:
    _, timestamp_ms = message.timestamp()
    return Record(int(message.offset() or 0), message.value(), message.key(), timestamp_ms)


def _is_passing(error: KafkaError) -> bool:
    """True for troubles that end when a broker is back; after a pause the controller has fenced it, until it hears from it again."""
    return "brokers are currently fenced" in error.str() or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._DESTROY_BROKER,  # the client lets go of a broker that it lost
        KafkaError._NOENT,  # no leader is known
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )


def asked(question: Callable[[], Any], trouble: str) -> Any:
    """The answer of the broker; asked again while one comes back or a leader is found. LabError after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return question()
        except KafkaException as error:
            reason = error.args[0]
            if not (reason.retriable() or _is_passing(reason)) or time.monotonic() > deadline:
                advice = RIGHTS if str(reason.name()).endswith("AUTHORIZATION_FAILED") else ADVICE
                advice = POLICY if reason.code() == KafkaError.POLICY_VIOLATION else advice
                raise LabError(f"{trouble}: {reason.str() or reason.name()}. {advice}") from error
            time.sleep(0.02)


def first_fetched(backend: KafkaBackend, ask: int, codec: Literal["none", "gzip"] = "none", one_batch: bool = True) -> int:
    """Write ten records, as one batch or each by itself, and fetch from `ask` (0 to 9); the first offset of the answer.

    It begins with the whole batch that holds the record asked for. LabError when the broker refuses, or when `ask` is no such offset.
    """
    if not 0 <= ask < 10:
        raise LabError(f"first_fetched: ask is {ask}, expected 0 to 9, an offset of ten records.")
    topic = backend.create_topic(f"batches-{uuid.uuid4().hex[:8]}", 10)
    # half a second is long enough for ten records to be one batch
    settings = {"compression.type": codec, "linger.ms": 500 if one_batch else 0, "batch.num.messages": 10 if one_batch else 1}
    write(Producer(client_config(backend.cluster, **settings)), topic.name, [(None, b"%d" % number) for number in range(10)])
    with TopicReader.open(backend.cluster, topic.name) as reader:
        return reader.wire.fetch(topic.name, 0, ask)[0].base_offset
