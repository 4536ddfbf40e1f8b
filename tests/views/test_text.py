"""The one door through which a record's content reaches a screen."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.text import html_table, plain_text, show_text, text_table
from tests.views.payloads import FORBIDDEN, HOSTILE

EMPTY, CLOSED = "<table><thead><tr></tr></thead><tbody><tr><td>", "</td></tr></tbody></table>"
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_harmless(shown: str) -> None:
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") or c in BIDI], ascii(shown)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@pytest.mark.parametrize("payload", HOSTILE, ids=lambda p: ascii(p)[:30])
def test_show_hostile_content_gives_no_markup_and_no_control_character(payload: str) -> None:
    """Whatever a record holds comes out printable, on one line, and without markup."""
    for shown in (show_text(payload), html_table((), [[payload]]).removeprefix(EMPTY).removesuffix(CLOSED)):
        check_harmless(shown)
        assert not re.search(r"[<>\"']", shown)
        assert not any(word in shown for word in FORBIDDEN if "<" in word)
    assert len(html.unescape(show_text(payload))) < 1600


@pytest.mark.parametrize("mark", sorted(BIDI), ids=ascii)
def test_show_marks_of_direction_are_written_as_escapes(mark: str) -> None:
    """No character that turns the reading direction gets through, whichever it is."""
    assert plain_text(f"a{mark}b") == f"a\\u{ord(mark):04x}b"


@given(st.text(alphabet=st.characters(), max_size=300))
def test_show_any_text_is_the_plain_text_escaped(value: str) -> None:
    """Unescaping what was shown gives the plain text again, so nothing is cut away by the escaping."""
    check_harmless(plain_text(value))
    assert html.unescape(show_text(value)) == plain_text(value)


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_show_plain_ascii_is_unchanged(value: str) -> None:
    """Printable ASCII below the limit stays as it is."""
    assert plain_text(value) == value


def test_table_has_columns_of_the_width_of_their_longest_cell() -> None:
    """The first columns begin at the left, the others end at the right; nothing is left over at a line's end."""
    assert text_table([("word", "n"), ("a", "10"), ("storm", "7")], left=1) == ["word    n", "a      10", "storm   7"]
    assert text_table([("a", "b"), ("long", "")], left=2) == ["a     b", "long"]
    assert text_table([("\x1b[2J", "1"), ("g\u202e", "2")], left=2) == ["\\x1b[2J  1", "g\\u202e  2"]
