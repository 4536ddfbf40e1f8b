"""The story of a broken cluster on a real broker: a real group, whose records in __consumer_offsets are then read.

A member that was given an old offset is played by one that commits as if it went on from there, as nobody can make a healthy
coordinator answer wrongly; its commits are real. An offset that is set or lost is set, or deleted, by an operator while
the group has no members. The commits' times are the broker's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit.broken_cluster import PARTITIONS, BrokenCluster, LogEndsSnapshot, Plan
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.experiments.groups.group import ModelGroup
from kitlib.experiments.groups.kafka_members import PATIENT, KafkaGroup, KafkaMember
from kitlib.experiments.kafka_backend import ADVICE, DEADLINE_S, KafkaBackend
from kitlib.lab.client_processes.driver import NONE
from kitlib.lab.log_ends import LogEnds
from kitlib.lab.processes import wait_until

PACE_S = 0.15  # between two looks: ten commits must span more than a second, in which Burrow's clock counts
POLL_MS = 50
MOST = 500  # records in a poll


@dataclass(slots=True)
class KafkaDriver:
    """Does the story's work on a real cluster."""

    plan: Plan
    group: KafkaGroup
    cluster: BrokenCluster
    member: KafkaMember | None = None
    begun_s: float = 0.0  # when the member committed first
    rejoined_s: float = 0.0
    looked_s: float = 0.0

    @classmethod
    def open(cls, backend: KafkaBackend, plan: Plan) -> KafkaDriver:
        """The topic, and a coordinator that is ready. LabError when the broker refuses."""
        group: KafkaGroup = backend.provide(ModelGroup, backend.run)
        group.create(PARTITIONS)
        return cls(plan, group, BrokenCluster(plan.seed, group.group, group.topic))

    def seen(self) -> BrokenCluster:
        self.cluster.history = read_commit_log(self.group.backend.cluster, self.group.group).history
        return self.cluster

    def append(self, records: int) -> None:
        for partition in range(PARTITIONS):
            self.group.append(partition, records)

    def join(self) -> None:
        policy = "earliest" if not self.begun_s or self.plan.is_earliest else "latest"
        self.member = self.group.join("A", replace(PATIENT, auto_offset_reset=policy))
        self._until(lambda found: len(found) == PARTITIONS, "its member has every partition")
        self.rejoined_s = time.monotonic()

    def leave(self) -> None:
        self._member.close()

    def work(self, next_offsets: Mapping[int, int]) -> None:
        what = f"its member is handed the records below {dict(next_offsets)}"
        self._until(lambda found: all(found[partition] >= offset for partition, offset in next_offsets.items()), what)
        error = self._member.commit(dict(next_offsets))
        if error != NONE:
            raise LabError(f"group {self.group.group}: it could not commit ({error}). {ADVICE}")
        self.begun_s = self.begun_s or time.monotonic()

    def alter(self, partition: int, offset: int) -> None:
        self._operate(lambda: self.group.alter({partition: offset}), "set")

    def forget(self, partition: int) -> None:
        self._operate(lambda: self.group.forget([partition]), "deleted")

    def look(self, is_last: bool) -> None:
        pace_s = PACE_S
        if is_last:  # a silence since the rebalance must be longer than what was before it
            pace_s = max(PACE_S, self.rejoined_s + (self.rejoined_s - self.begun_s) + 1 - self.looked_s)
        until_s = self.looked_s + pace_s
        while self.begun_s and (left_s := until_s - time.monotonic()) > 0:
            self._member.poll(MOST, min(POLL_MS, round(left_s * 1000) + 1))
        topic = self.group.topic
        ends = LogEnds.of(self.group.backend.cluster).ends([(topic, partition) for partition in range(PARTITIONS)])
        if ends.skipped:
            raise LabError(f"topic {topic}: its log end is unknown ({next(iter(ends.skipped.values()))}). {ADVICE}")
        told = {partition: ends.offsets[topic, partition] for partition in range(PARTITIONS)}
        self.looked_s = time.monotonic()
        self.cluster.looks.append(LogEndsSnapshot(int(time.time() * 1000), told))  # as the broker: a commit of the same ms is no earlier

    def close(self) -> None:
        """The group is closed with the backend."""

    @property
    def _member(self) -> KafkaMember:
        assert self.member is not None
        return self.member

    def _until(self, is_done: Callable[[dict[int, int]], bool], what: str) -> None:
        """Let the member read until this is so of its positions."""

        def reads_on() -> bool:
            self._member.poll(MOST, POLL_MS)
            return is_done({partition: at for partition, at in self._member.positions().items() if at is not None})

        wait_until(reads_on, DEADLINE_S, f"group {self.group.group}: {what}")

    def _operate(self, ask: Callable[[], str], what: str) -> None:
        """Ask until the coordinator has noticed that the member is gone."""
        wait_until(lambda: ask() == NONE, DEADLINE_S, f"the offset of group {self.group.group} is {what}")
