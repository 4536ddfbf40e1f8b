"""What the acker's ledger of one tree says, message by message, ready to be drawn bit by bit.

Each row is one message to the acker, or what wiped its entry away: the number before, the message, the
number after, and the sentences that make sense of them. Which ids are told once so far is followed
beside the acker, who does not know it: their XOR is the number, and where it is zero although ids are
open, they cancel each other by chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from textwrap import wrap

from kitlib.words.template import count
from kitlib.words.topology import MASK, to_id

WIDEST = {"ink": 36, "grey": 36}  # characters on a line
WIDEST_TONED = 33  # where letters are larger
FEW_IDS = 4  # more ids than these are counted, not listed


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One change of a tree's entry. Its numbers have no sign; None is no number."""

    step: int
    title: str
    before: int | None
    message: int | None
    after: int | None
    lines: tuple[tuple[str, str], ...]  # (text, "ink", "grey" or a tone of kitlib.views.trees.layout.TONES)
    is_false: bool = False  # zero, and so the end of the tree, though tuples of it are open


@dataclass(slots=True)
class Told:
    """The tuples whose ids an entry was told of an odd number of times, as far as messages can be explained."""

    ids: dict[int, int] = field(default_factory=dict)  # tuple -> its id
    is_known: bool = True  # False once a message could not be explained by the tuples that were sent

    def toggle(self, ids: Iterable[tuple[int, int]]) -> None:
        """These ids were told once more."""
        for number, value in ids:
            if self.ids.pop(number, None) is None:
                self.ids[number] = value

    def explains(self, value: int) -> bool:
        """Whether the entry's number is the XOR of these ids."""
        return self.is_known and reduce(xor, self.ids.values(), 0) == value


def unsigned(value: int | None) -> int | None:
    """The 64 bits of a number, whatever its sign."""
    return None if value is None else value & MASK


def to_short_id(value: int, bits: int) -> str:
    """An id for a small box: a wider one as its last four hexadecimal digits."""
    return to_id(value, bits) if bits <= 8 else to_id(value, 64)


def listed(ids: Iterable[int], bits: int) -> str:
    """`0110 ⊕ 1010`, or how many there are when they are many."""
    found = list(ids)
    if len(found) > (2 if bits > 8 else FEW_IDS):
        return f"{len(found)} ids"
    return " ⊕ ".join(to_id(value, bits).replace(" ", "") for value in found)


def wrapped(text: str, tone: str) -> list[tuple[str, str]]:
    """A sentence as lines that fit beside the tree."""
    return [(line, tone) for line in wrap(text, WIDEST.get(tone, WIDEST_TONED), break_on_hyphens=False)]


def verdict_on(
    after: int | None, end: str | None, open_count: int, told: Told, bits: int, *, is_claimed: bool, is_false: bool
) -> list[tuple[str, str]]:
    """What the number after a message means, in sentences.

    `is_claimed` once an init has said whom to tell; `is_false` when the tree ends by a zero that came by chance.
    """
    number = after or 0
    if end == "ack" and not is_false:
        return wrapped("Zero: every id came twice. The tree is finished.", "blue")
    if end == "ack" and told.explains(number) and told.ids:
        ids = listed(told.ids.values(), bits)
        sum_up = f" {ids} = 0" if "⊕" in ids else f" {ids} cancel out"
        return wrapped(f"ZERO BY CHANCE:{sum_up}. They came only once, yet the tree counts as done.", "red")
    if end == "ack":
        return wrapped(f"ZERO BY CHANCE: {count(open_count, 'tuple')} not acked, yet the tree counts as done.", "red")
    if end == "fail":
        return wrapped("Marked as failed and not zero: the spout is told that the tree failed.", "red")
    if not is_claimed:
        return wrapped("No init came for this entry: the acker does not know whom to tell.", "grey")
    if told.ids and told.explains(number):
        ids = listed(told.ids.values(), bits)
        is_count = ids.endswith(" ids")
        return wrapped(f"Not zero: {ids} told only once." if is_count else f"Not zero: told once so far {ids}.", "orange")
    return wrapped(f"Not zero: {count(open_count, 'tuple')} not acked yet.", "orange")
