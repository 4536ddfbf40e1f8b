"""The few words that stand on a mark or in a box of a producer's picture, which mark each verb has, and numbers read with care.

A recorded trace may hold anything: what is no whole number is read as a default, what is long is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.kafka.protocol import increment_sequence
from kitlib.text import plain_text
from kitlib.views.producer_look import APART, CLIENT_Y, SHORT_ERRORS

Data = dict[str, Any]
Sign = tuple[str, tuple[str, ...]]  # a mark's code and its label

NO_NUMBER = -1
MOST = 2**53  # what JavaScript holds exactly
CLIENT, BROKER, SECOND = CLIENT_Y, CLIENT_Y + APART, CLIENT_Y + 2 * APART  # the lanes' heights
MOST_DIGITS = 7  # of both ends of a range of sequence numbers together, in a box


def whole(value: object, default: int) -> int:
    """A whole number that a drawing can bear, or the default."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= MOST:
        return default
    return value


def part(state: Data, name: str) -> Data:
    """One side's part of a step's state; empty where it is missing or of another kind."""
    found = state.get(name)
    return found if isinstance(found, dict) else {}


def rows_of(found: object, wide: int) -> list[list[Any]]:
    """The rows of a list in a state that have at least so many items; all others are passed over."""
    if not isinstance(found, list):
        return []
    return [row for row in found if isinstance(row, list) and len(row) >= wide]


def numbers(data: Data) -> tuple[Any, ...]:
    """By what a broker tells one producer's batch from another's."""
    return tuple(data.get(name) for name in ("pid", "epoch", "seq"))


def owner_of(actor: str, actors: list[str]) -> str:
    """`producer 2/` before the name of what belongs to it; "" for the first producer's. Several producers number alike."""
    return "" if actor == actors[0] or actor not in actors else f"{plain_text(actor, 60)}/"


def batch_word(data: Data) -> str:
    return batch_name(data.get("batch"))


def batch_name(batch: object) -> str:
    """`batch 7`, and where the number is long `no. 1234`."""
    number = whole(batch, NO_NUMBER)
    return f"batch {number}" if number < 1_000 else f"no. {number}"


def sequence_word(seq: object, count: int) -> str:
    """`seq 15-19`, `15-1019` where that is long, only the first where that is long, too."""
    first = whole(seq, NO_NUMBER)
    if first < 0:
        return "no seq"
    last = increment_sequence(first, max(1, count) - 1)
    if last == first or len(f"{first}{last}") > MOST_DIGITS:
        return f"seq {first}" if len(str(first)) <= MOST_DIGITS else f"{first}"
    return f"seq {first}-{last}" if len(f"{first}{last}") < 6 else f"{first}-{last}"


def sequence_of(data: Data) -> str:
    """The same for a step that names its first and last record."""
    first = whole(data.get("first"), 0)
    return sequence_word(data.get("seq"), whole(data.get("last"), first) - first + 1)


def in_words(error: object) -> str:
    """An error's name as a speech bubble says it: "out of order sequence number"."""
    name = plain_text(error, 60)
    return name.lower().replace("_", " ") if name.isupper() else name


def error_word(error: object) -> str:
    """An error's name, cut to what fits under a mark."""
    name = plain_text(error, 60)
    short = SHORT_ERRORS.get(name, name.lower().replace("_", " "))
    return short if len(short) <= 12 else f"{short[:11]}…"


def _request(data: Data) -> Sign:
    before, lines = whole(data.get("attempt"), 0), (batch_word(data), sequence_of(data))
    return ("t", (f"try {before + 1}", *lines)) if before > 0 else ("r", lines)


def _answer(data: Data) -> Sign:
    return "a" if data.get("error") == "NONE" else "e", (batch_word(data), error_word(data.get("error")))


def _id(data: Data) -> Sign:
    return "i", (f"id {whole(data.get('pid'), NO_NUMBER)}", f"epoch {whole(data.get('epoch'), NO_NUMBER)}")


def _write(data: Data) -> Sign:
    """`copy` and `is_late` are what the log's reader knows."""
    copy = data.get("copy", 1)
    if copy > 1:
        return "W", (batch_word(data), "2nd copy" if copy == 2 else f"copy {copy}")
    return "w", (batch_word(data), "late" if data.get("is_late") else f"at {whole(data.get('offset'), NO_NUMBER)}")


MARKERS: dict[str, Callable[[Data], Sign]] = {
    "send": lambda data: ("s", ()),
    "request": _request,
    "answer": _answer,
    "no_answer": lambda data: ("n", (batch_word(data), "no answer")),
    "requeue": lambda data: ("q", ()),
    "delivered": lambda data: ("d", ()),
    "undelivered": lambda data: ("f", (batch_word(data), "failed")),
    "id": _id,
    "refuse_to_start": lambda data: ("f", ("refuses", "to start")),
    "lose_request": lambda data: ("L", ()),
    "lose_answer": lambda data: ("L", ()),
    "duplicate_request": lambda data: ("2", ()),
    "delay": lambda data: ("D", ()),
    "cut": lambda data: ("o", ()),
    "write": _write,
    "recognise": lambda data: ("k", (batch_word(data), "known")),
    "refuse": lambda data: ("x", (batch_word(data), error_word(data.get("error")))),
    "down": lambda data: ("b", ("goes", "down")),
    "restart": lambda data: ("b", ({"kill": "killed", "up": "back"}.get(str(data.get("how")), "restart"),)),
    "expire": lambda data: ("v", ("id", "forgotten")),
    "delete": lambda data: ("v", ("deletes", f"to {whole(data.get('to'), 0)}")),
    "fail_over": lambda data: ("v", ("another", "leader")),
    "read": lambda data: ("z", ("read",)),
}
