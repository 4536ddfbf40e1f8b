"""The story of a broken cluster on a real broker: a real group, whose records in __consumer_offsets are then read.

A member that was given an old offset is played by one that seeks to it, as nobody can make a healthy coordinator answer
wrongly; what it then commits is real. An offset that is set or lost is set, or deleted, by an operator while
the group has no members. The commits' times are the broker's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit.broken_cluster import PARTITIONS, VANISHED, BrokenCluster, LogEndsSnapshot, Plan
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.experiments.groups.kafka_operator import NONE, alter_offsets, delete_offsets
from kitlib.experiments.kafka_backend import KafkaBackend, create_topic, deliver, replicas_of
from kitlib.experiments.kafka_group import ADVICE, DEADLINE_S
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.log_ends import LogEnds
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.coordinator import find_coordinator

PACE_S = 0.15  # between two looks: ten commits must span more than a second, in which Burrow's clock counts


@dataclass(slots=True)
class KafkaDriver:
    """Does the story's work on a real cluster."""

    plan: Plan
    backend: KafkaBackend
    found: BrokenCluster
    consumer: Consumer | None = None
    reached: dict[int, int] = field(default_factory=dict)  # partition -> the next offset that the member will be handed
    begun_s: float = 0.0  # when the member committed first
    rejoined_s: float = 0.0
    looked_s: float = 0.0

    @classmethod
    def open(cls, backend: KafkaBackend, plan: Plan) -> KafkaDriver:
        """The topic, and a coordinator that is ready. LabError when the broker refuses."""
        topic, group = f"kit.{backend.run}", f"kit.{backend.run}.group"
        create_topic(backend.admin, topic, replicas_of(backend.cluster), partitions=PARTITIONS)
        find_coordinator(backend.cluster, group, DEADLINE_S)
        return cls(plan, backend, BrokenCluster(plan.seed, group, topic))

    @property
    def cluster(self) -> Cluster:
        return self.backend.cluster

    def seen(self) -> BrokenCluster:
        self.found.history = read_commit_log(self.cluster, self.found.group).history
        return self.found

    def append(self, records: int) -> None:
        for partition in range(PARTITIONS):
            deliver(self.backend.producer, self.found.topic, [(None, b"an order")] * records, partition)

    def join(self) -> None:
        policy = "earliest" if not self.begun_s or self.plan.is_earliest else "latest"
        self.reached = {}
        self.consumer = Consumer(
            client_config(
                self.cluster,
                **{"group.id": self.found.group, "enable.auto.commit": False, "auto.offset.reset": policy,
                   "enable.partition.eof": True, "fetch.wait.max.ms": 50},
            )
        )  # fmt: skip
        self.consumer.subscribe([self.found.topic])
        self._until(lambda: len(self.reached) == PARTITIONS, "its member has every partition")
        self.rejoined_s = time.monotonic()

    def leave(self) -> None:
        if self.consumer is not None:
            self.consumer.close()
            self.consumer = None

    def work(self, next_offsets: Mapping[int, int]) -> None:
        self._until(
            lambda: all(self.reached[partition] >= offset for partition, offset in next_offsets.items()),
            f"its member is handed the records below {dict(next_offsets)}",
        )
        offsets = [TopicPartition(self.found.topic, partition, offset) for partition, offset in next_offsets.items()]
        try:
            self._member().commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise LabError(f"group {self.found.group}: it could not commit ({error.args[0].str()}). {ADVICE}") from error
        self.begun_s = self.begun_s or time.monotonic()

    def go_back(self, partition: int, offset: int) -> None:
        if self.plan.fault != VANISHED:  # there the reset policy has done it
            self._member().seek(TopicPartition(self.found.topic, partition, offset))
            self.reached[partition] = offset

    def alter(self, partition: int, offset: int) -> None:
        self._operate(lambda: alter_offsets(self.cluster, self.found.group, self.found.topic, {partition: offset}), "set")

    def forget(self, partition: int) -> None:
        self._operate(lambda: delete_offsets(self.cluster, self.found.group, self.found.topic, [partition]), "deleted")

    def look(self, is_last: bool) -> None:
        pace_s = PACE_S
        if is_last:  # a silence since the rebalance must be longer than what was before it
            pace_s = max(PACE_S, self.rejoined_s + (self.rejoined_s - self.begun_s) + 1 - self.looked_s)
        until_s = self.looked_s + pace_s
        while self.begun_s and (left_s := until_s - time.monotonic()) > 0:
            self._read(left_s)
        ends = LogEnds.of(self.cluster).ends([(self.found.topic, partition) for partition in range(PARTITIONS)])
        if ends.skipped:
            raise LabError(f"topic {self.found.topic}: its log end is unknown ({next(iter(ends.skipped.values()))}). {ADVICE}")
        told = {partition: ends.offsets[self.found.topic, partition] for partition in range(PARTITIONS)}
        self.looked_s = time.monotonic()
        self.found.looks.append(LogEndsSnapshot(int(time.time() * 1000), told))  # as the broker: a commit of the same ms is no earlier

    def close(self) -> None:
        """Let the group's member go."""
        with suppress(KafkaException):
            self.leave()

    def _member(self) -> Consumer:
        assert self.consumer is not None
        return self.consumer

    def _until(self, is_done: Callable[[], bool], what: str) -> None:
        def reads_on() -> bool:
            self._read(0.1)
            return is_done()

        wait_until(reads_on, DEADLINE_S, f"group {self.found.group}: {what}")

    def _read(self, wait_s: float) -> None:
        """What the member is handed, or where it stands when there is nothing more."""
        for message in self._member().consume(1_000, timeout=min(wait_s, 0.05)):
            error, partition, offset = message.error(), int(message.partition() or 0), int(message.offset() or 0)
            if error is None:
                self.reached[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self.reached[partition] = offset

    def _operate(self, ask: Callable[[], str], what: str) -> None:
        """Ask until the coordinator has noticed that the member is gone."""
        wait_until(lambda: ask() == NONE, DEADLINE_S, f"the offset of group {self.found.group} is {what}")
