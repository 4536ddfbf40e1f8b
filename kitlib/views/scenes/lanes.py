"""Who does what in a run, and what crosses between them: a lane for each actor of the stage, an arrow for each traveller.

The stage (`kitlib.views.stage`) plays a score; here the same score lies on a time axis, so that a picture that cannot move shows
it, too. On a lane stand the signs of its actor's steps. It is thin while its actor is up, dotted while it is paused or cut off,
and ends where it dies. An arrow has its traveller's colour; what was lost ends at a cross, as far as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby, pairwise
from math import atan2, cos, inf, log2, sin

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import CHAR, LEFT
from kitlib.views.play_clock import PlayClock
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene, Window
from kitlib.views.scenes.timeline import (
    FILLS,
    Bar,
    Item,
    apart,
    draw_box,
    draw_glyph,
    draw_tick,
    draw_ticks,
    swatch,
    tick_legend,
)
from kitlib.views.stage.deeds import acts
from kitlib.views.stage.picture import stage_of
from kitlib.views.stage.score import HOP_S, STYLES, Actor, Stage, State, Traveller
from kitlib.views.svg import Svg, el, group, letter_paint
from kitlib.words.glyphs import CROSS, RED, Glyph

BROKEN = {"frozen": "2 4", "cut off": "6 4", "fenced": "6 4"}  # how the line of one who is not at work is dashed
FALLEN = Glyph("lost in transit", CROSS, RED, 2.4)
Spell = tuple[str, Bar, str | None]  # on whose lane it lies, what held from when to when, and the ref of the thing that it stands for
BEFORE = 5  # the place where it is going an arrow ends
STEP_WIDE, SMALL_WIDE = 18, 7  # the least way from one step to the next, and where neither says anything
MOST_WAIT = 46  # how much a wait, however long, adds to that
LABEL_GAP, LINE_TALL = 8, 13  # between two labels on one lane, and from one line of a label to the next
BROKEN_OFF = "M0 -10L-3 -5L3 0L-3 5L0 10"  # the sign of a connection that is cut, which is long on the lanes
SPELL_TALL = 16
RIFT = "M0 -54" + "L-3 -49L3 -39" + "l-6 10l6 10" * 4 + "L0 54"
ARROW = "M2 9H21m-5 -4l5 4l-5 4"


def score_of(trace: Trace) -> Stage:
    """The score of a run in which every step takes one second. TraceError when a step's data are not what its word promises."""
    clock = PlayClock([float(number) for number in range(len(trace))], [step.at_ms for step in trace])
    return stage_of(trace, clock, has_lines=False) or Stage({})


@dataclass(slots=True)
class Lanes:
    """The rows of a run's actors, to be drawn by `compose`, or a part at a time as a window's body."""

    trace: Trace
    xs: Sequence[float]  # where its steps lie
    glyphs: Mapping[str, Glyph]  # the signs of its words; words without one are passed over
    lane_of: Callable[[Step], str] = lambda step: step.actor  # on whose lane the sign of a step stands
    spells: Sequence[Spell] = ()
    numbers: Callable[[Step], int | None] = lambda step: None  # of steps that have a number in place of a sign
    word_of: Callable[[Step], str] = lambda step: step.what  # whose sign stands for a step
    lines_of: Callable[[Step], Sequence[str]] = lambda step: ()  # what stands at a sign: above the first lane, below the others
    names: Sequence[str] = ()  # the actors that have a lane, in their order; (): all
    between: str = ""  # whose signs stand between the first two lanes
    ticks: Collection[str] = ()  # the words for which a tick stands below the line, see TICKS
    states: Mapping[str, Sequence[tuple[float, State]]] = field(default_factory=dict)  # of lanes that no actor of the stage has
    refs: Mapping[str, str] = field(default_factory=dict)  # what such lanes stand for, where nobody is called so
    is_staged: bool = True  # whether the score says who has a lane and what crosses
    right: float = AXIS_RIGHT  # where lines end at last
    pitch: float = 34
    stage: Stage = field(init=False)
    lanes: dict[str, float] = field(init=False)  # actor -> how far below the first lane its own lies
    ways: list[Traveller] = field(init=False)  # what crosses from lane to lane
    signs: dict[int, Svg] = field(default_factory=dict)  # step -> its sign with its words, once it was drawn

    def __post_init__(self) -> None:
        self.stage = score_of(self.trace) if self.is_staged else Stage({})
        for name in self.names:
            if name not in self.stage.actors:
                ref = f"process:{name}" if acts(self.trace, name) else self.refs.get(name)
                states = [*self.states.get(name, [(0.0, "up")])]
                self.stage.actors[name] = Actor(name, "", plain_text(name, 16), states=states, ref=ref)
        in_order = sorted(self.stage.actors, key=lambda name: self.stage.actors[name].x)
        self.lanes = {name: place * self.pitch for place, name in enumerate(self.names or in_order)}
        self.ways = [
            each
            for each in self.stage.travellers
            if each.source != each.target and {each.source, each.target} <= {*self.lanes} and each.style.shape != "bubble"
        ]
        self.ways = _apart_where_cut(self.ways)
        if self.between:
            self.lanes[self.between] = self.pitch / 2

    @property
    def tall(self) -> float:
        """A lane each."""
        return self.pitch * len([name for name in self.lanes if name != self.between])

    def draw(self, y: float) -> list[Svg]:
        """All of it."""
        return [*self.draw_names(y), *self.draw_part(y)]

    def draw_names(self, y: float) -> list[Svg]:
        """Who has which lane."""
        found = []
        for name, actor in self.stage.actors.items():
            if name in self.lanes:
                look = {"font_weight": "bold"} if len(actor.label) <= 12 else {"font_size": 11}
                found.append(group(el("text", actor.label, cls="ink", x=LEFT, y=y + 18 + self.lanes[name], **look), data_ref=actor.ref))
        return found

    def draw_part(self, y: float, since: float = -inf, until: float = inf, without: int = -1) -> list[Svg]:
        """What lies between two places: lines, spells and arrows above them, and on top the signs whose words have room there, but one."""
        top = y + 14
        found: list[Svg] = []
        for name, actor in self.stage.actors.items():
            found += self._line(actor, top + self.lanes[name]) if name in self.lanes else []
        for (lane, ref), spells in groupby(self.spells, key=lambda spell: (spell[0], spell[2])):
            y0, lasting = top + self.lanes[lane] - SPELL_TALL // 2, (bar for _, bar, _ in spells)
            boxes = [draw_box(bar.kind, bar.x0, y0, max(2.0, bar.x1 - bar.x0), SPELL_TALL, bar.who) for bar in lasting]
            found += [group(*boxes, data_ref=ref)] if ref else boxes
        plain: dict[str, list[str]] = {}
        for each in self.ways:
            if self._x(each.t1) < since or self._x(each.t0) > until:
                continue
            if each.ref or is_lost(each):
                found.append(self._draw_way(each, top))
            else:
                plain.setdefault(each.style.colour, []).append(self._way(each, top, has_head=True))
        for colour, ways in plain.items():
            found.append(el("path", d="".join(ways), fill="none", stroke=colour, stroke_width=1.4))
        return [*found, *self._signs(top, since, until, without)]

    def _line(self, actor: Actor, y: float) -> list[Svg]:
        """A line as far as it runs."""
        found = []
        for (since, state), (until, _) in pairwise([*actor.states, (float(len(self.xs) + 8), "")]):
            if state not in ("down", "away") and until > since:
                x0, x1 = self._x(since) if since else AXIS_LEFT, min(self.right, self._x(until))
                dash = BROKEN.get(state)
                found.append(el("path", d=f"M{x0:g} {y:g}H{x1:g}", cls="grey-line", stroke_width=0.8, stroke_dasharray=dash))
        return found

    def _signs(self, top: float, since: float, until: float, without: int) -> list[Svg]:
        found: dict[str, list[tuple[Step, float]]] = {}
        counted: dict[str, list[tuple[int, float]]] = {}
        ticked: dict[tuple[str, str], list[float]] = {}
        for step, x in zip(self.trace, self.xs, strict=True):
            lane = self.lane_of(step)
            if lane in self.lanes and (number := self.numbers(step)) is not None:
                counted.setdefault(lane, []).append((number, x))
            elif lane in self.lanes and self.word_of(step) in self.glyphs:
                found.setdefault(lane, []).append((step, x))
            elif lane in self.lanes and self.word_of(step) in self.ticks:
                ticked.setdefault((lane, self.word_of(step)), []).append(x)
        below = {lane: SPELL_TALL / 2 for lane, *_ in self.spells}
        drawn = [draw_tick(word, xs, top + self.lanes[lane] + below.get(lane, 0)) for (lane, word), xs in ticked.items()]
        rising = {(each.target, round(each.t1)) for each in self.ways if self.lanes[each.source] > self.lanes[each.target]}
        for lane, signs in found.items():
            for (step, _), x in zip(signs, apart([x for _, x in signs], 9, 18), strict=True):
                half = max([5.0, *(len(line) * CHAR / 2 for line in self.lines_of(step))]) if since < x < until else 0
                if since <= x - half and x + half <= until:
                    is_above = not self.lanes[lane] or (lane, step.number) in rising
                    self.signs[step.number] = self._sign(step, x, top + self.lanes[lane], is_above)
                    drawn += [self.signs[step.number]] if step.number != without else []
        for lane, numbers in counted.items():
            moved = apart([x for _, x in numbers], 17)
            drawn += [draw_number(number, x, top + self.lanes[lane]) for (number, _), x in zip(numbers, moved, strict=True)]
        return drawn

    def _sign(self, step: Step, x: float, y: float, is_above: bool) -> Svg:
        """A sign with what it says."""
        lines = self.lines_of(step)
        first = -14 - LINE_TALL * (len(lines) - 1) if is_above else 21
        words = [_word(line, first + LINE_TALL * place, place == len(lines) - 2) for place, line in enumerate(lines)]
        return group(_glyph(self.glyphs[self.word_of(step)]), *words, transform=f"translate({x:.1f} {y:g})")

    def _x(self, place: float) -> float:
        """Where a time of the score lies, which counts steps."""
        last = len(self.xs) - 1
        number = max(0, min(int(place), last))
        wide = self.xs[number + 1] - self.xs[number] if number < last else STEP_WIDE
        return round(self.xs[number] + wide * (place - number), 1)

    def _ends(self, each: Traveller, top: float) -> tuple[float, float, float, float]:
        """Where it sets off and where it ends; what crosses within one step is steep, and a second copy leaves where the first one is."""
        y0, y1 = top + self.lanes[each.source], top + self.lanes[each.target]
        if each.t1 - each.t0 <= HOP_S + 0.01:
            middle = self._x(round((each.t0 + each.t1) / 2 - 0.01))
            x0, x1 = middle - 2, middle + 2
        else:
            x0, x1 = self._x(each.t0), self._x(each.t1)
        first = next((one for one in self.ways if one.ref == each.ref and one.target == each.target and one.t0 < each.t0 < one.t1), None)
        if each.ref and first is not None:
            y0 += (y1 - y0) * (x0 - self._x(first.t0)) / (self._x(first.t1) - self._x(first.t0))
        return x0, y0, x1, y0 + (y1 - y0) * each.reach

    def _way(self, each: Traveller, top: float, has_head: bool) -> str:
        """From lane to lane, or as far as it came."""
        x0, y0, x1, y1 = self._ends(each, top)
        turn = atan2(y1 - y0, x1 - x0)
        x1, y1 = (x1 - BEFORE * cos(turn), y1 - BEFORE * sin(turn)) if has_head else (x1, y1)
        left, right = (f"{-7 * cos(turn + side):.1f} {-7 * sin(turn + side):.1f}" for side in (0.45, -0.45))
        head = f"l{left}M{x1:.0f} {y1:.0f}l{right}" if has_head else ""
        return f"M{x0:.0f} {y0:.0f}L{x1:.0f} {y1:.0f}{head}"

    def _draw_way(self, each: Traveller, top: float) -> Svg:
        """One that can be pointed at, or was lost: it ends at a cross."""
        has_fallen = is_lost(each)
        way = el("path", d=self._way(each, top, not has_fallen))
        colour, dash = (RED, "3 3") if has_fallen else (each.style.colour, None)
        parts = [group(way, fill="none", stroke=colour, stroke_width=1.4, stroke_dasharray=dash)]
        parts += [el("path", d=self._way(each, top, False), cls="kit-hit")] if each.ref else []
        if has_fallen:
            parts.append(draw_glyph(FALLEN, *self._ends(each, top)[2:]))
        return group(*parts, cls="kit-message" if each.ref else None, data_ref=each.ref or None)

    def number_legend(self, meaning: str) -> list[Item]:
        """What the numbers mean, where there are any."""
        return [(draw_number(1, 13, 9), meaning)] if any(self.numbers(step) is not None for step in self.trace) else []

    def legend(self, has_arrows: bool = True) -> list[Item]:
        """The signs, spells and arrows that occurred; arrows of one colour together."""
        words = {self.word_of(step) for step in self.trace if self.lane_of(step) in self.lanes}
        seen = {glyph for word, glyph in self.glyphs.items() if word in words}
        signs = [(draw_glyph(glyph, 13, 9), glyph.meaning) for glyph in dict.fromkeys(self.glyphs.values()) if glyph in seen]
        kinds = dict.fromkeys(bar.kind for _, bar, _ in self.spells)
        spells = [(swatch(kind), FILLS[kind].meaning) for kind in kinds if FILLS[kind].meaning]
        used = {each.style.name for each in self.ways if has_arrows}
        told: dict[str, str] = {}
        for style in STYLES.values():
            if style.name in used and style.meaning and style.meaning not in told.get(style.colour, ""):
                told[style.colour] = "; ".join([*filter(None, [told.get(style.colour)]), style.meaning])
        lines = [(el("path", d=ARROW, fill="none", stroke=colour, stroke_width=1.8), words) for colour, words in told.items()]
        lost = [(draw_glyph(FALLEN, 13, 9), FALLEN.meaning)] if any(map(is_lost, self.ways)) else []
        return [*signs, *spells, *tick_legend({*self.ticks} & words), *lines, *lost]


@lru_cache(256)
def _glyph(glyph: Glyph) -> Svg:
    return draw_glyph(replace(glyph, path=RIFT) if glyph.path == BROKEN_OFF else glyph, 0, 0)


@lru_cache(4_000)
def _word(line: str, y: int, is_bold: bool) -> Svg:
    return el("text", line, y=y, text_anchor="middle", font_size=11, font_weight="bold" if is_bold else None, **letter_paint("ink", 3))


def is_lost(each: Traveller) -> bool:
    """Whether it never came there; what is refused has arrived."""
    return each.fate in ("lost", "dropped")


def _apart_where_cut(ways: list[Traveller]) -> list[Traveller]:
    """Of those that one moment ends the earlier ones have come farther."""
    found = []
    ended: dict[object, list[float]] = {}
    for each in ways:
        if is_lost(each):
            ended.setdefault((each.source, each.target, each.t1), []).append(each.t0)
    for each in ways:
        together = sorted(ended.get((each.source, each.target, each.t1), []), reverse=True) if is_lost(each) else []
        found.append(replace(each, reach=(together.index(each.t0) + 1) / (len(together) + 1)) if together else each)
    return found


def spread(trace: Trace, lines_of: Callable[[Step], Sequence[str]], lane_of: Callable[[Step], str]) -> list[float]:
    """Places for the steps of a window's body: waits are told apart, and what stands at the signs of one lane does not touch."""
    x, last_ms, after_small = AXIS_LEFT * 1.0, trace.steps[0].at_ms if trace.steps else 0, False
    ends: dict[str, float] = {}  # of the last words on a lane
    found = []
    for step in trace:
        lines, lane = lines_of(step), lane_of(step)
        is_small, wait = not lines, max(0, step.at_ms - last_ms)
        least, most = (SMALL_WIDE, SMALL_WIDE / 2) if is_small and after_small else (STEP_WIDE, MOST_WAIT)
        x += least + min(most, round(7 * log2(1 + wait)))
        if lines:
            half = max(map(len, lines)) * CHAR / 2
            x = max(x, ends.get(lane, AXIS_LEFT - LABEL_GAP) + LABEL_GAP + half)
            ends[lane] = x + half
        last_ms, after_small = step.at_ms, is_small
        found.append(float(round(x)))
    return found


def windowed(scene: Scene, lanes: Lanes, y: float) -> None:
    """Give a scene the lanes as a body that is longer than the picture, with the times below it."""
    foot, end = scene.foot, (lanes.xs[-1] if lanes.xs else AXIS_LEFT) + 200
    line = el("path", d=f"M{AXIS_LEFT} {foot}H{end:g}", cls="grey-line", stroke_width=0.7)

    def draw(since: float, until: float, without: int) -> Svg:
        ticks = (tick for x, tick in draw_ticks(lanes.trace, lanes.xs, foot) if since <= x and x + 60 <= until)
        return group(line, *ticks, *lanes.draw_part(y, since, until, without))

    scene.window = Window(group(*lanes.draw_names(y)), draw, lanes.xs, lanes.signs, round(y + 14))


def draw_number(number: int, x: float, y: float) -> Svg:
    """A number in a disc."""
    told = el("text", f"{number}", cls="paper", x=x, y=y + 4, text_anchor="middle", font_size=11, font_weight="bold")
    return group(el("circle", cx=x, cy=y, r=8, cls="ink"), told)
