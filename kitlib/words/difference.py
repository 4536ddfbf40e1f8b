"""The words of a shortest history: the calls on which a learner's code and an original agree, and the one at which they part."""

from __future__ import annotations

from kitlib.words.glyphs import CROSS, DISC, GREEN, RED, Glyph
from kitlib.words.word import Domain, Word

DIFFERENCE = Domain(
    "difference",
    {
        "call": Word("{call}: both sides have the same.", "call", glyph=Glyph("both sides have the same", DISC, GREEN, 2)),
        "part": Word("{call}: {said}.", "call said", glyph=Glyph("here they part", CROSS, RED, 2.6)),
    },
    marks={"part": "they part"},
)
