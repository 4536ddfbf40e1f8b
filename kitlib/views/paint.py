"""How a look becomes paint: the outline of a box, and what is written or drawn in it."""

from __future__ import annotations

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
        stroke_dasharray=look.dash or None,
        stroke_width=1.5 if look.shape in ("cross", "slash") or look.hatch else 1,
        **edge_paint(look),
    )


def letter_paint(look: Look, has_halo: bool = False) -> dict[str, object]:
    """How to write on a box. On a hatch, or where a line may cross, letters get a border in the page's colour."""
    if look.text != "ink":
        return {"fill": look.text}
    if look.hatch or has_halo:
        return {"cls": "ink paper-line", "stroke_width": 4, "paint_order": "stroke", "stroke_linejoin": "round"}
    return {"cls": "ink"}


def edge_paint(look: Look) -> dict[str, object]:
    """The colour of a look's lines: a class for the page's own colours, else a stroke."""
    return {"cls": f"{look.edge}-line"} if look.edge in ("ink", "grey") else {"stroke": look.edge}
