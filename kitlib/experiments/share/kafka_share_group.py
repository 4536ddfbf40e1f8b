"""The real share group: a topic of a real broker, librdkafka's share consumers in processes of their own, and real time.

What a consumer is handed, and which delivery of the record it is, is what it was told. What became of a record is asked of the
broker, which writes each change down: after an answer, after a consumer's death, and when a lock should have run out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from uuid import UUID

from confluent_kafka import TopicCollection

from kitlib.errors import KnobError, LabError
from kitlib.experiments.groups.kafka_operator import set_group
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, KafkaTopic
from kitlib.lab import created_resources
from kitlib.lab.client_processes.driver import NONE
from kitlib.lab.client_processes.share_consumer import ShareConsumerProcess
from kitlib.lab.clients import addresses, answered, file_config, kafka_python_config
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.share_state import ShareWire, WrittenState
from kitlib.more.share_partition import ANSWERED, Acknowledge, Change, Delivery, InvalidRecordStateError, RecordState
from kitlib.settings import Settings

FEWEST_LOCKS = 100  # group.share.min.partition.max.record.locks of every broker
CLOSE_S = 5.0  # how long the consumers may take to leave
SHORTEST_MS = 5  # of a wait, or a poll


@dataclass(frozen=True, slots=True)
class Lock:
    """A record that a member was handed and that nobody has taken back, as far as is known."""

    member: str
    deliveries: int
    until_ms: int  # when the lock should run out, counted from when the member had the record


@dataclass(slots=True)
class KafkaShareGroup:
    """The group on a broker, with the verbs of `SharePartition` where they are the same; `open` makes one."""

    settings: Settings
    backend: KafkaBackend
    topic: KafkaTopic
    wire: ShareWire
    group: str
    topic_id: UUID
    opened: ExitStack
    members: dict[str, ShareConsumerProcess] = field(default_factory=dict)
    locked: dict[int, Lock] = field(default_factory=dict)  # by offset
    returned: list[tuple[str, Change]] = field(default_factory=list)  # what was taken back, from whom, and is not told yet

    @classmethod
    def open(cls, backend: KafkaBackend, settings: Settings) -> KafkaShareGroup:
        """A new topic and a group for it. KnobError for what a broker does not take, LabError when it refuses."""
        if settings.max_locks < FEWEST_LOCKS:
            raise KnobError(f"max_locks is {settings.max_locks}: a broker takes no less than {FEWEST_LOCKS}. Run it on the model.")
        if settings.renew:
            raise KnobError("renew is True: librdkafka's share consumer cannot renew a lock. Run it on the model.")
        if backend.cluster.brokers != 1:  # the group's and the records' coordinators would be two
            raise LabError(
                f"a share group's experiment needs one broker, and {backend.cluster.bootstrap} has {backend.cluster.brokers}. "
                "Run it on the model."
            )
        [address] = addresses(backend.cluster.bootstrap)[:1]
        topic = KafkaTopic.create(backend, "orders")
        group = f"kit.{backend.run}"
        created_resources.remember("group", group)
        told = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": settings.delivery_limit,
            "share.record.lock.duration.ms": settings.lock_ms,
            "share.partition.max.record.locks": settings.max_locks,
            "share.session.timeout.ms": 6_000,
            "share.heartbeat.interval.ms": 500,
            "share.assignment.interval.ms": 0,
        }
        set_group(backend.cluster, group, told)
        [found] = backend.admin.describe_topics(TopicCollection([topic.name])).values()
        topic_id = answered(found, f"topic {topic.name} is not known").topic_id
        bits = (topic_id.get_most_significant_bits() & (2**64 - 1)) << 64 | topic_id.get_least_significant_bits() & (2**64 - 1)
        with ExitStack() as undo:
            wire = undo.enter_context(ShareWire.open(*address, timeout_s=DEADLINE_S, **kafka_python_config(backend.cluster)))
            return cls(settings, backend, topic, wire, group, UUID(int=bits), undo.pop_all())

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def now_ms(self) -> int:
        return self.backend.now_ms

    def append(self, records: int) -> None:
        for number in range(records):  # each in a batch of its own: batches of the log are handed out whole
            self.topic.append([b"order %d" % number])

    def join(self, members: Sequence[str]) -> None:
        for name in members:
            settings = {
                "library": "librdkafka", "bootstrap": self.backend.cluster.bootstrap, "client_id": f"{self.group}.{name}",
                "group": self.group, "topic": self.topic.name, "max_poll_records": self.settings.max_poll_records,
                "acknowledge": self.settings.acknowledge,
                "more": file_config() if self.backend.cluster.source != "kit" else {},
            }  # fmt: skip
            self.members[name] = ShareConsumerProcess.start(name, settings, wait=False)
            self.opened.callback(self.members[name].kill)
        for name in members:
            self.members[name].wait_ready(DEADLINE_S)
        wanted = {f"{self.group}.{name}" for name in members}
        wait_until(lambda: wanted <= self.wire.assigned(self.group), DEADLINE_S, f"{', '.join(members)} have joined {self.group}")

    def next_lock_ends_ms(self) -> int | None:
        return min((lock.until_ms + 1 for lock in self.locked.values()), default=None)

    def wait_until(self, at_ms: int) -> None:
        time.sleep(max(SHORTEST_MS, at_ms - self.now_ms) / 1000)

    def poll(self, member: str, until_ms: int) -> list[Delivery]:
        wait_ms = max(SHORTEST_MS, until_ms - self.now_ms)
        found = [Delivery(offset, deliveries) for offset, deliveries in self.members[member].fetch(wait_ms)]
        for each in found:
            if lock := self.locked.get(each.offset):  # this delivery proves that the one before it ended, even if that is not written yet
                self.returned.append((lock.member, Change(each.offset, RecordState.AVAILABLE, lock.deliveries)))
            self.locked[each.offset] = Lock(member, each.delivery_count, self.now_ms + self.settings.lock_ms)
        return found

    def acknowledge(self, member: str, answers: Mapping[int, Acknowledge], now_ms: int) -> list[Change]:
        """InvalidRecordStateError with the broker's or the client's name for why none of them counts."""
        error = self.members[member].answer({offset: answer.value for offset, answer in answers.items()})
        if error != NONE:
            self._look()
            raise InvalidRecordStateError(error.lstrip("_"))
        written = self._written()
        mine = [offset for offset in answers if offset in self.locked and self.locked[offset].member == member]
        changes = [_change(written, offset, self.locked.pop(offset).deliveries, answers[offset]) for offset in mine]
        # What is not accepted after all was taken back an instant before, though librdkafka tells of no error.
        late = [each for each in changes if answers[each.offset] is Acknowledge.ACCEPT and each.state is not RecordState.ACKNOWLEDGED]
        self.returned += [(member, each) for each in late]
        return [each for each in changes if each not in late]

    def close_session(self, member: str) -> list[Change]:
        """The consumer is killed; what the broker has then taken back from it."""
        self.members[member].kill()

        def has_nothing() -> bool:
            self._look()
            return all(lock.member != member for lock in self.locked.values())

        wait_until(has_nothing, DEADLINE_S, f"the broker takes back what {member} had locked")
        gone = [change for holder, change in self.returned if holder == member]
        self.returned = [each for each in self.returned if each[0] != member]
        return gone

    def freeze(self, member: str) -> None:
        self.members[member].freeze()

    def thaw(self, member: str) -> None:
        self.members[member].thaw()

    def expire(self, now_ms: int) -> list[Change]:
        """What the broker has taken back by itself, as far as it is known by now."""
        if any(lock.until_ms <= now_ms for lock in self.locked.values()):
            self._look()
        returned, self.returned = self.returned, []
        return [change for _, change in returned]

    def close(self) -> None:
        """The consumers leave the group, so that it can be deleted; one that is frozen is killed, and forgotten after a while."""
        with self.opened:
            alive = [process for process in self.members.values() if process.is_alive and not process.is_frozen]
            for process in alive:
                process.begin_close()
            with suppress(LabError):
                wait_until(lambda: not any(process.is_alive for process in alive), CLOSE_S, "the consumers have left")

    def _written(self) -> WrittenState:
        return self.wire.written_state(self.group, self.topic_id, 0)

    def _look(self) -> None:
        """Note what the broker has taken back by itself: it says so in what it has written down."""
        written = self._written()
        for offset, lock in sorted(self.locked.items()):
            state, deliveries = written.records.get(offset, ("", 0))
            if offset < written.start_offset:  # nobody answered, and it is done
                state, deliveries = RecordState.ARCHIVED, lock.deliveries
            if state and deliveries >= lock.deliveries:
                del self.locked[offset]
                self.returned.append((lock.member, Change(offset, RecordState(state), deliveries)))


def _change(written: WrittenState, offset: int, deliveries: int, answer: Acknowledge) -> Change:
    """What an answer has made of a record: as it is written down, or, below the start offset, what it was answered for good."""
    state, counted = written.records.get(offset, (ANSWERED[answer] if answer is Acknowledge.ACCEPT else RecordState.ARCHIVED, deliveries))
    return Change(offset, RecordState(state), counted)
