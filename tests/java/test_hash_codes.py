"""Java's hash codes, beside values that a real Java 17 printed."""

from __future__ import annotations

import pytest

from kitlib.errors import KitError
from kitlib.java.hash_codes import hash_code, list_hash_code
from kitlib.java.numbers import MAX_LONG, MIN_LONG

JAVA = {
    "null is 0": (None, 0),
    "an empty text is 0": ("", 0),
    "hello": ("hello", 99162322),
    "a long text wraps around": ("the quick brown fox", 1302335171),
    "a text whose code is the smallest int": ("polygenelubricants", -(2**31)),
    "a letter beyond ASCII": ("\u00fcmlaut", -1271410363),
    "Chinese": ("\u4e2d\u6587", 646394),
    "a letter beyond 16 bits counts as two": ("\U0001f600", 1772899),
    "several of them": ("\U0001f600 smile \U0001d11e", -1819359841),
    "half of such a letter": ("\ud800", 55296),
    "true": (True, 1231),
    "false": (False, 1237),
    "a long": (5, 5),
    "the long -1 is 0": (-1, 0),
    "the long -31": (-31, 30),
    "2^32": (2**32, 1),
    "the largest int": (2**31 - 1, 2**31 - 1),
    "the smallest int": (-(2**31), 2**31 - 1),
    "the largest long": (MAX_LONG, -(2**31)),
    "the smallest long": (MIN_LONG, -(2**31)),
    "a large long": (1234567890123456789, 1825280481),
    "a large negative long": (-1234567890123456789, 1825280480),
    "the double 0": (0.0, 0),
    "the double -0": (-0.0, -(2**31)),
    "a double": (3.141592653589793, 340593891),
    "a negative double": (-1.5, -1074266112),
    "the smallest double": (5e-324, 1),
    "not a number": (float("nan"), 2146959360),
    "minus infinity": (float("-inf"), -1048576),
    "bytes by their content": (b"\x80\x7f\x00", -89280),
    "no bytes": (b"", 1),
    "a list in a list": ([["a", "b"], [1, 2]], 128001),
    "a tuple is a list": ((("a", "b"), (1, 2)), 128001),
}

LISTS = {
    "an empty list": ([], 1, 1),
    "a list of null": ([None], 31, 11),
    "a list of one word": (["hello"], 99162353, 13),
    "a word and a number": (["hello", 1], -1220934352, 8),
    "all sorts": (["a", -1, True, None], 3851409, 9),
    "the ends of long": ([MIN_LONG, MAX_LONG], 961, 1),
    "a double and a word": ([1.5, "x"], -1089993671, 9),
    "a root as an acker is chosen by it": ([2**31 - 1], -2147483618, 2),
}


@pytest.mark.parametrize(("value", "expected"), JAVA.values(), ids=JAVA)
def test_hash_code_is_java_s(value: object, expected: int) -> None:
    """Each value has the hash code that Java gives it."""
    assert hash_code(value) == expected


@pytest.mark.parametrize(("values", "expected", "of_20"), LISTS.values(), ids=LISTS)
def test_list_hash_code_is_java_s_and_its_remainder_is_never_negative(
    values: list[object], expected: int, of_20: int
) -> None:
    """A list has Java's code, and modulo 20 tasks it is what Math.floorMod gives."""
    assert list_hash_code(values) == expected
    assert expected % 20 == of_20


@pytest.mark.parametrize("value", [2**63, {"a": 1}, {1}, object(), 1j], ids=lambda value: type(value).__name__)
def test_hash_code_of_what_java_cannot_hash_like_this_is_refused(value: object) -> None:
    """A value that has no such code is named, with what would do."""
    with pytest.raises(KitError, match=f"type {type(value).__name__} has no Java hash code here. Expected .*another field"):
        hash_code(value)
