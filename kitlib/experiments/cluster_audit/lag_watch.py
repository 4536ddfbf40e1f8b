"""Watches one group of a real cluster: how far behind it is, and what Burrow's rules make of its last commits.

Two things are read again and again: what the group adds to __consumer_offsets, and where the logs of its
topics end. Nobody has to be asked who belongs to the group, and the group does not notice.

A watch that has just begun has seen no commit. So it begins with the last ones that the topic holds, and asks
where each log ended when each of them was written: the window looks as if the watch had been there. That is
as good as the times that producers gave their records, and a topic whose first records are gone since shows
less lag than there was.

Source: Burrow v1.9.5, core/internal/consumer/kafka_client.go, core/internal/cluster/kafka_cluster.go.
Differs: one group; a window that is filled from the topic's past; a tombstone empties the window, where Burrow
passes it over and goes on to judge a commit that is no more. Log ends are read at each look, Burrow's every ten
seconds: with a look every two seconds the ten ends that it keeps reach back 20 s instead of 100 s, so a group
that was caught up and stops is told five times as early. The first window has the topic's last commits, however
close they are; a least distance holds for those that come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments.cluster_audit.commit_log import CommitLog, add_records, watched
from kitlib.experiments.cluster_audit.commit_report import retention_of
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.log_ends import LogEnds, Where, topic_ids
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, OffsetsTopic
from kitlib.mechanisms.lag import (
    NOT_FOUND,
    Commit,
    GroupStatus,
    PartitionStatus,
    Status,
    Window,
    evaluate,
    evaluate_group,
)
from kitlib.monitor.commit_history import Committed, GroupPartition
from kitlib.monitor.lag_window import GroupOffsets, LagStorage
from kitlib.monitor.rewinds import NO_TOPIC, WEEK_MS, Excuse, Rewind, Vanished, rewinds, vanished
from kitlib.more.hashes import group_partition
from kitlib.text import plain_text

KEPT = 500  # commits of a partition that a watch remembers
TOLD_GROUPS = 5  # that are named when one is not there
ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition of the group at one look."""

    topic: str
    partition: int
    status: PartitionStatus | None  # None: nothing to judge by, and `why` says why
    committed: int | None  # None: the group has no committed offset here (any more)
    log_end: int | None  # None: it could not be read
    age_ms: int | None  # since the last commit
    by: str | None  # the member that holds it, when the group's records tell
    why: str
    window: Window | None = None
    signs: tuple[Rewind | Vanished, ...] = ()  # what the topic still tells

    @property
    def lag(self) -> int | None:
        """The end less the committed offset, 0 at least; None when one of them is not known."""
        return None if self.committed is None or self.log_end is None else max(0, self.log_end - self.committed)

    @property
    def word(self) -> str:
        """The status in a word; NONE for a partition that cannot be judged."""
        return "NONE" if self.status is None else self.status.status.name


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The whole group at one time."""

    group: str
    at_ms: int
    status: GroupStatus
    members: int | None  # None: no record has told
    partitions: tuple[PartitionSnapshot, ...]
    notes: tuple[str, ...] = ()

    def partition(self, topic: str, partition: int) -> PartitionSnapshot:
        """One of them. KnobError when the group has never committed there."""
        for each in self.partitions:
            if (each.topic, each.partition) == (topic, partition):
                return each
        raise KnobError(f"group {self.group} has no commit for {topic}-{partition}. It has: {', '.join(map(_name, self.partitions))}.")

    def __str__(self) -> str:
        told = f"group {plain_text(self.group, 60)}: {self.status.status.name}, total lag {self.status.total_lag}"
        return "\n".join([told, *(f"  {_name(each)}: {each.word}, lag {each.lag}: {each.why}" for each in self.partitions)])


def _name(look: PartitionSnapshot) -> str:
    return plain_text(f"{look.topic}-{look.partition}", 260)


@dataclass(slots=True)
class LagWatch:
    """A group that is watched; `look` is what is known now."""

    group: str
    source: OffsetsTopic
    log_ends: LogEnds
    storage: LagStorage
    allowed_lag: int = 0
    minimum_complete: float = 0.0
    retention_ms: int = WEEK_MS  # the cluster's own, of offsets
    now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
    log: CommitLog = field(default_factory=CommitLog)
    taken: dict[GroupPartition, int] = field(default_factory=dict)  # how many commits of each are in the storage
    gone: set[GroupPartition] = field(default_factory=set)  # whose last record is a tombstone
    skipped: Mapping[Where, str] = field(default_factory=dict)  # partitions without a log end
    trouble: str = ""  # of the last look, if the brokers did not answer
    topics: Mapping[str, str] = field(default_factory=dict)  # the ids now of those that may have been deleted

    @classmethod
    @contextmanager
    def open(
        cls,
        cluster: Cluster,
        group: str,
        intervals: int = 10,
        min_distance_s: int = 0,
        allowed_lag: int = 0,
        minimum_complete: float = 0.0,
        topic: str = OFFSETS_TOPIC,
    ) -> Iterator[LagWatch]:
        """Read what the topic holds of the group, and be ready to look.

        KnobError for settings that no window has. LabError for a group that has no commits and that no broker
        knows, for a topic that may not be read, and when the brokers are silent.
        """
        if allowed_lag < 0:
            raise KnobError(f"allowed_lag is {allowed_lag}: give 0 records or more.")
        if not 0 <= minimum_complete <= 1:
            raise KnobError(f"minimum_complete is {minimum_complete}: give a share, 0 to 1.")
        storage = LagStorage(intervals, min_distance_s)
        with OffsetsTopic.open(cluster, topic) as source:
            kept_ms = retention_of(cluster)
            watch = cls(group, source, LogEnds.of(cluster), storage, allowed_lag, minimum_complete, kept_ms)
            watch._begin(cluster)
            yield watch

    def look(self, wait_s: float = 0.1) -> GroupSnapshot:
        """The group now: new commits are waited for until `wait_s` is over. LabError when the topic may no longer be read."""
        self._ask_log_ends()
        raw = self.source.more(wait_s)
        add_records(self.log, watched(raw, self.log), self.group)
        self._take_new()
        self._ask_topics()
        now_ms = self.now_ms()
        self._trim()
        return self._told(now_ms)

    # -- inside ------------------------------------------------------------------------------------

    def _begin(self, cluster: Cluster) -> None:
        count = self.source.partitions()
        place = group_partition(self.group, count) if count else 0
        if count:
            add_records(self.log, watched(self.source.read(place), self.log), self.group)
            self.log.bounds = dict(self.source.bounds)
        if not self.log.history.commits and self.group not in self.log.history.groups:
            check_group_exists(cluster, self.group)
        self._fill()
        if count:
            self.source.follow(place, self.log.bounds[place].end)

    def _fill(self) -> None:
        """Windows as they would be, had the watch been there: each of the last commits with the log end of its time."""
        last = {where: since_tombstone(commits)[-self.storage.intervals :] for where, commits in self.log.partitions(self.group).items()}
        events: list[tuple[int, GroupPartition, Committed, int]] = []
        for back in range(self.storage.intervals):
            asked = {where: commits[-1 - back] for where, commits in last.items() if len(commits) > back}
            if not asked:
                break
            found = self.log_ends.ends_at({(where.topic, where.partition): each.at_ms for where, each in asked.items()})
            self.skipped = {**self.skipped, **found.skipped}
            events += [
                (each.order, where, each, found.offsets[where.topic, where.partition])
                for where, each in asked.items()
                if (where.topic, where.partition) in found.offsets
            ]
        for _, where, each, log_end in sorted(events, key=lambda event: event[0]):
            self.storage.add_log_end(where.topic, where.partition, log_end)
            self._store(where, each, each.at_ms)
        for where, commits in self.log.partitions(self.group).items():
            self.taken[where] = commits[-1].order
            self.gone.update([where] if commits[-1].offset is None else [])

    def _store(self, where: GroupPartition, commit: Committed, now_ms: int) -> None:
        stored = Commit(commit.offset or 0, commit.at_ms, order=commit.order)
        self.storage.add_commit(where.group, where.topic, where.partition, stored, now_ms)

    def _ask_log_ends(self) -> None:
        places = [(where.topic, where.partition) for where in self.log.history.commits if where.group == self.group]
        try:
            found = self.log_ends.ends(places)
        except LabError as error:
            self.trouble = f"{error} What is told here is as it was."
            return
        self.trouble, self.skipped = "", found.skipped
        for (topic, partition), offset in found.offsets.items():
            self.storage.add_log_end(topic, partition, offset)

    def _ask_topics(self) -> None:
        """Whether the topics are there of which a commit is gone."""
        try:
            self.topics = topic_ids(self.log_ends.admin, {where.topic for where in self.gone})
        except LabError as error:
            self.trouble = self.trouble or f"{error} What is told here is as it was."

    def _signs(self, where: GroupPartition, commits: list[Committed]) -> tuple[Rewind | Vanished, ...]:
        gone = vanished(commits, self.log.seen(self.group), self.retention_ms, topic_now=self.topics.get(where.topic))
        return (*rewinds(commits), *gone)

    def _take_new(self) -> None:
        fresh = [where for where in self.log.partitions(self.group) if where not in self.taken]
        if fresh:  # a partition's first commit: nobody knew that its log end would be wanted
            self._ask_log_ends()
        new = [
            (each.order, where, each)
            for where, commits in self.log.partitions(self.group).items()
            for each in commits
            if each.order > self.taken.get(where, -1)
        ]
        for order, where, each in sorted(new, key=lambda event: event[0]):
            self.taken[where] = order
            if each.offset is None:
                self.gone.add(where)
                self.storage.groups.get(self.group, GroupOffsets()).windows.pop((where.topic, where.partition), None)
            else:
                self.gone.discard(where)
                self._store(where, each, self.now_ms())

    def _trim(self) -> None:
        """History is for ever, a watch is not: the last KEPT commits of each partition stay."""
        for commits in self.log.history.commits.values():
            del commits[:-KEPT]
        for seen in self.log.history.groups.values():
            del seen[:-KEPT]

    def _told(self, now_ms: int) -> GroupSnapshot:
        windows = self.storage.windows(self.group, now_ms, self.allowed_lag)
        now = self.log.history.now.get(self.group)
        owners = {} if now is None else now.owners
        looks: list[PartitionSnapshot] = []
        for where, commits in self.log.partitions(self.group).items():
            place = (where.topic, where.partition)
            window = None if windows is None or where in self.gone else windows.get(place)
            found = None if window is None else evaluate(window, self.minimum_complete)
            ends = self.storage.log_ends.get(place)
            looks.append(
                PartitionSnapshot(
                    where.topic,
                    where.partition,
                    found,
                    None if where in self.gone else commits[-1].offset,
                    ends[-1] if ends and place not in self.skipped else None,
                    None if where in self.gone else now_ms - commits[-1].at_ms,
                    owners.get(place),
                    self._why(where, commits, found, windows is None),
                    window,
                    self._signs(where, commits),
                )
            )
        judged = {(each.topic, each.partition): each.window for each in looks if each.window is not None}
        members = None if now is None or now.members is None else len(now.members)
        notes = [*([self.trouble] if self.trouble else []), *self.log.notes()]
        if not looks:
            notes.append("the group has committed nothing, so there is nothing to judge.")
        is_forgotten = windows is None and any(each.committed is not None for each in looks)
        status = NOT_FOUND if is_forgotten else evaluate_group(judged, self.minimum_complete)
        return GroupSnapshot(self.group, now_ms, status, members, tuple(looks), tuple(notes))

    def _why(self, where: GroupPartition, commits: list[Committed], status: PartitionStatus | None, is_forgotten: bool) -> str:
        place = (where.topic, where.partition)
        if where in self.gone:
            if self.topics.get(where.topic) == NO_TOPIC:
                return f"the topic has been deleted, and a tombstone took the committed offset away at {commits[-1].at_ms}"
            return f"the committed offset has vanished: a tombstone took it away at {commits[-1].at_ms}"
        if place in self.skipped:
            return f"its log end cannot be read: {self.skipped[place]}"
        if status is not None:
            return status.judgement.why
        if is_forgotten:
            return f"the last commit of the group is older than {self.storage.expire_group_s} s, Burrow would have forgotten it"
        return f"the last commit of this partition is older than {self.storage.expire_group_s} s, Burrow has no window for it"


def since_tombstone(commits: list[Committed]) -> list[Committed]:
    """The commits after the last tombstone."""
    last = max((index for index, each in enumerate(commits) if each.offset is None), default=-1)
    return commits[last + 1 :]


def is_well(look: GroupSnapshot) -> bool:
    """True when there is nothing to say: no partition is worse than OK, and none has lost its commit.

    One that has been quiet for so long that no window is left is passed over, as Burrow does, when its log can be
    read; so is one whose topic has been deleted.
    """
    return look.status.status is Status.OK and all(
        each.status is not None or each.lag is not None or _is_deleted(each) for each in look.partitions
    )


def _is_deleted(look: PartitionSnapshot) -> bool:
    gone = [each for each in look.signs if isinstance(each, Vanished)]
    return look.committed is None and bool(gone) and gone[-1].excuse is Excuse.TOPIC_GONE


def check_group_exists(cluster: Cluster, group: str) -> None:
    """LabError when no broker knows the group, naming some that they know."""
    admin = AdminClient(client_config(cluster))  # one that is let go of answers nothing more
    try:
        listed = admin.list_consumer_groups(request_timeout=ANSWER_S).result(ANSWER_S)
    except (KafkaException, TimeoutError) as error:
        raise LabError(f"the groups of {cluster.bootstrap} could not be listed: {error}. Look at `kit status`.") from error
    names = sorted(each.group_id for each in listed.valid)
    if group in names:
        return
    listed_names = ", ".join(plain_text(each, 60) for each in names[:TOLD_GROUPS])
    told = f"Groups that there are: {listed_names}" if names else "There is no group at all"
    more = f" and {len(names) - TOLD_GROUPS} more" if len(names) > TOLD_GROUPS else ""
    raise LabError(
        f"there is no group {group!r} at {cluster.bootstrap}: it has committed nothing, and no broker knows it. {told}{more}. "
        "Correct the name, or start its consumers first."
    )
