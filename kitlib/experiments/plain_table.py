"""Tables of what clients say, as text and as HTML.

Names of groups, topics and clients are other people's: characters that cannot be seen, terminal escapes and marks of
the reading direction among them, are written as escapes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def shown(value: object, limit: int | None = None) -> str:
    """`value` on one printable line; what is longer than `limit` characters ends with an ellipsis."""
    text = str(value)
    told = text if limit is None or len(text) <= limit else f"{text[:limit]}…"
    return told if told.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in told)


def as_text(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of the width of their longest cell, two blanks between them."""
    lines = [[shown(cell) for cell in line] for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_html(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table element; what stands in the cells is escaped."""
    names = "".join(f"<th>{html.escape(shown(name))}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(shown(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
