"""Reads one group of a real cluster, for `kitlib.monitor.diagnosis` to judge.

Everything is asked of those who know it: the coordinator for the committed offsets, the members and what they hold; the
leaders for where each log begins and ends, also behind an open transaction; __consumer_offsets for what the group has
written. The group does not notice: nothing is joined, and nothing is committed.

A watch adds what it saw at earlier looks. It never reconstructs what it did not see: where a log ended at the time of an
old commit cannot be asked afterwards.

Source: Apache Kafka 4.3.1, DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe, DescribeShareGroupOffsets, OffsetFetch,
ListOffsets, DescribeProducers, DescribeTransactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit.commit_log import CommitLog, add_records, watched
from kitlib.experiments.kafka_backend import asked
from kitlib.lab.brokers.settings import broker_value
from kitlib.lab.clients import Cluster, client_config, kafka_python_admin, listed_groups
from kitlib.lab.log_ends import LogEnds, Where, topics_now
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, OffsetsTopic
from kitlib.lab.wire.share_state import share_group
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.diagnosis import (
    Diagnosis,
    GroupSnapshot,
    Look,
    OpenTransaction,
    PartitionSeen,
    diagnose,
    why_answer_differs,
)
from kitlib.monitor.rewinds import NO_TOPIC, WEEK_MS
from kitlib.more.hashes import group_partition
from kitlib.text import plain_text

KEPT = 500  # commits of a partition that a watch remembers
LOOKS_KEPT = 100
TOLD_GROUPS = 5  # that are named when one is not there
ANSWER_S = 10.0
SKEW_MS = 5_000  # by which the brokers' clocks may differ from this one
READ_S = 10.0  # how long the first waiting records may take to come
First = tuple[int, int | None, bool]  # a record's offset, its time, and whether its producer says so
NONE: First = (0, None, False)
JUDGED = ("classic", "consumer", "share")  # protocols that something here can ask about


@dataclass(frozen=True, slots=True)
class Described:
    """What the coordinator says of the group."""

    protocol: str
    state: str
    members: tuple[str, ...]
    held: Mapping[Where, str]  # who holds each partition
    committed: Mapping[Where, int]
    lags: Mapping[Where, int] = field(default_factory=dict)  # of a share group


@dataclass(slots=True)
class GroupWatch:
    """A group that is watched; `look` is what is known now."""

    cluster: Cluster
    group: str
    protocol: str
    source: OffsetsTopic
    log_ends: LogEnds
    retention_ms: int = WEEK_MS  # the cluster's own, of offsets
    now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
    log: CommitLog = field(default_factory=CommitLog)
    looks: dict[Where, list[Look]] = field(default_factory=dict)
    place: int | None = None  # the group's partition of the offsets topic; None: there is no such topic

    @classmethod
    @contextmanager
    def open(cls, cluster: Cluster, group: str, topic: str = OFFSETS_TOPIC) -> Iterator[GroupWatch]:
        """Read what the topic holds of the group, and be ready to look.

        LabError for a group that has no commits and that no broker knows, for a topic that may not be read, and when
        the brokers are silent.
        """
        with OffsetsTopic.open(cluster, topic) as source:
            watch = cls(cluster, group, "", source, LogEnds.of(cluster), retention_of(cluster))
            if count := source.partitions():
                watch.place = group_partition(group, count)
                add_records(watch.log, watched(source.read(watch.place), watch.log), group)
                watch.log.bounds = dict(source.bounds)
            watch.protocol = check_group_exists(cluster, group, bool(watch.log.history.commits or watch.log.seen(group)))
            if watch.place is not None:
                source.follow(watch.place, watch.log.bounds[watch.place].end)
            yield watch

    def look(self, wait_s: float = 0.1) -> Diagnosis:
        """The group now: new commits are waited for until `wait_s` is over. LabError when the brokers fall silent."""
        found = self.snapshot(wait_s)
        if any(map(why_answer_differs, found.partitions)):
            found = self.snapshot(wait_s)  # a transaction may have ended meanwhile
        for each in found.partitions:
            if each.end is not None:
                looks = self.looks.setdefault((each.topic, each.partition), [])
                looks.append(Look(found.at_ms, each.done, each.end))
                del looks[:-LOOKS_KEPT]
        return diagnose(found)

    def snapshot(self, wait_s: float = 0.1) -> GroupSnapshot:
        """The facts of this moment, with the looks that were before."""
        asked_ms = self.now_ms() - SKEW_MS
        told = self._described()
        if self.place is not None:
            add_records(self.log, watched(self.source.more(wait_s), self.log), self.group)
        commits = {(where.topic, where.partition): found for where, found in self.log.partitions(self.group).items()}
        topics = topics_now(self.log_ends.admin, {topic for topic, _ in (*commits, *told.held, *told.committed)})
        every = ((name, number) for name, (_, count) in topics.items() for number in range(count))
        places = sorted({*commits, *told.held, *told.committed, *every})
        home = [] if self.place is None else [(self.source.topic, self.place)]
        ends, stable = self.log_ends.ends([*places, *home]), self.log_ends.stable([*places, *home])
        starts = self.log_ends.starts(places)
        is_hidden = any(ends.offsets.get(each) != stable.offsets.get(each) for each in home)
        if is_hidden or told.protocol == "share" or told.state == "unknown":
            asked_ms = 0
        rows = ((where, *topics.get(where[0], (None, where[1] + 1))) for where in places)
        ids = {where: topic_id if where[1] < count else NO_TOPIC for where, topic_id, count in rows}
        seen = [
            PartitionSeen(
                *where, told.committed.get(where), starts.offsets.get(where), ends.offsets.get(where), stable.offsets.get(where),
                ends.skipped.get(where, ""), told.held.get(where), ids[where], tuple(commits.get(where, ())),
                asked_ms or None, looks=tuple(self.looks.get(where, ())), told_lag=told.lags.get(where),
            )
            for where in places
        ]  # fmt: skip
        members = None if told.state == "unknown" else told.members
        found = GroupSnapshot(
            self.group, self.now_ms(), self._looked_into(seen), told.protocol, told.state, members, tuple(self.log.seen(self.group)),
            self.retention_ms, tuple(self.log.notes()) if self.log.history.commits else (),
        )  # fmt: skip
        self._trim()
        return found

    def _described(self) -> Described:
        if self.protocol == "share":
            state, members, held, told = share_group(self.cluster, self.group)
            starts, lags = {where: at for where, (at, _) in told.items()}, {where: lag for where, (_, lag) in told.items() if lag >= 0}
            return Described("share", state, members, held, starts, lags)
        if self.protocol not in JUDGED:
            return Described(self.protocol, "unknown", (), {}, {})
        admin, trouble = self.log_ends.admin, f"group {self.group} could not be described"
        told = asked(lambda: admin.describe_consumer_groups([self.group], request_timeout=ANSWER_S)[self.group].result(), trouble)

        def name(member: Any) -> str:
            static = f" (static member {member.group_instance_id}, there or away)" if member.group_instance_id else ""
            return f"{member.client_id} at {member.host.lstrip('/')}{static}"

        held = {
            (each.topic, each.partition): name(member)
            for member in told.members for each in (member.assignment.topic_partitions if member.assignment else ())
        }  # fmt: skip
        ask, wanted = admin.list_consumer_group_offsets, [ConsumerGroupTopicPartitions(self.group)]
        answer = asked(lambda: ask(wanted, require_stable=False, request_timeout=ANSWER_S)[self.group].result(), trouble)
        committed = {(each.topic, each.partition): each.offset for each in answer.topic_partitions or () if each.offset >= 0}
        members = tuple(sorted(map(name, told.members)))
        return Described(told.type.name.lower(), told.state.name, members, held, committed)

    def _looked_into(self, seen: list[PartitionSeen]) -> list[PartitionSeen]:
        """The same, with the time of the record that waits, and whose transaction is open."""
        waiting = {(each.topic, each.partition): each.committed or 0 for each in seen if each.start is not None and each.start <= (
            -1 if each.committed is None else each.committed) < (each.end or 0)}  # fmt: skip
        without_id = [each for each in seen if each.commits and each.commits[-1].topic_id is None and each.start is not None]
        firsts = self._firsts({(each.topic, each.partition): each.start or 0 for each in without_id})
        open_ = [(each.topic, each.partition) for each in seen if None not in (each.stable, each.end) and each.stable < each.end]  # type: ignore[operator]
        stable = {(each.topic, each.partition): each.stable for each in seen}
        past = {where: at for where, at in waiting.items() if at > (stable[where] or at)}  # a group that is there reads read_uncommitted
        found = self._firsts(waiting) | self._firsts(past, "read_uncommitted")
        transactions = open_transactions(self.cluster, open_) if open_ else {}

        def looked_into(each: PartitionSeen) -> PartitionSeen:
            where = (each.topic, each.partition)
            (_, came_ms, is_told), (first, first_ms, _) = found.get(where) or NONE, firsts.get(where) or NONE
            return replace(
                each, waiting_since_ms=came_ms, is_producer_time=is_told, is_unread=where in waiting and where not in found,
                first_at_ms=first_ms if first < (each.committed or 0) else None, transaction=transactions.get(where),
            )  # fmt: skip

        return [looked_into(each) for each in seen]

    def _firsts(self, offsets: Mapping[Where, int], isolation: str = "read_committed") -> dict[Where, First | None]:
        """The first record at or after each offset; None where there is none to read, and nothing where that could not be seen."""
        if not offsets:
            return {}
        settings = {"group.id": "kit.reader", "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
                    "isolation.level": isolation, "fetch.wait.max.ms": 50, "max.partition.fetch.bytes": 1_000}  # fmt: skip
        reader, found, left = Consumer(client_config(self.cluster, **settings)), dict[Where, First | None](), set(offsets)
        try:
            reader.assign([TopicPartition(*where, offset) for where, offset in offsets.items()])
            ends_s = time.monotonic() + READ_S
            while left and time.monotonic() < ends_s:
                for message in reader.consume(500, 0.1):
                    where = (str(message.topic()), int(message.partition() or 0))
                    error = message.error()
                    if where in left and (error is None or error.code() == KafkaError._PARTITION_EOF):
                        kind, at_ms = message.timestamp()
                        found[where] = None if error else (int(message.offset() or 0), at_ms, kind == TIMESTAMP_CREATE_TIME)
                    left.discard(where)
        except KafkaException:
            return found  # one that may not be read is left out
        finally:
            reader.close()
        return found

    def _trim(self) -> None:
        """History is for ever, a watch is not: the last KEPT commits of each partition stay."""
        every: list[list[Any]] = [*self.log.history.commits.values(), *self.log.history.groups.values()]
        for kept in every:
            del kept[:-KEPT]


def open_transactions(cluster: Cluster, partitions: Iterable[Where]) -> dict[Where, OpenTransaction]:
    """The first open transaction of each partition, and whose it is; a partition whose leader does not tell is left out."""
    from kafka import TopicPartition as Place
    from kafka.errors import KafkaError as Refused

    found: dict[Where, OpenTransaction] = {}
    with kafka_python_admin(cluster, "the open transactions could not be asked") as admin:
        for where in partitions:
            try:
                [told] = admin.describe_producers([Place(*where)]).values()
                open_ = [each for each in told.active_producers if each.current_transaction_start_offset >= 0]
                if not open_:
                    continue
                first = min(open_, key=lambda each: each.current_transaction_start_offset)
                found[where] = OpenTransaction(first.current_transaction_start_offset, first.producer_id, since_ms=first.last_timestamp)
                for each in (row for rows in admin.list_transactions(producer_id_filters=[first.producer_id]).values() for row in rows):
                    begun = admin.describe_transactions([each.transactional_id])[each.transactional_id]
                    if Place(*where) in begun.topic_partitions:
                        found[where] = replace(
                            found[where], transactional_id=each.transactional_id, since_ms=begun.transaction_start_time_ms,
                            timeout_ms=begun.transaction_timeout_ms,
                        )  # fmt: skip
            except Refused:
                continue
    return found


def snapshots_of(
    log: CommitLog, group: str | None = None, retention_ms: int = WEEK_MS, topics: Mapping[str, str] | None = None
) -> list[GroupSnapshot]:
    """What a log alone tells of one group, or of each: nothing of this moment. `topics` are the ids of topics now, where known."""
    return [
        GroupSnapshot(
            name, log.newest_ms or 0, [
                PartitionSeen(where.topic, where.partition, commits[-1].offset, trouble="a log of commits does not tell",
                              topic_id=(topics or {}).get(where.topic), commits=tuple(commits))
                for where, commits in log.partitions(name).items()
            ], seen=tuple(log.seen(name)), retention_ms=retention_ms,
        )
        for name in log.groups() if group in (None, name)
    ]  # fmt: skip


def topics_of(cluster: Cluster, places: Iterable[GroupPartition]) -> dict[str, str]:
    """The ids that topics have now of which a commit has vanished; "" for one that is gone. LabError when no broker answers."""
    names = {where.topic for where in places}
    return {name: found for name, (found, _) in topics_now(AdminClient(client_config(cluster)), names).items()} if names else {}


def retention_of(cluster: Cluster) -> int:
    """How long the cluster keeps the offsets of a group without members, in ms; a week when it does not tell."""
    minutes = broker_value(cluster, "offsets.retention.minutes")
    return int(minutes) * 60_000 if minutes is not None and minutes.isdecimal() else WEEK_MS


def group_kind(listed: Mapping[str, str]) -> str:
    """The protocol of a listed group; of a classic one whose members are no consumers, as Connect's workers, what they are."""
    kind, of = listed.get("group_type") or "classic", listed.get("protocol_type") or "consumer"
    return kind if kind != "classic" or of == "consumer" else of


def check_group_exists(cluster: Cluster, group: str, has_commits: bool = False) -> str:
    """The group's protocol. LabError when no broker knows it and it has committed nothing, naming some that they know."""
    listed = {each["group_id"]: group_kind(each) for each in listed_groups(cluster)}
    if group in listed or has_commits:
        return str(listed.get(group, "classic"))
    names = sorted(listed)
    some = ", ".join(plain_text(each, 60) for each in names[:TOLD_GROUPS])
    told = f"Groups that there are: {some}" if names else "There is no group at all"
    more = f" and {len(names) - TOLD_GROUPS} more" if len(names) > TOLD_GROUPS else ""
    raise LabError(
        f"there is no group {group!r} at {cluster.bootstrap}: it has committed nothing, and no broker knows it. {told}{more}. "
        "Correct the name, or start its consumers first."
    )
