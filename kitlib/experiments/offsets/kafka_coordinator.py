"""A real group's coordinator, spoken to on the wire: each answer as it comes, errors too.

The member commits and asks by the kit's own wire, which retries nothing; where a consumer begins is asked of librdkafka's.
A real commit of this run says how long it shall be kept (OffsetCommit version 4), as the broker's own retention is told in
minutes and rules all groups; so it ages from its commit, and not from the time when the group became empty.

A coordinator moves when the leader of its partition of the offsets topic does. That takes three brokers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import TopicPartition as ClientPartition

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, Topic, asked, first_position, reader_of
from kitlib.experiments.offsets.coordinator_stories import ASK_AGAIN, MEMBER
from kitlib.lab import created_resources
from kitlib.lab.brokers.leaders import Leaders
from kitlib.lab.brokers.settings import broker_value
from kitlib.lab.clients import Cluster, kafka_python_config
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.coordinator import Coordinator, CoordinatorWire, find_coordinator
from kitlib.mechanisms.positions import ResetPolicy, start_position
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.hashes import group_partition
from kitlib.more.offsets.messages import SUBSCRIPTION
from kitlib.more.offsets.offset_cache import TopicPartition
from kitlib.more.offsets.offset_rules import OffsetConfig, OffsetEvent
from kitlib.more.offsets.wire import INTEGERS, write_message

SESSION_MS, REBALANCE_MS = 30_000, 30_000  # longer than any run
OFFSETS_TOPIC = "__consumer_offsets"
SLOWEST_CHECK_MS = 5_000  # a broker that looks for expired offsets less often is not waited for
MODERN = "4.3.1"


@dataclass(slots=True)
class KafkaCoordinator:
    """The real one."""

    backend: KafkaBackend
    group: str
    retention_ms: int  # of each commit; -1: the broker's
    coordinator: Coordinator
    wire: CoordinatorWire
    expires_ms: dict[TopicPartition, int] = field(default_factory=dict)  # of each commit
    check_ms: int = 0  # how often the broker looks for expired offsets

    @classmethod
    def open(cls, backend: KafkaBackend, rules: str, config: OffsetConfig) -> KafkaCoordinator:
        """Find the coordinator of a new group. KnobError for what no broker of today does; LabError when none answers."""
        if rules != MODERN:
            raise KnobError(f"rules are {rules}: a real broker follows those of {MODERN}. Run it on the model.")
        expires = config.offsets_retention_ms != OffsetConfig().offsets_retention_ms
        check_ms = checked_every_ms(backend.cluster) if expires else 0
        group = group_of_first_partition(f"kit.{backend.run}.group", partitions_of(backend, backend.cluster))
        created_resources.remember("group", group)
        found = find_coordinator(backend.cluster, group, DEADLINE_S)
        wire = CoordinatorWire.open(*found[1:], timeout_s=DEADLINE_S, **kafka_python_config(backend.cluster))
        retention_ms = config.offsets_retention_ms if expires else -1
        return cls(backend, group, retention_ms, found, wire, check_ms=check_ms)

    @property
    def now_ms(self) -> int:
        return self.backend.now_ms

    @property
    def asked(self) -> str:
        return f"coordinator {self.coordinator[0]}"

    def join(self, topics: Sequence[str]) -> None:
        subscription = INTEGERS["int16"].pack(0) + write_message(SUBSCRIPTION, 0, {"topics": list(topics), "userData": None})
        self.wire.send_join(self.group, "consumer", [("range", subscription)], SESSION_MS, REBALANCE_MS)
        joined = self.wire.receive_join()
        self.wire.sync({joined.member_id: b""})

    def leave(self) -> None:
        error = self.wire.leave()
        if error:
            raise LabError(f"group {self.group}: {MEMBER} could not leave it: error {error}. Run it again.")
        self.wire.member_id, self.wire.generation = "", -1

    def commit(self, offsets: Mapping[TopicPartition, int]) -> ErrorCode:
        codes = self.wire.commit_offsets(self.group, offsets, self.retention_ms)
        if self.retention_ms >= 0:
            self.expires_ms.update(dict.fromkeys(offsets, self.now_ms + self.retention_ms))
        return self._heard(next((code for code in codes.values() if code), 0))

    def fetch(self, partitions: Sequence[TopicPartition]) -> tuple[ErrorCode, dict[TopicPartition, int]]:
        code, found = self.wire.fetch_offsets(self.group, partitions)
        return self._heard(code), found

    def _heard(self, code: int) -> ErrorCode:
        """The error of a code. After NOT_COORDINATOR the next question goes to whom the brokers name."""
        error = ErrorCode.of(code)
        if error not in (ErrorCode.NONE, *ASK_AGAIN):
            raise LabError(f"group {self.group}: {self.asked} answers error {code}. Look at `kit status`.")
        if error is ErrorCode.NOT_COORDINATOR:
            found = self.wire.find(self.group)
            if found is not None and found != self.coordinator:
                self.wire.close()
                self.coordinator = found
                security = kafka_python_config(self.backend.cluster)
                self.wire = CoordinatorWire.open(*found[1:], timeout_s=DEADLINE_S, **security)
        return error

    def others_commit(self, records: int, keys: int) -> None:
        """One group more, whose partition is the same: `keys` offsets in each request."""
        other = group_of_first_partition(f"{self.group}.others", partitions_of(self.backend, self.backend.cluster))
        created_resources.remember("group", other)
        topic = next(iter(self.backend.topics), None)
        if topic is None:
            raise LabError(f"group {other}: there is no topic to commit offsets for. Create one first.")
        for number in range(records):
            codes = self.wire.commit_offsets(other, {(topic.name, 0): number})
            if any(codes.values()):
                raise LabError(f"group {other}: a commit was refused with error {max(codes.values())}. Look at `kit status`.")

    def first_position(self, topic: Topic, committed: int | None, policy: ResetPolicy) -> int:
        """A committed offset that is in the log needs no policy; for the others a real consumer is asked."""
        if committed is not None:
            return start_position(committed, topic.start, topic.end, policy)
        return first_position(self.backend.cluster, self.group, topic, policy)

    def move(self) -> tuple[int, int]:
        """The partition's leader goes to the next broker, and the old one knows of it; the member is not told.

        LabError without three brokers.
        """
        cluster, before = self.backend.cluster, self.coordinator[0]
        if cluster.brokers < 3:
            raise LabError(
                f"A coordinator moves where another broker has a copy; the cluster at {cluster.bootstrap} has {cluster.brokers}. "
                "Run `kit down`, then `kit up --brokers 3`; or run it on the model."
            )
        leaders = Leaders(cluster, OFFSETS_TOPIC, self.backend.admin)
        found = leaders.look()
        if found is None:
            raise LabError(f"{OFFSETS_TOPIC}-0: no broker knows it. Look at `kit status`.")
        others = [each for each in found.replicas if each != before]
        after = leaders.move([*others, before]).leader
        wait_until(
            lambda: self.wire.fetch_offsets(self.group, [("none", 0)])[0] == ErrorCode.NOT_COORDINATOR,
            DEADLINE_S,
            f"broker {before} knows that it coordinates group {self.group} no more",
        )
        return before, after

    def wait(self, ms: int) -> None:
        """Sleep, and when nobody is in the group until the broker has looked for what had expired a while before that.

        LabError when it does not within DEADLINE_S.
        """
        time.sleep(ms / 1000)
        over = [where for where, at_ms in self.expires_ms.items() if at_ms + self.check_ms < self.now_ms]
        if over and not self.wire.member_id:
            wait_until(
                lambda: all(offset < 0 for offset in self.fetch(over)[1].values()),
                DEADLINE_S,
                f"the broker has removed the expired offsets of group {self.group}",
            )

    def events(self) -> list[tuple[str, OffsetEvent]]:
        return []

    def state(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.wire.close()


def group_of_first_partition(name: str, partitions: int) -> str:
    """The name with an ending by which its group is kept in partition 0 of the offsets topic."""
    return next(each for each in (f"{name}{number}" for number in range(100 * partitions)) if not group_partition(each, partitions))


def partitions_of(backend: KafkaBackend, cluster: Cluster) -> int:
    """How many partitions the offsets topic has; it is made by whoever first asks for a coordinator."""
    find_coordinator(cluster, "none", DEADLINE_S)
    found = backend.admin.list_topics(OFFSETS_TOPIC, timeout=DEADLINE_S).topics.get(OFFSETS_TOPIC)
    if found is None or not found.partitions:
        raise LabError(f"The cluster at {cluster.bootstrap} has no {OFFSETS_TOPIC}. Look at `kit status`.")
    return len(found.partitions)


def checked_every_ms(cluster: Cluster) -> int:
    """How often the brokers look for expired offsets. LabError when it is too seldom to be waited for."""
    name = "offsets.retention.check.interval.ms"
    every_ms = int(broker_value(cluster, name) or 0)
    if not 0 < every_ms <= SLOWEST_CHECK_MS:
        raise LabError(
            f"The brokers at {cluster.bootstrap} have {name}={every_ms}, expected 1 to {SLOWEST_CHECK_MS}: "
            "a run waits until they have checked. Use the kit's own broker (`kit up`), or run it on the model."
        )
    return every_ms


def leave_commits(backend: KafkaBackend, offsets: Sequence[int]) -> str:
    """Commit these offsets of a topic of its own, one after the other, and then delete the group; the group's name.

    LabError when the broker refuses.
    """
    topic, group = backend.create_topic("evidence", 1), f"kit.evidence-{uuid.uuid4().hex[:8]}"
    created_resources.remember("group", group)
    with closing(reader_of(backend.cluster, group)) as member:
        for offset in offsets:
            place = [ClientPartition(topic.name, 0, offset)]
            asked(partial(member.commit, offsets=place, asynchronous=False), f"group {group}: offset {offset} was refused")
    asked(lambda: backend.admin.delete_consumer_groups([group])[group].result(DEADLINE_S), f"group {group} could not be deleted")
    return group
