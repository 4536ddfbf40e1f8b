"""The exercises of notebook 11: whose partition, whose bytes, which record is live, what a cleaner leaves, what expires, gap or loss."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import NotYet, choice, each_once, mapping, sequence, whole_number
from kitlib.exercises.frame import Each, Function, Rows, Unlike, exercise
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


@exercise(
    Function(
        "group_home", lambda: list(product(GROUPS, COUNTS)),
        "{n} cases. A client needs no directory: it asks that partition's leader, which is the group's coordinator.",
        whole_number,
    ),
    solution=solutions.group_home,
    part="a",
)
def group_home(found: int, group: str, count: int) -> Rows:
    look = "Java's ints have 32 bits, and the highest one is a sign."
    if group == "polygenelubricants":
        look = "The hash of this one is the smallest int of all, which has no absolute value. Kafka takes 0."
    elif any(ord(char) > 0xFFFF for char in group):
        look = "Java's strings consist of UTF-16 units: such a character is two of them. `encode(\"utf-16-be\")` has their bytes."
    right = group_partition(group, count)
    yield found != right and Unlike(right, look)


@dataclass(frozen=True, slots=True)
class Coded:
    """A record in hex, what it says, and what kind of record it is."""

    key: str
    value: str | None
    right: list[Any] | str | None
    kind: str


def coded_records() -> list[Coded]:
    """Commits of all versions, tombstones, records of other kinds, and broken ones."""
    found = []
    for number, (group, topic, partition, offset) in enumerate(
        [("billing", "orders", 0, 42), ("größe", "orders", 3, 2**40), ("a", "t", 100_000, 0), ("billing", "audit", 1, 255)]
    ):
        for version in range(5):
            value = {"offset": offset + version, "metadata": "m" * number, "commitTimestamp": 1_700_000_000_000 + number}
            value |= {"expireTimestamp": -1, "leaderEpoch": number, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}
            where = {"group": group, "topic": topic, "partition": partition}
            key, coded = encode(OffsetsRecord(RECORD_TYPES[1], where, version, value))
            assert coded is not None
            found.append(Coded(key.hex(), coded.hex(), [group, topic, partition, offset + version], f"a commit of version {version}"))
        old, _ = encode(OffsetsRecord(RECORD_TYPES[0], where, 0, value))
        found.append(Coded(old.hex(), found[-1].value, found[-1].right, "a commit with a key of type 0"))
        found.append(Coded(key.hex(), None, [group, topic, partition, None], "a tombstone"))
    group_key = encode(OffsetsRecord(RECORD_TYPES[2], {"group": "billing"}))[0].hex()
    last = found[0]
    found += [
        Coded(group_key, "0003", None, "a record about a group"),
        Coded(last.key, "", "broken", "a value of no bytes"),
        Coded(last.key, "00040000", "broken", "a value that is cut short"),
        Coded(last.key[:6] + "f" + last.key[7:], last.value, "broken", "a key that ends within its group's name"),
        Coded(last.key[:-4], None, "broken", "a key that is cut short"),
    ]
    return found


@exercise(
    Function(
        "decode_commit", lambda: [(each.key, each.value, each) for each in coded_records()],
        "{n} records. In all versions the offset comes first, and a broken record did not stop the reading.",
        lambda value, what: list(value) if isinstance(value, tuple) else value, asks=2,
    ),
    solution=solutions.decode_commit,
    part="a",
)
def decode_commit(given: Any, key: str, value: str | None, case: Coded) -> Rows:
    yield given != case.right and Unlike(case.right, f"This is {case.kind}.")


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


@exercise(
    Function(
        "live_records", lambda: [(entries,) for entries, _ in logs()],
        "{n} logs. A cache filled in this order ends with exactly these; filled in another order, it does not.",
        each_once,
    ),
    solution=solutions.live_records,
    part="a",
)
def live_records(found: list[int], log: list[Entry]) -> Rows:
    last = {key: (offset, text) for offset, key, text in log}
    right = sorted(offset for offset, text in last.values() if text is not None)
    look = "A key whose last record is a tombstone has no live record." if set(right) < set(found) else None
    yield found != right and Unlike(right, look)


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


@exercise(
    Function(
        "survivors", logs, "{n} logs. No offset has changed, and a reader of what is left ends with the same last value for each key.",
        each_once,
    ),
    solution=solutions.survivors,
    part="b",
)
def survivors(found: list[int], log: list[Entry], active: int) -> Rows:
    right = left_after(log, active)
    missing, look = set(right) - set(found), None
    if any(offset >= active for offset in missing):
        look = "The cleaner does not touch the active segment."
    elif missing and all(text is None for offset, _, text in log if offset in missing):
        look = "A first pass leaves a tombstone that is its key's last record: readers must see it."
    elif missing:
        look = "The cleaner does not look into the active segment: what is there replaces nothing yet."
    yield found != right and Unlike(right, look)


@dataclass(frozen=True, slots=True)
class Case:
    """A committed offset: how old it is, and since when its group is empty; None while it has a member."""

    words: str
    committed_h: int
    empty_h: int | None


CASES = (
    Case("the consumer runs, and nothing has come on the partition for 25 hours", 25, None),
    Case("the last commit was 25 hours ago, and the consumer was shut down an hour ago", 25, 1),
    Case("the consumer was shut down 25 hours ago, when it committed", 25, 25),
    Case("the consumer runs, and commits every minute", 0, None),
)
WORDS = ("kept", "gone")
CLOCKS = {"2.0": Clock.COMMIT_OR_EXPIRY, "today": Clock.GROUP_EMPTY}


def fate(case: Case, clock: Clock) -> str:
    """Whether the offset is gone when its time is looked at, by one clock."""
    now_ms = 1_000 * HOUR_MS
    since_ms = None if case.empty_h is None else now_ms - case.empty_h * HOUR_MS
    reads = frozenset({"orders"} if case.empty_h is None else ())
    group = CachedGroup(CONSUMER, int(case.empty_h is None), since_ms, reads)
    commit_ms = now_ms - case.committed_h * HOUR_MS
    return WORDS[is_expired(clock, group, "orders", commit_ms, None, now_ms, RETENTION_MS)]


@exercise(
    Each(
        tuple(CLOCKS), sequence(len(CASES), "words", choice(*WORDS)),
        "an offset used to age from its own commit, and a quiet partition of a live group lost its place. Now the group must be empty.",
        named=True,
        looks=(
            "Until 2.0 only the age of the offset's own commit counts, whether the consumer runs or not. How old is it here?",
            "Since 2.1 the clock starts when the last member leaves. When was that here?",
        ),
    ),
    solution={"2.0": ["gone", "gone", "gone", "kept"], "today": ["kept", "kept", "gone", "kept"]},
    part="c",
)  # fmt: skip
def kept_or_gone(words: tuple[str, ...], name: str) -> Rows:
    for number, (word, case) in enumerate(zip(words, CASES, strict=True), 1):
        yield word != fate(case, CLOCKS[name]) and NotYet(f"{name}: in situation {number}, {case.words}, it is not {word}.")


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


@exercise(
    Function(
        "gap_or_loss", fetches,
        "{n} fetches. Only 'out of range' may be a loss, and only below the start; an alarm on gaps rings for healthy topics.",
        choice(*ANSWERS), names=("asked", "start", "end", "first"),
    ),
    solution=solutions.gap_or_loss,
    part="b",
)
def gap_or_loss(word: str, asked: int, start: int, end: int, first: int | None) -> Rows:
    if not start <= asked <= end:
        right = "out of range"
    elif first is None:
        right = "end" if asked == end else "gap"
    else:
        right = "next" if first == asked else "gap"
    look = "From there to the end no record is left, but the end is higher: markers, or what compaction removed."
    yield word != right and Unlike(right, look if first is None and right == "gap" else None)


def tables() -> list[tuple[dict[str, str], list[tuple[str, str | None]]]]:
    """A reader's old table, and all records left in a topic: some of its keys have none left at all."""
    rng, found = Random(5), []
    for _ in range(LOGS):
        old = {key: f"old {rng.randint(0, 3)}" for key in "abcdef" if rng.random() < 0.6}
        left = [(rng.choice("abcdef"), None if rng.random() < 0.2 else f"new {rng.randint(0, 3)}") for _ in range(rng.randint(0, 8))]
        found.append((old, left))
    return found


@exercise(
    Function(
        "rebuilt", tables, "what is no longer in the topic no longer exists. Only a reader who starts from scratch can know that.", mapping
    ),
    solution=solutions.rebuilt,
    part="c",
)
def rebuilt(got: Any, old: dict[str, str], left: list[tuple[str, str | None]]) -> Rows:
    right: dict[str, str] = {}
    for key, text in left:
        if text is None:
            right.pop(key, None)
        else:
            right[key] = text
    stale = sorted(set(got) & set(old) - set(right))
    look = f"No record says that {', '.join(stale)} was deleted. What does it mean that none says it exists?" if stale else None
    yield dict(got) != right and Unlike(right, look)
