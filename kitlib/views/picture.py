"""`show(trace, at=...)`: a trace after one step as a picture that a notebook can keep.

The same trace and step give the same text, byte for byte, so a notebook's stored output can be
compared. The picture brings its own background, as it is shown as an image: on GitHub, in a
JupyterLab of either theme, in a report.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.errors import TraceError
from kitlib.trace import Trace
from kitlib.views.buckets import draw_maps, map_tall
from kitlib.views.curves import HEIGHT as CURVES_TALL
from kitlib.views.curves import QUESTION, draw_curves
from kitlib.views.forest import Forest
from kitlib.views.frames import Frames, to_frames
from kitlib.views.ledger import draw_ledger
from kitlib.views.look import BADGES, LEFT, WIDTH
from kitlib.views.partition import LaneView, draw_lane, draw_legend, lane_views
from kitlib.views.plot import draw_plot, height_of, question_of
from kitlib.views.sentences import count
from kitlib.views.svg import Svg, document, el, group
from kitlib.views.text import plain_text
from kitlib.views.tree import draw_tree, draw_tree_legend, tree_name, tree_summary
from kitlib.views.tree_look import TREE_TOP

PARTS = ("all", "log", "plot", "tree", "pending", "curves")


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

    `part` is "all", "log" (the strips alone), "plot" (the curves alone), "tree" (a topology's tree of
    tuples and the acker's ledger beside it) or "pending" (the spout's and the acker's maps) or
    "curves" (a long run's throughput, queues and time-outs over time). TraceError where a trace has no
    trees or samples for them, when the trace has no such step, and for another `part`.
    """
    if part not in PARTS:
        raise TraceError(f"show: there is no part {plain_text(part, 40)!r}. Expected one of {', '.join(PARTS)}.")
    number = len(trace) - 1 if at is None else at
    if trace.steps or at is not None:
        trace.at(number)
    frames = to_frames(trace)
    missing = "trees" if part in ("tree", "pending") and not frames.forest else ""
    missing = "samples" if part == "curves" and not frames.samples else missing
    if missing:
        raise TraceError(
            f"show: the trace of {plain_text(trace.experiment, 60)} has no {missing}, so there is no part {part!r}. "
            f"Expected all, log or plot{', tree or pending' if frames.forest else ''}."
        )
    return draw(frames, number, part)


def draw(frames: Frames, number: int, part: str = "all") -> Picture:
    """The picture of frames that are at hand already; `number` is -1 for an empty trace."""
    views = lane_views(frames, number)
    sentence = _sentence(frames, number, views)
    has_trees, has_records = frames.forest is not None, any(lane.end > lane.base for lane in frames.lanes)
    parts: list[Svg] = []
    y = 12
    if part in ("all", "tree", "pending") and frames.forest is not None:
        y = _draw_trees(parts, frames, frames.forest, number, part, y)
    if part == "log" or (part == "all" and (has_records or not has_trees)):
        y = _draw_log(parts, frames, number, views, y)
    if part == "curves" or (part == "all" and frames.samples):
        at_ms = frames.at_ms[number] if number >= 0 else None
        parts += [_heading(QUESTION, "", y), draw_curves(frames.samples, frames.bearable, at_ms, y + 22)]
        y += 22 + CURVES_TALL + 10
    elif part in ("all", "plot"):
        parts += [_heading(question_of(frames), "", y), draw_plot(frames, max(0, number), y + 34)]
        y += 34 + height_of(frames) + 10
    title = f"{plain_text(frames.experiment, 60)} on the {plain_text(frames.backend, 20)}"
    return Picture(sentence, document(title, sentence, group(*parts), WIDTH, y))


def _said(frames: Frames, number: int, question: str, y: int) -> list[Svg]:
    """The question that a picture answers, the step, and what the step says."""
    said = plain_text(frames.said[number], 110) if number >= 0 else ""
    when = f"after step {number} of {len(frames) - 1}" if number >= 0 else "no steps yet"
    size = 13 if len(said) <= 100 or not frames.forest else 11  # the sentences of topologies may be long
    return [_heading(question, when, y), el("text", said, cls="ink", x=LEFT, y=y + 32, font_size=size)]


def _draw_trees(parts: list[Svg], frames: Frames, forest: Forest, number: int, part: str, y: int) -> int:
    """Add the tree with its ledger, the maps, or both; where the next picture begins."""
    question = (
        "For what does the spout still wait?" if part == "pending" else "Which tuples are out, and is the number zero?"
    )
    parts += _said(frames, number, question, y)
    y += 46
    if part != "pending":
        parts += [draw_tree(forest, number, y), draw_ledger(forest, number, y)]
        y += TREE_TOP + forest.tall + 10
    if part != "tree":
        parts.append(draw_maps(forest, number, y))
        y += map_tall(forest)
    if part != "pending" and number >= 0 and forest.focus[number] >= 0:
        nodes, codes = forest.trees[forest.focus[number]].layout.nodes, forest.codes_of(forest.focus[number], number)
        shown = [(node, code) for node, code in zip(nodes, codes, strict=True) if code != "."]
        told = {code for node, code in shown if node.number >= 0 or not node.is_loose}
        legend, height = draw_tree_legend(told, any(node.is_loose for node, _ in shown), y)
        parts.append(legend)
        y += height
    return y + 14


def _draw_log(parts: list[Svg], frames: Frames, number: int, views: list[LaneView], y: int) -> int:
    """Add the strips; where the next picture begins."""
    question = "Where is each record?"
    parts += [_heading(question, "", y)] if parts else _said(frames, number, question, y)
    y += 26 if len(parts) > 2 else 48
    for view in views:
        parts.append(draw_lane(view, y))
        y += view.height
    legend, height = draw_legend(_codes(views), _badges(views), y)
    parts.append(legend)
    return y + height + 14


def _heading(question: str, detail: str, y: int) -> Svg:
    bold = el("tspan", question, font_weight="bold")
    rest = el("tspan", detail, dx=10) if detail else Svg("")
    return el("text", bold, rest, cls="ink", x=LEFT, y=y + 10, font_size=14)


def _sentence(frames: Frames, number: int, views: list[LaneView]) -> str:
    if number < 0:
        return f"{plain_text(frames.experiment, 60)}: the trace has no steps."
    found = [f"{view.name}: {view.summary()}" for view in views]
    if frames.forest and frames.forest.focus[number] >= 0:
        found.insert(0, _tree_sentence(frames.forest, frames.forest.focus[number], number))
    told = "; ".join(found) or "no partition"
    return f"After step {number} of {count(len(frames) - 1, 'step')}, {told}."


def _tree_sentence(forest: Forest, tree: int, number: int) -> str:
    row = forest.row_of(tree, number)
    known = f", the acker's number is {row.after}" if row and row.after and forest.trees[tree].is_tracked else ""
    return f"{tree_name(forest, tree)[0].lower()}{tree_name(forest, tree)[1:]}: {tree_summary(forest, tree, number)}{known}"


def _codes(views: list[LaneView]) -> set[str]:
    return {code for view in views for code in view.codes}


def _badges(views: list[LaneView]) -> set[int]:
    return {int(BADGES[flags]) for view in views for flags in set(view.flags)}
