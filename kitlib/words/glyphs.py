"""What pictures say without words: colours, each with a single meaning, shapes, and glyphs made of both.

The colours are the Okabe-Ito palette, which colour-blind readers can tell apart; a glyph's shape repeats its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

BLUE, SKY, GREEN, ORANGE, RED, PINK = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
BLACK, WHITE = "#000000", "#FFFFFF"

# SVG paths around 0, 0.
DISC = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z"
SQUARE = "M-5 -5H5V5H-5Z"
DIAMOND = "M0 -6.5L6.5 0L0 6.5L-6.5 0Z"
CROSS = "M-5.5 -5.5L5.5 5.5M5.5 -5.5L-5.5 5.5"
SMALL_CROSS = "M-4 -4L4 4M4 -4L-4 4"
CROSSED_SQUARE = f"{SQUARE}M-3 -3L3 3M3 -3L-3 3"
CROSSED_DISC = f"{DISC}M-3 -3L3 3M3 -3L-3 3"
CHECK = "M-5 0.5L-1.5 4L5 -4"
PLUS = "M-5 0H5M0 -5V5"
BAR = "M0 -6V6"
PAUSE = "M-3 -5.5V5.5M3 -5.5V5.5"
PLAY = "M-3.5 -5.5L5 0L-3.5 5.5Z"
EXIT = "M-5.5 0H5M1.5 -4L5.5 0L1.5 4"
CLOCK = f"{DISC}M0 -2.8V0H2.4"
ALARM = f"{DIAMOND}M0 -3.2V0.6M0 2.4V3.2"
CUT = "M-6 0H1M2 -6V6M4 0H6"
BROOM = "M-5 -5L1 1M-2 4L4 -2L6 4L0 6Z"
BRACKET = "M4 -6H-4V6H4M-4 0H6"


@dataclass(frozen=True, slots=True)
class Glyph:
    """A small sign, drawn around 0, 0."""

    meaning: str  # for the legend
    path: str
    edge: str  # a colour or "ink"
    thick: float = 1.8
    fill: str = "none"  # or "paper"


GOES_ON = Glyph("resumes", PLAY, "ink", 1.6, "paper")
IS_KILLED = Glyph("is killed", CROSS, RED, 2.6)
