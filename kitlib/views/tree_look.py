"""What a tuple's box means and looks like in the picture of a tree, and where things stand in it.

As in `kitlib.views.look`: flags decide a code by a table, and every code differs from the others
by its sign as well as by its colour. A tuple sent to one task goes the
way *in flight*, *executed*, *acked*: orange, green, blue.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """How the tuples with one code are drawn, and what to call them."""

    code: str
    name: str  # "3 in flight"
    meaning: str  # for the legend
    fill: str  # a colour, or "none" for hollow boxes
    text: str  # colour of what is written in the box: BLACK, WHITE, RED, "ink" or "grey"
    edge: str  # colour of the outline, or "ink" or "grey"
    sign: str  # SVG path around 0, 0, ten units wide
    dash: str = ""  # stroke-dasharray of the outline
    hatch: bool = False


ARROW = "M-4.5 0H4M0.5 -3.5L4.2 0L0.5 3.5"
DOT = "M-1.2 0a1.2 1.2 0 1 0 2.4 0a1.2 1.2 0 1 0 -2.4 0Z"
CHECK = "M-4 0.3L-1.2 3.3L4 -3.3"
BANG = "M0 -4.5V1M0 4V4.4"
CROSS = "M-3.6 -3.6L3.6 3.6M3.6 -3.6L-3.6 3.6"
BAR = "M-4 0H4"

# In the order of alarm.
TUPLE_LOOKS = (
    TupleLook("L", "lost", "lost: it will never be acked", "none", "ink", RED, CROSS),
    TupleLook("X", "forgotten", "not acked, though the tree counts as done", "none", "ink", RED, ARROW, hatch=True),
    TupleLook("F", "failed", "failed", RED, BLACK, BLACK, BANG),
    TupleLook("P", "in flight", "in flight, or in its task's queue", ORANGE, BLACK, BLACK, ARROW),
    TupleLook("E", "executed", "executed, not acked yet", GREEN, BLACK, BLACK, DOT),
    TupleLook("A", "acked", "acked", BLUE, WHITE, BLACK, CHECK),
    TupleLook("O", "of an ended tree", "not acked; its tree has ended, nobody waits", "none", "grey", "grey", BAR),
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


TUPLE_TABLE = "".join(tuple_code_of(flags) for flags in range(256))

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
GRID_CELL = 8  # of a wide number's cells
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
