"""The tree that grew from one spout tuple, after one step.

The question: which tuples have been sent, and which of them are acked? The spout's record is on the
left, each tuple to the right of the one it was anchored to. A line is a tuple on its way: thick while
nothing was heard of it, and crossed out where it was lost.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

from kitlib.views.film import NOTHING, Chooser, Reel, Slot, Span, Track, pieces_at, seen_over
from kitlib.views.svg import HATCH, Item, Svg, el, group, letter_paint, line_paint
from kitlib.views.trees.buckets import MapsOf, map_tall
from kitlib.views.trees.forest import NEVER, Forest
from kitlib.views.trees.layout import (
    LOOSE_MEANING,
    LOOSE_PAINT,
    SIDE_LEFT,
    STATUSES,
    TREE_LEFT,
    TREE_TOP,
    TUPLE_LOOK_OF,
    TUPLE_LOOKS,
    Layout,
    Node,
    TupleLook,
)
from kitlib.views.trees.ledger import ledger_slots

QUESTION = "Which tuples are out, and is the number zero?"
PENDING_QUESTION = "For what does the spout still wait?"
NO_TREE = "No record has been emitted yet."
MOST_NAMED = 500  # trees in the list to choose from; the others are chosen in the maps
INSET = 6  # of the words in a box


def tree_name(forest: Forest, tree: int) -> str:
    """`The tree of offset 12: root …a3f2`."""
    view = forest.trees[tree]
    return f"The tree of {view.name}: {view.detail}"


def tree_summary(forest: Forest, tree: int, step: int) -> str:
    """`pending: 3 of 5 tuples not acked`."""
    if step < forest.begin_of(tree):
        return "not emitted yet"
    told = STATUSES[forest.status_of(tree, step)][0]
    count, total, loose = forest.open_of(tree, step)
    parts = [f"{count:,} of {total:,} tuples not acked"] if total else []
    parts += [f"{loose:,} unanchored"] if loose else []
    hidden = forest.trees[tree].layout.hidden
    parts += [f"{hidden:,} not drawn"] if hidden else []
    return f"{told}: {', '.join(parts)}" if parts else told


def tree_reel(forest: Forest, only: int | None = None, chosen: int = NEVER, part: str = "all") -> Reel:
    """The tree that each step is about, or the one that the reader chose, with the acker's ledger and the maps.

    With `only` those after that step alone, of the `chosen` tree if there is such a tree; of those the `part` "tree" with its ledger, or
    the maps of what is "pending".
    """
    down = 0 if part == "pending" else TREE_TOP + forest.tall + 10
    reel = Reel("The tree of tuples, the acker's number and the pending map", QUESTION, down + map_tall(forest) * (part != "tree"))
    places: list[dict[str, Any]] = [{}, {"transform": f"translate({SIDE_LEFT} 0)"}, *[{"transform": f"translate(0 {down})"}] * 4]
    maps = MapsOf(forest)
    if only is not None:
        tree = chosen if 0 <= chosen < len(forest.trees) else forest.focus[only]
        drawn = [pieces_at(slots, only) for slots in (tree_slots(forest, tree), ledger_slots(forest, tree))]
        for pieces, place in zip([*drawn, *maps.pieces_at(tree, only)], places, strict=True):
            reel.tracks.append(Track(**place))
            reel.tracks[-1].show(0, pieces)
        if part == "pending":
            reel.question, reel.tracks = PENDING_QUESTION, reel.tracks[2:]
            return reel
        reel.tracks = reel.tracks[:2] if part == "tree" else reel.tracks
        spans = tree_spans(forest, tree) if tree != NEVER else []
        reel.explain(tree_legend(), [(0, [key for since, until, key in spans if since <= only < until])])
        return reel
    choices = [*range(len(forest.trees)), NEVER]
    for slots_of, place in zip((tree_slots, ledger_slots), places, strict=False):
        reel.tracks.append(Track(len(choices), range(len(choices)), **place))
        for row, tree in enumerate(choices):
            reel.tracks[-1].play(slots_of(forest, tree), row)
    reel.tracks += maps.play(**places[-1])
    reel.explain(tree_legend(), *(seen_over(tree_spans(forest, tree)) for tree in range(len(forest.trees))), [])
    names = [f"{view.name}, {view.detail}" for view in forest.trees[:MOST_NAMED]]
    default = [len(forest.trees) if tree == NEVER else tree for tree in forest.focus]
    reel.chooser = Chooser("tree shown: ", "the one that the step is about", names, default)
    return reel


def tree_slots(forest: Forest, tree: int) -> list[Slot]:
    """The pieces of one tree's picture: its name and counts, its edges below its boxes, and the ring of the present one."""
    if tree == NEVER:
        nothing = el("text", NO_TREE, cls="grey", x=TREE_LEFT, y=16, font_size=13)
        return [Slot([NEVER], lambda step: nothing)]
    layout = forest.trees[tree].layout
    name = el("text", tree_name(forest, tree), cls="ink", x=TREE_LEFT, y=16, font_size=13, font_weight="bold")
    heads = group(*(el("text", head, cls="grey", x=x, y=TREE_TOP + 9, font_size=11) for x, head in layout.heads))
    counted = sorted({0, *forest.tally_of(tree).steps, *forest.trees[tree].status.steps})
    words = Slot(counted, lambda step: el("text", tree_summary(forest, tree, step), cls="ink", x=TREE_LEFT, y=33))
    slots = [Slot([0], lambda step: name), words, Slot([0], lambda step: heads)]
    edges, boxes = [], []
    for place, node in enumerate(layout.nodes):
        if node.x < 0:
            continue
        steps = forest.changes_of(tree, place)
        for parent in [] if layout.is_grid else node.parents:
            edges.append(Slot(steps, partial(_edge_at, forest, tree, place, parent)))
        boxes.append(Slot(steps, partial(_box_at, forest, tree, place)))
    return [*slots, *edges, *boxes, _ring_slot(forest, layout)]


def _edge_at(forest: Forest, tree: int, place: int, parent: int, step: int) -> Svg:
    layout = forest.trees[tree].layout
    return draw_edge(layout, layout.nodes[parent], layout.nodes[place], forest.code_of(tree, place, step))


def _box_at(forest: Forest, tree: int, place: int, step: int) -> Svg:
    """One node at its place: what it holds as a tip, and its box."""
    layout = forest.trees[tree].layout
    node, code = layout.nodes[place], forest.code_of(tree, place, step)
    is_root = node.number < 0
    since, kind = (NEVER, "") if is_root else forest.tuples[node.number].fault
    fault = kind if NEVER != since <= step else ""
    box = draw_box(layout.wide, layout.tall, layout.lines, code, node.task, node.id, fault, is_loose=node.is_loose, is_root=is_root)
    values = "" if is_root else forest.tuples[node.number].values
    ref = forest.trees[tree].ref if is_root else forest.ref_of(node.number)
    tip = [el("title", values)] if values else []
    return group(*tip, box, transform=f"translate({node.x} {node.y})", data_ref=ref)


def _ring_slot(forest: Forest, layout: Layout) -> Slot:
    """The ring around the tuple that a step is about, where it is in this tree."""
    places = {node.number: (node.x, node.y) for node in layout.nodes if node.number >= 0 and node.x >= 0}
    steps = [step for step, number in enumerate(forest.current) if number in places]
    after = (step + 1 for step in steps if step + 1 < len(forest.current))

    def ring_at(step: int) -> Svg:
        place = places.get(forest.current[step])
        return NOTHING if place is None else _ring(layout.wide + 7, layout.tall + 7, *place)

    return Slot(sorted({*steps, *after}), ring_at)


@lru_cache(4_000)
def _ring(wide: int, tall: int, x: int, y: int) -> Svg:
    return el("rect", x=x - wide / 2, y=y - tall / 2, width=wide, height=tall, cls="ink-line", rx=5, fill="none", stroke_width=2.5)


def tree_spans(forest: Forest, tree: int) -> list[Span]:
    """When which items of the legend are in a tree's picture."""
    spans = []
    for place, node in enumerate(forest.trees[tree].layout.nodes):
        if node.x >= 0:
            steps = forest.changes_of(tree, place)
            for since, until in pairwise([*steps, len(forest.focus)]):
                spans += [(since, until, key) for key in _keys_of(forest, tree, place, since)]
    return spans


def _keys_of(forest: Forest, tree: int, place: int, step: int) -> tuple[str, ...]:
    """An unanchored tuple's own look is explained beside the dashes; those of a record that nobody follows are its whole look."""
    node = forest.trees[tree].layout.nodes[place]
    code = () if node.is_loose and node.number < 0 else (forest.code_of(tree, place, step),)
    return (*code, "loose") if node.is_loose else code


def draw_edge(layout: Layout, parent: Node, node: Node, code: str) -> Svg:
    """The way of a tuple from where it was sent to its box. It shows the newest news of the tuple."""
    left, right = parent.x + layout.wide // 2, node.x - layout.wide // 2
    middle = (left + right) // 2
    way = f"M{left} {parent.y}C{middle} {parent.y} {middle} {node.y} {right} {node.y}"
    dash = "4 3" if node.is_loose else None
    if code == "L":
        return el("path", d=way, fill="none", stroke=TUPLE_LOOK_OF["L"].edge, stroke_width=1.5, stroke_dasharray=dash)
    if code == "P":
        thick = {"stroke": TUPLE_LOOK_OF["P"].fill} if not node.is_loose else {"cls": "ink-line"}
        return el(
            "path",
            d=way,
            fill="none",
            stroke_width=3 if layout.lines and not node.is_loose else 1.5,
            stroke_dasharray=dash,
            **thick,
        )
    return el("path", d=way, fill="none", cls="grey-line", stroke_width=1.2, stroke_dasharray=dash)


@lru_cache(4_000)
def draw_box(wide: int, tall: int, lines: int, code: str, task: str, text: str, fault: str, *, is_loose: bool, is_root: bool) -> Svg:
    """The box of one tuple around 0, 0: its task, its id, its sign; a flag with the planted fault that met it."""
    look = TUPLE_LOOK_OF[code]
    paint = look_paint(look, is_loose)
    left, top = -wide / 2, -tall / 2
    parts = [
        el(
            "rect",
            x=left,
            y=top,
            width=wide,
            height=tall,
            rx=9 if is_root and lines else 2,
            fill=paint["fill"],
            stroke_dasharray=paint["dash"] or None,
            stroke_width=1.5 if paint["fill"] == "none" or look.hatch else 1,
            **line_paint(paint["edge"]),
        )
    ]
    words = letter_paint(paint["text"], 4 * look.hatch)
    x = y = 0.0
    if lines >= 2:
        rows = [task, *text.split("\n")]
        first = 12 - 7.5 * len(rows)
        for row, told in enumerate(rows):
            bold = "bold" if row == 0 else None
            parts.append(el("text", told, x=left + INSET, y=first + 15 * row, font_size=11, font_weight=bold, **words))
        x, y = left + wide - 11, tall / 2 - 10
    elif lines:
        parts.append(el("text", task, x=left + INSET, y=4, font_size=11, **words))
        x = left + wide - 11
    parts.append(group(draw_sign(look, paint["text"]), transform=f"translate({x:.1f} {y:.1f})"))
    if fault:
        parts.append(_flag(fault, wide / 2, top, is_small=lines < 2))
    return group(*parts)


def _flag(kind: str, right: float, top: float, *, is_small: bool) -> Svg:
    """A planted fault, named above the box; where boxes are small, a mark alone."""
    if is_small:
        return el(
            "path",
            d=f"M{right:.0f} {top:.0f}l-8 0l8 8Z",
            fill=TUPLE_LOOK_OF["F"].fill,
            stroke="#000000",
            stroke_width=0.5,
        )
    wide = 7 * len(kind) + 8
    return group(
        el(
            "rect",
            x=right - wide + 6,
            y=top - 13,
            width=wide,
            height=14,
            rx=2,
            fill=TUPLE_LOOK_OF["F"].fill,
            stroke="#000000",
        ),
        el("text", kind, x=right + 6 - wide / 2, y=top - 2, text_anchor="middle", font_size=11, fill="#000000"),
    )


def look_paint(look: TupleLook, is_loose: bool) -> dict[str, str]:
    """Fill, text, edge and dash of a box; an unanchored tuple's is hollow and dashed."""
    own = {"fill": HATCH if look.hatch else look.fill, "text": look.text, "edge": look.edge, "dash": ""}
    if not is_loose:
        return own
    return LOOSE_PAINT | ({"edge": look.edge} if look.code == "L" else {})


def draw_sign(look: TupleLook, text: str) -> Svg:
    """The sign of a code, around 0, 0."""
    edge = look.edge if look.code == "L" else text
    return el(
        "path",
        d=look.sign,
        fill="none",
        stroke_width=2,
        stroke_linecap="round",
        stroke_linejoin="round",
        **line_paint(edge),
    )


def tree_legend() -> list[Item]:
    """What the boxes mean."""
    looks = [Item(look.code, _swatch(look), look.meaning) for look in reversed(TUPLE_LOOKS)]
    dashed = el("rect", x=2, y=0.5, width=22, height=17, fill="none", stroke_dasharray="4 3", cls="ink-line")
    return [*looks, Item("loose", dashed, LOOSE_MEANING)]


def _swatch(look: TupleLook) -> Svg:
    paint = look_paint(look, False)
    frame = el("rect", x=2, y=0.5, width=22, height=17, rx=2, fill=paint["fill"], **line_paint(look.edge))
    return group(frame, group(draw_sign(look, look.text), transform="translate(13 9)"))
