"""The exercises of notebook 11: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.nb_11 import CASES, fate, left_after, logs
from kitlib.more.offsets.offset_rules import Clock
from tests.exercises import solutions
from tests.exercises.solutions import slip, slips

LOOKS_AHEAD = slip("survivors", " if offset < active}", "}")
KEPT, GONE = "kept", "gone"
BOTH = {"2.0": [GONE, GONE, GONE, KEPT], "today": [KEPT, KEPT, GONE, KEPT]}

SOLUTIONS: list[tuple[str, Any, str]] = [
    ("group_home", ..., "36 cases"),
    ("decode_commit", ..., "33 records"),
    ("live_records", ..., "40 logs"),
    ("survivors", ..., "No offset has changed"),
    ("kept_or_gone", ..., "a quiet partition of a live group"),
    ("kept_or_gone", {"today": ("Kept", "kept", "GONE", "kept"), "2.0": ("gone", "gone", "gone", "kept")}, "must be empty"),
    ("gap_or_loss", ..., "rings for healthy topics"),
    ("rebuilt", ..., "Only a reader who starts from scratch can know that"),
]
WRONG: list[tuple[str, Any, str]] = [
    *slips(
        "group_home",
        ("    h = h - 2**32 if h >= 2**31 else h\n", "", "and the highest one is a sign"),
        ('encode("utf-16-be")', 'encode("utf-32-be")', "len(units), 2", "len(units), 4", "at + 2", "at + 4",
         "such a character is two of them"),
        ("0 if h == -(2**31) else abs(h)", "abs(h)", "Kafka takes 0"),
    ),
    *slips(
        "decode_commit",
        ("not in (0, 1)", "not in (1,)", "a commit with a key of type 0"),
        ("len(data) < at + 4 or (coded is not None and len(coded) < 10)", "False", "a value of no bytes"),
        ("value is None", "not value", "a value of no bytes"),
        ('int.from_bytes(data[:2], "big") not in (0, 1)', "False", "a record about a group"),
        ('return "broken"', 'raise ValueError("broken")', "your code raised ValueError"),
    ),
    ("live_records", lambda log: list({key: offset for offset, key, _ in log}.values()), "has no live record"),
    ("live_records", lambda log: list({key: offset for offset, key, value in log if value is not None}.values()), "has no live record"),
    ("live_records", lambda log: [entry[0] for entry in log], "should return [10, 14]; yours returns [3, 4"),
    ("live_records", lambda log: solutions.live_records(log) * 2, "what your function returns names offset 10 more than once"),
    *slips(
        "survivors",
        (" if offset < active}", "}", "offset >= active or ", "", "The cleaner does not touch the active segment"),
        (" if offset < active}", "}", "what is there replaces nothing yet"),
        ("for offset, key, _ in log if offset >= active or ", "for offset, key, value in log if offset >= active or value is not None and ",
         "A first pass leaves a tombstone"),
    ),
    ("survivors", lambda log, active: [offset for offset, _, _ in log], "yours returns [3, 4, 5"),
    ("kept_or_gone", BOTH | {"2.0": [KEPT, GONE, GONE, KEPT]}, "2.0: in situation 1"),
    ("kept_or_gone", BOTH | {"today": [KEPT, GONE, GONE, KEPT]}, "today: in situation 2"),
    ("kept_or_gone", BOTH | {"today": [KEPT, KEPT, KEPT, KEPT]}, "today: in situation 3"),
    ("kept_or_gone", BOTH | {"2.0": [GONE, GONE, GONE, GONE]}, "2.0: in situation 4"),
    *slips(
        "gap_or_loss",
        ("first == asked", "(first or None) == asked", "end=3, first=0) should return 'next'; yours returns 'gap'"),
        ("not start <=", "start == end or not start <=", "start=0, end=0, first=None) should return 'end'; yours returns 'out of range'"),
        ('return "end"', 'return "end" if start < end else "gap"', "start=0, end=0, first=None) should return 'end'; yours returns 'gap'"),
        ("asked == end", "asked == end or first is None", "or what compaction removed"),
        ("asked <= end", "asked < end", "should return 'end'"),
    ),
    ("gap_or_loss", lambda asked, start, end, first: "out of range" if first != asked else "next", "first=8) should return 'gap'"),
    *slips(
        "rebuilt",
        ("dict(left)", "{**table, **dict(left)}", "What does it mean that none says it exists?"),
        ("is not None", "is not None and key in table", "yours returns {'e': 'new 1'}"),
    ),
    ("rebuilt", lambda table, left: dict(left), "should return {'b': 'new 1', 'e': 'new 1'}"),
]  # fmt: skip


def test_logs_show_what_the_exercises_are_about() -> None:
    """Some log is cleaned, some has a tombstone that must stay, some a key whose later record is in the active segment."""
    cut = [(entries, active) for entries, active in logs() if len(left_after(entries, active)) < len(entries)]
    assert len(cut) >= 10
    assert any(LOOKS_AHEAD(entries, active) != left_after(entries, active) for entries, active in logs())
    assert [fate(committed_h, empty_h, Clock.COMMIT) for _, committed_h, empty_h in CASES] == BOTH["2.0"]
