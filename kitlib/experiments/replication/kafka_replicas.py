"""A partition on two or three real brokers: records, deaths, a flipped bit, and readers that go on after it.

The run's model says what should come of each deed, and this waits until the brokers say the same. Brokers
die by SIGKILL and are held dead. Node 1 is the only controller and must live.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import psutil
from confluent_kafka import KafkaError, Message, Producer

from kitlib.errors import LabError
from kitlib.experiments.groups.kafka_members import PATIENT, KafkaMember, start_member
from kitlib.experiments.kafka_backend import ADVICE, DEADLINE_S, PARTITION, KafkaBackend, TopicReader
from kitlib.lab import created_resources, kafka_server, workspace
from kitlib.lab.brokers.leaders import Leaders, Partition
from kitlib.lab.client_processes.driver import NONE
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.processes import wait_until
from kitlib.mechanisms.positions import ResetPolicy
from kitlib.mechanisms.replication.controller import NO_LEADER
from kitlib.mechanisms.replication.epochs import Library
from kitlib.mechanisms.replication.partition import ReplicatedPartition, ReplicationConfig

QUIET_S = 0.5  # so long a reader that has all it should get is watched for more
POLL_MS = 100
MOST = 500  # records in a poll
# What the libraries call the errors of a start, and the run's names for them; librdkafka has one name for two.
ERRORS = {
    "OFFSET_OUT_OF_RANGE": "OffsetOutOfRange", "LOG_TRUNCATION": "LogTruncation", "NO_OFFSET_FOR_PARTITION": "NoOffsetForPartition",
    "_AUTO_OFFSET_RESET": "OffsetOutOfRange",
}  # fmt: skip
SENT_S = 20.0  # how long a record may take that is expected to be stored
REFUSED_MS = 1_000  # how long the producer tries one that is expected to be refused


@dataclass(slots=True)
class KafkaReplicas:
    """Partition 0 of a real topic with copies on chosen brokers of the kit's three."""

    backend: KafkaBackend
    cluster: Cluster
    topic: str
    leaders: Leaders = field(init=False)  # once the topic is there
    dead: list[int] = field(default_factory=list)
    paused: dict[int, psutil.Process] = field(default_factory=dict)

    @classmethod
    def open(cls, backend: KafkaBackend) -> KafkaReplicas:
        """LabError without three brokers of the kit's own."""
        cluster = backend.cluster
        if cluster.brokers < 3 or cluster.source != "kit":
            raise LabError(
                f"This needs three brokers of the kit's own, the cluster at {cluster.bootstrap} has {cluster.brokers}. Run "
                "`kit down`, then `kit up --brokers 3`; or run it on the model."
            )
        topic = f"kit.{backend.run}.events"
        created_resources.remember("group", f"{topic}.group")
        return cls(backend, cluster, topic)

    @property
    def now_ms(self) -> int:
        return self.backend.now_ms

    def create(self, brokers: Sequence[int], config: ReplicationConfig) -> None:
        settings = {
            "min.insync.replicas": str(config.min_insync_replicas), "retention.ms": "-1",
            "unclean.leader.election.enable": str(config.unclean_leader_election).lower(),
        }  # fmt: skip
        self.leaders = Leaders.create(self.cluster, self.topic, brokers, settings)

    def send(self, numbers: Sequence[int], is_taken: bool) -> str:
        """Send one record for each number with acks=all, one after the other; "" or why the first one was refused.

        LabError when one that should be stored is not, within SENT_S.
        """
        limit_ms = int(SENT_S * 1000) if is_taken else REFUSED_MS
        producer = Producer(client_config(self.cluster, **{
            "acks": "all", "linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 1, "delivery.timeout.ms": limit_ms,
            "request.timeout.ms": limit_ms, "retry.backoff.ms": 50, "enable.idempotence": is_taken,
        }))  # fmt: skip
        errors: list[str] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(str(error.name()))

        for number in numbers if is_taken else numbers[:1]:
            producer.produce(self.topic, value=b"%d" % number, partition=PARTITION, on_delivery=told)
        left = producer.flush(SENT_S + 5)
        if left or (errors and is_taken):
            raise LabError(
                f"{self.topic}-0: {left + len(errors)} of {len(numbers)} records were not stored within {SENT_S:g} s: "
                f"{errors[:1] or 'no answer'}. Look at `kit status`."
            )
        return errors[0] if errors else ""

    def kill(self, broker: int) -> None:
        kafka_server.kill_node(broker, hold=True)
        self.dead.append(broker)

    def start(self, broker: int) -> None:
        if broker in self.dead:
            kafka_server.start_node(broker)
            self.dead.remove(broker)

    def pause(self, broker: int) -> None:
        """SIGSTOP: it answers nobody, and its connections stay open."""
        pids = {each.node: each.pid for each in kafka_server.status().nodes}
        self.paused[broker] = psutil.Process(pids[broker])
        self.paused[broker].suspend()

    def wake(self, broker: int) -> None:
        """SIGCONT."""
        self.paused.pop(broker).resume()

    def flip_bit(self, broker: int, offset: int) -> None:
        """Flip a bit in the last byte of a record's batch, which holds that record alone, on a dead broker's disk."""
        segments = sorted(workspace.data_dir().glob(f"kafka-3/node-{broker}/{self.topic}-{PARTITION}/*.log"))
        for path in segments:
            data, at = bytearray(path.read_bytes()), 0
            while at + 12 <= len(data):
                base, size = int.from_bytes(data[at : at + 8], "big"), 12 + int.from_bytes(data[at + 8 : at + 12], "big")
                if base == offset:
                    data[at + size - 2] ^= 1  # inside of the value, before the count of headers
                    path.write_bytes(data)
                    return
                at += size
        raise LabError(f"broker {broker}: offset {offset} of {self.topic}-0 is in none of its {len(segments)} segments. Look at its data.")

    def settle(self, model: ReplicatedPartition) -> Partition:
        """Wait until the brokers say of the partition what the model says: leader and in-sync set. LabError when they do not."""
        state = model.state

        def agrees(found: Partition) -> bool:
            return found.leader == state.leader and (state.leader == NO_LEADER or set(found.in_sync) == set(state.in_sync))

        return self.leaders.wait(agrees, f"leader {state.leader} and in sync {list(state.in_sync)}, as the model has it,")

    def read(self, library: Library, policy: ResetPolicy, most: int, expected: int, with_epoch: bool) -> tuple[list[int], str]:
        """A new consumer begins at the group's committed offset, reads, commits what it has read, and leaves; what it was handed.

        It reads until it has `expected` records and no more come for QUIET_S, `most` at most; with an error instead of records
        where it cannot begin. `with_epoch`: whether the leader epoch goes with the offset. LabError after DEADLINE_S.
        """
        patient = replace(PATIENT, library=library, auto_offset_reset=policy, max_poll_records=min(most, MOST))
        reader = start_member(self.cluster, self.topic, f"{self.topic}.group", "reader", patient)
        try:
            offsets, error = self._handed_out(reader, most, expected)
            if offsets and not error:
                chosen = None if with_epoch else {PARTITION: offsets[-1] + 1}  # by itself a library commits the epoch as well
                wait_until(lambda: reader.commit(chosen) == NONE, DEADLINE_S, f"{self.topic}.group has committed {offsets[-1] + 1}")
            reader.close()
        finally:
            reader.kill()
        return offsets, error

    def _handed_out(self, reader: KafkaMember, most: int, expected: int) -> tuple[list[int], str]:
        offsets: list[int] = []
        deadline, quiet_since = time.monotonic() + DEADLINE_S, time.monotonic()
        while len(offsets) < most:
            records, events = reader.poll(min(most - len(offsets), MOST), POLL_MS)
            offsets += [offset for _, offset in records]
            is_placed, is_quiet = bool(offsets), not records and len(offsets) >= expected
            if is_quiet and not is_placed:
                is_placed = reader.positions().get(PARTITION) is not None
            if error := next((ERRORS[each.error] for each in events if each.error in ERRORS), ""):
                return offsets, error
            now = time.monotonic()
            if not (is_quiet and is_placed):
                quiet_since = now
            if now - quiet_since > QUIET_S:
                break
            if now > deadline:
                raise LabError(
                    f"{self.topic}-0: a reader was handed {len(offsets)} records within {DEADLINE_S:g} s, expected {expected}. {ADVICE}"
                )
        return offsets, ""

    def read_log(self) -> list[int]:
        """The numbers of all records that its leader hands out, in the log's order."""
        with TopicReader.open(self.cluster, self.topic) as reader:
            return [int(value) for value in reader.read()[1]]

    def close(self) -> None:
        """Every broker runs again."""
        with ExitStack() as rest:
            for broker in list(self.dead):
                rest.callback(self.start, broker)
            for broker in list(self.paused):
                self.wake(broker)
