"""SVG, written so that text cannot become markup: what is not `Svg` is escaped when it is put in."""

from __future__ import annotations

import hashlib

from kitlib.text import show_text
from kitlib.views.look import DARK_GREY, DARK_INK, DARK_PAPER, GREY, INK, LEFT, PAPER
from kitlib.words.glyphs import RED

LEGEND_COLUMN = 370  # from one column of a legend to the next


class Svg(str):
    """Text that is markup already, as only `el` makes it."""

    __slots__ = ()


def el(tag: str, *inside: object, **attributes: object) -> Svg:
    """One element. `stroke_width` means stroke-width and `cls` class; attributes that are None are left out."""
    told = "".join(
        f' {"class" if name == "cls" else name.replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    body = "".join(part if isinstance(part, Svg) else show_text(part, 500) for part in inside)
    return Svg(f"<{tag}{told}>{body}</{tag}>" if body else f"<{tag}{told}/>")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return show_text(value, 20_000)


def group(*inside: Svg, **attributes: object) -> Svg:
    """The elements as one group."""
    return el("g", Svg("".join(inside)), **attributes)


def legend(items: list[tuple[Svg, str]], top: int) -> tuple[Svg, int]:
    """Swatches with their meanings, in two columns from `top` on; and its height."""
    rows = (len(items) + 1) // 2
    parts = []
    for index, (swatch, meaning) in enumerate(items):
        column, row = divmod(index, max(1, rows))
        label = el("text", meaning, cls="ink", x=34, y=13)
        parts.append(group(swatch, label, transform=f"translate({LEFT + column * LEGEND_COLUMN} {top + row * 22})"))
    return group(*parts), rows * 22


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


def document(title: str, description: str, body: Svg, width: int, height: int) -> Svg:
    """A whole SVG image with its own background, a title and a description; the same input, the same text.

    The names of its parts are made from its content, so that several images fit into one page.
    """
    name = "kit-" + hashlib.sha256(f"{title}{description}{body}".encode()).hexdigest()[:10]
    hatch = el(
        "pattern",
        el("path", d="M0 0V6", stroke=RED, stroke_width=3),
        id=f"{name}-hatch",
        width=6,
        height=6,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return el(
        "svg",
        el("title", title, id=f"{name}-title"),
        el("desc", description, id=f"{name}-desc"),
        el("style", Svg(STYLE)),
        el("defs", hatch),
        el("rect", cls="paper", width=width, height=height, rx=6),
        Svg(body.replace(HATCH, f"url(#{name}-hatch)")),
        xmlns="http://www.w3.org/2000/svg",
        cls="kit",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        style="max-width:100%;height:auto",
    )


HATCH = "url(#hatch)"  # stands for the document's own hatch until the document is made
