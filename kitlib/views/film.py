"""A picture of every step of a run, small enough to be sent at once: what two pictures share is kept once.

From one step to the next nearly all of a picture stays. So pictures are kept as numbered nodes: an element with
the numbers of what is inside it. Equal elements are one node. The player builds the picture of the first step and changes
of it what differs at the next one (`player_film.js`); it never reads markup and knows nothing of what is drawn.

A `Reel` is one picture over all steps: a player is sent all of it, and a picture that cannot be moved is one step of it (`still`). Left
out: the drawing. Whoever draws fast gives back the same object for what it drew before.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.views.look import WIDTH
from kitlib.views.svg import Item, Svg, el, group, legend

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


class Track:
    """A part of a picture that is moved as a whole: a row of pieces, and at which steps each of them becomes another one.

    Where the reader chooses what a picture is about, a track has several rows; `of` says for each choice which row it shows,
    -1 for none. `moved` says for each step how far to the right it is moved; (): it stays where it is.
    """

    def __init__(self, rows: int = 1, of: Sequence[int] = (), moved: Sequence[int] = (), **attributes: Any) -> None:
        self.of = list(of)
        self.moved = list(moved)
        self.head = el("g", **attributes)
        self.rows: list[list[tuple[list[int], list[Svg]]]] = [[] for _ in range(rows)]  # steps, and the piece from each of them on
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

    def still(self, step: int, choice: int = 0) -> Svg:
        """What it is after one step, at its place."""
        row = self.of[choice] if self.of else 0
        slots = self.rows[row] if row >= 0 else ()
        pieces = (shown[bisect_right(steps, step) - 1] for steps, shown in slots if steps and steps[0] <= step)
        head = self.head.head if self.head.head != "g" else ""  # without a place of its own it is no group
        drawn = Svg(head, [piece for piece in pieces if piece is not NOTHING])
        return group(drawn, transform=f"translate({self.moved[min(step, len(self.moved) - 1)]} 0)") if self.moved else drawn

    def to_json(self, film: Film) -> list[Any]:
        """The head, of each row the slots with their steps and nodes, `of` and `moved`; numbers as what they add to the one before."""
        rows = []
        for row in self.rows:
            told = []
            for steps, pieces in row:
                nodes = [film.add(piece) for piece in pieces]
                kept = [place for place, node in enumerate(nodes) if not place or node != nodes[place - 1]]
                told.append([differences([steps[place] for place in kept]), differences([nodes[place] for place in kept])])
            rows.append(told)
        return [film.add(self.head), rows, self.of, differences(self.moved)]

    def _add(self, row: int) -> None:
        self._last[row].append(NOTHING)
        self.rows[row].append(([], []))

    def _put(self, step: int, place: int, piece: Svg, row: int) -> None:
        self._last[row][place] = piece
        steps, pieces = self.rows[row][place]
        if steps and steps[-1] == step:
            pieces[-1] = piece
        elif not pieces or pieces[-1] is not piece:
            steps.append(step)
            pieces.append(piece)


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

    def still(self, step: int) -> list[Svg]:
        """The paper and the line after one step."""
        x = self.x[step] if 0 <= step < len(self.x) else self.right
        future = self.future[step] if 0 <= step < len(self.future) else x
        box = {"x": future, "y": self.top, "width": max(0.0, self.right - future), "height": self.tall}
        paper = [el("rect", cls="paper", **box, opacity=f"{self.dim:g}")] if self.future else []
        return [*paper, group(self.track.still(step), transform=f"translate({x:.1f} 0)")]


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
    tall: int
    back: Svg | None = None  # what stays
    tracks: list[Track] = field(default_factory=list)  # the first one lowest
    words: list[str] = field(default_factory=list)  # per step; (): what stands in its rows says it
    cursor: Cursor | None = None
    chooser: Chooser | None = None
    legend: list[Item] = field(default_factory=list)
    seen: list[tuple[list[int], list[int]]] = field(default_factory=list)
    # per choice (one where there is none): steps, and from each of them on a bit for each item of the legend that is in the picture

    def explain(self, items: Iterable[Item], *seen: Iterable[tuple[int, Collection[str]]]) -> None:
        """Give it a legend of what occurs in the run, where `seen` says for each choice what is in the picture from which steps on."""
        told = [list(one) for one in seen]
        found = {key for one in told for _, keys in one for key in keys}
        self.legend = [item for item in items if item.key in found]
        bits = {item.key: 1 << place for place, item in enumerate(self.legend)}
        for one in told:
            steps: list[int] = []
            masks: list[int] = []
            for step, keys in one:
                mask = sum(bits.get(key, 0) for key in set(keys))
                if not masks or masks[-1] != mask:
                    steps.append(step)
                    masks.append(mask)
            self.seen.append((steps, masks))

    def still(self, step: int) -> tuple[Svg, int]:
        """What is drawn after a step, as the player draws it, with what its legend explains then below; and its height."""
        choice = self.chooser.default[step] if self.chooser else 0
        parts = [self.back] if self.back else []
        if self.cursor is not None:
            parts += self.cursor.still(step)
        steps, masks = self.seen[choice] if self.seen else ([], [])
        now = bisect_right(steps, step) - 1
        items = [(item.swatch, item.meaning) for place, item in enumerate(self.legend) if now >= 0 and masks[now] >> place & 1]
        explained, tall = legend(items, self.tall)
        parts += [track.still(step, choice) for track in self.tracks]
        return Svg("", [*parts, explained] if items else parts), self.tall + tall

    def to_json(self, film: Film) -> dict[str, Any]:
        """All of it, for the player. Words that are the same at many steps are told once."""
        row: dict[str, Any] = {name: getattr(self, name) for name in ("title", "question", "tall")}
        row["width"] = WIDTH
        row["back"] = film.add(self.back) if self.back else -1
        row["legend"] = [(film.add(item.swatch), item.meaning) for item in self.legend]
        row["seen"] = [[differences(steps), masks] for steps, masks in self.seen]
        told: dict[str, int] = {}
        row["wordsOf"] = [told.setdefault(words, len(told)) for words in self.words]
        row["words"] = list(told)
        row["tracks"] = [track.to_json(film) for track in self.tracks]
        if self.cursor is not None:
            row["cursor"] = {name: getattr(self.cursor, name) for name in Cursor.__slots__ if name != "track"}
            row["cursor"]["track"] = self.cursor.track.to_json(film)
        if self.chooser is not None:
            row["chooser"] = {name: getattr(self.chooser, name) for name in Chooser.__slots__}
        return row
