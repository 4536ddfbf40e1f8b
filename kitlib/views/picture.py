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
from kitlib.views.film import Reel
from kitlib.views.frames import Frames, to_frames
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.partition.strip import strip_reel, summary_of
from kitlib.views.plot import Before, Curve, curves_of, plot_reel
from kitlib.views.scene import Scene, kind_of, scene_reel
from kitlib.views.svg import Svg, document, el, group
from kitlib.views.trees.forest import NEVER, Forest
from kitlib.views.trees.tree import tree_name, tree_reel, tree_summary
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
    allowed = PARTS if kind is None else tuple(kind.PARTS)
    if part not in allowed:
        raise TraceError(f"show: there is no part {plain_text(part, 40)!r}. Expected one of {', '.join(allowed)}.")
    number = len(trace) - 1 if at is None else at
    if trace.steps or at is not None:
        trace.at(number)
    frames = to_frames(trace, part)
    if kind is not None:
        return draw(frames, number)
    missing = "trees" if part in ("tree", "pending") and not frames.forest else ""
    missing = "samples" if part == "curves" and not frames.samples else missing
    if missing:
        raise TraceError(
            f"show: the trace of {plain_text(trace.experiment, 60)} has no {missing}, so there is no part {part!r}. "
            f"Expected all, log or plot{', tree or pending' if frames.forest else ''}."
        )
    return draw(frames, number, part)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture before it is a document of its own: several may share one."""

    title: str
    sentence: str
    body: Svg
    tall: int


def draw(frames: Frames, number: int, part: str = "all") -> Picture:
    """The picture of frames that are at hand already; `number` is -1 for an empty trace."""
    sheet = lay_out(frames, number, part)
    return Picture(sheet.sentence, document(sheet.title, sheet.sentence, sheet.body, WIDTH, sheet.tall))


def reels_of(
    frames: Frames, part: str = "all", *, only: int | None = None, chosen: int = NEVER, curves: list[Curve] | None = None,
    before: Before | None = None, has_ghosts: bool = True,
) -> list[Reel]:  # fmt: skip
    """The pictures of a trace, the topmost first, after every step or the step `only`; of `part` as `show` has it.

    In a tree's picture the tree that was `chosen`; last come the `curves` (None: those of a still picture), and with them those of the
    run `before`. TraceError as `to_frames`.
    """
    with frames.trace.following("be drawn"):
        drawn = curves_of(frames) if curves is None else curves
        plot = [plot_reel(frames, drawn, only, before)] if part in ("all", "plot", "curves") and (drawn or not frames.scene) else []
        if frames.scene is not None:
            return [scene_reel(frames.scene, only), *plot]
        trees = [tree_reel(frames.forest, only, chosen, part)] if frames.forest and part in ("all", "tree", "pending") else []
        has_strips = part == "log" or (part == "all" and (frames.has_records or not trees))
        strips = [strip_reel(frames.lanes, len(frames), only, has_ghosts=has_ghosts)] if has_strips else []
        return [*trees, *strips, *plot]


def lay_out(frames: Frames, number: int, part: str = "all") -> Sheet:
    """What `draw` makes a document of."""
    scene, parts = frames.scene, list[Svg]()
    y = 12
    for reel in reels_of(frames, part, only=number, has_ghosts=False):
        parts.append(_heading(reel.question, "" if parts else _when(frames, number), y))
        y = y + 26 if parts[1:] else _draw_said(parts, frames, number, y)
        drawn, tall = reel.still(number)
        parts.append(group(drawn, transform=f"translate(0 {y})"))
        y += tall + 14
    if frames.cut:
        mark = el("path", d=f"M{LEFT} {y + 4}v16m5 -16v16", cls="ink-line", stroke_width=2.5)
        parts += [mark, el("text", frames.cut, cls="ink", x=LEFT + 14, y=y + 16, font_size=13, font_weight="bold")]
        y += 32
    title = f"{plain_text(frames.trace.experiment, 60)} on the {plain_text(frames.trace.backend, 20)}"
    title = f"{scene.title}: {title}" if scene else title
    return Sheet(title, f"{_sentence(frames, scene, number)} {frames.cut}".rstrip(), group(*parts), y)


def _when(frames: Frames, number: int) -> str:
    return f"after step {number} of {len(frames) - 1}" if number >= 0 else "no steps yet"


def _draw_said(parts: list[Svg], frames: Frames, number: int, y: int) -> int:
    """Add the step's sentence on two lines; where the picture begins."""
    said = plain_text(frames.sentence(number), SENTENCE) if number >= 0 else ""
    lines = wrap(said, SENTENCE_LINE)[:2]
    parts += [el("text", line, cls="ink", x=LEFT, y=y + 32 + 17 * place, font_size=13) for place, line in enumerate(lines)]
    return y + 62


def _heading(question: str, detail: str, y: int) -> Svg:
    bold = el("tspan", question, font_weight="bold")
    rest = el("tspan", detail, dx=10) if detail else Svg()
    return el("text", bold, rest, cls="ink", x=LEFT, y=y + 10, font_size=14)


def _sentence(frames: Frames, scene: Scene | None, number: int) -> str:
    """What is on the picture, in words."""
    if number < 0:
        return f"{scene.title}: no steps yet." if scene else f"{plain_text(frames.trace.experiment, 60)}: the trace has no steps."
    after = f"After step {number} of {count(len(frames) - 1, 'step')}"
    if scene is not None:
        shown = scene.words_after(number)
        return f"{after}: {frames.sentence(number).rstrip('.')}. {shown[:1].upper()}{shown[1:]}".rstrip()
    found = [f"{view.lane.name}: {summary_of(view)}" for view in frames.lanes_after(number)]
    if frames.forest and frames.forest.focus[number] >= 0:
        found.insert(0, _tree_sentence(frames.forest, frames.forest.focus[number], number))
    return f"{after}, {'; '.join(found) or 'no partition'}."


def _tree_sentence(forest: Forest, tree: int, number: int) -> str:
    row = forest.row_of(tree, number)
    known = f", the acker's number is {row.after:x}" if row and row.after is not None and forest.trees[tree].is_tracked else ""
    return f"{tree_name(forest, tree)[0].lower()}{tree_name(forest, tree)[1:]}: {tree_summary(forest, tree, number)}{known}"
