"""The one door through which a record's content reaches a screen.

A record may hold anything: markup, terminal escapes, characters that turn the reading direction,
bytes that are no text. Whatever goes through here comes out short, on one line, printable and
harmless: what cannot be seen is written as an escape (`\\x1b`, `\\u202e`), and for HTML and SVG the
five special characters become entities. Escaping, never sanitising: nothing is parsed.

Left out: terminals that are told to read markup. Print with `rich` only with `markup=False`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

LIMIT_CHARS = 200
LONG = 20_000  # characters of a sentence or a title that may be long

_HIDDEN = (
    *range(0x00, 0x20),  # C0: NUL, ESC, tab, line ends
    *range(0x7F, 0xA0),  # DEL and C1: 8-bit terminal escapes
    0x00AD,  # soft hyphen
    0x061C, 0x200E, 0x200F,  # marks that set the direction
    *range(0x200B, 0x200E),  # zero-width space and joiners
    *range(0x2028, 0x202F),  # line and paragraph separators, bidirectional embeddings and overrides
    *range(0x2060, 0x2070),  # word joiner, bidirectional isolates
    *range(0xD800, 0xE000),  # lone surrogates, which no encoding can write
    0xFEFF, *range(0xFFF9, 0xFFFC), 0xFFFE, 0xFFFF,  # marks and non-characters that XML forbids
    *range(0xE0000, 0xE0080),  # tags: text that nobody sees
)  # fmt: skip


def _escape(code: int) -> str:
    if code <= 0xFF:
        return {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_VISIBLE = {code: _escape(code) for code in _HIDDEN}
VISIBLE_IN_LINES = {code: text for code, text in _VISIBLE.items() if chr(code) not in "\t\n\r"}  # for text of several lines


def plain_text(value: object, limit: int = LIMIT_CHARS) -> str:
    """`value` as one short printable line, for a terminal and for `textContent`; not yet for HTML.

    At most `limit` characters of it are shown, and how many are missing is said.
    """
    text = value if isinstance(value, str) else str(value)
    shown = text[:limit].translate(_VISIBLE)
    return shown if len(text) <= limit else f"{shown}… (+{len(text) - limit:,} characters)"


def show_text(value: object, limit: int = LIMIT_CHARS) -> str:
    """`plain_text`, escaped for HTML and SVG, inside elements and inside quoted attributes."""
    return html.escape(plain_text(value, limit), quote=True)


def text_table(rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """The lines of a table: columns as wide as their longest cell, the first `left` of them flush left, the others flush right.

    What cannot be seen is written as an escape.
    """
    columns = []
    for number, column in enumerate(zip(*([cell.translate(_VISIBLE) for cell in row] for row in rows), strict=True)):
        width = max(map(len, column))
        columns.append([cell.ljust(width) if number < left else cell.rjust(width) for cell in column])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table element; what stands in its cells is escaped, and what cannot be seen is written as an escape."""

    def line(tag: str, cells: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell.translate(_VISIBLE))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"
