"""What is known of the groups whose commits lie in one partition of __consumer_offsets, after any number of its records.

The rules are those of `kitlib.monitor`: windows as `LagStorage` keeps them, signs by `rewinds` and `vanished`, group records as
`CommitHistory` reads them. Most commits only move a window on, so of a batch no more of them are looked at than a window holds;
for the signs, only the commits around a step back or a tombstone are kept, the last `STEPS_KEPT` of them.

What is kept grows with the number of groups' partitions and of members, not with the number of records.

Left out: commits that arrive late. Who reads the log in order meets none.
"""

from __future__ import annotations

import base64
import json
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kitlib.errors import KnobError, LabError
from kitlib.mechanisms.lag import Commit
from kitlib.monitor.commit_history import CommitHistory, Committed, GroupNow, GroupPartition, GroupSeen
from kitlib.monitor.lag_window import CommitRing, GroupOffsets, LagStorage
from kitlib.monitor.rewinds import WEEK_MS, Rewind, Vanished, rewinds, vanished
from kitlib.more.offsets.commits import LEGACY, commit_key, commit_value
from kitlib.more.offsets.records import TOLD_BROKEN, BrokenRecord, OffsetsRecord, Reading, decode
from kitlib.more.offsets.wire import BrokenRecordError

Record = tuple[int, int, bytes | None, bytes | None]  # offset, ms in the log, key, value
SeenEnds = Mapping[tuple[str, int], Sequence[int]]  # of each topic's partition the log ends that were seen last, newest last
NEVER_MS = -(2**63)
STEPS_KEPT = 300  # commits around steps back and tombstones, of a place
ENDS_KEPT = 8  # of a group; they excuse what vanished in the same batch


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
        for name in ("intervals", "min_distance_s", "expire_group_s", "allowed_lag", "made_good_within", "retention_ms"):
            if getattr(self, name) < (least := int(name == "intervals")):
                raise KnobError(f"{name} is {getattr(self, name)}: give {least} or more.")
        if not 0 <= self.minimum_complete <= 1:
            raise KnobError(f"minimum_complete is {self.minimum_complete}: give a share from 0 to 1.")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which commits one wants to know about; both times are of the log, in ms, and included."""

    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, at_ms: int) -> bool:
        """Whether a record of this time is asked for; one without a time always is."""
        is_early = self.since_ms is not None and 0 <= at_ms < self.since_ms
        return not is_early and (self.until_ms is None or at_ms <= self.until_ms)


@dataclass(slots=True)
class Place:
    """One partition of one group."""

    where: GroupPartition
    steps: list[Committed] = field(default_factory=list)  # steps back, tombstones, and what comes before and after them
    open: list[int] = field(default_factory=list)  # offsets that a commit has to reach before a finding can change no more
    later: int = 0  # commits since that finding
    is_legacy: bool = False  # whether a key of it has the old format, whose values are read one by one
    commits: int = 0  # how many there were, tombstones not among them
    last: tuple[int, int, int | None, bytes] | None = None  # of the last record: its order, time, offset (None: taken away), topic's id
    # Of the batch that is read the commits that stay in the window (order, offset, their slot's time, their
    # own), and the time of the newest slot with them.
    recent: deque[tuple[int, int, int, int]] = field(default_factory=deque)
    slot_ms: int = 0


OUTSIDE: Final = Place(GroupPartition("", "", -1))  # of all groups that were not asked for


@dataclass(slots=True)
class OffsetsLedger:
    """The state after the records read so far."""

    rules: LagRules = field(default_factory=LagRules)
    asked: Asked = field(default_factory=Asked)
    places: dict[GroupPartition, Place] = field(default_factory=dict)
    keys: dict[bytes | None, Place] = field(default_factory=dict)  # by a commit's key
    storage: LagStorage = field(init=False)
    ends_ms: dict[str, list[int]] = field(default_factory=dict)  # by group: when it ended, the last few times
    history: CommitHistory = field(default_factory=CommitHistory)  # only what it knows of the groups now
    reading: Reading = field(default_factory=Reading)
    outside: int = 0  # records that were not asked for
    clock_went_back: int = 0  # records that are older than one before them
    newest_ms: int = -1  # the latest time of any record
    next_order: int = 0  # records below it have been read: one that comes again is passed over

    def __post_init__(self) -> None:
        self.storage = LagStorage(self.rules.intervals, self.rules.min_distance_s, self.rules.expire_group_s)

    def fold(self, records: Iterable[Record], log_ends: SeenEnds, now_ms: int) -> None:
        """The next records of the partition, in the order of the log.

        `log_ends` are those known when the records were read, at `now_ms`: a commit's lag is counted against them.
        """
        oldest_ms = (now_ms // 1000 - self.rules.expire_group_s) * 1000
        too_soon_ms, touched = self.rules.min_distance_s * 1000, list[Place]()
        is_narrowed = self.asked != Asked(self.asked.group)
        place_of, newest_ms, next_order, decoded = self.keys.get, self.newest_ms, self.next_order, 0
        for order, log_ms, key, value in records:
            if order < next_order:
                continue
            next_order = order + 1
            if log_ms >= newest_ms:
                newest_ms = log_ms
            else:
                self.clock_went_back += 1
            place = place_of(key) or self._place_of(key)
            if (is_narrowed and not self.asked.has(log_ms)) or place is OUTSIDE:
                self.outside += 1
                continue
            found = commit_value(value) if value is not None and place is not None and not place.is_legacy else None
            if found is None and (place is None or value is not None):
                found = self._decoded(order, log_ms, key, value)
                if found is None:
                    continue
            assert place is not None
            decoded, before = decoded + 1, place.last
            if found is None:  # a tombstone
                self._keep_step(place, order, log_ms, None, b"")
                continue
            offset, at_ms, topic_id = found
            place.commits += 1
            if not place.open and (before is None or before[2] is None or offset >= before[2]):
                place.last = (order, at_ms, offset, topic_id)
            else:
                self._keep_step(place, order, at_ms, offset, topic_id)
            if at_ms < oldest_ms:
                continue
            recent = place.recent
            if not recent:
                if place.where[1:] not in log_ends:
                    continue
                touched.append(place)
                newest = (self.window(place.where) or (None,))[-1]
                place.slot_ms = NEVER_MS if newest is None else newest.timestamp_ms
            if at_ms - place.slot_ms >= too_soon_ms:
                place.slot_ms = at_ms
                recent.append((order, offset, at_ms, at_ms))
            elif recent:  # it takes that slot, which keeps its time
                recent[-1] = (order, offset, recent[-1][2], at_ms)
            else:
                recent.append((order, offset, at_ms, at_ms))
        self.newest_ms, self.next_order = newest_ms, next_order
        self.reading.decoded += decoded
        self.storage.log_ends = {where: deque(ends, self.rules.intervals) for where, ends in log_ends.items()}
        for order, offset, slot_ms, at_ms, where in sorted((*each, place.where) for place in touched for each in place.recent):
            self.storage.add_commit(*where, Commit(offset, slot_ms, order=order), now_ms)
            self.storage.groups[where.group].last_commit_ms = at_ms
        for place in touched:
            place.recent.clear()

    def _place_of(self, key: bytes | None) -> Place | None:
        """The place of a commit's key, which is remembered, or OUTSIDE for another group's; None for a record of another kind."""
        if key is None or (found := commit_key(key)) is None:
            return None
        where = GroupPartition(*found[1:])
        is_asked = self.asked.group in (None, where.group)
        place = self.places.setdefault(where, self.new_place(where)) if is_asked else OUTSIDE
        if is_asked and found.type == LEGACY:
            place.is_legacy = True
        self.keys[key] = place
        return place

    def new_place(self, where: GroupPartition) -> Place:
        """A place without a commit."""
        return Place(where, recent=deque(maxlen=self.rules.intervals))

    def _decoded(self, order: int, log_ms: int, key: bytes | None, value: bytes | None) -> tuple[int, int, bytes] | None:
        """A commit of an unusual layout; None for a group's own record, which is heard, and a broken one, which is counted."""
        try:
            record = decode(key, value)
        except BrokenRecordError as error:
            self.reading.broken += 1
            if len(self.reading.told) < TOLD_BROKEN:
                self.reading.told.append(BrokenRecord(order, str(error)))
            return None
        if record.is_commit and record.value is not None:
            raw = base64.urlsafe_b64decode(record.value.get("topicId", "") + "==")
            return record.value["offset"], record.value["commitTimestamp"], raw if any(raw) else b""
        if self.asked.group in (None, record.group):
            self.reading.decoded += 1
            self._hear_of_group(order, log_ms, record)
        else:
            self.outside += 1
        return None

    def _keep_step(self, place: Place, order: int, at_ms: int, offset: int | None, topic_id: bytes) -> None:
        """A commit, or a tombstone, that is a sign or may still change one."""
        before, place.last = place.last, (order, at_ms, offset, topic_id)
        now = self.history.now.get(place.where.group) or GroupNow()
        members = None if now.members is None else len(now.members)
        commit = Committed(order, at_ms, offset, told_id(topic_id), now.owners.get(place.where[1:]), members)
        is_step = offset is None or (before is not None and before[2] is not None and offset < before[2])
        is_reached = offset is not None and any(offset >= each for each in place.open)
        place.later = 0 if is_step else place.later + 1
        if not is_step and not is_reached and place.later > self.rules.made_good_within:
            return  # between a finding and the commit that ends it, only the first few tell anything
        if before is not None and (not place.steps or place.steps[-1].order != before[0]):
            place.steps.append(Committed(*before[:3], told_id(before[3])))
        place.steps = [*place.steps, commit][-STEPS_KEPT:]
        if offset is None:
            place.open = [0]
        else:
            place.open = [each for each in place.open if each > offset][-STEPS_KEPT:]
            place.open += [before[2]] if is_step and before is not None and before[2] is not None else []

    def signs(self, place: Place, topic_now: str | None = None) -> list[Rewind | Vanished]:
        """The findings of one place, in the order of the log; `topic_now` as in `vanished`."""
        ends = [GroupSeen(0, at_ms, 0, is_gone=True) for at_ms in self.ends_ms.get(place.where.group, ())]
        gone = vanished(place.steps, ends, self.rules.retention_ms, topic_now=topic_now)
        found: list[Rewind | Vanished] = [*rewinds(place.steps, self.rules.made_good_within), *gone]
        return sorted(found, key=lambda each: each.after.order if isinstance(each, Rewind) else each.tombstone.order)

    def _hear_of_group(self, order: int, at_ms: int, record: OffsetsRecord) -> None:
        self.history.add(order, at_ms, record)
        for group, seen in self.history.groups.items():
            if ended := [each.at_ms for each in seen if each.is_gone]:
                self.ends_ms[group] = [*self.ends_ms.get(group, ()), *ended][-ENDS_KEPT:]
        self.history.groups.clear()

    def window(self, where: GroupPartition) -> tuple[Commit | None, ...]:
        """The slots of a place's window, oldest first; () before the first commit that was recent enough."""
        known = self.storage.groups.get(where.group)
        ring = None if known is None else known.windows.get(where[1:])
        return () if ring is None else tuple(ring.slots)


def told_id(raw: bytes) -> str | None:
    """A topic's id as Kafka tells it; None for none."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=") if raw else None


# -- kept as JSON: nothing in a file is executed ----------------------------------------------------

PLAIN = ("outside", "clock_went_back", "newest_ms", "next_order", "ends_ms")  # of the ledger, as they are


def save(ledger: OffsetsLedger, path: Path) -> None:
    """Write a ledger, whole or not at all. OSError when the disk is full."""
    told = {name: getattr(ledger, name) for name in PLAIN} | {
        "places": [
            [
                *each.where, each.commits, each.last and [*each.last[:3], each.last[3].hex()],
                [list(map(told_commit, each.steps)), each.open, each.later],
                [it and [it.offset, it.timestamp_ms, it.lag, it.order, it.observed_at_ms] for it in ledger.window(each.where)],
            ]
            for each in ledger.places.values()
        ],
        "seen_ms": {group: known.last_commit_ms for group, known in ledger.storage.groups.items()},
        "groups": [
            [group, None if now.members is None else sorted(now.members), [[*where, by] for where, by in now.owners.items()]]
            for group, now in ledger.history.now.items()
        ],
        "reading": [ledger.reading.decoded, ledger.reading.broken, [[each.offset, each.reason] for each in ledger.reading.told]],
    }  # fmt: skip
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(told), encoding="utf-8")
    os.replace(beside, path)


def load(path: Path, rules: LagRules, asked: Asked) -> OffsetsLedger:
    """The ledger that was saved under the same rules; an empty one where there is no file. LabError for a damaged one."""
    ledger = OffsetsLedger(rules, asked)
    if not path.exists():
        return ledger
    try:
        fill(ledger, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise LabError(
            f"{path} is damaged ({type(error).__name__}). Put it back from a copy, or choose another checkpoint folder to "
            "read the topic from the beginning; nothing was changed or deleted."
        ) from error
    return ledger


def fill(ledger: OffsetsLedger, told: dict[str, Any]) -> None:
    """What was saved, into a new ledger. ValueError when it does not fit."""
    ledger.storage.groups = {group: GroupOffsets({}, seen_ms) for group, seen_ms in told["seen_ms"].items()}
    for group, topic, partition, commits, last, steps, slots in told["places"]:
        where = GroupPartition(group, topic, partition)
        place = ledger.places[where] = ledger.new_place(where)
        place.commits, place.last = commits, last and (last[0], last[1], last[2], bytes.fromhex(last[3]))
        kept, place.open, place.later = steps
        place.steps = [Committed(*each) for each in kept]
        if slots:
            ring = CommitRing(ledger.rules.intervals)
            if len(slots) != len(ring.slots):
                raise ValueError(f"a window has {len(slots)} slots")
            ring.slots = [slot and Commit(*slot) for slot in slots]
            ledger.storage.groups[group].windows[topic, partition] = ring
    for group, members, owners in told["groups"]:
        seats = {(topic, partition): by for topic, partition, by in owners}
        ledger.history.now[group] = GroupNow(None if members is None else set(members), seats)
    decoded, broken, reasons = told["reading"]
    ledger.reading = Reading(decoded, broken, [BrokenRecord(*each) for each in reasons])
    for name in PLAIN:
        setattr(ledger, name, told[name])


def told_commit(commit: Committed) -> list[Any]:
    """A commit as JSON values."""
    return [commit.order, commit.at_ms, commit.offset, commit.topic_id, commit.by, commit.members]
