"""The grammar of scenes: signs kept apart, and words that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.trace import Trace
from kitlib.views.look import ALL_COLOURS
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.timeline import apart, fitting, glyphs_of
from kitlib.views.stage.score import State
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


def test_words_without_a_glyph_are_passed_over_or_have_a_tick() -> None:
    """The legend has what occurred and can be seen, in the order of the glyphs' table; a lane of its own says whose life it stands for."""
    trace = Trace("x", "x", domain="groups")
    for what in ("join", "commit", "leave", "join"):
        trace.append(0, "A", what, {"offset": 3} if what == "commit" else {}, {})
    lanes = Lanes(trace, [110, 120, 130, 140], {"leave": GLYPHS["ring"], "join": GLYPHS["hush"]}, names=["A"], is_staged=False)
    assert [meaning for _, meaning in lanes.legend()] == ["the bell rings", "it is quiet"]
    drawn = "".join(map(str, lanes.draw(0)))
    assert drawn.count("<title>it is quiet") == 2 and "commit" not in drawn and 'data-ref="process:A"' in drawn
    states: dict[str, list[tuple[float, State]]] = {"A": [(0.0, "up"), (2.0, "down")]}
    ticked = Lanes(trace, [110, 120, 130, 140], {}, names=["A"], ticks={"commit"}, states=states, is_staged=False)
    assert [meaning for _, meaning in ticked.legend()] == ["a commit"]
    assert "H130" in "".join(map(str, ticked.draw(0))), "its line ends where it dies"
