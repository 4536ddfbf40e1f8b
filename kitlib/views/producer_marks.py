"""Which sign each word of a producer's trace gets on the lanes, and the lines of its label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.views.producer_look import APART, CLIENT_Y
from kitlib.views.producer_words import NO_NUMBER, batch_word, error_word, sequence_of, whole

Data = dict[str, Any]
Sign = tuple[str, tuple[str, ...]]  # the mark's code and its label

CLIENT, BROKER, SECOND = CLIENT_Y, CLIENT_Y + APART, CLIENT_Y + 2 * APART  # the lanes' heights


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
