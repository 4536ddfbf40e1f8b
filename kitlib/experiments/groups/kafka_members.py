"""The real group: a topic and a group of a real broker, and members that are processes of their own.

A member is killed with SIGKILL, frozen with SIGSTOP, and cut off by the chaos proxy, through which it
must have come from its start. Who holds what is the coordinator's answer, not the members'. Time is real
time, so the timeouts are as short as the kit's brokers allow; the newer protocol has its timeouts on
the broker's side, where they are set for this group alone.

Differs from the model: a broker does not say who leads, nor why a member is gone; a generation is what the
members tell; steps of the coordinator that last shorter than a look at it are not seen.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments.groups import kafka_operator
from kitlib.experiments.groups.group import GroupView, MemberSettings, Polled, check_settings
from kitlib.experiments.groups.group_watch import GroupWatch
from kitlib.experiments.kafka_backend import DEADLINE_S, NOW, KafkaBackend, create_topic, delete_records, deliver
from kitlib.experiments.knobs import Knob
from kitlib.lab import created_resources, kafka_server
from kitlib.lab.brokers.settings import broker_value
from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.client_processes.driver import Told
from kitlib.lab.clients import LIBRARY_CONFIGS, Cluster, answered, client_config
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.lab.state import say_on_stderr
from kitlib.lab.wire.coordinator import find_coordinator
from kitlib.mechanisms.groups.group_protocol import CoordinatorEvent
from kitlib.mechanisms.groups.member import MemberEvent
from kitlib.words.template import count

OFFSETS = {"__consumer_offsets": "offsets.topic.replication.factor"}
STATE = {"__transaction_state": "transaction.state.log.replication.factor"}
HOMES = {**dict.fromkeys(("groups", "offsets", "incidents"), OFFSETS), "transactions": OFFSETS | STATE}  # of a run's domain
LEAST_SESSION = "group.min.session.timeout.ms"
PATIENT = MemberSettings(session_timeout_ms=10_000, heartbeat_interval_ms=1_000, max_poll_interval_ms=60_000)  # also on a slow machine


def check_homes(domain: str) -> None:
    """KnobError where a cluster of one's own cannot make the topic that keeps its groups or transactions: at once, not after 30 s."""
    if not kafka_server.external_bootstrap() or domain not in HOMES:
        return
    cluster = kafka_server.ensure()
    there = AdminClient(client_config(cluster)).list_topics(timeout=DEADLINE_S).topics
    for topic, setting in HOMES[domain].items():
        if topic not in there and (replicas := int(broker_value(cluster, setting) or 0)) > cluster.brokers:
            raise KnobError(
                f"this cluster cannot make {topic}, which this run needs: {setting}={replicas}, with {count(cluster.brokers, 'broker')}. "
                f"Set it to {cluster.brokers} in their settings and restart, or unset KIT_KAFKA_BOOTSTRAP to use the kit's own."
            )


def fit_session(knobs: Sequence[Knob], values: dict[str, Any], given: Collection[str]) -> None:
    """Raise a session that nobody asked for to the least one that a cluster of one's own takes, and say so on stderr.

    KnobError where it was asked for, and where the experiment takes none so long.
    """
    least = int(broker_value(kafka_server.ensure(), LEAST_SESSION) or 0) if kafka_server.external_bootstrap() else 0
    if values["session_ms"] >= least:
        return
    told = f"this cluster refuses sessions below {least} ms ({LEAST_SESSION} of its brokers)"
    longest = next(knob.high for knob in knobs if knob.name == "session_ms")
    if "session_ms" in given or least > longest:
        instead = "use the kit's own broker" if least > longest else f"run with session_ms={least}"
        raise KnobError(f"{told}, not session_ms={values['session_ms']}. Lower that setting, or {instead}.")
    say_on_stderr(f"{told}; session_ms is {least} here, not {values['session_ms']}")
    values["session_ms"] = least


class KafkaMember(ConsumerProcess):
    """One consumer of a group: a process, called by its client id, and the proxy between it and the broker, if there is one."""

    proxy: ChaosProxy | None = None
    waits = True  # until it has closed
    rules: Sequence[int] = ()  # of the proxy, in force while it is cut off

    def poll(self, records: int, timeout_ms: int) -> Polled:
        if not self.wait_ready(timeout_ms / 1000):
            return Polled()
        found, events = ConsumerProcess.poll(self, records, timeout_ms)
        told = (MemberEvent(each["what"], tuple(each["partitions"]), each["generation"], each["error"]) for each in events)
        return Polled(tuple(found), tuple(told))

    def commit_later(self, offsets: dict[int, int]) -> None:
        """Commit without waiting for the answer; a later poll tells of a refusal."""
        self.commit(offsets, waits=False)

    def close(self) -> list[Told]:
        if self.waits:
            return ConsumerProcess.close(self)
        self.begin_close()
        return []

    def cut_off(self) -> None:
        """Its requests and the answers to those under way are lost from now on. LabError when it did not come through a proxy."""
        if self.proxy is None:
            raise LabError(
                f"member {self.name}: it is connected to the broker directly and cannot be cut off. Set `through_proxy` before it joins."
            )
        self.rules = [self.proxy.add(Rule(action, "any", client_id=self.name)) for action in ("lose_request", "lose_answer")]

    def reconnect(self) -> None:
        """Frames get through again. Connections on which some were lost are closed, as a network's end would do."""
        if self.proxy is not None:
            for handle in self.rules:
                self.proxy.remove(handle)
            self.proxy.cut(self.name)


def start_member(
    cluster: Cluster, topic: str, group: str, client_id: str, settings: MemberSettings, waits: bool = True
) -> KafkaMember:
    """A consumer process that has subscribed, or will have. Errors as `ConsumerProcess.start`."""
    told = asdict(settings) | {
        "topic": topic, "group": group, "client_id": client_id, "bootstrap": cluster.bootstrap,
        "more": LIBRARY_CONFIGS[settings.library](cluster),
    }  # fmt: skip
    return KafkaMember.start(client_id, told, waits)


@dataclass(slots=True)
class KafkaGroup:
    """The twin of `kitlib.experiments.groups.group.ModelGroup`: one topic and one group of a real broker."""

    backend: KafkaBackend
    run: str
    topic: str
    group: str
    watch: GroupWatch
    began_s: float
    partitions: int = 0
    through_proxy: bool = False  # whether those who join from now on can be cut off
    waits: bool = True  # until a process that joins has subscribed, and one that leaves has closed
    proxy: ChaosProxy | None = None
    members: list[KafkaMember] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # client id -> name
    starts: dict[int, int] = field(default_factory=dict)  # partition -> where its log begins, once something was deleted
    has_timeouts: bool = False  # of the newer protocol, on the broker

    @classmethod
    def open(cls, backend: KafkaBackend, run: str) -> KafkaGroup:
        """The group of a run on a real backend. LabError when the broker finds no coordinator for it."""
        topic, group, began_s = f"kit.{run}.orders", f"kit.{run}", time.monotonic()
        created_resources.remember("group", group)
        names: dict[str, str] = {}
        watch = GroupWatch(backend.admin, group, lambda client: names.get(client, client), topic)
        find_coordinator(backend.cluster, group, DEADLINE_S)
        return cls(backend, run, topic, group, watch, began_s, names=names)

    @property
    def now_ms(self) -> int:
        return round((time.monotonic() - self.began_s) * 1000)

    def pass_ms(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def create(self, partitions: int) -> None:
        """Create the topic, and wait until every partition has a leader."""
        create_topic(self.backend.admin, self.topic, self.backend.cluster, partitions=partitions)
        self.partitions = partitions
        self.watch.start()

    def add_partitions(self, partitions: int) -> None:
        kafka_operator.add_partitions(self.backend.admin, self.topic, partitions)
        self.backend.producer.list_topics(self.topic, timeout=DEADLINE_S)  # or it would not know them for minutes
        self.partitions = partitions

    def append(self, partition: int, count: int, age_ms: int = 0) -> int:
        stamp_ms = round(time.time() * 1000) - age_ms if age_ms else NOW
        rows = [(None, b"record %d" % number) for number in range(count)]
        return deliver(self.backend.producer, self.topic, rows, partition, stamp_ms)[0][1]

    def join(self, name: str, settings: MemberSettings) -> KafkaMember:
        """Start a consumer process. KnobError for settings that nobody has, Refused with the library's words for what it refuses."""
        check_settings(name, settings)
        if settings.release != MemberSettings().release:
            raise KnobError(f"member {name}: librdkafka {settings.release} exists only in the model. Leave release, or backend='model'.")
        if settings.protocol == "consumer" and not self.has_timeouts:
            self._set_timeouts(settings)
        number = list(self.names.values()).count(name)
        client_id = f"{name}{'-' + str(number + 1) if number else ''}"
        if self.through_proxy and self.proxy is None:
            self.proxy = ChaosProxy.before(self.backend.cluster)
        proxy = self.proxy if self.through_proxy else None
        member = start_member(proxy.cluster if proxy else self.backend.cluster, self.topic, self.group, client_id, settings, self.waits)
        member.proxy, member.waits = proxy, self.waits
        self.names[client_id] = name
        self.members.append(member)
        return member

    def _set_timeouts(self, settings: MemberSettings) -> None:
        """With the newer protocol session and heartbeat are the group's, kept by the broker; librdkafka cannot set them."""
        wanted = {
            "consumer.session.timeout.ms": settings.session_timeout_ms, "consumer.heartbeat.interval.ms": settings.heartbeat_interval_ms,
        }  # fmt: skip
        kafka_operator.set_group(self.backend.cluster, self.group, wanted)
        self.has_timeouts = True

    def committed(self) -> dict[int, int | None]:
        future = self.watch.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])[self.group]
        told = answered(future, f"group {self.group}: its offsets could not be read")
        found = {each.partition: each.offset for each in told.topic_partitions or () if each.topic == self.topic}
        return {partition: found[partition] if found.get(partition, -1) >= 0 else None for partition in range(self.partitions)}

    def owners(self) -> dict[int, str | None]:
        self.watch.look_now()
        held = {partition: self.names.get(client, client) for partition, client in self.watch.owners.items()}
        return {partition: held.get(partition) for partition in range(self.partitions)}

    def view(self) -> GroupView:
        generations = [each.generation for each in self.members if each.is_alive]
        newest = max((each for each in generations if each is not None), default=None)
        found = self.watch.look_now()
        members = tuple(sorted(self.names.get(client, client) for client in found.held))
        return GroupView(found.state, newest, None, found.strategy or None, members)  # it does not tell who leads

    def happened(self) -> list[CoordinatorEvent]:
        return self.watch.take()

    def alter(self, offsets: dict[int, int]) -> str:
        """OffsetCommit of nobody's."""
        from kafka.structs import OffsetAndMetadata, TopicPartition

        wanted = {TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}
        trouble = f"group {self.group}: its offsets could not be set"
        return kafka_operator.operate(self.backend.cluster, trouble, lambda admin: admin.alter_group_offsets(self.group, wanted))

    def forget(self, partitions: Sequence[int]) -> str:
        """OffsetDelete, which writes a tombstone for each."""
        from kafka.structs import TopicPartition

        wanted = [TopicPartition(self.topic, partition) for partition in partitions]
        trouble = f"group {self.group}: its offsets could not be deleted"
        return kafka_operator.operate(self.backend.cluster, trouble, lambda admin: admin.delete_group_offsets(self.group, wanted))

    def delete_before(self, partition: int, offset: int) -> int:
        self.starts[partition] = delete_records(self.backend.admin, self.topic, partition, offset)
        return self.starts[partition]

    def roll_after(self, segment_ms: int) -> None:
        kafka_operator.set_topic(self.backend.admin, self.topic, "segment.ms", segment_ms)

    def retain(self, partition: int, retention_ms: int) -> int:
        kafka_operator.set_topic(self.backend.admin, self.topic, "retention.ms", retention_ms)
        before = self.starts.get(partition, 0)
        self.starts[partition] = kafka_operator.wait_for_start(self.backend.cluster, self.topic, partition, before)
        return self.starts[partition]

    def close(self) -> None:
        """Kill the members, stop the watch and the proxy. LabError when a process does not end; the others have by then."""
        with ExitStack() as rest:
            if self.proxy is not None:
                rest.callback(_stop, self.proxy)
            rest.callback(self.watch.stop)
            for member in self.members:
                rest.callback(member.kill)


def _stop(proxy: ChaosProxy) -> None:
    with suppress(LabError):
        proxy.stop()
