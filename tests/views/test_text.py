"""The one door through which a record's content reaches a screen."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.text import is_readable, plain_bytes, plain_text, show_bytes, show_text
from tests.views.payloads import FORBIDDEN, HOSTILE

BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_harmless(shown: str) -> None:
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") or c in BIDI], ascii(shown)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@pytest.mark.parametrize("payload", HOSTILE, ids=lambda p: ascii(p)[:30])
def test_show_hostile_content_gives_no_markup_and_no_control_character(payload: str) -> None:
    """Whatever a record holds comes out printable, on one line, and without markup."""
    for shown in (show_text(payload), show_bytes(payload.encode("utf-8", "surrogatepass"))):
        check_harmless(shown)
        assert not re.search(r"[<>\"']", shown)
        assert not any(word in shown for word in FORBIDDEN if "<" in word)
        assert len(html.unescape(shown)) < 1600


@pytest.mark.parametrize("mark", sorted(BIDI), ids=ascii)
def test_show_marks_of_direction_are_written_as_escapes(mark: str) -> None:
    """No character that turns the reading direction gets through, whichever it is."""
    assert plain_text(f"a{mark}b") == f"a\\u{ord(mark):04x}b"


@given(st.binary(max_size=300), st.integers(0, 100))
def test_show_any_bytes_is_short_and_harmless(value: bytes, limit: int) -> None:
    """Any bytes at all are shown by at most `limit` of them, each as at most ten characters."""
    shown = show_bytes(value, limit)
    check_harmless(shown)
    assert not re.search(r"[<>\"']", shown)
    assert len(plain_bytes(value, limit)) <= 10 * limit + 20


@given(st.text(alphabet=st.characters(), max_size=300))
def test_show_any_text_is_the_plain_text_escaped(value: str) -> None:
    """Unescaping what was shown gives the plain text again, so nothing is cut away by the escaping."""
    check_harmless(plain_text(value))
    assert html.unescape(show_text(value)) == plain_text(value)


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_show_plain_ascii_is_unchanged(value: str) -> None:
    """Printable ASCII below the limit stays as it is."""
    assert plain_text(value) == value
    assert plain_bytes(value.encode()) == value


CASES = [
    (None, "null", "a null value is a word, not an empty text"),
    (b"", "", "an empty value is empty"),
    ("Grüße 你好".encode(), "Grüße 你好", "UTF-8 is read as text"),
    (b"\xff\x00a", "\\xff\\x00a", "bytes that are no text are shown as escapes"),
    (b"a" * 65, "a" * 64 + "… (65 bytes)", "a long value is cut, and its length said"),
    (b"a" * 63 + "ü".encode(), "a" * 63 + "… (65 bytes)", "a character cut in two is left out"),
    (b"a" * 2_000_000, "a" * 64 + "… (2,000,000 bytes)", "two million bytes cost no more than 64"),
    (b"\xc3", "\\xc3", "half a character at the very end is the record's own fault and is shown"),
]


@pytest.mark.parametrize(("value", "shown", "sentence"), CASES, ids=[case[2] for case in CASES])
def test_plain_bytes_case(value: bytes | None, shown: str, sentence: str) -> None:
    """A record's bytes as a learner sees them."""
    assert plain_bytes(value) == shown, sentence


def test_is_readable_only_for_text() -> None:
    """What is not UTF-8, or is null, is counted as unreadable."""
    assert [is_readable(value) for value in (b"a", b"", "ü".encode(), b"\xff", None)] == [
        True,
        True,
        True,
        False,
        False,
    ]
