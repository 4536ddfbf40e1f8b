"""SVG, written so that text cannot become markup: what is not `Svg` is escaped when it is put in.

Also how a look becomes paint: the outline of a box, and what is written or drawn in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from kitlib.text import show_text
from kitlib.views.look import DARK_GREY, DARK_INK, DARK_PAPER, GREY, INK, LEFT, PAPER, Look
from kitlib.words.glyphs import RED

LEGEND_COLUMN = 370  # from one column of a legend to the next, where there are two
LEGEND_WIDTH, LEGEND_CHAR = 770, 6.2  # of three columns together, and of a letter
MOST_LEGEND_ROWS = 8


class Svg:
    """A piece of drawing: an element with what is inside it, or without a head only what is inside.

    Written out by `str`. What is no `Svg` inside it is markup already: text that was escaped.
    """

    __slots__ = ("head", "inside")

    def __init__(self, head: str = "", inside: Sequence[Svg | str] = ()) -> None:
        self.head = head  # 'rect x="1" y="2"'
        self.inside = inside

    def __str__(self) -> str:
        body = "".join(map(str, self.inside))
        if not self.head:
            return body
        return f"<{self.head}>{body}</{self.head.partition(' ')[0]}>" if body else f"<{self.head}/>"


def el(tag: str, *inside: object, **attributes: object) -> Svg:
    """One element. `stroke_width` means stroke-width and `cls` class; attributes that are None are left out."""
    head = tag
    for name, value in attributes.items():
        if value is not None:
            head += f' {_name(name)}="{value if type(value) is int else _value(value)}"'
    return Svg(head, [part if isinstance(part, Svg) else show_text(part, 500) for part in inside])


@cache
def _name(name: str) -> str:
    return "class" if name == "cls" else name.replace("_", "-")


@lru_cache(4_000, typed=True)
def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else show_text(value, 20_000)


def group(*inside: Svg, **attributes: object) -> Svg:
    """The elements as one group."""
    return el("g", *inside, **attributes)


class Item(NamedTuple):
    """One line of a legend."""

    key: str
    swatch: Svg  # 26 x 18
    meaning: str


def legend(items: Sequence[tuple[Svg, str]], top: int) -> tuple[Svg, int]:
    """Swatches with their meanings, in two columns from `top` on, or in three where more than 8 rows were needed; and its height."""
    columns = 2 if len(items) <= 2 * MOST_LEGEND_ROWS else 3
    rows = max(1, -(-len(items) // columns))
    wide: list[float] = [LEGEND_COLUMN]
    if columns > 2:  # as broad as their words, or two columns if that is too broad
        wide = [34 + 16 + LEGEND_CHAR * max(len(meaning) for _, meaning in items[at : at + rows]) for at in range(0, len(items), rows)]
        if LEFT + sum(wide) > LEGEND_WIDTH:
            rows, wide = (len(items) + 1) // 2, [LEGEND_COLUMN]
    parts = []
    for index, (swatch, meaning) in enumerate(items):
        column, row = divmod(index, rows)
        label = el("text", meaning, cls="ink", x=34, y=13)
        parts.append(group(swatch, label, transform=f"translate({LEFT + int(sum(wide[:column]))} {top + row * 22})"))
    return group(*parts), (rows if items else 0) * 22


def _rules(ink: str, paper: str, grey: str) -> str:
    """The page's own colours: JupyterLab's where there is a JupyterLab, else these."""
    names = {"ink": f"--jp-content-font-color0,{ink}", "paper": f"--jp-layout-color0,{paper}", "grey": ""}
    rules = []
    for name, colour in (("ink", ink), ("paper", paper), ("grey", grey)):
        variable = names[name]
        for letter, what in (("", "fill"), ("-line", "stroke")):
            # The plain colour first: a reader that knows no variables keeps it.
            also = f";{what}:var({variable})" if variable else ""
            rules.append(f".kit .{name}{letter}{{{what}:{colour}{also}}}")
    return "".join(rules)


STYLE = (
    ".kit{font:12px system-ui,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif}"
    ".kit text{font-variant-numeric:tabular-nums}"
    + _rules(INK, PAPER, GREY)
    + "@media (prefers-color-scheme:dark){"
    + _rules(DARK_INK, DARK_PAPER, DARK_GREY)
    + "}"
)


def hatch(name: str | None = None) -> Svg:
    """The pattern of what is hatched."""
    line = el("path", d="M0 0V6", stroke=RED, stroke_width=3)
    return el("pattern", line, id=name, width=6, height=6, patternUnits="userSpaceOnUse", patternTransform="rotate(45)")


def document(title: str, description: str, body: Svg, width: int, height: int) -> str:
    """A whole SVG image with its own background, a title and a description; the same input, the same text.

    The names of its parts are made from its content, so that several images fit into one page.
    """
    drawn = str(body)
    name = "kit-" + hashlib.sha256(f"{title}{description}{drawn}".encode()).hexdigest()[:10]
    image = el(
        "svg",
        el("title", title, id=f"{name}-title"),
        el("desc", description, id=f"{name}-desc"),
        Svg("style", [STYLE]),
        el("defs", hatch(f"{name}-hatch")),
        el("rect", cls="paper", width=width, height=height, rx=6),
        Svg("", [drawn.replace(HATCH, f"url(#{name}-hatch)")]),
        xmlns="http://www.w3.org/2000/svg",
        cls="kit",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        style="max-width:100%;height:auto",
    )
    return str(image)


HATCH = "url(#hatch)"  # stands for the document's own hatch until the document is made


def draw_frame(look: Look, x: float, y: float, width: float, height: float) -> Svg:
    return el(
        "rect",
        x=x,
        y=y,
        width=width,
        height=height,
        fill=HATCH if look.hatch else look.fill,
        fill_opacity=look.wash if look.wash < 1 else None,
        stroke_width=2 if look.fill == "none" and look.edge not in ("ink", "grey") else 1,
        **line_paint(look.edge),
    )


def letter_paint(colour: str, halo: int = 0) -> dict[str, Any]:
    """The paint of letters: a colour, or "ink" or "grey" for the page's own, where they may have a border of the page's paper.

    `halo` > 0 is the width of that border, for letters on a hatch or where a line may cross.
    """
    if colour not in ("ink", "grey", "paper"):
        return {"fill": colour}
    if not halo:
        return {"cls": colour}
    return {"cls": f"{colour} paper-line", "stroke_width": halo, "paint_order": "stroke", "stroke_linejoin": "round"}


def line_paint(colour: str) -> dict[str, Any]:
    """The paint of a line: a colour, or "ink" or "grey" for the page's own."""
    return {"cls": f"{colour}-line"} if colour in ("ink", "grey") else {"stroke": colour}
