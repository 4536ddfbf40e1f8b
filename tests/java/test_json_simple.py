"""The JSON of stored offsets: written as json-simple writes it, forgiven and refused as it does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.java.json_simple import NotJsonError, read, write

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec=None, exclude_categories=())).map(  # lone surrogates too; a pair of them is one character
    lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
VALUES = st.recursive(
    st.none() | st.booleans() | LONGS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_write_then_read_gives_the_value(value: Any) -> None:
    """Every value comes back equal, whatever its texts hold."""
    assert read(write(value)) == value


@given(VALUES)
def test_write_is_json_to_everybody_else(value: Any) -> None:
    """What is written is JSON to Python as well, with the same value."""
    assert json.loads(write(value)) == value


@given(VALUES)
def test_read_accepts_what_everybody_else_writes(value: Any) -> None:
    """What Python writes, indented or not, is read to the same value."""
    assert read(json.dumps(value)) == read(json.dumps(value, indent=1)) == value


@given(st.text(alphabet='{}[]:,"\\/u0123 -+.eEtruefalsn\n', max_size=30))
def test_read_any_text_gives_a_value_or_refuses_it(text: str) -> None:
    """No text ends in anything but a value or NotJsonError, and what Python reads is never refused for its grammar."""
    try:
        found = read(text)
    except NotJsonError:
        try:
            json.loads(text)
        except ValueError:
            return
        assert _beyond_64_bits(text)
        return
    try:
        value = json.loads(text)
    except ValueError:
        return
    assert value == found


def _beyond_64_bits(text: str) -> bool:
    seen: list[int] = []
    json.loads(text, parse_int=lambda digits: seen.append(int(digits)) or 0)
    return any(not -(2**63) <= number < 2**63 for number in seen)


# Texts that json-simple 1.1 forgives -> the value it makes of them.
FORGIVEN = {
    '{"offset":7,}': {"offset": 7},
    '{,"offset":7}': {"offset": 7},
    '{,,"a":1,,"b":2,,}': {"a": 1, "b": 2},
    "[,1,,2,]": [1, 2],
    "[1 2 3]": [1, 2, 3],
    '{"a":1 "b":2}': {"a": 1, "b": 2},
    "007": 7,
    "-0": 0,
    '{"a":1,"a":2}': {"a": 2},
    " \t\r\n1 ": 1,
    '{"a" 1}': {"a": 1},
    '{"a"::1}': {"a": 1},
    '{"a":1}"never closed \\"': {"a": 1},
    '"\\x41\\""': '\\x41"',
    '"\\u12"': "\\u12",
    '"\\\\u0041"': "\\u0041",
    "0" * 5_000 + "7": 7,
    "-" + "0" * 500 + "7": -7,
    '"\u2028\x01"': "\u2028\x01",
    '"\\u00e4\\/"': "ä/",
    '"\\ud83d\\ude00"': "😀",
    "1e3": 1000.0,
    "1.5": 1.5,
    "-2.5E-1": -0.25,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "null": None,
}

# Texts that it refuses.
REFUSED = {
    "nothing": "",
    "blanks": "  \n",
    "a lone minus": "-",
    "a plus sign": "+1",
    "a fraction without digits before it": ".5",
    "a fraction without digits after it": "1.",
    "an integer beyond 64 bits": "9223372036854775808",
    "an integer below 64 bits": "-9223372036854775809",
    "a thousand digits": "1" * 1_000,
    "five thousand digits": "1" * 5_000,
    "a second value": "1 2",
    "a comma after the value": "1,",
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "a capital word": "True",
    "a word and more": "truefalse",
    "single quotes": "{'a':1}",
    "a key without quotes": "{a:1}",
    "a key that is a number": "{1:2}",
    "a key without a value": '{"a":}',
    "a colon alone": "{:1}",
    "an open list": "[1",
    "an open object": '{"a":1',
    "an open text": '"abc',
    "a mark that closes nothing": "]",
    "the wrong mark": "[1}",
    "other blanks": "\b1",
    "a page's end": "\f1",
    "a text that only seems closed": '"abc\\"',
    "a comment": "/* */ 1",
    "a byte order mark": "\ufeff1",
    "a million brackets": "[" * 1_000_000,
}


@pytest.mark.parametrize("text", FORGIVEN, ids=repr)
def test_read_lenient_text_gives_json_simples_value(text: str) -> None:
    """Stray and missing commas and colons, leading zeros and unknown escapes are forgiven; of two equal keys the last counts."""
    found = read(text)
    assert found == FORGIVEN[text] and type(found) is type(FORGIVEN[text])


@pytest.mark.parametrize("case", REFUSED)
def test_read_refused_text_raises(case: str) -> None:
    """What json-simple does not read, the kit does not read."""
    with pytest.raises(NotJsonError):
        read(REFUSED[case])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("/kafka/spout", '"\\/kafka\\/spout"'), ('"\\', '"\\"\\\\"'), ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ("\x00\x1f\x7f\x9f", '"\\u0000\\u001F\\u007F\\u009F"'), ("\u2000\u20ff\u2100", '"\\u2000\\u20FF\u2100"'),
        ("ä😀", '"ä😀"'), (True, "true"), (None, "null"), ({1: [False]}, '{"1":[false]}'), ({}, "{}"),
    ],
)  # fmt: skip
def test_write_escapes_as_json_simple(value: Any, text: str) -> None:
    """The slash, control characters and U+2000 to U+20FF are escaped, in capital hex digits; nothing else is."""
    assert write(value) == text


@pytest.mark.parametrize("value", [1.5, b"x", {1, 2}, object()], ids=lambda value: type(value).__name__)
def test_write_of_what_storm_never_writes_is_refused(value: Any) -> None:
    """A float or an object is no part of a stored offset."""
    with pytest.raises(TypeError, match="expected JSON values only"):
        write([value])
