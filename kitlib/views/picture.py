"""`show(trace, at=...)`: a trace after one step as a picture that a notebook can keep.

The same trace and step give the same text, byte for byte, so a notebook's stored output can be
compared. The picture brings its own background, as it is shown as an image: on GitHub, in a
JupyterLab of either theme, in a report.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from kitlib.errors import TraceError
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.film import seen_at
from kitlib.views.frames import Frames, to_frames
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.partition.reader import LaneView
from kitlib.views.partition.strip import draw_lane, lane_tall, seen_in, strip_legend, summary_of
from kitlib.views.plot import draw_plot, height_of, question_of
from kitlib.views.scene import Scene, draw_scene, further_parts, kind_of
from kitlib.views.svg import Svg, document, el, group, legend_of
from kitlib.views.trees.forest import Forest
from kitlib.views.trees.tree import QUESTION as TREE_QUESTION
from kitlib.views.trees.tree import draw_trees, tree_legend, tree_name, tree_spans, tree_summary
from kitlib.words.template import count

SENTENCE, SENTENCE_LINE = 180, 95  # characters: of a step's sentence, and of a line
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


def show(trace: Trace, at: int | None = None, part: str = "all") -> Picture:
    """Where every record is after step `at` (the last one if None) and how the run went: SVG.

    `part` is "all", "log" (the strips alone), "plot" (the curves alone), "tree" (a topology's tree of
    tuples and the acker's ledger beside it) or "pending" (the spout's and the acker's maps) or
    "curves" (a long run's throughput, queues and timeouts over time).
    A trace that is drawn as a scene (`kitlib.views.scene`) has that scene's parts instead.
    TraceError where a trace has no trees or samples for them, when the trace has no such step, and for another `part`.
    """
    kind = kind_of(trace)
    allowed = PARTS if kind is None else (*kind.PARTS, *further_parts(kind))
    if part not in allowed:
        raise TraceError(f"show: there is no part {plain_text(part, 40)!r}. Expected one of {', '.join(allowed)}.")
    number = len(trace) - 1 if at is None else at
    if trace.steps or at is not None:
        trace.at(number)
    frames = to_frames(trace, part)
    if kind is not None:
        return draw(frames, number, "all" if part in kind.PARTS else part)
    missing = "trees" if part in ("tree", "pending") and not frames.forest else ""
    missing = "samples" if part == "curves" and not frames.samples else missing
    if missing:
        raise TraceError(
            f"show: the trace of {plain_text(trace.experiment, 60)} has no {missing}, so there is no part {part!r}. "
            f"Expected all, log or plot{_also(frames)}."
        )
    return draw(frames, number, part)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture before it is a document of its own: several may share one."""

    title: str
    sentence: str
    body: Svg
    width: int
    tall: int


def draw(frames: Frames, number: int, part: str = "all") -> Picture:
    """The picture of frames that are at hand already; `number` is -1 for an empty trace."""
    sheet = lay_out(frames, number, part)
    return Picture(sheet.sentence, document(sheet.title, sheet.sentence, sheet.body, sheet.width, sheet.tall))


def lay_out(frames: Frames, number: int, part: str = "all") -> Sheet:
    """What `draw` makes a document of."""
    if frames.scene is not None and part == "all":
        return _draw_scene(frames, frames.scene, number)
    views = frames.lanes_after(number)
    sentence = _sentence(frames, number, views)
    has_trees, has_records = frames.forest is not None, frames.has_records
    parts: list[Svg] = []
    y = 12
    if part in ("all", "tree", "pending") and frames.forest is not None:
        y = _draw_trees(parts, frames, frames.forest, number, part, y)
    if part == "log" or (part == "all" and (has_records or not has_trees)):
        y = _draw_log(parts, frames, number, views, y)
    if part in ("all", "plot", "curves"):
        parts += [_heading(question_of(frames), "", y), draw_plot(frames, max(0, number), y + 34)]
        y += 34 + height_of(frames) + 10
    y = _draw_cut(parts, frames, y)
    title = f"{plain_text(frames.trace.experiment, 60)} on the {plain_text(frames.trace.backend, 20)}"
    return Sheet(title, sentence, group(*parts), WIDTH, y)


def _draw_cut(parts: list[Svg], frames: Frames, y: int) -> int:
    """Add a line that says that the run was cut, if it was; where the picture ends."""
    if not frames.cut:
        return y
    mark = el("path", d=f"M{LEFT} {y + 4}v16m5 -16v16", cls="ink-line", stroke_width=2.5)
    parts += [mark, el("text", frames.cut, cls="ink", x=LEFT + 14, y=y + 16, font_size=13, font_weight="bold")]
    return y + 32


def _draw_scene(frames: Frames, scene: Scene, number: int) -> Sheet:
    """The picture of a trace that is drawn as a scene."""
    parts: list[Svg] = []
    y = _draw_said(parts, frames, number, scene.question, 12)
    drawn, height = draw_scene(scene, number, y)
    told = [f"After step {number} of {count(len(frames) - 1, 'step')}", frames.sentence(number).rstrip(".")]
    shown = scene.words_after(number)
    sentence = f"{': '.join(told)}. {shown[:1].upper()}{shown[1:]}" if number >= 0 else f"{scene.title}: no steps yet."
    sentence = _with_cut(sentence.rstrip(), frames)
    parts.append(drawn)
    y += height + 14
    if scene.curves:
        parts += [_heading(question_of(frames), "", y), draw_plot(frames, max(0, number), y + 34)]
        y += 34 + height_of(frames) + 10
    tall = _draw_cut(parts, frames, y)
    title = f"{scene.title}: {plain_text(frames.trace.experiment, 60)} on the {plain_text(frames.trace.backend, 20)}"
    return Sheet(title, sentence, group(*parts), scene.width, tall)


def _also(frames: Frames) -> str:
    return ", tree or pending" if frames.forest else ""


def _draw_said(parts: list[Svg], frames: Frames, number: int, question: str, y: int) -> int:
    """Add the question, the step, and its sentence on two lines; where the picture begins."""
    when = f"after step {number} of {len(frames) - 1}" if number >= 0 else "no steps yet"
    parts.append(_heading(question, when, y))
    said = plain_text(frames.sentence(number), SENTENCE) if number >= 0 else ""
    for place, line in enumerate(wrap(said, SENTENCE_LINE)[:2]):
        parts.append(el("text", line, cls="ink", x=LEFT, y=y + 32 + 17 * place, font_size=13))
    return y + 62


def _said(frames: Frames, number: int, question: str, y: int) -> list[Svg]:
    """The question that a picture answers, the step, and what the step says."""
    said = plain_text(frames.sentence(number), 110) if number >= 0 else ""
    when = f"after step {number} of {len(frames) - 1}" if number >= 0 else "no steps yet"
    size = 13 if len(said) <= 100 or not frames.forest else 11  # the sentences of topologies may be long
    return [_heading(question, when, y), el("text", said, cls="ink", x=LEFT, y=y + 32, font_size=size)]


def _draw_trees(parts: list[Svg], frames: Frames, forest: Forest, number: int, part: str, y: int) -> int:
    """Add the tree with its ledger, the maps, or both; where the next picture begins."""
    question = ("For what does the spout still wait?" if part == "pending" else TREE_QUESTION)
    parts += _said(frames, number, question, y)
    drawn, tall = draw_trees(forest, number, y + 46, part)
    parts += drawn
    y += 46 + tall
    if part != "pending" and number >= 0 and forest.focus[number] >= 0:
        legend, height = legend_of(tree_legend(), seen_at(tree_spans(forest, forest.focus[number]), number), y)
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
        y += lane_tall(view.lane.has_bar)
    legend, height = legend_of(strip_legend(), {key for view in views for key in seen_in(view)}, y)
    parts.append(legend)
    return y + height + 14


def _heading(question: str, detail: str, y: int) -> Svg:
    bold = el("tspan", question, font_weight="bold")
    rest = el("tspan", detail, dx=10) if detail else Svg()
    return el("text", bold, rest, cls="ink", x=LEFT, y=y + 10, font_size=14)


def _sentence(frames: Frames, number: int, views: list[LaneView]) -> str:
    if number < 0:
        return f"{plain_text(frames.trace.experiment, 60)}: the trace has no steps."
    found = [f"{view.lane.name}: {summary_of(view)}" for view in views]
    if frames.forest and frames.forest.focus[number] >= 0:
        found.insert(0, _tree_sentence(frames.forest, frames.forest.focus[number], number))
    told = "; ".join(found) or "no partition"
    return _with_cut(f"After step {number} of {count(len(frames) - 1, 'step')}, {told}.", frames)


def _with_cut(sentence: str, frames: Frames) -> str:
    return f"{sentence} {frames.cut}".rstrip()


def _tree_sentence(forest: Forest, tree: int, number: int) -> str:
    row = forest.row_of(tree, number)
    known = f", the acker's number is {row.after:x}" if row and row.after is not None and forest.trees[tree].is_tracked else ""
    return f"{tree_name(forest, tree)[0].lower()}{tree_name(forest, tree)[1:]}: {tree_summary(forest, tree, number)}{known}"
