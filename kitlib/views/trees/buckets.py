"""The spout's pending map, and beside it the acker's: what the next tick will drop.

The question: for which records does the spout still wait, and for how long? Both maps are buckets; a
tick drops the oldest one and opens a new one. What the spout's drops has timed out; what the acker's
drops is forgotten, and nobody is told.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from kitlib.views.film import NOTHING, Track
from kitlib.views.svg import Svg, el, group, letter_paint, line_paint
from kitlib.views.trees.forest import GONE, NEVER, EntryView, Forest, History
from kitlib.views.trees.layout import (
    CHIP_GAP,
    CHIP_TALL,
    MAP_LABEL,
    MAP_TOP,
    PENDING_CHIP,
    SIDE_LEFT,
    SIDE_WIDE,
    STATUSES,
    TREE_LEFT,
    TREE_WIDE,
    acker_chip,
    bucket_tall,
    chips_across,
)
from kitlib.words.glyphs import BLACK, ORANGE, RED
from kitlib.words.template import count as plural

NEWEST, MIDDLE, OLDEST = "newest bucket", "next bucket", "oldest bucket: the next tick drops it"
TIMED_OUT, FORGOTTEN = "dropped by the tick: timed out", "dropped by the tick: nobody is told"


def map_tall(forest: Forest) -> int:
    """The height of both maps."""
    rows = max(forest.pending_buckets, forest.acker_buckets) + 1
    return MAP_TOP + rows * bucket_tall(forest.chip_rows)


def labels_of(buckets: int, dropped: str) -> list[str]:
    """What each bucket is, and what lies below the last one."""
    return [NEWEST, *[MIDDLE] * (buckets - 2), OLDEST, dropped]


@dataclass(slots=True)
class Member:
    """A box in a map: a tree that the spout waits for, or an acker's entry."""

    tree: int
    bucket: History
    steps: list[int]  # at which its words change
    words: Callable[[int], str]  # after a step


Found = list[list[int]]  # in each bucket the members, and below the last one those that the tick has dropped


@dataclass(slots=True)
class BucketMap:
    """One task's map."""

    forest: Forest
    name: str
    place: tuple[int, int, int]  # left, wide, and how wide a box is
    labels: list[str]  # of the buckets, and of what was dropped
    told: Callable[[int, int], str]  # how many there are after a step, in words
    told_steps: list[int]  # at which these words change though the members do not
    members: list[Member]

    @property
    def room(self) -> int:
        """Boxes in a bucket."""
        return chips_across(*self.place[1:]) * self.forest.chip_rows

    def found_at(self, step: int) -> Found:
        """The members in each bucket after a step."""
        found: Found = [[] for _ in self.labels]
        for number, member in enumerate(self.members):
            if (bucket := member.bucket.at(step, GONE)) != GONE:
                found[bucket].append(number)
        return found

    def found_over(self) -> Iterator[tuple[int, Found]]:
        """The members in each bucket, from each step on at which something changes in the map."""
        changes: dict[int, list[tuple[int, int]]] = {step: [] for step in (0, *self.told_steps)}
        for number, member in enumerate(self.members):
            begin, end = member.bucket.steps[0], member.bucket.steps[-1]
            for step, bucket in zip(member.bucket.steps, member.bucket.values, strict=True):
                changes.setdefault(step, []).append((number, bucket))
            for step in member.steps:
                if begin < step < end or member.bucket.last != GONE:
                    changes.setdefault(step, [])
        where: dict[int, int] = {}
        found: Found = [[] for _ in self.labels]
        for step in sorted(changes):
            for number, bucket in changes[step]:
                if (was := where.pop(number, GONE)) != GONE:
                    found[was].remove(number)
                if bucket != GONE:
                    insort(found[bucket], number)
                    where[number] = bucket
            yield step, found

    def pieces(self, step: int, found: Found) -> list[Svg]:
        """What the map is and holds, and the boxes of each bucket as far as they fit; as many pieces at each step."""
        left, _, _ = self.place
        told = self.told(step, sum(map(len, found[:-1])))
        parts = [_words(left, 16, self.name, True), _words(left, 33, told, False)]
        for index, (label, bucket) in enumerate(zip(self.labels, found, strict=True)):
            is_dropped = index == len(found) - 1
            kept = len(bucket) if len(bucket) <= self.room else self.room - 1
            parts.append(NOTHING if is_dropped and not bucket else self._shelf(index, label, is_dropped))
            parts += [self._chip(step, number, index, slot) for slot, number in enumerate(bucket[:kept])]
            if kept < len(bucket):
                x, y = self._at(index, kept)
                parts.append(_words(x + 4, y + 15, f"and {len(bucket) - kept:,} more", None))
            parts += [NOTHING] * (self.room - kept - (kept < len(bucket)))
        return parts

    def rings(self, step: int, found: Found) -> dict[int, list[Svg]]:
        """For each tree that is in the map what shows where: a ring around its box, which takes the last place if it has none."""
        rings: dict[int, list[Svg]] = {}
        for index, bucket in enumerate(found):
            kept = len(bucket) if len(bucket) <= self.room else self.room - 1
            for slot, number in enumerate(bucket):
                place = min(slot, kept - 1)
                own = [] if slot < kept else [self._chip(step, number, index, place, is_above=True)]
                rings.setdefault(self.members[number].tree, []).extend((*own, _ring(*self._at(index, place), self.place[2])))
        return rings

    def rings_over(self) -> Iterator[tuple[int, int, list[Svg]]]:
        """From which steps on which trees have which rings."""
        last: dict[int, list[Svg]] = {}
        for step, found in self.found_over():
            rings = self.rings(step, found)
            for tree in {**last, **rings}:
                now = rings.get(tree, [])
                if [id(piece) for piece in now] != [id(piece) for piece in last.get(tree, [])]:
                    yield step, tree, now
            last = rings

    def _at(self, index: int, slot: int) -> tuple[int, int]:
        """Where a box of a bucket lies."""
        left, wide, chip_wide = self.place
        row, column = divmod(slot, chips_across(wide, chip_wide))
        y = MAP_TOP + index * bucket_tall(self.forest.chip_rows) + MAP_LABEL + row * (CHIP_TALL + CHIP_GAP)
        return left + column * (chip_wide + CHIP_GAP), y

    def _shelf(self, index: int, label: str, is_dropped: bool) -> Svg:
        left, wide, _ = self.place
        tall = MAP_LABEL + self.forest.chip_rows * (CHIP_TALL + CHIP_GAP)
        return _shelf(left, 0 if is_dropped else wide, MAP_TOP + index * bucket_tall(self.forest.chip_rows), tall, label)

    def _chip(self, step: int, number: int, index: int, slot: int, *, is_above: bool = False) -> Svg:
        member = self.members[number]
        is_spout, is_dropped = self.place[0] == TREE_LEFT, index == len(self.labels) - 1
        fill = (RED if is_dropped else ORANGE) if is_spout else "paper" if is_above else "none"
        ref = self.forest.trees[member.tree].ref
        return _chip(member.tree, ref, member.words(step), *self._at(index, slot), self.place[2], fill)


class MapsOf:
    """The maps of a forest: each spout task's, and each acker's."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.kinds = [  # the tasks that have a map, the map of each, and which one a tree is in
            (dict.fromkeys(view.spout for view in forest.trees), self.pending_of, [view.spout for view in forest.trees]),
            (dict.fromkeys(view.acker for view in forest.trees), self.entries_of, [view.acker for view in forest.trees]),
        ]

    def pieces_at(self, tree: int, step: int) -> list[list[Svg]]:
        """After one step: the spout's map, the acker's, and the rings around one tree's boxes in each."""
        tasks = [(draw, NEVER if tree == NEVER else task_of[tree]) for _, draw, task_of in self.kinds]
        shown = [None if task == NEVER else draw(task) for draw, task in tasks]
        found = [each.found_at(step) if each else [] for each in shown]
        maps = [each.pieces(step, inside) if each else [] for each, inside in zip(shown, found, strict=True)]
        return maps + [each.rings(step, inside).get(tree, []) if each else [] for each, inside in zip(shown, found, strict=True)]

    def play(self, **attributes: Any) -> list[Track]:
        """The same after every step, for each tree that may be shown, and after the trees for none."""
        maps, rings = [], []
        for tasks, draw, task_of in self.kinds:
            owners = [task for task in tasks if task != NEVER]
            rows = {task: row for row, task in enumerate(owners)}
            trees = len(self.forest.trees)
            maps.append(Track(len(rows), [*(rows.get(task, NEVER) for task in task_of), NEVER], **attributes))
            rings.append(Track(trees, [*range(trees), NEVER], **attributes))
            for task, row in rows.items():
                shown = draw(task)
                for step, found in shown.found_over():
                    maps[-1].show(step, shown.pieces(step, found), row)
                for step, tree, pieces in shown.rings_over():
                    rings[-1].show(step, pieces, tree)
        return [*maps, *rings]

    def pending_of(self, spout: int) -> BucketMap:
        forest = self.forest

        def told(step: int, count: int) -> str:
            ended = forest.ended.at(step, {})
            how = ", ".join(f"{ended[status]:,} {STATUSES[status][0]}" for status in sorted(ended) if ended[status])
            return f"{count:,} pending, {f'ended so far: {how}' if how else 'no tree has ended yet'}"

        def open_words(tree: int, step: int) -> str:
            """`12: 3 open`."""
            return f"{forest.trees[tree].short}: {forest.open_of(tree, step)[0]} open"

        members = [
            Member(tree, view.bucket, forest.tally_of(tree).steps, partial(open_words, tree))
            for tree, view in enumerate(forest.trees)
            if view.spout == spout and view.bucket.steps
        ]
        place, labels = (TREE_LEFT, TREE_WIDE, PENDING_CHIP), labels_of(forest.pending_buckets, TIMED_OUT)
        return BucketMap(forest, f"{forest.tasks[spout]}'s pending map", place, labels, told, forest.ended.steps, members)

    def entries_of(self, acker: int) -> BucketMap:
        forest = self.forest

        def entry_words(entry: EntryView, step: int) -> str:
            """`12: 0110 1011`."""
            return f"{entry.name}: {entry.value.at(step, '')}"

        members = [
            Member(entry.tree, entry.bucket, entry.value.steps, partial(entry_words, entry))
            for entry in forest.entries
            if entry.acker == acker and entry.bucket.steps
        ]
        place, labels = (SIDE_LEFT, SIDE_WIDE, acker_chip(forest.bits)), labels_of(forest.acker_buckets, FORGOTTEN)
        name, told = f"{forest.tasks[acker]}'s map", lambda step, count: plural(count, "entry", "entries")
        return BucketMap(forest, name, place, labels, told, [], members)


@lru_cache(4_000)
def _words(x: int, y: int, words: str, is_name: bool | None) -> Svg:
    """A map's name, what it holds (False), or what has no room in a bucket (None)."""
    size = 13 if is_name else 11 if is_name is None else None
    return el("text", words, cls="ink", x=x, y=y, font_size=size, font_weight="bold" if is_name else None)


@lru_cache(256)
def _shelf(left: int, wide: int, top: int, tall: int, label: str) -> Svg:
    """What a bucket is called, and the line below its boxes."""
    line = [el("path", d=f"M{left} {top + tall}H{left + wide}", cls="grey-line", stroke_width=0.7)] if wide else []
    return group(el("text", label, cls="grey", x=left, y=top + 11, font_size=11), *line)


@lru_cache(4_000)
def _ring(x: int, y: int, wide: int) -> Svg:
    ring = {"x": x - 2.5, "y": y - 2.5, "width": wide + 5, "height": CHIP_TALL + 3}
    return el("rect", **ring, cls="ink-line", rx=5, fill="none", stroke_width=2.5)


@lru_cache(10_000)
def _chip(tree: int, ref: str | None, text: str, x: int, y: int, wide: int, fill: str) -> Svg:
    """The box of a tree in a map; in the player a click on it keeps the tree in view."""
    room = wide // 7
    shown = text if len(text) <= room else text[: room - 1] + "…"
    body = _chip_body(shown, wide, fill)
    return Svg(el("g", cls="kit-pick", data_choice=tree, data_ref=ref, transform=f"translate({x} {y})").head, body)


@lru_cache(10_000)
def _chip_body(text: str, wide: int, fill: str) -> list[Svg]:
    colour = BLACK if fill in (RED, ORANGE) else "ink"
    paint = {"cls": f"paper {colour}-line"} if fill == "paper" else {"fill": fill, **line_paint(colour)}
    return [
        el("rect", x=0, y=0, width=wide, height=CHIP_TALL - 2, rx=3, **paint),
        el("text", text, x=wide / 2, y=14, text_anchor="middle", font_size=11, **letter_paint(colour)),
    ]
