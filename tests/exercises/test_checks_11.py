"""The exercises of notebook 11: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import nb_11
from kitlib.exercises.nb_11 import CASES, fate, left_after, logs
from kitlib.kafka.offsets.offset_rules import Clock

OURS = {"11_the_offsets_topic": nb_11.EXERCISES}

# -- group_home ----------------------------------------------------------------------------------------


def java_home(group: str, partitions: int) -> Any:
    h, units = 0, group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        h = 31 * h + int.from_bytes(units[at : at + 2], "big") & 0xFFFFFFFF
    h = h - 2**32 if h >= 2**31 else h
    return 0 if h == -(2**31) else abs(h) % partitions


def unsigned_home(group: str, partitions: int) -> Any:
    h = 0
    for char in group:
        h = 31 * h + ord(char) & 0xFFFFFFFF
    return h % partitions


def of_characters(group: str, partitions: int) -> Any:
    h = 0
    for char in group:
        h = 31 * h + ord(char) & 0xFFFFFFFF
    h = h - 2**32 if h >= 2**31 else h
    return 0 if h == -(2**31) else abs(h) % partitions


def plain_abs(group: str, partitions: int) -> Any:
    h, units = 0, group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        h = 31 * h + int.from_bytes(units[at : at + 2], "big") & 0xFFFFFFFF
    return abs(h - 2**32 if h >= 2**31 else h) % partitions


# -- decode_commit -------------------------------------------------------------------------------------


def decoded(key: str, value: str | None, careful: bool = True) -> Any:
    data = bytes.fromhex(key)
    if int.from_bytes(data[:2], "big") not in (0, 1):
        return None
    at, texts = 2, []
    for _ in range(2):
        length = int.from_bytes(data[at : at + 2], "big")
        texts.append(data[at + 2 : at + 2 + length].decode(errors="replace"))
        at += 2 + length
    if careful and len(data) < at + 4:
        return "broken"
    where = [*texts, int.from_bytes(data[at : at + 4], "big")]
    if value is None:
        return [*where, None]
    coded = bytes.fromhex(value)
    if careful and len(coded) < 10:
        return "broken"
    return [*where, int.from_bytes(coded[2:10], "big")]


def newer_keys_alone(key: str, value: str | None) -> Any:
    return None if key.startswith("0000") else decoded(key, value)


def careless(key: str, value: str | None) -> Any:
    return decoded(key, value, careful=False)


def empty_is_a_tombstone(key: str, value: str | None) -> Any:
    return decoded(key, value or None)


def all_are_commits(key: str, value: str | None) -> Any:
    return decoded("0001" + key[4:], value)


def raises(key: str, value: str | None) -> Any:
    found = decoded(key, value)
    if found == "broken":
        raise ValueError("broken")
    return found


# -- live_records, survivors -----------------------------------------------------------------------------


def last_of_each(log: list[Any]) -> Any:
    return [offset for offset, _, value in {key: [offset, key, value] for offset, key, value in log}.values() if value is not None]


def with_tombstones(log: list[Any]) -> Any:
    return list({key: offset for offset, key, _ in log}.values())


def any_value(log: list[Any]) -> Any:
    return list({key: offset for offset, key, value in log if value is not None}.values())


def live_twice(log: list[Any]) -> Any:
    return last_of_each(log) * 2


def left_twice(log: list[Any], active: int) -> Any:
    return cleaned(log, active) * 2


def cleaned(log: list[Any], active: int) -> Any:
    last = {key: offset for offset, key, _ in log if offset < active}
    return [offset for offset, key, _ in log if offset >= active or last[key] == offset]


def whole_log(log: list[Any], active: int) -> Any:
    last = {key: offset for offset, key, _ in log}
    return [offset for offset, key, _ in log if last[key] == offset]


def looks_ahead(log: list[Any], active: int) -> Any:
    last = {key: offset for offset, key, _ in log}
    return [offset for offset, key, _ in log if offset >= active or last[key] == offset]


def no_tombstones(log: list[Any], active: int) -> Any:
    values = {offset: value for offset, _, value in log}
    return [offset for offset in cleaned(log, active) if offset >= active or values[offset] is not None]


def nothing_cleaned(log: list[Any], active: int) -> Any:
    return [offset for offset, _, _ in log]


# -- gap_or_loss, rebuilt ----------------------------------------------------------------------------------


def of_fetch(asked: int, start: int, end: int, first: int | None) -> Any:
    if not start <= asked <= end:
        return "out of range"
    if asked == end:
        return "end"
    return "next" if first == asked else "gap"


def zero_is_none(asked: int, start: int, end: int, first: int | None) -> Any:
    return of_fetch(asked, start, end, first or None)


def empty_is_outside(asked: int, start: int, end: int, first: int | None) -> Any:
    return "out of range" if start == end else of_fetch(asked, start, end, first)


def empty_is_a_gap(asked: int, start: int, end: int, first: int | None) -> Any:
    return "gap" if start == asked == end else of_fetch(asked, start, end, first)


def nothing_is_the_end(asked: int, start: int, end: int, first: int | None) -> Any:
    return "end" if first is None and start <= asked <= end else of_fetch(asked, start, end, first)


def end_is_outside(asked: int, start: int, end: int, first: int | None) -> Any:
    return "out of range" if asked >= end else of_fetch(asked, start, end, first)


def gap_is_loss(asked: int, start: int, end: int, first: int | None) -> Any:
    return "out of range" if first != asked else "next"


def anew(table: dict[str, str], left: list[Any]) -> Any:
    return {key: value for key, value in dict(left).items() if value is not None}


def merged(table: dict[str, str], left: list[Any]) -> Any:
    return {key: value for key, value in {**table, **dict(left)}.items() if value is not None}


def with_tombstone_keys(table: dict[str, str], left: list[Any]) -> Any:
    return dict(left)


def only_known_keys(table: dict[str, str], left: list[Any]) -> Any:
    return {key: value for key, value in anew(table, left).items() if key in table}


def pairs(table: dict[str, str], left: list[Any]) -> Any:
    return list(anew(table, left).items())


KEPT, GONE = "kept", "gone"
BOTH = {"2.0": [GONE, GONE, GONE, KEPT], "today": [KEPT, KEPT, GONE, KEPT]}

SOLUTIONS: list[tuple[str, Any, str]] = [
    ("group_home", java_home, "36 cases"),
    ("decode_commit", decoded, "33 records"),
    ("live_records", last_of_each, "40 logs"),
    ("survivors", cleaned, "No offset has changed"),
    ("kept_or_gone", BOTH, "a quiet partition of a live group"),
    ("kept_or_gone", {"today": ("Kept", "kept", "GONE", "kept"), "2.0": ("gone", "gone", "gone", "kept")}, "must be empty"),
    ("gap_or_loss", of_fetch, "rings for healthy topics"),
    ("rebuilt", anew, "Only a reader who begins anew"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("group_home", unsigned_home, "of which the highest is a sign"),
    ("group_home", of_characters, "such a character is two of them"),
    ("group_home", plain_abs, "Kafka takes 0"),
    ("group_home", lambda group, partitions: "1", "should be a number"),
    ("decode_commit", newer_keys_alone, "a commit with a key of type 0"),
    ("live_records", live_twice, "each once; your function names offset 10 more than once"),
    ("survivors", left_twice, "each once; your function names offset 5 more than once"),
    ("decode_commit", careless, "a value of no bytes"),
    ("decode_commit", empty_is_a_tombstone, "a value of no bytes"),
    ("decode_commit", all_are_commits, "a record about a group"),
    ("decode_commit", raises, "your code raised ValueError"),
    ("live_records", with_tombstones, "has no live record"),
    ("live_records", any_value, "has no live record"),
    ("live_records", lambda log: [entry[0] for entry in log], "live are"),
    ("live_records", lambda log: 3, "should be a list of offsets"),
    ("survivors", whole_log, "The active segment is not touched"),
    ("survivors", looks_ahead, "what is there replaces nothing yet"),
    ("survivors", no_tombstones, "A first pass leaves a tombstone"),
    ("survivors", nothing_cleaned, "your function leaves"),
    ("kept_or_gone", BOTH | {"2.0": [KEPT, GONE, GONE, KEPT]}, "2.0: in situation 1"),
    ("kept_or_gone", BOTH | {"today": [GONE, KEPT, GONE, KEPT]}, "today: in situation 1"),
    ("kept_or_gone", BOTH | {"today": [KEPT, GONE, GONE, KEPT]}, "today: in situation 2"),
    ("kept_or_gone", BOTH | {"today": [KEPT, KEPT, KEPT, KEPT]}, "today: in situation 3"),
    ("kept_or_gone", BOTH | {"2.0": [GONE, GONE, GONE, GONE]}, "2.0: in situation 4"),
    ("kept_or_gone", BOTH | {"2.0": [GONE]}, "a list of 4 words"),
    ("kept_or_gone", {"today": BOTH["today"]}, "should be a dict like"),
    ("kept_or_gone", BOTH | {"2.0": ["lost"] * 4}, "should be one of"),
    ("gap_or_loss", zero_is_none, "asked for 0 of a log from 0 to 3, the first record is 0: that is 'next', your function says 'gap'"),
    ("gap_or_loss", empty_is_outside, "of a log from 0 to 0, the first record is None: that is 'end', your function says 'out of range'"),
    ("gap_or_loss", empty_is_a_gap, "of a log from 0 to 0, the first record is None: that is 'end', your function says 'gap'"),
    ("gap_or_loss", nothing_is_the_end, "or what compaction took"),
    ("gap_or_loss", end_is_outside, "that is 'end'"),
    ("gap_or_loss", gap_is_loss, "that is 'gap'"),
    ("gap_or_loss", lambda asked, start, end, first: "lost", "should be one of"),
    ("rebuilt", merged, "What does it mean that none says it is there?"),
    ("rebuilt", with_tombstone_keys, "it is"),
    ("rebuilt", only_known_keys, "it is"),
    ("rebuilt", pairs, "should return a dict"),
]


def test_logs_show_what_the_exercises_are_about() -> None:
    """Some log is cleaned, some has a tombstone that must stay, some a key whose later record is in the active segment."""
    cut = [(entries, active) for entries, active in logs() if len(left_after(entries, active)) < len(entries)]
    assert len(cut) >= 10
    assert any(looks_ahead(entries, active) != left_after(entries, active) for entries, active in logs())
    assert [fate(case, Clock.COMMIT) for case in CASES] == BOTH["2.0"]
