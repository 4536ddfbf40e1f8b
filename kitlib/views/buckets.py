"""The spout's pending map, and beside it the acker's: what the next tick will drop.

The question: for which records does the spout still wait, and for how long? Both maps are buckets; a
tick drops the oldest one and opens a new one. What the spout's drops has timed out; what the acker's
drops is forgotten, and nobody is told.
"""

from __future__ import annotations

from kitlib.views.forest import NEVER, Forest
from kitlib.views.paint import letter_paint, line_paint
from kitlib.views.svg import Svg, el, group
from kitlib.views.tree_look import (
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

NEWEST, MIDDLE, OLDEST = "newest bucket", "next bucket", "oldest bucket: the next tick drops it"
TIMED_OUT, FORGOTTEN = "dropped by the tick: timed out", "dropped by the tick: nobody is told"

Chip = tuple[int, str]  # its tree, what it says


def map_tall(forest: Forest) -> int:
    """The height of both maps."""
    rows = max(forest.pending_buckets, forest.acker_buckets) + 1
    return MAP_TOP + rows * bucket_tall(forest.chip_rows)


def labels_of(buckets: int, dropped: str) -> list[str]:
    """What each bucket is, and what lies below the last one."""
    return [NEWEST, *[MIDDLE] * (buckets - 2), OLDEST, dropped]


def ended_so_far(forest: Forest, step: int) -> str:
    """`2 acked, 1 timed out`."""
    counts: dict[str, int] = {}
    for number, view in enumerate(forest.trees):
        status = forest.status_of(number, step)
        if view.status.steps and view.status.steps[0] <= step and status:
            counts[STATUSES[status][0]] = counts.get(STATUSES[status][0], 0) + 1
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return f"ended so far: {told}" if told else "no tree has ended yet"


def chosen(chips: list[Chip], room: int, focus: int) -> tuple[list[Chip], int]:
    """Those that fit, the shown tree's among them, and how many there are besides."""
    if len(chips) <= room:
        return chips, 0
    kept = chips[: room - 1]
    mine = next((chip for chip in chips if chip[0] == focus), None)
    if mine is not None and mine not in kept:
        kept[-1] = mine
    return kept, len(chips) - len(kept)


def draw_maps(forest: Forest, step: int, top: int) -> Svg:
    """The map of the spout task that emitted the shown tree, and the map of the acker that follows it."""
    tree = forest.focus[step] if step >= 0 else NEVER
    if tree == NEVER:
        return Svg()
    view = forest.trees[tree]
    parts = []
    if view.spout != NEVER:
        parts.append(_pending(forest, tree, step))
    if view.acker != NEVER:
        parts.append(_entries(forest, tree, step))
    return group(*parts, transform=f"translate(0 {top})")


def _pending(forest: Forest, tree: int, step: int) -> Svg:
    spout = forest.trees[tree].spout
    found = forest.pending_at(spout, step)
    chips = [[(number, pending_text(forest, number, step)) for number in bucket] for bucket in found]
    name, count = f"{forest.tasks[spout]}'s pending map", sum(map(len, found[:-1]))
    told = f"{count:,} pending, {ended_so_far(forest, step)}"
    return _map(
        forest,
        tree,
        (TREE_LEFT, TREE_WIDE, PENDING_CHIP),
        name,
        told,
        labels_of(forest.pending_buckets, TIMED_OUT),
        chips,
    )


def pending_text(forest: Forest, tree: int, step: int) -> str:
    """`12: 3 open`."""
    return f"{forest.trees[tree].short}: {forest.open_of(tree, step)[0]} open"


def _entries(forest: Forest, tree: int, step: int) -> Svg:
    acker = forest.trees[tree].acker
    found = forest.entries_at(acker, step)
    chips = [[(forest.entries[n].tree, entry_text(forest, n, step)) for n in bucket] for bucket in found]
    count = sum(map(len, found[:-1]))
    told = f"{count:,} {'entry' if count == 1 else 'entries'}"
    labels = labels_of(forest.acker_buckets, FORGOTTEN)
    return _map(
        forest,
        tree,
        (SIDE_LEFT, SIDE_WIDE, acker_chip(forest.bits)),
        f"{forest.tasks[acker]}'s map",
        told,
        labels,
        chips,
    )


def entry_text(forest: Forest, entry: int, step: int) -> str:
    """`12: 0110 1011`."""
    view = forest.entries[entry]
    return f"{view.name}: {view.value.at(step, '')}"


def _map(
    forest: Forest,
    tree: int,
    place: tuple[int, int, int],
    name: str,
    told: str,
    labels: list[str],
    chips: list[list[Chip]],
) -> Svg:
    left, wide, chip_wide = place
    across = chips_across(wide, chip_wide)
    parts = [
        el("text", name, cls="ink", x=left, y=16, font_size=13, font_weight="bold"),
        el("text", told, cls="ink", x=left, y=33),
    ]
    is_spout = left == TREE_LEFT
    for index, (label, bucket) in enumerate(zip(labels, chips, strict=True)):
        y = MAP_TOP + index * bucket_tall(forest.chip_rows)
        is_dropped = index == len(labels) - 1
        if is_dropped and not bucket:
            continue
        kept, more = chosen(bucket, across * forest.chip_rows, tree)
        parts.append(el("text", label, cls="grey", x=left, y=y + 11, font_size=11))
        if not is_dropped:
            down = y + MAP_LABEL + forest.chip_rows * (CHIP_TALL + CHIP_GAP)
            parts.append(el("path", d=f"M{left} {down}H{left + wide}", cls="grey-line", stroke_width=0.7))
        for place_in, (number, text) in enumerate(kept):
            row, column = divmod(place_in, across)
            x, chip_y = left + column * (chip_wide + CHIP_GAP), y + MAP_LABEL + row * (CHIP_TALL + CHIP_GAP)
            parts.append(_chip(text, x, chip_y, chip_wide, chip_fill(is_spout, is_dropped), is_shown=number == tree))
        if more:
            row, column = divmod(len(kept), across)
            x, chip_y = left + column * (chip_wide + CHIP_GAP), y + MAP_LABEL + row * (CHIP_TALL + CHIP_GAP)
            parts.append(el("text", f"and {more:,} more", cls="ink", x=x + 4, y=chip_y + 15, font_size=11))
    return group(*parts)


def chip_fill(is_spout: bool, is_dropped: bool) -> str:
    """Pending is orange, timed out is red; the acker's entries are hollow."""
    return "none" if not is_spout else RED if is_dropped else ORANGE


def _chip(text: str, x: int, y: int, wide: int, fill: str, *, is_shown: bool) -> Svg:
    colour = "ink" if fill == "none" else BLACK
    shown = text if len(text) <= wide // 7 else text[: wide // 7 - 1] + "…"
    parts = [
        el("rect", x=x, y=y, width=wide, height=CHIP_TALL - 2, rx=3, fill=fill, **line_paint(colour)),
        el("text", shown, x=x + wide / 2, y=y + 14, text_anchor="middle", font_size=11, **letter_paint(colour)),
    ]
    if is_shown:
        ring = {"x": x - 2.5, "y": y - 2.5, "width": wide + 5, "height": CHIP_TALL + 3}
        parts.append(el("rect", **ring, cls="ink-line", rx=5, fill="none", stroke_width=2.5))
    return group(*parts)
