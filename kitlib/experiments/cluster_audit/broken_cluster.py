"""A group with one hidden fault: what its commits and its lag show, and how that tells which of six faults it is.

A group reads a topic of three partitions and commits all of them again and again; records go on coming, and once
the group is rebalanced, as groups are. One partition has a fault, chosen by the seed. Another one has what only
looks like a fault: a late commit at the rebalance, which the next commit makes good.

Who is to find the fault sees what any operator sees: the records of the offsets topic, and the ends of the logs. The
story is the same in memory, a minute between two commits, and on a real broker
(`kitlib.experiments.cluster_audit.kafka_broken_cluster`), where it is played with a real group. `diagnose` is the answer that
the signs and Burrow's rules of `kitlib.monitor.diagnosis` give; it does not know the seed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from kitlib.errors import KnobError
from kitlib.experiments.experiment import BACKENDS, backend_of
from kitlib.mechanisms.lag import Status
from kitlib.monitor.commit_history import CommitHistory, Committed, GroupPartition, GroupSeen
from kitlib.monitor.diagnosis import GroupSnapshot, Look, PartitionSeen, burrow, signs
from kitlib.monitor.rewinds import Excuse, Rewind, Vanished
from kitlib.text import html_table, text_table

REWOUND, BY_HAND, VANISHED = "rewound", "reset by hand", "vanished"
STOPPED, STALLED, SLOW = "stopped", "stalled", "slow"
FAULTS: dict[str, str] = {
    REWOUND: "a member was given an old offset, and went on from there",
    BY_HAND: "someone set the offset back while the group had no members",
    VANISHED: "the committed offset was lost, and the reset policy chose where to go on",
    STOPPED: "the partition is no longer processed",
    STALLED: "a record cannot be processed, and the offset before it is committed again and again",
    SLOW: "the partition is processed, and more comes in than goes out",
}
STATUSES = {Status.STOP: STOPPED, Status.STALL: STALLED, Status.WARN: SLOW}

PARTITIONS, TICKS = 3, 14
BEFORE, RATE, SLOW_RATE = 200, 10, 3  # records that were there before, and that come, and are worked on, in a tick
LATE_BY = 5  # records, of the late commit
TICK_MS, REBALANCE_MS = 60_000, 1_000  # in memory
BEGIN_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed stands for."""

    seed: int
    fault: str
    partition: int
    late: int  # the partition with the late commit
    at_tick: int  # of the rebalance, and of the faults that begin with it
    old: int  # the offset that comes back
    is_earliest: bool  # the reset policy

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The plan of a seed. KnobError for what is none."""
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise KnobError(f"seed is {str(seed)[:40]!r}, expected a whole number from 0 on.")
        rng = Random(f"broken cluster {seed}")
        partition, late = rng.sample(range(PARTITIONS), 2)
        return cls(seed, rng.choice(list(FAULTS)), partition, late, rng.randint(3, 4), rng.randint(5, 60), rng.random() < 0.5)


def play(plan: Plan, driver: ModelDriver) -> None:
    """The story of a plan, done by a driver of the model's cluster or of a real one."""
    position = dict.fromkeys(range(PARTITIONS), BEFORE)
    end = BEFORE
    driver.append(BEFORE)
    driver.join()
    for tick in range(TICKS + 1):
        if tick:
            driver.append(RATE)
            end += RATE
        if tick == plan.at_tick:
            _rebalance(plan, driver, position, end)
        commits = {}
        for partition in range(PARTITIONS):
            rate = SLOW_RATE if partition == plan.partition and plan.fault == SLOW else RATE
            is_broken = partition == plan.partition and tick >= plan.at_tick
            if is_broken and plan.fault == STOPPED:
                continue
            if tick and not (is_broken and plan.fault == STALLED):
                position[partition] = min(end, position[partition] + rate)
            is_late = partition == plan.late and tick == plan.at_tick
            commits[partition] = position[partition] - RATE - LATE_BY if is_late else position[partition]
        driver.look(is_last=tick == TICKS)
        driver.work(commits)


def _rebalance(plan: Plan, driver: ModelDriver, position: dict[int, int], end: int) -> None:
    driver.leave()
    if plan.fault == BY_HAND:
        driver.alter(plan.partition, plan.old)
    elif plan.fault == VANISHED:
        driver.forget(plan.partition)
    driver.join()
    if plan.fault in (REWOUND, BY_HAND):
        position[plan.partition] = plan.old
    elif plan.fault == VANISHED:
        position[plan.partition] = 0 if plan.is_earliest else end


@dataclass(frozen=True, slots=True)
class LogEndsSnapshot:
    """Where the logs ended at a time."""

    at_ms: int
    log_ends: Mapping[int, int]  # by partition


@dataclass(slots=True)
class BrokenCluster:
    """One group with a fault: the records of the offsets topic that are about it, and what a monitor saw of the logs."""

    seed: int
    group: str
    topic: str
    history: CommitHistory = field(default_factory=CommitHistory)
    looks: list[LogEndsSnapshot] = field(default_factory=list)

    def commits(self, partition: int) -> list[Committed]:
        """The commits and tombstones of one partition, in the order of the log."""
        return self.history.commits.get(GroupPartition(self.group, self.topic, partition), [])

    def offsets(self, *partitions: int) -> Table:
        """The records of the offsets topic, one a line in their order; of some partitions, or of all."""
        chosen = partitions or range(PARTITIONS)
        found = sorted(
            ((each.order, partition, each) for partition in chosen for each in self.commits(partition)), key=lambda row: row[0]
        )
        before: dict[int, int | None] = {}
        rows = []
        for number, (_, partition, commit) in enumerate(found, 1):
            was = before.get(partition)
            step = "" if was is None or commit.offset is None else f"{commit.offset - was:+d}"
            before[partition] = commit.offset
            offset = "gone (tombstone)" if commit.offset is None else str(commit.offset)
            rows.append((str(number), str(partition), offset, step, "?" if commit.members is None else str(commit.members)))
        return Table(("record", "partition", "offset", "step", "members"), tuple(rows))

    def lag(self) -> Table:
        """The lag of each partition after each look of the monitor: log end less what is committed by then."""
        rows = []
        for number, look in enumerate(self.looks):
            until_ms = self.looks[number + 1].at_ms if number + 1 < len(self.looks) else self.now_ms + 1
            lags = []
            for partition in range(PARTITIONS):
                known = [each.offset for each in self.commits(partition) if each.at_ms < until_ms]
                lags.append("?" if not known or known[-1] is None else str(look.log_ends[partition] - known[-1]))
            rows.append((str(number), *lags))
        return Table(("look", *(f"partition {partition}" for partition in range(PARTITIONS))), tuple(rows))

    @property
    def now_ms(self) -> int:
        """The time of the last thing that was seen."""
        times = [each.at_ms for partition in range(PARTITIONS) for each in self.commits(partition)]
        return max([*times, *(look.at_ms for look in self.looks)])

    def part(self, partition: int) -> PartitionSeen:
        """A partition as the last look and the last commit have it. KnobError for one that there is not."""
        if partition not in range(PARTITIONS):
            raise KnobError(f"partition is {str(partition)[:40]!r}, expected 0 to {PARTITIONS - 1}.")
        commits, looks = self.commits(partition), [Look(each.at_ms, None, each.log_ends[partition]) for each in self.looks]
        return PartitionSeen(self.topic, partition, commits[-1].offset, end=looks[-1].end, commits=commits, looks=looks)

    @property
    def snapshot(self) -> GroupSnapshot:
        """The group as it is then; Burrow's clock has whole seconds."""
        parts = [self.part(partition) for partition in range(PARTITIONS)]
        return GroupSnapshot(self.group, -(-self.now_ms // 1000) * 1000, parts, seen=self.history.groups.get(self.group, ()))

    def __repr__(self) -> str:
        records = sum(len(self.commits(partition)) for partition in range(PARTITIONS))
        return f"<a broken cluster, seed {self.seed}: {records} records in the offsets topic, {len(self.looks)} looks at the lag>"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that show themselves, in a notebook and as text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        return "\n".join(text_table([self.head, *self.rows], left=len(self.head)))

    def _repr_html_(self) -> str:
        return html_table(self.head, self.rows)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Which fault a partition has, and the evidence in a sentence."""

    partition: int
    fault: str
    why: str


def diagnose(cluster: BrokenCluster) -> list[Diagnosis]:
    """The partitions with a fault, by their commits and their lag alone."""
    group = cluster.snapshot
    return [found for part in group.partitions if (found := diagnose_partition(group, part)) is not None]


def diagnose_partition(group: GroupSnapshot, part: PartitionSeen) -> Diagnosis | None:
    """One partition's fault; None for one that is well. What went back or vanished comes before what the lag says."""
    for sign in signs(group, part):
        if isinstance(sign, Vanished) and sign.is_fault:
            return Diagnosis(part.partition, VANISHED, str(sign))
        if isinstance(sign, Rewind) and sign.excuse in (Excuse.NONE, Excuse.BY_HAND):
            members = sign.after.members
            who = "no members" if not members else f"{members} member{'s' if members > 1 else ''}"
            told = f"the offset went back by {sign.records}, from {sign.before.offset} to {sign.after.offset}, when the group had {who}"
            return Diagnosis(part.partition, BY_HAND if sign.excuse is Excuse.BY_HAND else REWOUND, told)
    judged = burrow(group, part)
    return Diagnosis(part.partition, STATUSES[judged.status], judged.why) if judged and judged.status in STATUSES else None


@dataclass(slots=True)
class ModelDriver:
    """What the story does to a cluster: its records as a coordinator would write them, in virtual time."""

    on_kafka: ClassVar[str] = "kitlib.experiments.cluster_audit.kafka_broken_cluster:KafkaDriver"

    plan: Plan
    cluster: BrokenCluster = field(init=False)
    now_ms: int = BEGIN_MS
    order: int = 0
    members: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        self.cluster = BrokenCluster(self.plan.seed, f"broken-{self.plan.seed}", f"orders-{self.plan.seed}")

    def append(self, records: int) -> None:
        """So many records come to every partition."""
        self.end += records

    def join(self) -> None:
        """The group has a member."""
        self._rebalance(1)

    def leave(self) -> None:
        """It has none."""
        self._rebalance(0)

    def work(self, next_offsets: Mapping[int, int]) -> None:
        """The member has processed everything below these offsets, by partition, and commits them."""
        for partition, offset in next_offsets.items():
            self._commit(partition, offset)
        self.now_ms += TICK_MS

    def alter(self, partition: int, offset: int) -> None:
        """An operator sets the offset of the group, which has no members."""
        self._commit(partition, offset)

    def forget(self, partition: int) -> None:
        """The offset of the group, which has no members, is gone."""
        self._commit(partition, None)

    def look(self, is_last: bool) -> None:
        """A monitor reads where the logs end; then it is a while to the next look."""
        self.cluster.looks.append(LogEndsSnapshot(self.now_ms, dict.fromkeys(range(PARTITIONS), self.end)))

    def seen(self) -> BrokenCluster:
        """The cluster with all that its offsets topic holds of the group."""
        return self.cluster

    def _rebalance(self, members: int) -> None:
        self.now_ms += REBALANCE_MS
        self.members = members
        self.order += 1
        self.cluster.history.groups.setdefault(self.cluster.group, []).append(GroupSeen(self.order, self.now_ms, members))

    def _commit(self, partition: int, offset: int | None) -> None:
        self.order += 1
        where = GroupPartition(self.cluster.group, self.cluster.topic, partition)
        commit = Committed(self.order, self.now_ms, offset, members=self.members)
        self.cluster.history.commits.setdefault(where, []).append(commit)


def broken_cluster(seed: int, backend: str = "model") -> BrokenCluster:
    """A group with the fault of a seed, in memory or on the real broker. KnobError for another backend; LabError without a broker."""
    plan = Plan.of(seed)
    if backend not in BACKENDS:
        raise KnobError(f"broken_cluster: backend is {str(backend)[:40]!r}, expected one of {', '.join(BACKENDS)}.")
    with backend_of(backend, f"broken-{seed}-{uuid.uuid4().hex[:8]}") as place:
        driver = place.provide(ModelDriver, plan)
        play(plan, driver)
        found: BrokenCluster = driver.seen()
    return found
