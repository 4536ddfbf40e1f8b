"""What the picture of a producer's run is made of: its marks, its boxes, and where things stand.

As in `kitlib.views.look` each meaning has one colour and, beside it, a shape, a letter or a dash of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.views.look import WIDTH
from kitlib.words.glyphs import (
    BLACK,
    BLUE,
    CHECK,
    CROSS,
    CROSSED_DISC,
    CROSSED_SQUARE,
    DIAMOND,
    DISC,
    GREEN,
    ORANGE,
    PINK,
    RED,
    SKY,
    SQUARE,
    WHITE,
)


@dataclass(frozen=True, slots=True)
class MarkLook:
    """A small sign on a lane, or between two lanes, where something happened."""

    code: str
    meaning: str  # for the legend
    path: str  # SVG path around 0, 0
    fill: str  # a colour, "paper" or "none"
    edge: str  # a colour, "ink" or "grey"
    thick: float = 1.2
    long: str = ""  # the path in the diagram, where that is another one than in the legend


BACK = "M5 0H-5M-1.5 -3.5L-5 0L-1.5 3.5"
RIFT = "M0 -60" + "L-3 -55L3 -45" + "l-6 10l6 10" * 5 + "L0 60"
BARS = "M-5 -4H5M-5 0H5M-5 4H5"

MARKS = (
    MarkLook("s", "the application sends records", "M-2 -4.5H2V4.5H-2Z", SKY, BLACK, 0.8),
    MarkLook("r", "a request leaves", DISC, ORANGE, BLACK),
    MarkLook("t", "the batch is sent again", "M0 -6.5L6 4.5H-6Z", RED, BLACK),
    MarkLook("L", "lost in transit", CROSS, "none", RED, 2.6),
    MarkLook("D", "delayed in transit", f"{DISC}M0 -2.8V0H2.4", "paper", ORANGE, 1.8),
    MarkLook("2", "sent on twice by the network", "M-5 0H-1L5 -5M-1 0L5 5", "none", PINK, 2.4),
    MarkLook("w", "written", SQUARE, GREEN, BLACK),
    MarkLook("W", "written once more: a second copy", f"{SQUARE}M-2.5 -2.5H2.5V2.5H-2.5Z", PINK, BLACK),
    MarkLook("k", "recognised as a duplicate: not written again", DIAMOND, PINK, BLACK),
    MarkLook("x", "refused by the broker", CROSSED_SQUARE, "paper", RED, 1.8),
    MarkLook("a", "an answer arrives: stored", DISC, BLUE, BLACK),
    MarkLook("e", "an answer arrives: an error", "M0 -6.5L6.5 0L0 6.5L-6.5 0ZM0 -3.2V0.6M0 2.4V3.2", "paper", RED, 1.8),
    MarkLook("n", "no answer came: given up waiting", CROSSED_DISC, "paper", RED, 1.8),
    MarkLook("q", "back into the queue", "M5 -4H-1a4 4 0 0 0 0 8H5M2 1L5 4L2 7", "none", RED, 1.8),
    MarkLook("d", "the application is notified: stored", CHECK, "none", BLUE, 2.6),
    MarkLook("f", "the application is notified: failed", CROSS, "none", "ink", 2.6),
    MarkLook("i", "the producer gets its id or epoch", DIAMOND, "paper", "ink", 1.6),
    MarkLook("b", "the broker stops and comes back", "M-4 -8L0 -3L-4 3L0 8M2 -8L6 -3L2 3L6 8", "none", RED, 2.2),
    MarkLook("v", "something else at the broker", BARS, "none", "ink", 1.6),
    MarkLook("o", "the connection is cut", "M0 -10L-3 -5L3 0L-3 5L0 10", "none", RED, 1.8, RIFT),
    MarkLook("z", "the topic is read back", "M-7 0Q0 -7 7 0Q0 7 -7 0ZM-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0Z", "paper", "ink"),
)  # fmt: skip
MARK_OF = {mark.code: mark for mark in MARKS}


# Not in the legend: marks with a label, boxes in a row whose title says it, ways that end at such a mark.
SPEAK_FOR_THEMSELVES = {"mark": "rwaizvbfxen", "way": "RALE", "box": "npm-"}


@dataclass(frozen=True, slots=True)
class WayLook:
    """The way of one message, as a line."""

    code: str
    meaning: str
    edge: str  # a colour, "ink" or "grey"
    thick: float
    dash: str = ""


# While it is under way a message is drawn as "P", whatever becomes of it.
WAYS = (
    WayLook("P", "in transit now", ORANGE, 2.6),
    WayLook("R", "a request that arrived", "grey", 1.4),
    WayLook("A", "an answer that arrived", BLUE, 1.4),
    WayLook("E", "an error that arrived", RED, 1.6, "7 2"),
    WayLook("L", "the way of what was lost", RED, 1.6, "3 3"),
    WayLook("C", "the way of a second copy", PINK, 1.8, "8 2 2 2"),
)
WAY_OF = {way.code: way for way in WAYS}


@dataclass(frozen=True, slots=True)
class BoxLook:
    """A batch's box in a row, or a record's box in the log."""

    code: str
    meaning: str
    fill: str  # a colour or "none"
    text: str  # BLACK, WHITE, "ink" or "grey"
    edge: str  # a colour, "ink" or "grey"
    dash: str = ""
    hatch: bool = False
    flag: str = ""  # what stands in the band at a record's foot, or in a batch's corner
    band: str = ""  # the band's colour
    sign: str = ""  # SVG path around 0, 0 at a record's foot instead


ROW_BOXES = (
    BoxLook("w", "waits, without a sequence number yet", "none", "ink", SKY, "4 2"),
    BoxLook("n", "waits", SKY, BLACK, BLACK),
    BoxLook("N", "waits to be sent again", SKY, BLACK, BLACK, flag="again"),
    BoxLook("p", "in flight", ORANGE, BLACK, BLACK),
    BoxLook("P", "in flight, sent again", ORANGE, BLACK, BLACK, flag="again"),
    BoxLook("m", "remembered by the broker", GREEN, BLACK, BLACK),
    BoxLook("g", "just forgotten", "none", "ink", RED, "3 3", flag="cross"),
    BoxLook("-", "a free place", "none", "grey", "grey", "2 4"),
)
LOG_BOXES = (
    BoxLook("S", "stored, the application not notified yet", GREEN, BLACK, BLACK),
    BoxLook("A", "stored, and the application notified", BLUE, WHITE, BLACK, sign=CHECK),
    BoxLook("I", "stored, but the application was told it failed", "none", "ink", RED, "5 2", flag="?", band=RED),
    BoxLook("O", "out of order: behind a record sent later", "none", "ink", RED, hatch=True, band=RED, sign=BACK),
    BoxLook("2", "a second copy", PINK, BLACK, BLACK, flag="2×", band=PINK),
    BoxLook("G", "deleted since", "none", "grey", "grey", "1 3"),
)  # fmt: skip
BOX_OF = {box.code: box for box in (*ROW_BOXES, *LOG_BOXES)}

# Geometry in SVG units. The diagram's window begins right of the lanes' names.
SCENE_LEFT = 108
SCENE_WIDE = WIDTH - 20 - SCENE_LEFT
CLIENT_Y = 60  # of the producer's lane, counted like all of these from the diagram's top
APART = 122  # from one lane to the next
LINE = 13  # from one line of a label to the next
LABEL_GAP = 8  # between two labels on one lane
CHAR = 6.7  # width of a character of a label, at most on average
NOW_AT = 566  # where the present step stands in a window that has moved
OPEN_WAY = 130  # how far a message that never ends would need

BOX_WIDE, BOX_PITCH, BOX_TALL = 66, 71, 36
MOST_BOXES = 10  # of a row, or half of them where two stand side by side
ROW_TOP = 20  # from a row's words to its boxes
ROW_TALL = 74
LOG_TOP = 22  # from the log's words to its bar or boxes
LOG_BAR = 10  # height of the bar of a long log
LOG_ZOOM = 22  # how much the bar moves the boxes down
RECORD_TALL = 36
LOG_TALL = 88

# Error names as a broker says them -> what fits under a mark.
SHORT_ERRORS = {
    "NONE": "stored",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "gap",
    "DUPLICATE_SEQUENCE_NUMBER": "duplicate",
    "UNKNOWN_PRODUCER_ID": "unknown id",
    "INVALID_PRODUCER_EPOCH": "old epoch",
    "REQUEST_TIMED_OUT": "timed out",
    "NETWORK_EXCEPTION": "no network",
    "NOT_LEADER_OR_FOLLOWER": "not leader",
    "NOT_ENOUGH_REPLICAS": "replicas",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "replicas",
    "MESSAGE_TOO_LARGE": "too large",
    "CORRUPT_MESSAGE": "corrupt",
    "TOPIC_AUTHORIZATION_FAILED": "not allowed",
    "CLUSTER_AUTHORIZATION_FAILED": "not allowed",
    "UNKNOWN_TOPIC_OR_PARTITION": "no topic",
}


def record_wide(highest: int) -> int:
    """Width of a record's box, so that the highest number fits."""
    return {1: 20, 2: 20, 3: 24, 4: 30, 5: 36}.get(len(str(highest)), 48)
