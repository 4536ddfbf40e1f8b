"""JSON as json-simple 1.1 writes and reads it, because Storm's stored offsets are its text.

The written text is compared byte for byte with recorded ones, so `/` becomes `\\/`. The reader is as
lenient as the original (it forgives stray commas, missing colons and leading zeros) and as strict (a
lone minus, a second value or an integer beyond 64 bits makes the whole text unreadable): whether a
stored offset counts decides where a spout starts.

Source: json-simple 1.1, org.json.simple.parser.Yylex and JSONParser.parse.
Differs: texts nested some hundred levels deep are refused; the original reads them up to Java's stack.
"""

from __future__ import annotations

import re
from typing import Any

from kitlib.java.numbers import MAX_LONG, MIN_LONG

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<double>-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)|-?[0-9]+\.[0-9]+)
      | (?P<integer>-?[0-9]+)
      | (?P<word>true|false|null)
      | "(?P<string>(?:[^"\\]|\\["\\]?+)*+)"
      | (?P<mark>[{}\[\],:])
      | (?P<end>\Z|"[\s\S]*)  # a text that is never closed counts as nothing
    )""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = {'"': '\\"', "\\": "\\\\", "/": "\\/"} | {char: "\\" + name for name, char in _ESCAPES.items()}


class NotJsonError(ValueError):
    """The text is not JSON to json-simple."""


def write(value: Any) -> str:
    """A dict, list, str, int, bool or None as json-simple's `JSONValue.toJSONString` writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return '"' + "".join(_written(char) for char in value) + '"'
        case dict():
            return "{" + ",".join(f"{write(str(key))}:{write(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(write(item) for item in value) + "]"
    raise TypeError(f"json_simple.write: cannot write a {type(value).__name__}; expected JSON values only")


def read(text: str) -> Any:
    """The value of a JSON text. NotJsonError when json-simple would refuse it."""
    tokens = _tokens(text)
    try:
        value, at = _value(tokens, 0)
    except RecursionError:
        raise NotJsonError("it is nested too deeply") from None
    if tokens[at][0] != "end":
        raise NotJsonError(f"a second value begins at token {at}")
    return value


def _written(char: str) -> str:
    if char in _WRITTEN:
        return _WRITTEN[char]
    code = ord(char)
    if code <= 0x1F or 0x7F <= code <= 0x9F or 0x2000 <= code <= 0x20FF:
        return f"\\u{code:04X}"
    return char


def _tokens(text: str) -> list[tuple[str, Any]]:
    tokens: list[tuple[str, Any]] = []
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if not found:
            raise NotJsonError(f"not valid JSON at character {at}")
        kind, raw = str(found.lastgroup), found.group(str(found.lastgroup))
        tokens.append(_token(kind, raw))
        if kind == "end":
            return tokens
        at = found.end()


def _token(kind: str, raw: str) -> tuple[str, Any]:
    match kind:
        case "integer":
            digits = re.sub(r"^(-?)0+(?=[0-9])", r"\1", raw)
            number = int(digits) if len(digits) <= 20 else MAX_LONG + 1
            if not MIN_LONG <= number <= MAX_LONG:
                raise NotJsonError(f"{raw[:24]} is beyond 64 bits")
            return "value", number
        case "double":
            return "value", float(raw)
        case "word":
            return "value", _WORDS[raw]
        case "string":
            text = re.sub(r'\\(u[0-9A-Fa-f]{4}|["\\/bfnrt])', _unescaped, raw)  # any other backslash stays
            # Two escapes may be the halves of one character.
            return "value", text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        case "mark":
            return raw, raw
    return "end", None


def _unescaped(found: re.Match[str]) -> str:
    name = found.group(1)
    return chr(int(name[1:], 16)) if len(name) == 5 else _ESCAPES.get(name, name)


def _value(tokens: list[tuple[str, Any]], at: int) -> tuple[Any, int]:
    """The value that begins at token `at`, and the index of the token after it."""
    kind, value = tokens[at]
    at += 1
    if kind == "value":
        return value, at
    if kind == "[":
        items: list[Any] = []
        while tokens[at][0] != "]":
            if tokens[at][0] == ",":  # stray commas are forgiven
                at += 1
                continue
            item, at = _value(tokens, at)
            items.append(item)
        return items, at + 1
    if kind == "{":
        members: dict[str, Any] = {}
        while tokens[at][0] != "}":
            if tokens[at][0] == ",":
                at += 1
                continue
            key, at = _key(tokens, at)
            members[key], at = _value(tokens, at)
        return members, at + 1
    raise NotJsonError(f"a value was expected at token {at - 1}, got {kind}")


def _key(tokens: list[tuple[str, Any]], at: int) -> tuple[str, int]:
    kind, key = tokens[at]
    if kind != "value" or not isinstance(key, str):
        raise NotJsonError(f"a key was expected at token {at}, got {kind}")
    at += 1
    while tokens[at][0] == ":":  # none and several are forgiven
        at += 1
    return key, at
