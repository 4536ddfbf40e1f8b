"""A picture of every step of a run, small enough to be sent at once: what two pictures share is kept once.

From one step to the next nearly all of a picture stays. So pictures are kept as numbered nodes: an element with
the numbers of what is inside it. Equal elements are one node. The player builds the picture of the first step and changes
of it what differs at the next one (`player_film.js`); it never reads markup and knows nothing of what is drawn.

A `Reel` is one picture of a player over all steps. Left out: the drawing. Whoever draws fast gives back the same
object for what it drew before.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.views.svg import Item, Svg, el

FAR = 1_000  # nodes that lie farther back are told by their own numbers, which repeat as distances do not
Node = tuple[Any, ...]  # the number of its head, then what is inside: numbers of nodes, and text


class Film:
    """Nodes, each one kept once; a picture is the number of its outermost node."""

    def __init__(self) -> None:
        self.heads: dict[str, int] = {}
        self.numbers: dict[Node, int] = {}
        self.told: list[list[Any]] = []  # the nodes as they are sent
        self._known: dict[Svg, int] = {}  # by identity: what was drawn once and is shown again

    def add(self, drawn: Svg) -> int:
        """The number of a drawing; its nodes are kept unless they are known."""
        number = self._known.get(drawn)
        if number is None:
            node: list[Any] = [self.heads.setdefault(drawn.head or "g", len(self.heads))]
            self._put_inside(drawn, node)
            key = tuple(node)
            number = self.numbers.get(key)
            if number is None:
                number = self.numbers[key] = len(self.told)
                self.told.append([key[0], *(_distance(number, part) for part in key[1:])])
            self._known[drawn] = number
        return number

    def _put_inside(self, drawn: Svg, node: list[Any]) -> None:
        """Add the numbers of what is inside a drawing to its node."""
        known = self._known
        for part in drawn.inside:
            if isinstance(part, str):
                node.append(html.unescape(part) if "&" in part else part)
            elif part.head:
                node.append(known[part] if part in known else self.add(part))
            else:
                self._put_inside(part, node)

    def to_json(self) -> dict[str, Any]:
        """All of it, for the player: heads as [tag, attributes], and the nodes."""
        return {"heads": [*map(_parsed, self.heads)], "nodes": self.told}


def _distance(number: int, part: int | str) -> int | str:
    """A part of the node `number` as it is sent: text, how far back a node lies, or below zero the number of one that is far: -1 for 0."""
    if isinstance(part, str):
        return part
    return number - part if number - part <= FAR else -1 - part


def _parsed(head: str) -> tuple[str, dict[str, str]]:
    """`rect x="1"` as its tag and {"x": "1"}."""
    return head.partition(" ")[0], {
        name: html.unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', head)
    }


NOTHING = Svg("g")


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece at its own place in a picture: when it becomes another one, and what it is then."""

    steps: Sequence[int]  # in order; the piece changes at these alone, and before the first one it is not there
    at: Callable[[int], Svg]  # what it is after a step from the first one on


def pieces_at(slots: Iterable[Slot], step: int) -> list[Svg]:
    """What is there after one step."""
    pieces = (slot.at(step) for slot in slots if slot.steps and slot.steps[0] <= step)
    return [piece for piece in pieces if piece is not NOTHING]


Span = tuple[int, int, str]  # from a step to before another one the item of the legend with this key is in the picture


def seen_over(spans: Iterable[Span]) -> Iterator[tuple[int, list[str]]]:
    """The keys of the legend's items that are in a picture, from each step on at which they may change."""
    changes: dict[int, list[tuple[str, int]]] = {}
    for since, until, key in spans:
        if since < until:
            changes.setdefault(since, []).append((key, 1))
            changes.setdefault(until, []).append((key, -1))
    counts: dict[str, int] = {}
    for step in sorted(changes):
        for key, change in changes[step]:
            counts[key] = counts.get(key, 0) + change
        yield step, [key for key, count in counts.items() if count]


def seen_at(spans: Iterable[Span], step: int) -> set[str]:
    """The keys of the legend's items that are in a picture after a step."""
    return {key for since, until, key in spans if since <= step < until}


class Track:
    """A part of a picture that is moved as a whole: a row of pieces, and at which steps each of them becomes another one.

    Where the reader chooses what a picture is about, a track has several rows; `of` says for each choice which row it shows,
    -1 for none. `moved` says for each step how far to the right it is moved; (): it stays where it is.
    """

    def __init__(self, film: Film, rows: int = 1, of: Sequence[int] = (), moved: Sequence[int] = (), **attributes: Any) -> None:
        self.film = film
        self.of = list(of)
        self.moved = list(moved)
        self.head = film.add(el("g", **attributes))
        self.rows: list[list[tuple[list[int], list[int]]]] = [[] for _ in range(rows)]  # steps, and the node from each of them on
        self._last: list[list[Svg]] = [[] for _ in range(rows)]

    def show(self, step: int, pieces: Iterable[Svg], row: int = 0) -> None:
        """From this step on the row is these pieces. Those that are the same objects as before cost nothing."""
        last = self._last[row]
        count = -1
        for count, piece in enumerate(pieces):
            if count == len(last):
                self._add(row)
            if piece is not last[count] or not step:
                self._put(step, count, piece, row)
        for place in range(count + 1, len(last)):
            if last[place] is not NOTHING:
                self._put(step, place, NOTHING, row)

    def play(self, slots: Iterable[Slot], row: int = 0) -> None:
        """Show these slots after every step."""
        for place, slot in enumerate(slots):
            self._add(row)
            for step in slot.steps:
                self._put(step, place, slot.at(step), row)

    def to_json(self) -> list[Any]:
        """The head, of each row the slots with their steps and nodes, `of` and `moved`; numbers as what they add to the one before."""
        rows = [[[differences(steps), differences(nodes)] for steps, nodes in row] for row in self.rows]
        return [self.head, rows, self.of, differences(self.moved)]

    def _add(self, row: int) -> None:
        self._last[row].append(NOTHING)
        self.rows[row].append(([], []))

    def _put(self, step: int, place: int, piece: Svg, row: int) -> None:
        self._last[row][place] = piece
        steps, nodes = self.rows[row][place]
        node = self.film.add(piece)
        if steps and steps[-1] == step:
            nodes[-1] = node
        elif not nodes or nodes[-1] != node:
            steps.append(step)
            nodes.append(node)


def differences(numbers: list[int]) -> list[int]:
    """Each number as what it adds to the one before."""
    return [number - before for before, number in zip([0, *numbers], numbers, strict=False)]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The thin line of the present: where it stands after each step, and where dragging scrubs."""

    x: Sequence[float]  # never falls
    top: int
    tall: int
    right: int
    track: Track  # the line itself, at x = 0, and what moves with it
    future: Sequence[float] = ()  # where the paper over what has not happened begins; (): there is none
    dim: float = 0.0  # how opaque that paper is


@dataclass(frozen=True, slots=True)
class Chooser:
    """What a reader may choose a picture to be about, at all steps."""

    label: str  # of the list to choose from
    otherwise: str  # the list's first line: nothing was chosen
    names: list[str]
    default: Sequence[int]  # per step: what the picture is about where nothing was chosen, by its place in `names` or after them


@dataclass(slots=True)
class Reel:
    """One picture of a player: what stays, what it shows after each step, and that in words."""

    title: str
    question: str
    width: int
    tall: int
    back: int = -1  # the node that stays; -1: there is none
    tracks: list[Track] = field(default_factory=list)  # the first one lowest
    words: list[str] = field(default_factory=list)  # per step; (): what stands in its rows says it
    cursor: Cursor | None = None
    chooser: Chooser | None = None
    legend: list[tuple[int, str]] = field(default_factory=list)  # swatch and meaning
    seen: list[tuple[list[int], list[int]]] = field(default_factory=list)
    # per choice (one where there is none): steps, and from each of them on a bit for each item of the legend that is in the picture

    def explain(self, film: Film, items: Iterable[Item], *seen: Iterable[tuple[int, Collection[str]]]) -> None:
        """Give it a legend of what occurs in the run, where `seen` says for each choice what is in the picture from which steps on."""
        told = [list(one) for one in seen]
        found = {key for one in told for _, keys in one for key in keys}
        kept = [item for item in items if item.key in found]
        self.legend = [(film.add(item.swatch), item.meaning) for item in kept]
        bits = {item.key: 1 << place for place, item in enumerate(kept)}
        for one in told:
            steps: list[int] = []
            masks: list[int] = []
            for step, keys in one:
                mask = sum(bits.get(key, 0) for key in set(keys))
                if not masks or masks[-1] != mask:
                    steps.append(step)
                    masks.append(mask)
            self.seen.append((steps, masks))

    def to_json(self) -> dict[str, Any]:
        """All of it, for the player. Words that are the same at many steps are told once."""
        row = {name: getattr(self, name) for name in ("title", "question", "width", "tall", "back", "legend")}
        row["seen"] = [[differences(steps), masks] for steps, masks in self.seen]
        told: dict[str, int] = {}
        row["wordsOf"] = [told.setdefault(words, len(told)) for words in self.words]
        row["words"] = list(told)
        row["tracks"] = [track.to_json() for track in self.tracks]
        if self.cursor is not None:
            row["cursor"] = {name: getattr(self.cursor, name) for name in Cursor.__slots__ if name != "track"}
            row["cursor"]["track"] = self.cursor.track.to_json()
        if self.chooser is not None:
            row["chooser"] = {name: getattr(self.chooser, name) for name in Chooser.__slots__}
        return row
