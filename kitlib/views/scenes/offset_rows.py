"""The rows above the log in the pictures of the offsets topic, of compacted topics and of replicas: who did what, when.

A row has ticks for what is often and signs for what is rare. Below are charts of numbers over the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import CHAR, LEFT
from kitlib.views.pictures.clock import figure
from kitlib.views.pictures.history import stair
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.log_panel import KeyedLog
from kitlib.views.scenes.timeline import (
    TICKS,
    Drawn,
    Item,
    Mark,
    Panel,
    Row,
    Spans,
    apart,
    bars,
    compose,
    draw_glyph,
    draw_tick,
    glyph_legend,
    glyphs_of,
    named_line,
    tick_legend,
)
from kitlib.views.stage.deeds import is_refused
from kitlib.views.svg import Svg, el, group, letter_paint, line_paint
from kitlib.words.glyphs import BLUE, DISC, ORANGE, RED, Glyph

ROW_TALL, CHART_TALL = 28, 70
LOGS = frozenset({"offsets log", "log"})
NO_CONSUMERS = LOGS | {"cleaner", "operator", "broker", "controller", "monitor", "producer", "coordinator"}
SIGN_WORDS = (  # in the legend's order
    "write_many", "clean_many", "roll", "clean", "pass", "compact", "purge", "delete", "dies", "move",
    "load_failed", "evict", "alter", "forget", "start", "reset", "gap", "error", "told", "none", "wait",
)  # fmt: skip
LOG_WORDS = frozenset({"write_many", "clean_many", "roll", "clean", "compact", "purge", "delete"})
ANSWERS = {
    "told": Glyph("it answers with an offset", DISC, "ink", 0.8, BLUE),
    "none": Glyph("it answers −1: no offset", DISC, RED, 2.4, "paper"),
    "wait": Glyph("it answers: try again", DISC, ORANGE, 2.4, "paper"),
}
SPELL_WORDS = frozenset({"move", "load_begin", "load", "load_end", "load_failed", "answer"})  # which tell who answers now
CONSUMER_WORDS = frozenset({"start", "emit", "process", "commit", "reset", "error"})
MOST_CONSUMERS, LONG_NAME = 3, 10
Scale = Callable[[int], float]  # the height at which a number lies


class Curve(NamedTuple):
    """One number over the run: as a line, or as a surface down to the foot."""

    points: Sequence[tuple[float, int | None]]
    colour: str = "ink"
    opacity: float = 1.0
    title: str = ""
    thick: float = 2  # of a line; 0: a surface
    dash: str | None = None


@dataclass(slots=True)
class Strip:
    """The rows of a run, and what the legend must explain."""

    trace: Trace
    xs: list[float]
    variants: Mapping[str, Glyph] = field(default_factory=lambda: ANSWERS)  # glyphs of what is no word by itself
    order: Sequence[str] = SIGN_WORDS  # of the signs in the legend
    rows: list[Row] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    further: list[Item] = field(default_factory=list)  # of the legend

    def steps(self, wanted: Callable[[Step], object]) -> list[tuple[Step, float]]:
        """The steps that are wanted, with their places."""
        return [(step, x) for step, x in zip(self.trace.steps, self.xs, strict=True) if wanted(step)]

    def add(self, row: Lanes | Spans) -> None:
        """A row, and what its legend explains."""
        self.rows.append(row)
        self.further += row.legend()

    def add_line(self, name: str, word_of: Callable[[Step], str], line: Mark | None = None) -> None:
        """A named row with a tick or a sign for each step that `word_of` names one for; left out where there is none."""
        found = [(word, x) for step, x in self.steps(lambda step: True) if (word := word_of(step))]
        if not found:
            return
        self.seen |= {word for word, _ in found}
        ticks = {what: [x for word, x in found if word == what] for what in TICKS}
        glyphs, signs = glyphs_of(self.trace, None, self.variants), [each for each in found if each[0] not in TICKS]
        placed = apart([x for _, x in signs], 11, 22)  # moved on a little where they would cover each other
        ref = f"process:{name}" if any(step.actor == name for step in self.trace) else None

        def draw(top: float) -> list[Svg]:
            y = top + 12
            head = named_line(name, y, 0.7, size=None, bold=True)
            drawn = [head[0], *line(y)] if line else head
            drawn += [draw_tick(what, xs, y) for what, xs in ticks.items() if xs]
            drawn += [draw_glyph(glyphs[what], x, y) for (what, _), x in zip(signs, placed, strict=True)]
            return [group(*drawn, data_ref=ref)] if ref else drawn

        self.rows.append(Drawn(ROW_TALL, draw))

    def add_log(self) -> None:
        """Writes, tombstones, and what is done to the log."""

        def word_of(step: Step) -> str:
            if step.actor not in LOGS or step.what not in ("write", "append"):
                return step.what if step.what in LOG_WORDS else ""
            values = step.data.get("values", [step.data.get("value", "")])
            return "tombstone" if isinstance(values, list) and None in values and "members" not in step.data else "write"

        self.add_line("the log", word_of)

    def add_coordinator(self) -> None:
        """Who answers for the group, while its cache is loaded, and what it answers."""
        states = coordinator_states(self.trace)
        if not any(states):
            return
        self.add(Spans({"coordinator": bars(states, self.xs)}))

        def word_of(step: Step) -> str:
            if step.what != "answer":
                return step.what if step.what in ("move", "load_failed", "evict", "alter", "forget") else ""
            return "wait" if is_refused(step) else "none" if step.data.get("offset") == -1 else "told"

        self.add_line("its answers", word_of)

    def add_cleaner(self) -> None:
        """A line while it runs, dashed from its death on."""
        dead = next((x for _, x in self.steps(lambda step: step.what == "dies")), None)

        def draw_life(y: float) -> list[Svg]:
            parts = [el("path", d=f"M{AXIS_LEFT} {y:g}H{AXIS_RIGHT if dead is None else dead:g}", cls="ink-line", stroke_width=1.6)]
            rest = el("path", d=f"M{dead or 0:g} {y:g}H{AXIS_RIGHT}", stroke=RED, stroke_width=1.6, stroke_dasharray="2 5")
            return parts if dead is None else [*parts, rest]

        self.add_line("the cleaner", lambda step: step.what if step.what in ("dies", "pass") else "", draw_life)

    def add_consumers(self) -> None:
        """What each consumer has worked on, once more in another sign, and its commits."""
        names = dict.fromkeys(
            step.actor
            for step in self.trace
            if step.what in CONSUMER_WORDS and "topic" in step.data and step.actor.split(" ")[0] not in NO_CONSUMERS
        )
        done: dict[str, set[tuple[object, object, object]]] = {name: set() for name in names}

        def word_of(step: Step, name: str) -> str:
            where = (step.data.get("topic"), step.data.get("partition"), step.data.get("offset"))
            if step.actor != name:
                return ""
            if step.what == "process":
                is_again = where in done[name]
                done[name].add(where)
                return "again" if is_again else "process"
            if step.what == "commit":
                return "commit" if step.data.get("written", True) else ""
            return step.what if step.what in ("start", "reset", "gap", "error") else ""

        for name in list(names)[:MOST_CONSUMERS]:
            self.add_line(plain_text(name, 12), lambda step, name=name: word_of(step, name))  # type: ignore[misc]

    def add_counts(self, logs: Sequence[KeyedLog | None]) -> None:
        """How many records lie in the log after each step: live ones, tombstones above, replaced ones on top."""
        counts = [(x, log.counts()) for x, log in zip(self.xs, logs, strict=True) if log is not None]
        levels = ((3, "grey", 0.3), (2, RED, 0.8), (1, BLUE, 0.8))  # from the highest stack down
        curves = [Curve([(x, sum(each[:upto])) for x, each in counts], colour, opacity, thick=0) for upto, colour, opacity in levels]
        self.add_chart("records", curves, "in the log")

    def add_chart(
        self, name: str, curves: Sequence[Curve], detail: str = "", tall: int = CHART_TALL, *,
        more: Callable[[Scale], list[Svg]] | None = None, at_foot: Callable[[float], list[Svg]] | None = None,
    ) -> None:  # fmt: skip
        """Numbers over the run on one scale, the first one lowest, `more` on it and what lies `at_foot`; nothing without numbers."""
        values = [value for curve in curves for _, value in curve.points if value is not None]
        if not values:
            return
        low, most = 0 if any(not curve.thick for curve in curves) else min(values), max(values)
        high = max(low + 1, most)

        def draw(top: float) -> list[Svg]:
            foot = top + tall + 6

            def y(value: int) -> float:
                return round(foot - 8 - (tall - 22) * (value - low) / (high - low), 1)

            is_long = len(name) > LONG_NAME
            has_room = (len(name) + len(figure(most))) * (CHAR + 1) < AXIS_LEFT - LEFT - 6  # for the highest number beside the name
            below = {"x": LEFT, "y": top + (55 if detail else 42)}
            number = {"x": AXIS_LEFT - 6, "y": y(most) + 4, "text_anchor": "end"} if has_room else below
            parts = [
                el("text", name, cls="ink", x=LEFT, y=top + 26, font_weight=None if is_long else "bold", font_size=11 if is_long else None),
                el("text", detail, cls="grey", x=LEFT, y=top + 40, font_size=11),
                el("text", figure(most), cls="grey", font_size=11, **number),
                el("text", figure(low) if 0 < low < most else "", cls="grey", font_size=11, **number | {"y": y(low) + 4}),
                el("path", d=f"M{AXIS_LEFT} {y(low):g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5),
                *(draw_curve(curve, y) for curve in curves if any(value is not None for _, value in curve.points)),
            ]
            return [group(*parts, *(more(y) if more else []), *(at_foot(foot) if at_foot else []))]

        self.rows.append(Drawn(tall + 6, draw))

    def compose(self, title: str, question: str, panels: Iterable[tuple[Panel, str]], panel_height: int, legend: Sequence[Item]) -> Scene:
        """The scene with these rows, each meaning once in the legend."""
        signs = glyph_legend(glyphs_of(self.trace, self.order, self.variants), self.seen - ({"pass"} if "clean" in self.seen else set()))
        once = list({item[1]: item for item in (*tick_legend(self.seen), *signs, *self.further, *legend)}.values())
        return compose(self.trace, self.xs, title, question, self.rows, panels, panel_height, once, gap=8, below=24)


def draw_curve(curve: Curve, y: Scale) -> Svg:
    """A stair with a corner where the value changes; a surface goes on to the end of the axis."""
    points = [point for place, point in enumerate(curve.points) if not place or point[1] != curve.points[place - 1][1]]
    points.append((AXIS_RIGHT if not curve.thick else curve.points[-1][0], curve.points[-1][1]))
    path, named = stair(points, y), [el("title", curve.title)] if curve.title else []
    opacity = curve.opacity if curve.opacity < 1 else None
    if curve.thick:
        line = {"stroke_width": curve.thick, "stroke_dasharray": curve.dash, **line_paint(curve.colour)}
        return el("path", *named, d=path, fill="none", opacity=opacity, **line)
    return el("path", *named, d=f"{path}V{y(0):g}H{points[0][0]:g}Z", opacity=opacity, **letter_paint(curve.colour))


def coordinator_states(trace: Trace) -> list[tuple[str, str] | None]:
    """Which broker answered for the group after each step, and how it was: ready, loading or failed."""
    found: list[tuple[str, str] | None] = []
    name, state = "", "ready"

    def told(name: str, state: str) -> tuple[str, str]:
        return state, f"{name}: {state}|{name}|{name[-1:]}"

    for step in trace:
        is_refusal = step.what == "answer" and is_refused(step)
        if step.actor.startswith("coordinator") and step.what in SPELL_WORDS and not is_refusal:
            before = broker_of(step.data.get("from", step.actor))
            name = broker_of(step.data.get("to", step.actor)) if step.what == "move" else plain_text(step.actor, 24)
            if step.what in ("load_begin", "load"):
                state = "loading"
            elif step.what == "load_failed" or (step.what == "load_end" and state != "failed"):
                state = "failed" if step.what == "load_failed" else "ready"
            if not any(found) and step.what != "load_begin":  # so it was from the beginning on
                found = [told(before if step.what == "move" else name, state)] * len(found)
        found.append(told(name, state) if name else None)
    return found


def broker_of(name: object) -> str:
    """A coordinator by its name or by its broker's number."""
    return f"coordinator {name}" if isinstance(name, int) else plain_text(name, 24)
