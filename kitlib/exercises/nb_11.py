"""The exercises of notebook 11: whose partition, whose bytes, which record is live, what a cleaner leaves, what expires, gap or loss."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from kitlib.exercises.answers import choice, each_once, mapping, sequence, whole_number
from kitlib.exercises.frame import Each, Function, Miss, Rows, Unlike, exercise
from kitlib.mechanisms.offsets_topic.compaction import CleanerConfig, LogCleaner
from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.more.hashes import group_partition
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.offset_rules import CachedGroup, Clock, is_expired
from kitlib.more.offsets.records import CONSUMER, OffsetsRecord, encode

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
GROUPS = ("billing", "payments", "search", "a", "", "größe", "🦀 crabs", "polygenelubricants", "orders-and-invoices-of-the-year")
COUNTS = (1, 3, 4, 50)
LOGS = 40  # of live_records and survivors
Entry = tuple[int, str, str | None]  # offset, key, value


@exercise(Function(lambda: list(product(GROUPS, COUNTS)), whole_number))
def group_home(found: int, group: str, count: int) -> Rows:
    is_wide = any(ord(char) > 0xFFFF for char in group)
    right = group_partition(group, count)
    yield found != right and Unlike(right, "smallest" if group == "polygenelubricants" else "wide" if is_wide else "int")


def coded_records() -> list[tuple[str, str | None, list[Any] | str | None, str]]:
    """Records as (key in hex, value in hex, what it says, its kind): commits of all versions, tombstones, other kinds, and broken ones."""
    found: list[tuple[str, str | None, list[Any] | str | None, str]] = []
    for number, (group, topic, partition, offset) in enumerate(
        [("billing", "orders", 0, 42), ("größe", "orders", 3, 2**40), ("a", "t", 100_000, 0), ("billing", "audit", 1, 255)]
    ):
        for version in range(5):
            value = {"offset": offset + version, "metadata": "m" * number, "commitTimestamp": 1_700_000_000_000 + number}
            value |= {"expireTimestamp": -1, "leaderEpoch": number, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}
            where = {"group": group, "topic": topic, "partition": partition}
            key, coded = encode(OffsetsRecord(RECORD_TYPES[1], where, version, value))
            assert coded is not None
            found.append((key.hex(), coded.hex(), [group, topic, partition, offset + version], f"a commit of version {version}"))
        old, _ = encode(OffsetsRecord(RECORD_TYPES[0], where, 0, value))
        found.append((old.hex(), found[-1][1], found[-1][2], "a commit with a key of type 0"))
        found.append((key.hex(), None, [group, topic, partition, None], "a tombstone"))
    group_key = encode(OffsetsRecord(RECORD_TYPES[2], {"group": "billing"}))[0].hex()
    first_key, first_value = found[0][:2]
    found += [
        (group_key, "0003", None, "a record about a group"),
        (first_key, "", "broken", "a value of no bytes"),
        (first_key, "00040000", "broken", "a value that is cut short"),
        (first_key[:6] + "f" + first_key[7:], first_value, "broken", "a key that ends within its group's name"),
        (first_key[:-4], None, "broken", "a key that is cut short"),
    ]
    return found


@exercise(Function(coded_records, lambda value, what: list(value) if isinstance(value, tuple) else value))
def decode_commit(given: Any, key: str, value: str | None, right: Any, kind: str) -> Rows:
    yield given != right and Unlike(right, "kind", kind=kind)


def logs() -> list[tuple[list[Entry], int]]:
    """Logs with tombstones and gaps, and where the active segment of each begins."""
    rng, found = Random(11), []
    for _ in range(LOGS):
        offset, entries = rng.randint(0, 5), []
        for _ in range(rng.randint(0, 12)):
            value = None if rng.random() < 0.3 else f"v{rng.randint(0, 9)}"
            entries.append((offset, rng.choice("abc"), value))
            offset += 1 if rng.random() < 0.8 else rng.randint(2, 4)
        found.append((entries, rng.choice(entries)[0] if entries else 0))
    return found


@exercise(Function(lambda: [(entries,) for entries, _ in logs()], each_once))
def live_records(found: list[int], log: list[Entry]) -> Rows:
    last = {key: (offset, text) for offset, key, text in log}
    right = sorted(offset for offset, text in last.values() if text is not None)
    yield found != right and Unlike(right, "tombstone" if set(right) < set(found) else "")


def left_after(entries: list[Entry], active: int) -> list[int]:
    """The offsets that a first pass of Kafka's cleaner leaves, when the active segment begins at `active`."""
    log = SegmentedLog()
    for offset, key, text in entries:
        log.end_offset = max(offset, log.end_offset)
        if offset == active:
            log.roll()
        log.append([(key.encode(), None if text is None else text.encode(), 0)])
    LogCleaner(log, CleanerConfig(min_cleanable_dirty_ratio=0.0)).clean(1)
    return [record.offset for record in log.records()]


@exercise(Function(logs, each_once))
def survivors(found: list[int], log: list[Entry], active: int) -> Rows:
    right = left_after(log, active)
    missing = set(right) - set(found)
    yield any(offset >= active for offset in missing) and Unlike(right, "active")
    yield missing and all(text is None for offset, _, text in log if offset in missing) and Unlike(right, "tombstone")
    yield missing and Unlike(right, "replaced")
    yield found != right and Unlike(right)


CASES = (  # words, how long ago the offset was committed, and for how long its group is empty; None while it has a member
    ("the consumer runs, and nothing has come on the partition for 25 hours", 25, None),
    ("the last commit was 25 hours ago, and the consumer was shut down an hour ago", 25, 1),
    ("the consumer was shut down 25 hours ago, when it committed", 25, 25),
    ("the consumer runs, and commits every minute", 0, None),
)
WORDS = ("kept", "gone")
CLOCKS = {"2.0": Clock.COMMIT_OR_EXPIRY, "today": Clock.GROUP_EMPTY}


def fate(committed_h: int, empty_h: int | None, clock: Clock) -> str:
    """Whether the offset is gone when its time is looked at, by one clock."""
    now_ms = 1_000 * HOUR_MS
    since_ms = None if empty_h is None else now_ms - empty_h * HOUR_MS
    reads = frozenset({"orders"} if empty_h is None else ())
    group = CachedGroup(CONSUMER, int(empty_h is None), since_ms, reads)
    commit_ms = now_ms - committed_h * HOUR_MS
    return WORDS[is_expired(clock, group, "orders", commit_ms, None, now_ms, RETENTION_MS)]


@exercise(Each(tuple(CLOCKS), sequence(len(CASES), "words", choice(*WORDS)), named=True))
def kept_or_gone(words: tuple[str, ...], name: str) -> Rows:
    for number, (word, (where, committed_h, empty_h)) in enumerate(zip(words, CASES, strict=True), 1):
        yield word != fate(committed_h, empty_h, CLOCKS[name]) and Miss("not so", name=name, number=number, where=where, word=word)


ANSWERS = ("next", "gap", "end", "out of range")


def fetches() -> list[tuple[int, int, int, int | None]]:
    """(asked, log's start, log's end, offset of the first record that comes or None)."""
    rng, found = Random(7), [(5, 5, 9, 5), (5, 5, 9, 8), (9, 5, 9, None), (4, 5, 9, None), (10, 5, 9, None), (8, 5, 9, None)]
    found += [(0, 0, 3, 0), (0, 0, 3, None), (0, 0, 0, None), (5, 5, 5, None), (1, 0, 0, None)]  # offset 0, and logs without records
    for _ in range(LOGS):
        start = rng.randint(0, 20)
        end = start + rng.randint(0, 10)
        asked = rng.randint(max(0, start - 4), end + 4)
        records = [offset for offset in range(start, end) if rng.random() < 0.5 and offset >= asked >= start]
        found.append((asked, start, end, records[0] if records else None))
    return found


@exercise(Function(fetches, choice(*ANSWERS)))
def gap_or_loss(word: str, asked: int, start: int, end: int, first: int | None) -> Rows:
    if not start <= asked <= end:
        right = "out of range"
    elif first is None:
        right = "end" if asked == end else "gap"
    else:
        right = "next" if first == asked else "gap"
    yield word != right and Unlike(right, "no record left" if first is None and right == "gap" else "")


def tables() -> list[tuple[dict[str, str], list[tuple[str, str | None]]]]:
    """A reader's old table, and all records left in a topic: some of its keys have none left at all."""
    rng, found = Random(5), []
    for _ in range(LOGS):
        old = {key: f"old {rng.randint(0, 3)}" for key in "abcdef" if rng.random() < 0.6}
        left = [(rng.choice("abcdef"), None if rng.random() < 0.2 else f"new {rng.randint(0, 3)}") for _ in range(rng.randint(0, 8))]
        found.append((old, left))
    return found


@exercise(Function(tables, mapping))
def rebuilt(got: Any, old: dict[str, str], left: list[tuple[str, str | None]]) -> Rows:
    right: dict[str, str] = {}
    for key, text in left:
        if text is None:
            right.pop(key, None)
        else:
            right[key] = text
    stale = sorted(set(got) & set(old) - set(right))
    yield dict(got) != right and Unlike(right, "stale" if stale else "", stale=", ".join(stale))
