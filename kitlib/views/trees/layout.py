"""Where the tuples of one tree stand, to the right by depth and downwards in the order in which they were sent; and what their boxes mean.

The whole tree is known, so a tuple's place is its place from the first step on: a tree grows, and
nothing that is drawn already moves. The more tuples, the smaller the boxes: with task and id, with the
id alone, with nothing but the sign; more than that become a grid of squares without lines.

As in `kitlib.views.look` flags decide a code by a table, and every code differs from the others
by its sign as well as by its colour. A tuple sent to one task goes the
way *in flight*, *executed*, *acked*: orange, green, blue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kitlib.words.glyphs import BLACK, BLUE, GREEN, ORANGE, RED, WHITE

# Flags of one tuple in one tree after one step.
SENT = 1  # it is on its way, or in its task's queue
EXECUTED = 2  # the bolt has worked through it
ACKED = 4  # the bolt has acked it
FAILED = 8  # the bolt has failed it
LOST = 16  # it vanished on its way, or with its task
LOOSE = 32  # not in the tree: unanchored, or nobody follows this record
OVER = 64  # the spout has heard of this tree's end, or no longer waits for it
IS_FALSE = 128  # it heard "acked" while tuples of the tree were not


@dataclass(frozen=True, slots=True)
class TupleLook:
    """How the tuples with one code are drawn."""

    code: str
    meaning: str  # for the legend
    fill: str  # a colour, or "none" for hollow boxes
    text: str  # colour of what is written in the box: BLACK, WHITE, RED, "ink" or "grey"
    edge: str  # colour of the outline, or "ink" or "grey"
    sign: str  # SVG path around 0, 0, ten units wide
    hatch: bool = False


ARROW = "M-4.5 0H4M0.5 -3.5L4.2 0L0.5 3.5"
DOT = "M-1.2 0a1.2 1.2 0 1 0 2.4 0a1.2 1.2 0 1 0 -2.4 0Z"
CHECK = "M-4 0.3L-1.2 3.3L4 -3.3"
BANG = "M0 -4.5V1M0 4V4.4"
CROSS = "M-3.6 -3.6L3.6 3.6M3.6 -3.6L-3.6 3.6"
BAR = "M-4 0H4"

# In the order of alarm.
TUPLE_LOOKS = (
    TupleLook("L", "lost: it will never be acked", "none", "ink", RED, CROSS),
    TupleLook("X", "not acked, though the tree counts as done", "none", "ink", RED, ARROW, hatch=True),
    TupleLook("F", "failed", RED, BLACK, BLACK, BANG),
    TupleLook("P", "in flight, or in its task's queue", ORANGE, BLACK, BLACK, ARROW),
    TupleLook("E", "executed, not acked yet", GREEN, BLACK, BLACK, DOT),
    TupleLook("A", "acked", BLUE, WHITE, BLACK, CHECK),
    TupleLook("O", "not acked; its tree has ended, nobody waits", "none", "grey", "grey", BAR),
)
TUPLE_LOOK_OF = {look.code: look for look in TUPLE_LOOKS}
LOOSE_PAINT = {"fill": "none", "text": "ink", "edge": "ink", "dash": "4 3"}  # instead of the code's own, but for "L"
LOOSE_MEANING = "unanchored: in no tree, nobody waits for it"


def tuple_code_of(flags: int) -> str:
    """The code of a tuple with these flags; "." when it was not sent yet."""
    if not flags & SENT:
        return "."
    for flag, code in ((LOST, "L"), (FAILED, "F"), (ACKED, "A")):
        if flags & flag:
            return code
    if flags & OVER and not flags & LOOSE:
        return "X" if flags & IS_FALSE else "O"
    return "E" if flags & EXECUTED else "P"


# A tree's status, as the spout sees it.
OPEN, TREE_ACKED, TREE_FAILED, TIMED_OUT, FALSELY_ACKED, FORGOTTEN, UNTRACKED = range(7)
# What is said of a tree, and the look of its root's box and of its box in a map.
STATUSES = (
    ("pending", "P"),
    ("acked", "A"),
    ("failed", "F"),
    ("timed out", "F"),
    ("falsely acked", "X"),
    ("forgotten with its spout", "O"),
    ("untracked", "O"),
)

# What stands behind a sentence of the ledger, and the colour of its words; "ink" and "grey" have nothing behind.
TONES = {"red": (RED, BLACK), "blue": (BLUE, WHITE), "orange": (ORANGE, BLACK)}
FLIPPED = ORANGE  # a bit of the message that is 1: it flips the one above

# Geometry in SVG units: the tree on the left, what the acker knows of it on the right, the maps below.
TREE_LEFT, TREE_WIDE = 20, 452
SIDE_LEFT, SIDE_WIDE = 500, 240
TREE_TOP = 46  # the tree's boxes begin here, below its name and its counts
LEAST_TALL, MOST_TALL = 240, 350  # of the tree's own area
LINE_TALL = 15
BITS_TOP = 46  # the ledger's first number
BIT_TALL, BIT_PITCH = 20, 38  # of one number: its cells, and down to the next
CHIP_TALL, CHIP_GAP = 22, 5
PENDING_CHIP = 86  # width of a tree's box in the spout's map
MAP_TOP = 42  # the first bucket, below the map's name and its counts
MAP_LABEL = 16
MOST_CHIP_ROWS = 2


def chips_across(wide: int, chip: int) -> int:
    """How many small boxes stand side by side."""
    return (wide + CHIP_GAP) // (chip + CHIP_GAP)


def acker_chip(bits: int) -> int:
    """Width of an entry's box in an acker's map: ids of 8 bits are shown whole, wider ones by their last digits."""
    return 117 if bits == 8 else 76


def chip_rows_for(most: int, bits: int) -> int:
    """Rows of small boxes that one bucket gets, when so many trees are pending at most."""
    return min(MOST_CHIP_ROWS, max(1, -(-most // chips_across(SIDE_WIDE, acker_chip(bits)))))


def bucket_tall(chip_rows: int) -> int:
    """From one bucket to the next."""
    return MAP_LABEL + chip_rows * (CHIP_TALL + CHIP_GAP) + 4


CHAR = 6.9  # units that a character of 11 px takes, at most
BOLD = 7.4  # a bold one
PITCH, HIGH_PITCH = 50, 58  # from one row of boxes to the next, at most; the second for ids in two lines
HEAD_TALL = 16  # of the components' names above the columns
SQUARE, LARGE_SQUARE = 12, 24  # side of the smallest boxes, and of a grid's largest, with their gap
SIGN_WIDE = 17  # of a box, for its sign


@dataclass(slots=True)
class Node:
    """One tuple in one tree: what it is, and the middle of its box."""

    number: int  # of the tuple, in the forest's own count; -1 is the spout's own record
    parents: list[int]  # nodes of the same tree, by their place in it
    task: str
    id: str
    is_loose: bool = False
    x: int = 0
    y: int = 0
    depth: int = 0


@dataclass(slots=True)
class Layout:
    """The places of a tree's nodes and the size of their boxes. `nodes[0]` is the spout's record."""

    nodes: list[Node] = field(default_factory=list)
    wide: int = 0
    tall: int = 0
    lines: int = 2  # of text in a box: task and id (a long one in two lines), one of them, or none
    is_grid: bool = False
    heads: list[tuple[int, str]] = field(default_factory=list)  # where boxes have no room: (x, component) of each depth
    hidden: int = 0  # tuples for which even the grid has no room: they have no place and are not drawn


def rows_of(nodes: list[Node]) -> int:
    """How many rows a tree needs; sets each node's `depth`, and `y` to its row times two."""
    children: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        if node.parents:
            node.depth = 1 + max(nodes[parent].depth for parent in node.parents)
            children[node.parents[0]].append(place)
    rows = 0
    stack = [(0, False)]
    while stack:
        place, is_done = stack.pop()
        below = children[place]
        if is_done:
            nodes[place].y = (nodes[below[0]].y + nodes[below[-1]].y) // 2
        elif below:
            stack.append((place, True))
            stack += [(child, False) for child in reversed(below)]
        else:
            nodes[place].y = 2 * rows
            rows += 1
    return max(1, rows)


def height_for(rows: int) -> int:
    """How tall the area of the trees must be, so that none moves anything: the one with most rows decides."""
    return min(MOST_TALL, max(LEAST_TALL, rows * PITCH))


def lay_out(nodes: list[Node], columns: int, area: int) -> Layout:
    """The places of a tree's nodes in an area so many units tall; `columns` of depth share its width."""
    rows = rows_of(nodes)
    column = TREE_WIDE / max(columns, 1)
    pitch = min(float(HIGH_PITCH), area / rows)
    layout = Layout(nodes, wide=min(150, int(column) - 20) // 2 * 2)
    longest = max((len(node.id.replace(" ", "")) for node in nodes if node.number >= 0), default=0)
    top = float(TREE_TOP)
    if pitch == HIGH_PITCH and longest > _room(layout):
        layout.lines, layout.tall = 3, HIGH_PITCH - 12
    elif pitch >= 36:
        pitch = min(float(PITCH), pitch)
        layout.tall = min(36, int(pitch) - 6)
    else:
        layout.heads = _heads(nodes, column)
        pitch = (area - HEAD_TALL) / rows
        layout.lines, layout.tall = 1, max(1, int(pitch) - 3)
        top, area = top + HEAD_TALL, area - HEAD_TALL
    if pitch < 17 or layout.wide < SIGN_WIDE + 3 * CHAR:
        layout.lines = 0
        layout.wide = layout.tall = max(SQUARE - 1, min(16, int(pitch) - 2))
    if pitch < SQUARE:
        _to_grid(layout, column, area)
        return layout
    top += (area - pitch * rows) / 2
    for node in nodes:
        node.x = round(TREE_LEFT + column * node.depth + layout.wide / 2)
        node.y = round(top + pitch * (node.y / 2 + 0.5))
        node.task, node.id = _words(node, layout)
    return layout


def _heads(nodes: list[Node], column: float) -> list[tuple[int, str]]:
    """The components of each depth, as far as they fit above their column."""
    found: dict[int, dict[str, None]] = {}
    for node in nodes:
        found.setdefault(node.depth, {})[node.task.rpartition("-")[0]] = None
    room = int((column - 6) / CHAR)
    return [(round(TREE_LEFT + column * depth), _cut(", ".join(names), room)) for depth, names in found.items()]


def _to_grid(layout: Layout, column: float, area: int) -> None:
    """Squares in rows, one block for each depth, as large as the largest block allows."""
    layout.is_grid = True
    most = max(Counter(node.depth for node in layout.nodes).values())

    def fits(side: int) -> bool:
        return most <= (int(column - 10) // side) * (area // side)

    side = next((side for side in range(LARGE_SQUARE, SQUARE, -1) if fits(side)), SQUARE)
    layout.wide = layout.tall = (side - 1) // 2 * 2
    across, down = max(1, int(column - 10) // side), area // side
    found: dict[int, int] = {}
    for node in layout.nodes:
        index = found[node.depth] = found.get(node.depth, -1) + 1
        row, place = divmod(index, across)
        node.x = round(TREE_LEFT + column * node.depth + side * (place + 0.5))
        node.y = round(TREE_TOP + HEAD_TALL + side * (row + 0.5))
        if row >= down:
            node.x = node.y = -1
            layout.hidden += 1
        node.task = node.id = ""


def _room(layout: Layout) -> int:
    """Characters of an id beside the sign."""
    return int((layout.wide - SIGN_WIDE - 4) / CHAR)


def _words(node: Node, layout: Layout) -> tuple[str, str]:
    """What a box of that size has room for; an id in two lines has a line end in it."""
    room = _room(layout)
    if layout.lines == 0:
        return "", ""
    if layout.lines == 1:
        both, number = f"{node.task} {node.id}", _fit_id(node.id, room)
        return (both if len(both) <= room else number or node.task), ""
    task = _cut(node.task, int((layout.wide - 8) / BOLD))
    if layout.lines == 3 and len(node.id) > room and node.number < 0:
        return task, node.id.replace(" ", "\n", 1)
    if layout.lines == 3 and len(node.id) > room:
        half = (len(node.id) + 1) // 2
        return task, f"{node.id[:half].strip()}\n{node.id[half:].strip()}"
    return task, _fit_id(node.id, room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(1, room - 1)] + "…"


def _fit_id(text: str, room: int) -> str:
    """Bits in groups of four, else without gaps, else as hexadecimal digits."""
    bits = text.replace(" ", "")
    if len(text) <= room or set(bits) - set("01"):
        return text if len(text) <= room else _cut(text.split(" ")[-1], room)
    return bits if len(bits) <= room else f"{int(bits, 2):0{-(-len(bits) // 4)}x}"
