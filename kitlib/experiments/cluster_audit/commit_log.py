"""The commit history of a real cluster: __consumer_offsets, read, decoded and put together.

What stands in the topic belongs to others and may be anything: records of kinds that are not known, records
cut short, clocks that go back. None of it ends the reading; what was skipped is counted and told.

What the topic holds is not all that ever was. Compaction keeps the last commit of each key and takes the
others away, oldest first, so a history reaches back only as far as compaction has let it. `removed` says how
many offsets of what was read have no record any more.

Left out: a group whose commits lie in two partitions, because the topic was given more; the topic's number of
partitions cannot be changed without losing every group its offsets.
Source: Apache Kafka 4.3.1, `GroupCoordinatorService.partitionFor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kitlib.errors import KnobError
from kitlib.lab.clients import Cluster
from kitlib.lab.offsets_topic import Bounds, OffsetsTopic, RawRecord
from kitlib.monitor.commit_history import CommitHistory, Committed, GroupPartition, GroupSeen
from kitlib.more.hashes import group_partition
from kitlib.more.offsets.records import Reading, read_records


@dataclass(slots=True)
class CommitLog:
    """What was read: the history, what was skipped, and how far it reaches."""

    history: CommitHistory = field(default_factory=CommitHistory)
    reading: Reading = field(default_factory=Reading)  # records that could be decoded, and those that could not
    bounds: dict[int, Bounds] = field(default_factory=dict)  # by partition of the topic
    records: int = 0  # of all groups, the broken ones too
    outside: int = 0  # records that were not of the group or not of the time that was asked for
    clock_went_back: int = 0  # records that are older than one before them: a clock was set back, or two brokers' differ
    clock_worst: tuple[int, int, int] = (0, 0, 0)  # by how many ms at most, at which offset of which partition
    newest_ms: int | None = None  # the latest time of any record
    latest_ms: dict[int, int] = field(default_factory=dict)  # the same by partition of the topic

    @property
    def removed(self) -> int:
        """Offsets between the first and the last one read that have no record: compacted away, or transaction markers."""
        return sum(each.end - each.begin for each in self.bounds.values()) - self.records

    @property
    def hidden(self) -> int:
        """Offsets behind a transaction that is still open, which nobody can read yet."""
        return sum(each.hidden for each in self.bounds.values())

    def groups(self) -> list[str]:
        """The groups that have commits, sorted."""
        return sorted({each.group for each in self.history.commits})

    def partitions(self, group: str) -> dict[GroupPartition, list[Committed]]:
        """The commits of one group, by partition in order; {} when it has none."""
        return {where: self.history.commits[where] for where in sorted(self.history.commits) if where.group == group}

    def seen(self, group: str) -> list[GroupSeen]:
        """How the group stood over time."""
        return self.history.groups.get(group, [])

    def notes(self) -> list[str]:
        """What a reader should know of this reading: a sentence for each thing that is not as it should be."""
        told = []
        if self.reading.broken:
            reading = self.reading
            told.append(f"{reading.broken} records could not be read and were skipped; the first one is at {reading.first_broken}.")
        if self.clock_went_back:
            by_ms, offset, partition = self.clock_worst
            told.append(
                f"the clock went back {self.clock_went_back} times, by up to {by_ms} ms (at offset {offset} of partition "
                f"{partition}); commits are in the order of the log, not of their times."
            )
        if self.hidden:
            told.append(f"{self.hidden} offsets lie behind a transaction that is still open and cannot be read yet.")
        if not self.records:
            is_cut = any(each.begin > each.first for each in self.bounds.values())
            told.append("no record is as new as was asked for." if is_cut else "there is no record at all.")
        elif not self.history.commits:
            told.append(f"none of the {self.records} records is a commit that was asked for.")
        return told


LATEST_MS = 253_402_300_799_999  # the end of the year 9999


def read_commit_log(
    cluster: Cluster,
    group: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> CommitLog:
    """The history of one group, or of all groups, from the first record that is not older than `since_ms` to `until_ms`.

    Both are times in the log, in ms since 1970, both included. A group is looked for in its own partition alone.
    What was before `since_ms` is not read: who a group's members were then is not known, nor from where the
    first commit went. `progress` is told the number of records now and then. KnobError when the times are the
    wrong way round; LabError when the topic may not be read, or the broker falls silent. A topic that is not
    there yet is an empty history.
    """
    check_times(since_ms, until_ms)
    log = CommitLog()
    with OffsetsTopic.open(cluster) as source:
        count = source.partitions()
        chosen = range(count) if group is None or not count else (group_partition(group, count),)
        for partition in chosen:
            raw = watched(source.read(partition, since_ms), log, progress)
            add_records(log, raw, group, since_ms, until_ms)
        log.bounds = dict(source.bounds)
    return log


def check_times(since_ms: int | None, until_ms: int | None) -> None:
    """KnobError for times that no reading can have."""
    for name, value in (("since", since_ms), ("until", until_ms)):
        if value is not None and not 0 <= value <= LATEST_MS:
            raise KnobError(f"{name} is {value}: give a time in ms since 1970, 0 to {LATEST_MS}.")
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        raise KnobError(f"until is {until_ms}, which is before since, {since_ms}: nothing lies between. Swap them.")


def watched(records: Iterable[RawRecord], log: CommitLog, progress: Callable[[int], None] | None = None) -> Iterator[RawRecord]:
    """The same records, counted, their clock looked at: against all that the log has seen of their partition."""
    for record in records:
        log.records += 1
        if progress is not None and log.records % 50_000 == 0:
            progress(log.records)
        if record.at_ms >= 0:
            latest_ms = log.latest_ms.get(record.partition, record.at_ms)
            if record.at_ms < latest_ms:
                log.clock_went_back += 1
                log.clock_worst = max(log.clock_worst, (latest_ms - record.at_ms, record.offset, record.partition))
            log.latest_ms[record.partition] = latest_ms = max(latest_ms, record.at_ms)
            log.newest_ms = latest_ms if log.newest_ms is None else max(log.newest_ms, latest_ms)
        yield record


def add_records(
    log: CommitLog,
    records: Iterable[RawRecord],
    group: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> None:
    """Decode records of one partition, in the order of the log, into the history. Nothing that stands in one ends it.

    Every key begins with its type and its group, so what another group has written is passed over unread, broken or not.
    """
    is_own = own_keys(group)
    times: dict[int, int] = {}

    def asked_for() -> Iterator[tuple[int, bytes | None, bytes | None]]:
        for record in records:
            is_late = until_ms is not None and record.at_ms > until_ms
            if not is_own(record.key) or is_late or (since_ms is not None and 0 <= record.at_ms < since_ms):
                log.outside += 1
                continue
            times.clear()
            times[record.offset] = record.at_ms
            yield record.offset, record.key, record.value

    for offset, found in read_records(asked_for(), log.reading):
        log.history.add(offset, times[offset], found)


def own_keys(group: str | None) -> Callable[[bytes | None], bool]:
    """Whether a record's key names this group, behind its type: the name's length, and the name. Without a group every key will do."""
    name = None if group is None else group.encode("utf-8", "surrogatepass")
    return lambda key: name is None or (int.from_bytes((key or b"")[2:4]), (key or b"")[4 : 4 + len(name)]) == (len(name), name)
