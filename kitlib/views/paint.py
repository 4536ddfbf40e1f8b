"""How a look becomes paint: the outline of a box, and what is written or drawn in it."""

from __future__ import annotations

from typing import Any

from kitlib.views.look import Look
from kitlib.views.svg import HATCH, Svg, el


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
    if colour not in ("ink", "grey"):
        return {"fill": colour}
    if not halo:
        return {"cls": colour}
    return {"cls": f"{colour} paper-line", "stroke_width": halo, "paint_order": "stroke", "stroke_linejoin": "round"}


def line_paint(colour: str) -> dict[str, Any]:
    """The paint of a line: a colour, or "ink" or "grey" for the page's own."""
    return {"cls": f"{colour}-line"} if colour in ("ink", "grey") else {"stroke": colour}
