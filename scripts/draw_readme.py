"""Draw the picture of README.md anew: the step at which an ack forgets what was never processed."""

from __future__ import annotations

from pathlib import Path

from kitlib.experiments import run
from kitlib.views import show

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "lost.svg"


def draw() -> str:
    """The picture as SVG: the bound smaller than a fetch, after the last records were forgotten."""
    trace = run("small_max_offset_behind")
    last_clear = max(step.number for step in trace if step.what == "clear")
    return show(trace, at=last_clear)._repr_svg_()


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
