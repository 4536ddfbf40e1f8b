"""The grammar of scenes: signs kept apart, and words that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.trace import Trace
from kitlib.views.look import ALL_COLOURS
from kitlib.views.scenes.timeline import Signs, apart, fitting, glyphs_of
from kitlib.words import DOMAINS
from kitlib.words.glyphs import CROSS, DISC, RED, Glyph
from kitlib.words.word import Domain

GLYPHS = {"ring": Glyph("the bell rings", DISC, "ink"), "hush": Glyph("it is quiet", CROSS, RED)}


@given(st.lists(st.floats(0, 700), max_size=30).map(sorted), st.floats(1, 20), st.floats(20, 60))
def test_apart_signs_too_near_move_right_and_not_further_than_asked(xs: list[float], gap: float, most: float) -> None:
    """Each sign is at its place or right of it, by `most` at the furthest, and `gap` from the one before if that is near enough."""
    found = apart(xs, gap, most)
    assert len(found) == len(xs)
    for number, (x, at) in enumerate(zip(xs, found, strict=True)):
        assert x <= at <= x + most
        assert not number or at >= min(found[number - 1] + gap, x + most)


def test_fitting_the_longest_word_that_fits_is_taken() -> None:
    """Of words from long to short the first one that fits, and nothing where none does."""
    words = ("generation 7", "gen 7", "7")
    assert [fitting(words, wide) for wide in (100, 50, 14, 8)] == [*words, ""]


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=lambda domain: domain.name)
def test_glyphs_of_words_are_in_the_kits_colours_and_say_what_they_mean(domain: Domain) -> None:
    """A word's glyph has a meaning for the legend, a path around 0, 0 and one of the colours that everybody can tell apart."""
    for what, word in domain.words.items():
        assert word.room > 0, what
        if word.glyph is not None:
            assert word.glyph.meaning and word.glyph.path.startswith("M"), what
            assert word.glyph.edge in ALL_COLOURS | {"ink"} and word.glyph.fill in ("none", "paper"), what


def test_glyphs_of_takes_words_in_the_order_asked_for_with_their_variants() -> None:
    """Words without a glyph, and words of other domains, are left out; a variant stands where it is named."""
    trace = Trace("x", "x", domain="replication")
    found = glyphs_of(trace, ("wake", "unclean", "kill", "copy", "sing"), {"unclean": GLYPHS["ring"]})
    assert list(found) == ["wake", "unclean", "kill"] and found["kill"].edge == RED


def test_signs_words_without_a_glyph_are_passed_over_and_not_in_the_legend() -> None:
    """The legend has what occurred and can be seen, in the order of the glyphs' table."""
    signs = Signs({"bells": [("hush", 10.0), ("toll", 12.0), ("hush", 13.0)]}, GLYPHS, tall=20)
    (drawn,) = signs.draw(0)
    assert [meaning for _, meaning in signs.legend()] == ["it is quiet"]
    assert str(drawn).count("<title>it is quiet") == 2 and "toll" not in str(drawn)
