"""A scene: one picture of a whole run, with a cursor at the step, its sentence, and a panel for the step; and which domains have one.

Time runs to the right and the whole run is on the picture, so a scene has two halves. The *body* does
not depend on the step: it is laid out and drawn once, and what lies right of the cursor is dimmed
because it has not happened yet. The *panel* below shows what holds after the step. Both make one `Reel`
(`kitlib.views.film`), of which the browser's player is sent all steps, and the SVG of `show` is one.

`kitlib.views.scenes.timeline.compose` makes a scene of rows; it lays out one step after the other:

    scene = Scene("A rebalance", "Who holds what, and when does nobody?", height=200, panel_height=90, x_of_step=places(trace))
    scene.panel_after, scene.words_after = panels.__getitem__, words.__getitem__
    scene.body = group(*drawn)

`SCENES` names the domains that are drawn so. The module of a domain's scene is `kitlib.views.scenes.` and the domain's name; it is
imported when such a trace is drawn for the first time, and offers

    PARTS: dict[str, str]                       # what `show(trace, part=...)` takes -> the question answered; "all" first
    to_scene(trace, part) -> Scene
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from types import ModuleType

from kitlib.errors import TraceError
from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.film import NOTHING, Cursor, Reel, Track
from kitlib.views.look import WIDTH
from kitlib.views.svg import Svg, el, group, legend

AXIS_LEFT, AXIS_RIGHT = 108, 736  # where the time axis begins and ends, unless the scene says otherwise
HALF_SIGN = 8.0  # half the width of a sign
DIM = 0.68  # how much of the page's paper lies over what has not happened yet


NOW_AT = 566  # where the present stands in a window that has moved, from the axis' left end on
MARGIN = 20  # right of a window


@dataclass(frozen=True, slots=True)
class Window:
    """A body that is longer than the picture: of which a part is seen, which follows the present."""

    names: Svg  # which stay at its left edge
    draw: Callable[[float, float, int], Svg]  # what lies from one place to another, without the sign of one step
    x_of_step: Sequence[float]
    signs: Mapping[int, Svg]  # step -> what stands for it; that of the present is never dimmed
    top: int  # of the line of the present

    def moved_at(self, number: int) -> int:
        """How far the body is moved, after a step."""
        return -max(0, round(self.x_of_step[number] - AXIS_LEFT - NOW_AT)) if number >= 0 else 0

    def frame(self, scene: Scene) -> Svg:
        """The paper left and right of what is seen, and the names on it."""
        box = {"y": scene.top, "height": scene.foot - scene.top + 26, "cls": "paper"}
        right = el("rect", x=WIDTH - MARGIN, width=MARGIN, **box)
        return group(el("rect", x=0, width=AXIS_LEFT, **box), right, self.names)


@dataclass(slots=True)
class Scene:
    """Everything that pictures of one run need. Lengths are SVG units; the lists of steps have one item a step."""

    title: str  # names the picture for those who do not see it
    question: str  # which the picture answers
    height: int  # of the body
    body: Svg = field(default_factory=Svg)  # 0 <= x <= WIDTH, 0 <= y <= height
    panel_height: int = 0  # of every panel
    top: int = 0  # the cursor runs from here ...
    bottom: int | None = None  # ... to here; None is the body's height
    right: int = AXIS_RIGHT  # the future is dimmed from the cursor to here
    legend: list[tuple[Svg, str]] = field(default_factory=list)  # swatches of 26 x 18 with their meanings
    x_of_step: list[float] = field(default_factory=list)  # never falls
    panel_after: Callable[[int], Svg] = lambda step: NOTHING  # what stands below after a step
    words_after: Callable[[int], str] = lambda step: ""  # that in words
    steps: Sequence[Step] = ()  # with what the picture knows besides, for their sentences; (): as the trace has them
    window: Window | None = None  # of a body that is longer than the picture
    curves: dict[str, list[int]] = field(default_factory=dict)  # numbers to be drawn over the run below it

    @property
    def foot(self) -> int:
        """Where the cursor ends."""
        return self.height if self.bottom is None else self.bottom

    @property
    def tall(self) -> int:
        """Height of body, panel and legend together."""
        return self.height + self.panel_height + self.draw_legend()[1]

    def draw_legend(self) -> tuple[Svg, int]:
        """What the signs mean, from the panel's foot on; and its height."""
        drawn, height = legend(self.legend, self.height + self.panel_height + 8)
        return drawn, height + 8 if self.legend else 0

    def future_after(self, number: int) -> float:
        """Where the paper over the future begins: right of the step's own sign, if the next step leaves room for it."""
        if not 0 <= number < len(self.x_of_step):
            return self.x_of_step[0] if self.x_of_step else self.right
        x = self.x_of_step[number]
        place = bisect_right(self.x_of_step, x)
        gap = self.x_of_step[place] - x if place < len(self.x_of_step) else 2 * HALF_SIGN
        return round(x + min(HALF_SIGN, gap / 2), 1)


def rows_of(panel: Svg) -> list[Svg]:
    """The pieces of a panel, each of which may stay while others change."""
    return [panel] if panel.head else [piece for piece in panel.inside if isinstance(piece, Svg)]


def draw_cursor(top: float, foot: float) -> Svg:
    """The thin line of the present, at x = 0."""
    line = el("path", d=f"M0 {top}V{foot}", cls="ink-line", stroke_width=1.5)
    return Svg("", [line, el("path", d=f"M0 {foot}l-5 7h10Z", cls="ink")])


def scene_reel(scene: Scene, only: int | None = None) -> Reel:
    """A scene after every step; one with a window with `only` as it is after that step."""
    if scene.window is not None:
        return _window_reel(scene, scene.window, only)
    steps = range(len(scene.x_of_step))
    reel = Reel(scene.title, scene.question, scene.tall, scene.body, words=list(map(scene.words_after, steps)))
    panel, explained, line = Track(transform=f"translate(0 {scene.height})"), Track(), Track()
    line.show(0, [draw_cursor(scene.top, scene.foot)])
    explained.show(0, [scene.draw_legend()[0]])
    for step in steps:
        panel.show(step, rows_of(scene.panel_after(step)))
    reel.tracks += (panel, explained)
    futures = list(map(scene.future_after, steps))
    reel.cursor = Cursor(scene.x_of_step, scene.top, scene.foot - scene.top, scene.right, line, futures, DIM)
    return reel


def _window_reel(scene: Scene, window: Window, only: int | None) -> Reel:
    """A scene whose body moves below its frame; nothing is dragged along an axis that moves itself."""
    steps = range(len(scene.x_of_step)) if only is None else [only][: len(scene.x_of_step)]
    moved = [window.moved_at(number) for number in steps]
    reel = Reel(scene.title, scene.question, scene.tall)
    body, frame, panel = Track(moved=moved), Track(), Track(transform=f"translate(0 {scene.height})")
    now = [round(scene.x_of_step[number]) + left for number, left in zip(steps, moved, strict=True)]
    present, sign = Track(moved=now), Track(moved=moved)
    since, until = (-inf, inf) if only is None or not moved else (AXIS_LEFT - moved[0], WIDTH - MARGIN - moved[0])
    body.show(0, [window.draw(since, until, -1 if only is None else only)])
    paper = {"x": HALF_SIGN, "y": scene.top, "width": WIDTH, "height": scene.foot - scene.top, "opacity": f"{DIM:g}"}
    present.show(0, [el("rect", cls="paper", **paper), group(draw_cursor(window.top, scene.foot))])
    frame.show(0, [window.frame(scene), scene.draw_legend()[0]])
    for place, number in enumerate(steps):
        sign.show(place, [window.signs.get(number, NOTHING)])
        panel.show(place, rows_of(scene.panel_after(number)))
    reel.tracks += (body, present, sign, frame, panel)
    return reel


SCENES: dict[str, str] = {
    domain: f"kitlib.views.scenes.{'offsets' if domain == 'incidents' else domain}"
    for domain in (
        "connect", "streams", "source", "partitions", "send_path", "replication", "offsets", "incidents", "compaction",
        "groups", "transactions", "checkpoint", "difference", "idempotence",
    )
}  # domain -> the module of the scene of its traces


FOLLOWED = ("spout", "topology", "share")  # whose records, trees or batches are followed instead


def kind_of(trace: Trace) -> ModuleType | None:
    """The module of the scene that a trace is drawn as, or None where records, trees or batches are followed."""
    return None if trace.domain in FOLLOWED else import_module(SCENES.get(trace.domain, "kitlib.views.scenes.plain"))


def scene_of(kind: ModuleType, trace: Trace, part: str = "all") -> Scene:
    """The scene of a trace. TraceError when it lays out another number of steps than the trace has."""
    scene: Scene = kind.to_scene(trace, part if part in kind.PARTS else "all")
    if (places := len(scene.x_of_step)) != len(trace):
        told = f"the scene of {plain_text(trace.experiment, 60)} has {places} places, expected {len(trace)}"
        raise TraceError(f"{kind.__name__}: {told}. Give every step its place in `x_of_step`.")
    return scene
