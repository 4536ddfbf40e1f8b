"""The tree that grew from one spout tuple, after one step.

The question: which tuples have been sent, and which of them are acked? The spout's record is on the
left, each tuple to the right of the one it was anchored to. A line is a tuple on its way: thick while
nothing was heard of it, and crossed out where it was lost.
"""

from __future__ import annotations

from kitlib.views.forest import NEVER, Forest
from kitlib.views.paint import letter_paint, line_paint
from kitlib.views.svg import HATCH, Svg, el, group, legend
from kitlib.views.tree_layout import Layout, Node
from kitlib.views.tree_look import (
    LOOSE_MEANING,
    LOOSE_PAINT,
    STATUSES,
    TREE_LEFT,
    TREE_TOP,
    TUPLE_LOOK_OF,
    TUPLE_LOOKS,
    TupleLook,
)

NO_TREE = "No record has been emitted yet."
INSET = 6  # of the words in a box


def tree_name(forest: Forest, tree: int) -> str:
    """`The tree of offset 12: root …a3f2`."""
    view = forest.trees[tree]
    return f"The tree of {view.name}: {view.detail}"


def tree_summary(forest: Forest, tree: int, step: int) -> str:
    """`pending: 3 of 5 tuples not acked`."""
    told = STATUSES[forest.status_of(tree, step)][0]
    nodes = zip(forest.codes_of(tree, step), forest.trees[tree].layout.nodes, strict=True)
    loose = sum(code != "." and node.is_loose and node.number >= 0 for code, node in nodes)
    count, total = forest.open_of(tree, step)
    parts = [f"{count:,} of {total:,} tuples not acked"] if total else []
    parts += [f"{loose:,} unanchored"] if loose else []
    hidden = forest.trees[tree].layout.hidden
    parts += [f"{hidden:,} not drawn"] if hidden else []
    return f"{told}: {', '.join(parts)}" if parts else told


def draw_tree(forest: Forest, step: int, top: int) -> Svg:
    """The tree that the step is about, its upper edge at y = `top`."""
    tree = forest.focus[step] if step >= 0 else NEVER
    if tree == NEVER:
        return group(el("text", NO_TREE, cls="grey", x=TREE_LEFT, y=16, font_size=13), transform=f"translate(0 {top})")
    layout, codes = forest.trees[tree].layout, forest.codes_of(tree, step)
    parts = [
        el("text", tree_name(forest, tree), cls="ink", x=TREE_LEFT, y=16, font_size=13, font_weight="bold"),
        el("text", tree_summary(forest, tree, step), cls="ink", x=TREE_LEFT, y=33),
    ]
    parts += [el("text", head, cls="grey", x=x, y=TREE_TOP + 9, font_size=11) for x, head in layout.heads]
    shown = [(node, code) for node, code in zip(layout.nodes, codes, strict=True) if code != "." and node.x >= 0]
    if not layout.is_grid:
        parts += [
            draw_edge(layout, layout.nodes[parent], node, code) for node, code in shown for parent in node.parents
        ]
    for node, code in shown:
        fault = forest.faulty.get(node.number)
        kind = fault[1] if fault and fault[0] <= step else ""
        parts.append(draw_tuple(layout, node, code, kind, is_current=NEVER != node.number == forest.current[step]))
    return group(*parts, transform=f"translate(0 {top})")


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


def draw_tuple(layout: Layout, node: Node, code: str, fault: str, *, is_current: bool) -> Svg:
    """The box of one tuple: its task, its id, its sign; a flag with the planted fault that met it."""
    look = TUPLE_LOOK_OF[code]
    paint = look_paint(look, node.is_loose)
    left, top = node.x - layout.wide / 2, node.y - layout.tall / 2
    parts = [
        el(
            "rect",
            x=left,
            y=top,
            width=layout.wide,
            height=layout.tall,
            rx=9 if node.number < 0 and layout.lines else 2,
            fill=paint["fill"],
            stroke_dasharray=paint["dash"] or None,
            stroke_width=1.5 if paint["fill"] == "none" or look.hatch else 1,
            **line_paint(paint["edge"]),
        )
    ]
    words = letter_paint(paint["text"], 4 * look.hatch)
    x, y = float(node.x), float(node.y)
    if layout.lines >= 2:
        rows = [node.task, *node.id.split("\n")]
        first = y - 7.5 * len(rows) + 12
        for row, text in enumerate(rows):
            bold = "bold" if row == 0 else None
            parts.append(el("text", text, x=left + INSET, y=first + 15 * row, font_size=11, font_weight=bold, **words))
        x, y = left + layout.wide - 11, node.y + layout.tall / 2 - 10
    elif layout.lines:
        parts.append(el("text", node.task, x=left + INSET, y=y + 4, font_size=11, **words))
        x = left + layout.wide - 11
    parts.append(group(draw_sign(look, paint["text"]), transform=f"translate({x:.1f} {y:.1f})"))
    if fault:
        parts.append(_flag(fault, node.x + layout.wide / 2, top, is_small=layout.lines < 2))
    if is_current:
        ring = {"x": left - 3.5, "y": top - 3.5, "width": layout.wide + 7, "height": layout.tall + 7}
        parts.append(el("rect", **ring, cls="ink-line", rx=5, fill="none", stroke_width=2.5))
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
    own = {"fill": HATCH if look.hatch else look.fill, "text": look.text, "edge": look.edge, "dash": look.dash}
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


def draw_tree_legend(codes: set[str], has_loose: bool, top: int) -> tuple[Svg, int]:
    """What the boxes mean, only those that occur, in two columns; and its height."""
    items = [(_swatch(look), look.meaning) for look in reversed(TUPLE_LOOKS) if look.code in codes]
    if has_loose:
        items.append(
            (
                el("rect", x=2, y=0.5, width=22, height=17, fill="none", stroke_dasharray="4 3", cls="ink-line"),
                LOOSE_MEANING,
            )
        )
    return legend(items, top)


def _swatch(look: TupleLook) -> Svg:
    paint = look_paint(look, False)
    frame = el("rect", x=2, y=0.5, width=22, height=17, rx=2, fill=paint["fill"], **line_paint(look.edge))
    return group(frame, group(draw_sign(look, look.text), transform="translate(13 9)"))
