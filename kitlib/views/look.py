"""What each record's box means and looks like: the one table that all pictures share.

A record's *flags* say what happened to it; together with three positions of its partition (start of
the log, commit, last fetch) they decide its *code*, a letter. `TABLE` is that decision for all
inputs. Every code differs from the others by its letter or shape as well as by its colour (Okabe and
Ito's set, which colour-blind people can tell apart).
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.words.glyphs import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, WHITE

# Flags of one offset. A change is always "toggle one flag on a range", so that time runs both ways.
EXISTS = 1  # a record is or was at this offset (a gap or a compacted record is not)
WAITING = 2  # fetched, in waiting_to_emit
PENDING = 4  # in pending: fetched and not acked
FAILED = 8  # in failed: to be fetched and emitted again
PROCESSED = 16  # its effect happened at least once
TWICE = 32  # an effect of it happened more than once
SKIPPED = 64  # the position jumped over it before it was ever emitted
REFUSED = 128  # failed and not to be tried again; of one that compaction removed: never processed
# Positions, as three more bits of the table's index.
IS_GONE = 256  # offset < log start
IS_BELOW_COMMIT = 512  # offset < committed_to
IS_READ = 1024  # offset < emitted_to_offset

INK, PAPER, GREY = BLACK, WHITE, "#6B6B6B"  # on a light page
DARK_INK, DARK_PAPER, DARK_GREY = WHITE, "#111111", "#A8A8A8"  # on a dark page
ALL_COLOURS = frozenset({BLUE, SKY, GREEN, ORANGE, RED, PINK, BLACK, WHITE, GREY, DARK_PAPER, DARK_GREY})


@dataclass(frozen=True, slots=True)
class Look:
    """How the records with one code are drawn, and what to call them."""

    code: str  # the letter in the box, too, unless `shape` draws something instead
    name: str  # "3 in flight"
    meaning: str  # for the legend
    fill: str  # a colour, or "none" for hollow boxes
    text: str  # colour of what is written in the box: BLACK, WHITE, or "ink" or "grey" (the page's own)
    edge: str  # colour of the outline, or "ink" or "grey"
    shape: str = "letter"  # letter | cross | slash | dot | empty
    wash: float = 1.0  # opacity of the fill: what is done is pale
    hatch: bool = False  # diagonal lines in the edge's colour


# In the order of alarm: where one box stands for many records, the first code that occurs wins.
# Filled with the alarm's colour: lost. Its outline alone: may still be lost. Pale: done.
LOOKS = (
    Look("X", "given up", "lost: never processed, and it will not be tried again", RED, BLACK, BLACK, "cross"),
    Look("S", "skipped", "lost: the position jumped over it", RED, BLACK, BLACK),
    Look("E", "deleted", "lost: deleted before it was processed", RED, BLACK, BLACK),
    Look("N", "failed for good", "failed, too far behind to be tried again", "none", "ink", RED, hatch=True),
    Look("K", "no longer tracked", "no longer tracked, and not processed", "none", "ink", RED),
    Look("F", "failed", "failed, to be fetched again", "none", "ink", RED),
    Look("s", "skipped, not lost yet", "skipped, and the commit has not passed it", "none", "ink", RED, "slash"),
    Look("P", "in flight", "in flight: emitted, no ack yet", ORANGE, BLACK, BLACK),
    Look("W", "waiting", "waiting: fetched, to be emitted", SKY, BLACK, BLACK),
    Look("D", "done", "done, not committed yet", GREEN, "ink", GREEN, wash=0.4),
    Look("C", "committed", "done, and the commit has passed it", BLUE, "ink", BLUE, wash=0.2),
    Look("R", "deleted when done", "done, since deleted from the log", "none", "grey", "grey"),
    Look("U", "not read yet", "not read yet", "none", "ink", "grey", "empty"),
    Look(".", "no record", "no record at this offset", "none", "ink", "grey", "dot"),
)
LOOK_OF = {look.code: look for look in LOOKS}
ALARM = "".join(look.code for look in LOOKS)
LOSSES = "SEX"  # the codes of lost records

# What a record that a producer sent is, in the log.
LOG_LOOKS = (
    Look("?", "told failed", "stored, but the application was told it failed", "none", "ink", RED),
    Look("O", "out of order", "out of order: behind a record sent later", "none", "ink", RED, hatch=True),
    Look("2", "second copies", "a second copy", PINK, BLACK, BLACK),
    Look("n", "stored", "stored, the application not notified yet", GREEN, BLACK, BLACK, "empty"),
    Look("A", "acked", "stored, and the application notified", BLUE, WHITE, BLACK),
    Look("G", "deleted", "deleted since", "none", "grey", "grey", "empty"),
)
LOOK_OF |= {look.code: look for look in LOG_LOOKS}
SALIENCE = ALARM + "".join(look.code for look in LOG_LOOKS)  # in this order one code stands for many

ONCE, AGAIN = 1, 2  # badges: processed already though the spout does not know; processed more than once


def code_of(flags: int) -> str:
    """The code of a record with these flags and positions."""
    is_done, is_passed = bool(flags & PROCESSED), bool(flags & (IS_GONE | IS_BELOW_COMMIT))
    if not flags & EXISTS:
        return "E" if flags & REFUSED and is_passed and not is_done else "."
    # What left the log cannot be fetched again; what was emitted before may still be acked.
    if flags & FAILED:
        return "X" if flags & IS_GONE and not is_done else "F"
    if flags & WAITING:
        return "W"
    if flags & PENDING:
        return "N" if flags & REFUSED and not is_done else "P"
    if is_done:
        return "R" if flags & IS_GONE else "C" if flags & IS_BELOW_COMMIT else "D"
    if flags & SKIPPED:
        return "S" if is_passed else "s"
    if is_passed:
        return "X"
    return "K" if flags & IS_READ else "U"


def badge_of(flags: int) -> int:
    """AGAIN for a duplicate, ONCE for a record that was processed and is still pending, else 0."""
    if flags & TWICE:
        return AGAIN
    is_held = flags & (WAITING | PENDING | FAILED)
    return ONCE if flags & PROCESSED and is_held else 0


TABLE = "".join(code_of(flags) for flags in range(2048))
BADGES = "".join(str(badge_of(flags)) for flags in range(256))

# What the band at the foot of a box says, by badge: its text, its colour, its place in the legend.
BANDS = {
    ONCE: ("1×", GREEN, "processed already, still pending"),
    AGAIN: ("2×", PINK, "duplicate: processed more than once"),
}

# Geometry in SVG units, which are pixels unless the page is narrow. One lane is one partition.
CHAR = 6.7  # width of a character of 11 px, at most on average
WIDTH = 760
LEFT = 20  # where a strip begins
STRIP = 720  # width of the boxes together
FEW_BOXES, MANY_BOXES = 24, 40  # boxes in a strip: broad ones, or narrow ones where all offsets have two digits
TALL = 48  # height of a box
NAME_Y = 16  # baseline of the lane's name, counted like all of these from the lane's top
BAR_Y = 52  # top of the bar that shows the whole log, where the close-up cannot
BAR_TALL = 20
CELLS = 120  # the bar's resolution
STRIP_Y = 66  # top of the boxes, without a bar
ZOOM = 52  # a bar moves everything below it down by this much
LANE_TALL = 162  # height of a lane without a bar
PLOT_LEFT, PLOT_RIGHT = 150, 740
ROW = 42  # height of one curve's row
RISE = 30  # height of a curve at its highest
