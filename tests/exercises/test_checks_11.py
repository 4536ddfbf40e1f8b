"""The exercises of notebook 11: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.nb_11 import CASES, fate, left_after, logs
from kitlib.more.offsets.offset_rules import Clock
from tests.exercises import solutions


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


def raises(key: str, value: str | None) -> Any:
    found = decoded(key, value)
    if found == "broken":
        raise ValueError("broken")
    return found


def whole_log(log: list[Any], active: int) -> Any:
    last = {key: offset for offset, key, _ in log}
    return [offset for offset, key, _ in log if last[key] == offset]


def looks_ahead(log: list[Any], active: int) -> Any:
    last = {key: offset for offset, key, _ in log}
    return [offset for offset, key, _ in log if offset >= active or last[key] == offset]


def no_tombstones(log: list[Any], active: int) -> Any:
    values = {offset: value for offset, _, value in log}
    return [offset for offset in solutions.survivors(log, active) if offset >= active or values[offset] is not None]


def zero_is_none(asked: int, start: int, end: int, first: int | None) -> Any:
    return solutions.gap_or_loss(asked, start, end, first or None)


def empty_is_outside(asked: int, start: int, end: int, first: int | None) -> Any:
    return "out of range" if start == end else solutions.gap_or_loss(asked, start, end, first)


def empty_is_a_gap(asked: int, start: int, end: int, first: int | None) -> Any:
    return "gap" if start == asked == end else solutions.gap_or_loss(asked, start, end, first)


def nothing_is_the_end(asked: int, start: int, end: int, first: int | None) -> Any:
    return "end" if first is None and start <= asked <= end else solutions.gap_or_loss(asked, start, end, first)


def end_is_outside(asked: int, start: int, end: int, first: int | None) -> Any:
    return "out of range" if asked >= end else solutions.gap_or_loss(asked, start, end, first)


def merged(table: dict[str, str], left: list[Any]) -> Any:
    return {key: value for key, value in {**table, **dict(left)}.items() if value is not None}


def only_known_keys(table: dict[str, str], left: list[Any]) -> Any:
    return {key: value for key, value in solutions.rebuilt(table, left).items() if key in table}


KEPT, GONE = "kept", "gone"
BOTH = {"2.0": [GONE, GONE, GONE, KEPT], "today": [KEPT, KEPT, GONE, KEPT]}

SOLUTIONS: list[tuple[str, Any, str]] = [
    ("group_home", ..., "36 cases"),
    ("decode_commit", ..., "33 records"),
    ("decode_commit", decoded, "33 records"),
    ("live_records", ..., "40 logs"),
    ("survivors", ..., "No offset has changed"),
    ("kept_or_gone", ..., "a quiet partition of a live group"),
    ("kept_or_gone", {"today": ("Kept", "kept", "GONE", "kept"), "2.0": ("gone", "gone", "gone", "kept")}, "must be empty"),
    ("gap_or_loss", ..., "rings for healthy topics"),
    ("rebuilt", ..., "Only a reader who starts from scratch can know that"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("group_home", unsigned_home, "and the highest one is a sign"),
    ("group_home", of_characters, "such a character is two of them"),
    ("group_home", plain_abs, "Kafka takes 0"),
    ("group_home", lambda group, partitions: "1", "should be a number"),
    ("decode_commit", lambda key, value: None if key.startswith("0000") else decoded(key, value), "a commit with a key of type 0"),
    ("live_records", lambda log: solutions.live_records(log) * 2, "what your function returns names offset 10 more than once"),
    ("survivors", lambda log, active: solutions.survivors(log, active) * 2, "what your function returns names offset 5 more than once"),
    ("decode_commit", lambda key, value: decoded(key, value, careful=False), "a value of no bytes"),
    ("decode_commit", lambda key, value: decoded(key, value or None), "a value of no bytes"),
    ("decode_commit", lambda key, value: decoded("0001" + key[4:], value), "a record about a group"),
    ("decode_commit", raises, "your code raised ValueError"),
    ("live_records", lambda log: list({key: offset for offset, key, _ in log}.values()), "has no live record"),
    ("live_records", lambda log: list({key: offset for offset, key, value in log if value is not None}.values()), "has no live record"),
    ("live_records", lambda log: [entry[0] for entry in log], "should return [10, 14]; yours returns [3, 4"),
    ("live_records", lambda log: 3, "should be a list of offsets"),
    ("survivors", whole_log, "The cleaner does not touch the active segment"),
    ("survivors", looks_ahead, "what is there replaces nothing yet"),
    ("survivors", no_tombstones, "A first pass leaves a tombstone"),
    ("survivors", lambda log, active: [offset for offset, _, _ in log], "yours returns [3, 4, 5"),
    ("kept_or_gone", BOTH | {"2.0": [KEPT, GONE, GONE, KEPT]}, "2.0: in situation 1"),
    ("kept_or_gone", BOTH | {"today": [GONE, KEPT, GONE, KEPT]}, "today: in situation 1"),
    ("kept_or_gone", BOTH | {"today": [KEPT, GONE, GONE, KEPT]}, "today: in situation 2"),
    ("kept_or_gone", BOTH | {"today": [KEPT, KEPT, KEPT, KEPT]}, "today: in situation 3"),
    ("kept_or_gone", BOTH | {"2.0": [GONE, GONE, GONE, GONE]}, "2.0: in situation 4"),
    ("kept_or_gone", BOTH | {"2.0": [GONE]}, "a list of 4 words"),
    ("kept_or_gone", {"today": BOTH["today"]}, "the answer should be a dict with the keys '2.0'"),
    ("kept_or_gone", BOTH | {"2.0": ["lost"] * 4}, "should be one of"),
    ("gap_or_loss", zero_is_none, "end=3, first=0) should return 'next'; yours returns 'gap'"),
    ("gap_or_loss", empty_is_outside, "start=0, end=0, first=None) should return 'end'; yours returns 'out of range'"),
    ("gap_or_loss", empty_is_a_gap, "start=0, end=0, first=None) should return 'end'; yours returns 'gap'"),
    ("gap_or_loss", nothing_is_the_end, "or what compaction removed"),
    ("gap_or_loss", end_is_outside, "should return 'end'"),
    ("gap_or_loss", lambda asked, start, end, first: "out of range" if first != asked else "next", "first=8) should return 'gap'"),
    ("gap_or_loss", lambda asked, start, end, first: "lost", "should be one of"),
    ("rebuilt", merged, "What does it mean that none says it exists?"),
    ("rebuilt", lambda table, left: dict(left), "should return {'b': 'new 1', 'e': 'new 1'}"),
    ("rebuilt", only_known_keys, "yours returns {'e': 'new 1'}"),
    ("rebuilt", lambda table, left: list(solutions.rebuilt(table, left).items()), "what your function returns should be a dict"),
]


def test_logs_show_what_the_exercises_are_about() -> None:
    """Some log is cleaned, some has a tombstone that must stay, some a key whose later record is in the active segment."""
    cut = [(entries, active) for entries, active in logs() if len(left_after(entries, active)) < len(entries)]
    assert len(cut) >= 10
    assert any(looks_ahead(entries, active) != left_after(entries, active) for entries, active in logs())
    assert [fate(committed_h, empty_h, Clock.COMMIT) for _, committed_h, empty_h in CASES] == BOTH["2.0"]
