"""`show(trace, at=...)`: a trace after one step as a picture that a notebook can keep.

The same trace and step give the same text, byte for byte, so a notebook's stored output can be
compared. The picture brings its own background, as it is shown as an image: on GitHub, in a
JupyterLab of either theme, in a report.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.errors import TraceError
from kitlib.trace import Trace
from kitlib.views.frames import Frames, to_frames
from kitlib.views.look import BADGES, LEFT, WIDTH
from kitlib.views.partition import LaneView, draw_lane, draw_legend, lane_views
from kitlib.views.plot import HEIGHT as PLOT_TALL
from kitlib.views.plot import draw_plot
from kitlib.views.sentences import count
from kitlib.views.svg import Svg, document, el, group
from kitlib.views.text import plain_text

PARTS = ("all", "log", "plot")


@dataclass(frozen=True, slots=True)
class Picture:
    """One image and the sentence that says what is on it."""

    sentence: str
    svg: str

    def __repr__(self) -> str:
        return self.sentence

    def _repr_svg_(self) -> str:
        """What Jupyter shows and keeps: an image.

        There is no `_repr_html_`: GitHub and an untrusted notebook cut SVG out of HTML, not images.
        """
        return self.svg

    def to_html(self) -> str:
        """The picture for a report: inline, so that it follows the page's colours."""
        return f"<div>{self.svg}</div>"


def show(trace: Trace, at: int | None = None, part: str = "all") -> Picture:
    """Where every record is after step `at` (the last one if None) and how the run went: SVG.

    `part` is "all", "log" (the strips alone) or "plot" (the curves alone). TraceError when the trace
    has no such step, and for another `part`.
    """
    if part not in PARTS:
        raise TraceError(f"show: there is no part {plain_text(part, 40)!r}. Expected one of {', '.join(PARTS)}.")
    number = len(trace) - 1 if at is None else at
    if trace.steps or at is not None:
        trace.at(number)
    return draw(to_frames(trace), number, part)


def draw(frames: Frames, number: int, part: str = "all") -> Picture:
    """The picture of frames that are at hand already; `number` is -1 for an empty trace."""
    views = lane_views(frames, number)
    sentence = _sentence(frames, number, views)
    parts: list[Svg] = []
    y = 12
    if part != "plot":
        question = "Where is each record?"
        parts.append(
            _heading(question, f"after step {number} of {len(frames) - 1}" if number >= 0 else "no steps yet", y)
        )
        parts.append(
            el(
                "text",
                plain_text(frames.said[number], 110) if number >= 0 else "",
                cls="ink",
                x=LEFT,
                y=y + 32,
                font_size=13,
            )
        )
        y += 48
        for view in views:
            parts.append(draw_lane(view, y))
            y += view.height
        legend, height = draw_legend(_codes(views), _badges(views), y)
        parts.append(legend)
        y += height + 14
    if part != "log":
        parts.append(_heading("How far is the commit behind, and what is in flight?", "", y))
        parts.append(draw_plot(frames, max(0, number), y + 34))
        y += 34 + PLOT_TALL + 10
    title = f"{plain_text(frames.experiment, 60)} on the {plain_text(frames.backend, 20)}"
    return Picture(sentence, document(title, sentence, group(*parts), WIDTH, y))


def _heading(question: str, detail: str, y: int) -> Svg:
    bold = el("tspan", question, font_weight="bold")
    rest = el("tspan", detail, dx=10) if detail else Svg("")
    return el("text", bold, rest, cls="ink", x=LEFT, y=y + 10, font_size=14)


def _sentence(frames: Frames, number: int, views: list[LaneView]) -> str:
    if number < 0:
        return f"{plain_text(frames.experiment, 60)}: the trace has no steps."
    told = "; ".join(f"{view.name}: {view.summary()}" for view in views) or "no partition"
    return f"After step {number} of {count(len(frames) - 1, 'step')}, {told}."


def _codes(views: list[LaneView]) -> set[str]:
    return {code for view in views for code in view.codes}


def _badges(views: list[LaneView]) -> set[int]:
    return {int(BADGES[flags]) for view in views for flags in set(view.flags)}
