"""What is known of the groups whose commits lie in one partition of __consumer_offsets, after any number of its records.

Records come as Arrow batches in the order of the log. All that most commits do is to move a window on, and that
is done for a whole batch by NumPy. Only where something happens (an offset goes back, a commit is taken away)
are the commits of that partition looked at one by one, together with the groups' own records.

What is kept grows with the number of groups' partitions and of members, not with the number of records: for each
partition the slots of its window, its last commit, and the last few signs.

Left out: commits that arrive late. Who reads the log in order meets none.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kitlib.errors import KnobError
from kitlib.kafka.offsets.commits import (
    EXPIRY_BYTES,
    FLEXIBLE,
    HEAD,
    LEGACY,
    TIMESTAMP,
    TOPIC_ID_BYTES,
    TOPIC_ID_TAG,
    commit_key,
)
from kitlib.kafka.offsets.records import TOLD_BROKEN, BrokenRecord, OffsetsRecord, Reading, decode
from kitlib.kafka.offsets.wire import BrokenRecordError
from kitlib.monitor.commit_history import CommitHistory, Committed, GroupPartition
from kitlib.monitor.rewinds import WEEK_MS
from kitlib.monitor.running_signs import ENDS_KEPT, RunningSigns
from kitlib.pipelines.lag_rings import LagRings, starts_of

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

OFFSET_AT = 2
INT16 = 2
METADATA_AT: Longs = np.array([10, 10, 10, 14, 14])  # by version: where the metadata's length stands
LAST_VERSION = len(METADATA_AT) - 1


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """One row a value. Where `is_read` is False the other columns mean nothing."""

    is_read: Flags
    offset: Longs
    timestamp_ms: Longs
    id_at: Longs  # where the topic's id begins in `data`, -1 where there is none
    data: NDArray[np.uint8]

    def topic_id(self, row: int) -> bytes | None:
        """The topic's id of one row; None where there is none, or it is all 0."""
        at = int(self.id_at[row])
        found = self.data[at : at + TOPIC_ID_BYTES].tobytes() if at >= 0 else b""
        return found if any(found) else None


def read_values(values: pa.Array) -> CommitColumns:
    """The columns of values (binary, under keys of type COMMIT). A null is not read.

    The offset, the time and the topic's id stand where `kitlib.kafka.offsets.commits` says. Each step takes the same few
    bytes of every value, from Arrow's own bytes. Values of another layout are marked, and whoever calls reads them one by one.
    """
    binary = values.cast(pa.large_binary()) if not pa.types.is_large_binary(values.type) else values
    _, places, bytes_ = binary.buffers()
    ends = np.frombuffer(places, np.int64, len(binary) + 1, binary.offset * 8)
    data = np.zeros(1, np.uint8) if bytes_ is None or not bytes_.size else np.frombuffer(bytes_, np.uint8)
    start, end = ends[:-1], ends[1:]
    good = (end - start >= HEAD.size) & np.asarray(binary.is_valid())
    version = _number(data, start, INT16, good)
    good &= (version >= 0) & (version <= LAST_VERSION)
    offset = _number(data, start + OFFSET_AT, TIMESTAMP.size, good)
    metadata_at = start + METADATA_AT[np.where(good, version, 0)]
    is_flexible = good & (version == FLEXIBLE)
    good &= metadata_at + np.where(is_flexible, 1, INT16) <= end
    length = _number(data, metadata_at, INT16, good & ~is_flexible)
    flexible, size = _varint(data, metadata_at, end, is_flexible & good)
    good &= (length >= 0) & (~is_flexible | (flexible > 0))
    length = np.where(is_flexible, flexible - 1, length)
    time_at = metadata_at + np.where(is_flexible, size, INT16) + length
    behind = np.where(is_flexible, 1, np.where(version == 1, EXPIRY_BYTES, 0))
    good &= time_at + TIMESTAMP.size + behind <= end
    timestamp_ms = _number(data, time_at, TIMESTAMP.size, good)
    id_at, is_odd = _topic_ids(data, time_at + TIMESTAMP.size, end, good & is_flexible)
    return CommitColumns(good & ~is_odd, offset, timestamp_ms, id_at, data)


def _number(data: NDArray[np.uint8], at: Longs, size: int, where: Flags) -> Longs:
    """The signed number of `size` bytes at each place; 0 where there is none to read."""
    found = np.zeros(len(at), np.int64)
    places = at[where]
    if places.size:
        taken = data[places[:, None] + np.arange(size)]
        found[where] = np.ascontiguousarray(taken).view(f">i{size}").ravel()
    return found


def _varint(data: NDArray[np.uint8], at: Longs, end: Longs, where: Flags) -> tuple[Longs, Longs]:
    """Unsigned varints of one or two bytes, and how many; 0 for a longer one and for one that is cut."""
    first = _byte(data, at, where)
    is_long = (first & 0x80) != 0
    is_two = is_long & (at + 1 < end)
    second = _byte(data, at + 1, where & is_two)
    number = np.where(is_long, (first & 0x7F) | (second << 7), first)
    is_bad = (is_long & ~is_two) | ((second & 0x80) != 0)
    return np.where(is_bad, 0, number), np.where(is_long, 2, 1)


def _byte(data: NDArray[np.uint8], at: Longs, where: Flags) -> Longs:
    return np.where(where, data[np.where(where, at, 0)], 0).astype(np.int64)


def _topic_ids(data: NDArray[np.uint8], at: Longs, end: Longs, where: Flags) -> tuple[Longs, Flags]:
    """Where each topic's id begins, -1 for none; and which values have other tagged fields than that."""
    has_tags = where & (_byte(data, at, where) != 0)
    is_id = has_tags & (at + len(TOPIC_ID_TAG) + TOPIC_ID_BYTES <= end)
    for place, wanted in enumerate(TOPIC_ID_TAG):
        is_id &= _byte(data, at + place, is_id) == wanted
    return np.where(is_id, at + len(TOPIC_ID_TAG), -1), has_tags & ~is_id


Topics = Mapping[tuple[str, int], int]  # the newest known log end of each topic's partition

OTHER, OUTSIDE = -1, -2  # instead of a row: no commit's key; one that was not asked for
NOTHING, COMMITTED, TAKEN = range(3)  # what the last record of a row was
NO_TOPIC_ID = b""
NO_LOG_END = -1


@dataclass(frozen=True, slots=True)
class LagRules:
    """Burrow's settings, and those of the signs. KnobError for one out of its range."""

    intervals: int = 10  # slots of a window
    min_distance_s: int = 0  # a commit that follows sooner takes the slot before it
    expire_group_s: int = 604_800  # older commits are not looked at
    allowed_lag: int = 0
    minimum_complete: float = 0.0  # share of filled slots below which nothing is judged
    made_good_within: int = 1  # commits after which a step back counts as a late commit
    retention_ms: int = WEEK_MS  # how long the broker keeps the offsets of a silent group

    def __post_init__(self) -> None:
        least = {"intervals": 1}
        for name in ("intervals", "min_distance_s", "expire_group_s", "allowed_lag", "made_good_within", "retention_ms"):
            if getattr(self, name) < least.get(name, 0):
                raise KnobError(f"{name} is {getattr(self, name)}: give {least.get(name, 0)} or more.")
        if not 0 <= self.minimum_complete <= 1:
            raise KnobError(f"minimum_complete is {self.minimum_complete}: give a share from 0 to 1.")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which commits one wants to know about; both times are of the log, in ms, and included."""

    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(slots=True)
class LastCommit:
    """What the last record of a row was: rows of equal number in `order`, `at_ms` and `offset`."""

    kind: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    order: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    at_ms: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    offset: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    commits: Longs = field(default_factory=lambda: np.zeros(0, np.int64))  # how many there were, tombstones not among them
    topic_id: list[bytes] = field(default_factory=list)

    def grow(self, rows: int) -> None:
        """Make room for so many rows."""
        have = len(self.kind)
        if rows > have:
            more = np.zeros(max(rows, 2 * have) - have, np.int64)
            for name in ("kind", "order", "at_ms", "offset", "commits"):
                setattr(self, name, np.concatenate([getattr(self, name), more]))
            self.topic_id += [NO_TOPIC_ID] * len(more)

    def of(self, row: int) -> Committed | None:
        """The last commit of one row; None before the first one."""
        kind = self.kind[row]
        if kind == NOTHING:
            return None
        offset = int(self.offset[row]) if kind == COMMITTED else None
        return Committed(int(self.order[row]), int(self.at_ms[row]), offset, told_id(self.topic_id[row]))


@dataclass(slots=True)
class Batch:
    """A batch of records while it is looked at: a line a record."""

    order: Longs
    log_ms: Longs
    row: Longs  # of the group's partition, OTHER or OUTSIDE
    at_ms: Longs  # a commit's own time, a tombstone's in the log
    offset: Longs
    is_tombstone: NDArray[np.bool_]
    columns: CommitColumns
    odd_ids: dict[int, bytes] = field(default_factory=dict)  # line -> the topic's id, of what was read one by one
    others: list[tuple[int, OffsetsRecord]] = field(default_factory=list)  # line, record: of groups and members

    def topic_id(self, line: int) -> bytes:
        """The topic's id in a commit; NO_TOPIC_ID for none."""
        return self.odd_ids[line] if line in self.odd_ids else self.columns.topic_id(line) or NO_TOPIC_ID


@dataclass(slots=True)
class OffsetsLedger:
    """The state after the records read so far."""

    rules: LagRules = field(default_factory=LagRules)
    asked: Asked = field(default_factory=Asked)
    places: list[GroupPartition] = field(default_factory=list)  # by row
    rows: dict[GroupPartition, int] = field(default_factory=dict)
    keys: dict[bytes, int] = field(default_factory=dict)  # a commit's key -> row or OUTSIDE
    rings: LagRings = field(init=False)
    last: LastCommit = field(default_factory=LastCommit)
    signs: dict[int, RunningSigns] = field(default_factory=dict)  # by row, where something has happened
    last_commit_ms: dict[str, int] = field(default_factory=dict)  # by group: the time of its last commit that was stored
    ends_ms: dict[str, list[int]] = field(default_factory=dict)  # by group: when it ended, the last few times
    history: CommitHistory = field(default_factory=CommitHistory)  # only what it knows of the groups now
    reading: Reading = field(default_factory=Reading)
    outside: int = 0  # records that were not asked for
    clock_went_back: int = 0  # records that are older than one before them
    newest_ms: int = -1  # the latest time of any record
    next_order: int = 0  # records below it have been read: one that comes again is passed over

    def __post_init__(self) -> None:
        self.rings = LagRings(self.rules.intervals, self.rules.min_distance_s * 1000)

    # -- reading -----------------------------------------------------------------------------------

    def fold(self, order: Longs, log_ms: Longs, keys: pa.Array, values: pa.Array, log_ends: Topics, now_ms: int) -> None:
        """The next records of the partition, in the order of the log: offset, time in the log in ms, key and value.

        `log_ends` are those known when the records were read, at `now_ms`: a commit's lag is counted against them.
        """
        fresh = order >= self.next_order
        if not fresh.all():
            order, log_ms = order[fresh], log_ms[fresh]
            keys, values = keys.filter(pa.array(fresh)), values.filter(pa.array(fresh))
        if not len(order):
            return
        self.next_order = int(order[-1]) + 1
        self._look_at_clock(log_ms)
        batch = self._read(order, log_ms, keys, values)
        self.rings.grow(len(self.places))
        self.last.grow(len(self.places))
        lines = np.flatnonzero(batch.row >= 0)
        lines = lines[np.argsort(batch.row[lines], kind="stable")]
        if lines.size or batch.others:
            self._watch(batch, lines)
        if lines.size:
            self._store(batch, lines[~batch.is_tombstone[lines]], log_ends, now_ms)

    def _look_at_clock(self, log_ms: Longs) -> None:
        latest = np.maximum.accumulate(np.concatenate(([self.newest_ms], log_ms)))
        self.clock_went_back += int((log_ms < latest[:-1]).sum())
        self.newest_ms = int(latest[-1])

    def _read(self, order: Longs, log_ms: Longs, keys: pa.Array, values: pa.Array) -> Batch:
        encoded = keys.dictionary_encode()
        codes = np.asarray(encoded.indices.fill_null(-1)).astype(np.int64)
        names = encoded.dictionary.to_pylist()
        found = [self._row_of(name) for name in names]
        row = np.array([*(each for each, _ in found), OTHER])[codes]
        is_plain = np.array([*(plain for _, plain in found), False])[codes]
        if self.asked.since_ms is not None:
            row[(log_ms < self.asked.since_ms) & (log_ms >= 0)] = OUTSIDE
        if self.asked.until_ms is not None:
            row[log_ms > self.asked.until_ms] = OUTSIDE
        columns = read_values(values)
        is_tombstone = np.asarray(values.is_null()) & (row >= 0)
        is_read = columns.is_read & is_plain & (row >= 0)
        at_ms = np.where(is_tombstone, log_ms, columns.timestamp_ms)
        batch = Batch(order, log_ms, row, at_ms, columns.offset.copy(), is_tombstone, columns)
        for line in np.flatnonzero(~is_read & ~is_tombstone & (row != OUTSIDE)).tolist():
            self._read_line(batch, line, keys[line].as_py(), values[line].as_py())
        self.outside += int((batch.row == OUTSIDE).sum())
        self.reading.decoded += int((batch.row >= 0).sum()) + len(batch.others)
        return batch

    def _row_of(self, key: bytes | None) -> tuple[int, bool]:
        """The row of a key, and whether its value may be read by its places."""
        known = None if key is None else self.keys.get(key)
        if key is None or (known is None and (found := commit_key(key)) is None):
            return OTHER, False
        if known is None:
            assert found is not None
            place = GroupPartition(*found[1:])
            known = OUTSIDE if self._is_outside(place.group) else self.rows.setdefault(place, len(self.places))
            if known == len(self.places):
                self.places.append(place)
            self.keys[key] = known
        return known, key[1] != LEGACY

    def _is_outside(self, group: str) -> bool:
        return self.asked.group is not None and group != self.asked.group

    def _read_line(self, batch: Batch, line: int, key: bytes | None, value: bytes | None) -> None:
        """A record that cannot be read by its places: one of another kind or layout, or a broken one."""
        try:
            record = decode(key, value)
        except BrokenRecordError as error:
            self._skip(batch, line, str(error))
            return
        if not record.is_commit:
            if self._is_outside(record.group):
                batch.row[line] = OUTSIDE
            else:
                batch.others.append((line, record))
        elif record.value is not None:
            batch.offset[line], batch.at_ms[line] = record.value["offset"], record.value["commitTimestamp"]
            raw = base64.urlsafe_b64decode(record.value.get("topicId", "") + "==") if record.value.get("topicId") else b""
            batch.odd_ids[line] = raw if any(raw) else NO_TOPIC_ID

    def _skip(self, batch: Batch, line: int, reason: str) -> None:
        batch.row[line] = OTHER
        self.reading.broken += 1
        if len(self.reading.told) < TOLD_BROKEN:
            self.reading.told.append(BrokenRecord(int(batch.order[line]), reason))

    # -- signs -------------------------------------------------------------------------------------

    def _watch(self, batch: Batch, lines: Longs) -> None:
        """What the commits say about offsets that go back; then the last record of each row. `lines` are sorted by row."""
        slow: list[int] = [line for line, _ in batch.others]
        if lines.size:
            rows, offset = batch.row[lines], batch.offset[lines]
            begins = starts_of(rows)
            touched = rows[begins]
            before = np.empty(len(lines), np.int64)
            before[1:] = offset[:-1]
            was = self.last.kind[touched]
            before[begins] = np.where(was == COMMITTED, self.last.offset[touched], offset[begins])
            is_odd = np.logical_or.reduceat(batch.is_tombstone[lines] | (offset < before), begins)
            ends = np.append(begins[1:], len(lines))
            for place in range(len(begins)):
                signs = self.signs.get(int(touched[place]))
                if is_odd[place] or (signs is not None and signs.is_open):
                    slow += lines[begins[place] : ends[place]].tolist()
        if slow:
            self._watch_one_by_one(batch, sorted(slow))
        if lines.size:
            self._keep_last(batch, lines, begins, ends, touched)

    def _watch_one_by_one(self, batch: Batch, lines: Iterable[int]) -> None:
        records = dict(batch.others)
        begun: set[int] = set()
        for line in lines:
            if line in records:
                self._hear_of_group(int(batch.order[line]), int(batch.log_ms[line]), records[line])
                continue
            row = int(batch.row[line])
            place = self.places[row]
            signs = self.signs.get(row)
            if signs is None:
                signs = RunningSigns(self.rules.made_good_within, self.rules.retention_ms)
            if row not in begun:
                signs.last = self.last.of(row)
                begun.add(row)
            self.signs[row] = signs
            signs.add(self._committed(batch, line, place), self.ends_ms.get(place.group, ()))
        for row in begun:
            signs = self.signs[row]
            if not (signs.rewinds or signs.vanished):
                del self.signs[row]

    def _hear_of_group(self, order: int, at_ms: int, record: OffsetsRecord) -> None:
        self.history.add(order, at_ms, record)
        for group, seen in self.history.groups.items():
            ended = [each.at_ms for each in seen if each.is_gone]
            if ended:
                self.ends_ms[group] = [*self.ends_ms.get(group, ()), *ended][-ENDS_KEPT:]
                for row, signs in self.signs.items():
                    if self.places[row].group == group:
                        for end_ms in ended:
                            signs.group_ended(end_ms)
        self.history.groups.clear()

    def _committed(self, batch: Batch, line: int, place: GroupPartition) -> Committed:
        now = self.history.now.get(place.group)
        members = None if now is None or now.members is None else len(now.members)
        order, at_ms = int(batch.order[line]), int(batch.at_ms[line])
        if batch.is_tombstone[line]:
            return Committed(order, at_ms, None, members=members)
        by = None if now is None else now.owners.get((place.topic, place.partition))
        return Committed(order, at_ms, int(batch.offset[line]), told_id(batch.topic_id(line)), by, members)

    def _keep_last(self, batch: Batch, lines: Longs, begins: Longs, ends: Longs, touched: Longs) -> None:
        newest = lines[ends - 1]
        self.last.kind[touched] = np.where(batch.is_tombstone[newest], TAKEN, COMMITTED)
        self.last.order[touched] = batch.order[newest]
        self.last.at_ms[touched] = batch.at_ms[newest]
        self.last.offset[touched] = batch.offset[newest]
        self.last.commits[touched] += np.add.reduceat((~batch.is_tombstone[lines]).astype(np.int64), begins)
        for row, line in zip(touched.tolist(), newest.tolist(), strict=True):
            self.last.topic_id[row] = batch.topic_id(line)

    # -- windows -----------------------------------------------------------------------------------

    def _store(self, batch: Batch, lines: Longs, log_ends: Topics, now_ms: int) -> None:
        """Move the windows on by these commits, sorted by row."""
        now_s = now_ms // 1000
        lines = lines[batch.at_ms[lines] >= (now_s - self.rules.expire_group_s) * 1000]
        if not lines.size:
            return
        rows = batch.row[lines]
        begins = starts_of(rows)
        ends = [log_ends.get((self.places[row].topic, self.places[row].partition), NO_LOG_END) for row in rows[begins].tolist()]
        log_end = np.repeat(np.array(ends), np.diff(begins, append=len(rows)))
        is_known = log_end != NO_LOG_END
        lines, rows, log_end = lines[is_known], rows[is_known], log_end[is_known]
        if not lines.size:
            return
        offset, at_ms = batch.offset[lines], batch.at_ms[lines]
        seen = np.full(len(lines), now_s * 1000)
        lag = np.maximum(0, log_end - offset)
        self.rings.add(rows, np.stack([offset, at_ms, lag, batch.order[lines], seen], axis=1))
        newest = np.append(starts_of(rows)[1:], len(rows)) - 1
        latest: dict[str, tuple[int, int]] = {}
        for place in newest.tolist():
            group, told = self.places[int(rows[place])].group, (int(batch.order[lines[place]]), int(at_ms[place]))
            latest[group] = max(told, latest.get(group, told))
        self.last_commit_ms |= {group: told_ms for group, (_, told_ms) in latest.items()}


def told_id(raw: bytes) -> str | None:
    """A topic's id as Kafka tells it; None for none."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=") if raw else None
