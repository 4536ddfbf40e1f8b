"""What a learner is told: a sentence in a terminal, the same in a coloured box with a sign in a notebook.

The colour is never alone: each box has a sign and a word. Everything is escaped, because an answer may hold anything; of
Markdown only `code` is shown as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kitlib.text import show_text

# The kit's colours: done, pending, failed, and grey for what is no judgement.
RIGHT, HALF, WRONG, NOTE = "#009E73", "#E69F00", "#D55E00", "#888888"
LONGEST = 20_000  # characters of one paragraph


class Told(str):
    """A text that a cell shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return box(NOTE, "", *self.split("\n\n"))


class Asking(Told):
    """A text that asks for one of the learner's own; in a notebook a field for it stands below."""

    take: Callable[[str], Told]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        from kitlib.views.browser.asking import with_field  # widgets take a while to load

        return with_field(self, "Compare with a model answer", self.take)


def box(colour: str, head: str, *paragraphs: str, code: str = "") -> str:
    """A box with a coloured edge: a head in bold that runs into the first paragraph, the others, and code below the first."""
    first, *others = paragraphs or ("",)
    lead = f"<b>{show_text(head)}</b> " if head else ""
    parts = [f'<p style="margin: 0">{lead}{_marked(first)}</p>']
    if code:
        lines = "\n".join(show_text(line, LONGEST) for line in code.splitlines())
        parts.append(f'<pre style="margin: 6px 0; padding: 0">{lines}</pre>')
    parts += [f'<p style="margin: 6px 0 0">{_marked(each)}</p>' for each in others if each]
    style = f"border-left: 6px solid {colour}; background: {colour}1f; padding: 6px 12px; max-width: 52em"
    return f'<div style="{style}">{"".join(parts)}</div>'


def _marked(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", show_text(text, LONGEST))
