"""The exercises of notebook 11: whose partition, whose bytes, which record is live, what a cleaner leaves, what expires, gap or loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, offsets_in, one_of, told, values_of, whole_number
from kitlib.kafka.hashes import group_partition
from kitlib.kafka.offsets.compaction import CleanerConfig, LogCleaner
from kitlib.kafka.offsets.messages import RECORD_TYPES
from kitlib.kafka.offsets.offset_rules import CachedGroup, Clock, is_expired
from kitlib.kafka.offsets.records import CONSUMER, OffsetsRecord, encode
from kitlib.kafka.offsets.segments import SegmentedLog

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
GROUPS = ("billing", "payments", "search", "a", "", "größe", "🦀 crabs", "polygenelubricants", "orders-and-invoices-of-the-year")
COUNTS = (1, 3, 4, 50)
LOGS = 40  # of live_records and survivors
Entry = tuple[int, str, str | None]  # offset, key, value


# -- group_home ----------------------------------------------------------------------------------------


def check_group_home(answer: Any) -> str:
    """The learner's hash, for names with a negative hash, with the least one, and with characters of two units."""
    function = a_function(answer)
    cases = [(group, count) for group in GROUPS for count in COUNTS]
    for (group, count), value in zip(cases, values_of(function, cases), strict=True):
        found, right = whole_number(value, "what your function returns"), group_partition(group, count)
        if found != right:
            look = "Java's ints have 32 bits, of which the highest is a sign."
            if group == "polygenelubricants":
                look = "The hash of this one is the least int of all, and has no absolute value. Kafka takes 0."
            elif any(ord(char) > 0xFFFF for char in group):
                look = "Java's strings are of UTF-16 units: such a character is two of them. `encode(\"utf-16-be\")` has their bytes."
            raise NotYet(f"group {group!r}, {count} partitions: it is in partition {right}, your function says {found}.", look)
    return f"{len(cases)} cases. A client needs no directory: it asks that partition's leader, which is the group's coordinator."


# -- decode_commit -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Coded:
    """A record in hex, what is right for it, and what kind of record it is."""

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


def check_decode_commit(answer: Any) -> str:
    """The learner's decoder, on records of all versions and on broken ones."""
    function, cases = a_function(answer), coded_records()
    for case, value in zip(cases, values_of(function, [(each.key, each.value) for each in cases]), strict=True):
        given = list(value) if isinstance(value, tuple) else value
        if given != case.right:
            raise NotYet(
                f"{case.kind}, key {case.key}, value {'None' if case.value is None else case.value[:28] or 'of no bytes'}: "
                f"it is {case.right!r}, your function says {told(value)}."
            )
    return f"{len(cases)} records. In all versions the offset comes first, and one broken record has not ended the reading."


# -- live_records and survivors ------------------------------------------------------------------------


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


def check_live_records(answer: Any) -> str:
    """The last record of each key, unless it is a tombstone."""
    function, cases = a_function(answer), [entries for entries, _ in logs()]
    for entries, value in zip(cases, values_of(function, [(entries,) for entries in cases]), strict=True):
        last = {key: (offset, text) for offset, key, text in entries}
        right = sorted(offset for offset, text in last.values() if text is not None)
        found = offsets_in(value, "what your function returns")
        if found != right:
            look = "A key whose last record is a tombstone has no live record." if set(right) < set(found) else None
            raise NotYet(f"the log {entries}: live are {right}, your function says {found}.", look)
        _once(value, f"the log {entries}: live are {right}")
    return f"{len(cases)} logs. A cache that is filled in this order ends with exactly these; filled in another, it does not."


def _once(value: Any, where: str) -> None:
    """NotYet when the learner's function names an offset twice."""
    if twice := [offset for offset, count in Counter(value).items() if count > 1]:
        raise NotYet(f"{where}, each once; your function names offset {twice[0]} more than once.", "")


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


def check_survivors(answer: Any) -> str:
    """The learner's cleaner against the kit's, which agrees with Kafka's."""
    function, cases = a_function(answer), logs()
    for (entries, active), value in zip(cases, values_of(function, cases), strict=True):
        right, found = left_after(entries, active), offsets_in(value, "what your function returns")
        if found == right:
            _once(value, f"the log {entries}, active from {active}: left are {right}")
            continue
        where = f"the log {entries}, active from {active}: left are {right}, your function leaves {found}."
        missing = set(right) - set(found)
        if any(offset >= active for offset in missing):
            raise NotYet(where, "The active segment is not touched.")
        if missing and all(text is None for offset, _, text in entries if offset in missing):
            raise NotYet(where, "A first pass leaves a tombstone that is its key's last record: readers must see it.")
        if missing:
            raise NotYet(where, "The cleaner does not look into the active segment: what is there replaces nothing yet.")
        raise NotYet(where, None)
    return f"{len(cases)} logs. No offset has changed, and a reader of what is left ends with the same last value for each key."


# -- kept_or_gone --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """A committed offset: how old it is, and since when its group is empty; None while it has a member."""

    told: str
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


def check_kept_or_gone(answer: Any) -> str:
    """Four situations, by the clock before KIP-211 and by that of today."""
    if not isinstance(answer, Mapping) or set(answer) != set(CLOCKS):
        raise NotYet(f'the answer should be a dict like {{"2.0": [...], "today": [...]}}, this is {told(answer)}.', "")
    for name, clock in CLOCKS.items():
        words = answer[name]
        if not isinstance(words, list | tuple) or len(words) != len(CASES):
            raise NotYet(f"{name}: there should be a list of {len(CASES)} words, this is {told(words)}.", "")
        for number, (word, case) in enumerate(zip(words, CASES, strict=True), 1):
            given = one_of(word, WORDS, "each word")
            if given != fate(case, clock):
                raise NotYet(f"{name}: in situation {number}, {case.told}, it is not {given}.")
    return "once an offset aged from its own commit, and a quiet partition of a live group lost its place. Now the group must be empty."


# -- gap_or_loss ---------------------------------------------------------------------------------------

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


def check_gap_or_loss(answer: Any) -> str:
    """What a fetch was told, in one of four words."""
    function, cases = a_function(answer), fetches()
    for (asked, start, end, first), value in zip(cases, values_of(function, cases), strict=True):
        word = one_of(value, ANSWERS, "what your function returns")
        if not start <= asked <= end:
            right = "out of range"
        elif first is None:
            right = "end" if asked == end else "gap"
        else:
            right = "next" if first == asked else "gap"
        if word != right:
            where = f"asked for {asked} of a log from {start} to {end}, the first record is {first}"
            look = None
            if first is None and right == "gap":
                look = "There is nothing any more from there to the end, and the end is higher: markers, or what compaction took."
            raise NotYet(f"{where}: that is {right!r}, your function says {word!r}.", look)
    return f"{len(cases)} fetches. Only 'out of range' may be a loss, and only below the start; an alarm on gaps rings for healthy topics."


# -- rebuilt -------------------------------------------------------------------------------------------


def tables() -> list[tuple[dict[str, str], list[tuple[str, str | None]]]]:
    """A reader's old table, and all records that are left of a topic: some of its keys have nothing left at all."""
    rng, found = Random(5), []
    for _ in range(LOGS):
        old = {key: f"old {rng.randint(0, 3)}" for key in "abcdef" if rng.random() < 0.6}
        left = [(rng.choice("abcdef"), None if rng.random() < 0.2 else f"new {rng.randint(0, 3)}") for _ in range(rng.randint(0, 8))]
        found.append((old, left))
    return found


def check_rebuilt(answer: Any) -> str:
    """The table of a reader who was away for longer than tombstones stay."""
    function, cases = a_function(answer), tables()
    for (old, left), value in zip(cases, values_of(function, cases), strict=True):
        right: dict[str, str] = {}
        for key, text in left:
            if text is None:
                right.pop(key, None)
            else:
                right[key] = text
        if not isinstance(value, Mapping):
            raise NotYet(f"your function should return a dict, this is {told(value)}.", "")
        if dict(value) != right:
            stale = sorted(set(value) & set(old) - set(right))
            look = f"No record says that {', '.join(stale)} was deleted. What does it mean that none says it is there?" if stale else None
            raise NotYet(f"old table {old}, all that is left {left}: it is {right}, your function says {told(dict(value))}.", look)
    return "what is not in the topic any more is not there any more. Only a reader who begins anew can know that."


EXERCISES = (
    Exercise(
        "group_home",
        "Write `group_home(group, partitions)`: the partition of `__consumer_offsets` that keeps the group's offsets. It is the absolute "
        "value of Java's `hashCode` of the name, modulo the number of partitions: over the characters, `h = 31 * h + unit`, as a signed "
        "int of 32 bits.",
        check_group_home,
        (
            "`h & 0xFFFFFFFF` keeps 32 bits; above 2^31 - 1 it stands for a negative number.",
            "The units are those of UTF-16: `group.encode(\"utf-16-be\")`, two bytes each. And the least int has no absolute value: 0.",
        ),
    ),
    Exercise(
        "decode_commit",
        "Write `decode_commit(key, value)`: two texts in hex, the value may be `None`. Return `[group, topic, partition, offset]` for a "
        "commit (key types 0 and 1), with `None` as its offset for a tombstone; `None` for a record of another type; and `\"broken\"` "
        "for one that cannot be read. A key is the type (2 bytes), then group and topic (each 2 bytes of length, then UTF-8), then the "
        "partition (4 bytes). A value is its version (2 bytes), then the offset (8 bytes), then what you need not read.",
        check_decode_commit,
        (
            "`bytes.fromhex`, then `int.from_bytes(data[at:at + 2], \"big\")`; move `at` along.",
            "A slice that is shorter than it should be is how a record that was cut off looks. And a value of no bytes is not a tombstone.",
        ),
    ),
    Exercise(
        "live_records",
        "Write `live_records(log)`: `log` is a list of `[offset, key, value]`, with `None` as the value of a tombstone. Return the offsets "
        "of the live records: the last one of each key, if it is no tombstone.",
        check_live_records,
        (
            "One pass in the order of the log, and a dict from key to its last record.",
            "Only at the end look which of the last records are tombstones.",
        ),
    ),
    Exercise(
        "survivors",
        "Write `survivors(log, active)`: the same kind of log, never cleaned before; the active segment begins at offset `active`. Return "
        "the offsets that are left after the cleaner's first pass.",
        check_survivors,
        (
            "From `active` on nothing is read and nothing is removed.",
            "Below it the last record of each key stays, also when it is a tombstone: its time only begins now.",
        ),
    ),
    Exercise(
        "kept_or_gone",
        "Offsets are kept for 24 hours. " + "; ".join(f"({number}) {case.told}" for number, case in enumerate(CASES, 1))
        + ". Is the offset kept or gone, by Kafka 2.0 and by Kafka of today? Answer with a dict, `{\"2.0\": [...], \"today\": [...]}`, "
        "each a list of four words, `\"kept\"` or `\"gone\"`.",
        check_kept_or_gone,
        (
            "When does the clock of each begin?",
            "Until 2.0 it begins at each offset's own commit, whoever is there. Since 2.1 it begins when the group's last member has gone.",
        ),
    ),
    Exercise(
        "gap_or_loss",
        "Write `gap_or_loss(asked, start, end, first)`: a reader asked for an offset of a log that begins at `start` and whose next record "
        "gets `end`; `first` is the offset of the first record that came, or `None`. Return `\"next\"`, `\"gap\"`, `\"end\"` or "
        "`\"out of range\"`.",
        check_gap_or_loss,
        (
            "First the range: from `start` to `end`, both included.",
            "At the end nothing comes. Below the end nothing may come as well: that, too, is a gap.",
        ),
    ),
    Exercise(
        "rebuilt",
        "Write `rebuilt(table, left)`: a reader of a compacted topic was away for a month; `table` is what it held for each key then, "
        "`left` a list of `[key, value]`, all records that the topic still holds. Return its table as it should be now.",
        check_rebuilt,
        (
            "Which keys of the old table can you still believe in?",
            "Every key that is alive has a record in the topic: that is what compaction promises. So the old table is not needed at all.",
        ),
    ),
)
