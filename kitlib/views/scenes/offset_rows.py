"""The rows above the log in the pictures of the offsets topic, of compacted topics and of replicas: who did what, when.

A row has ticks for what is often and signs for what is rare. Below are charts of numbers over the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import CHAR, LEFT
from kitlib.views.pictures.history import figure, stair
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes.lanes import Lanes, Spell
from kitlib.views.scenes.log_panel import KeyedLog
from kitlib.views.scenes.timeline import (
    TICKS,
    Drawn,
    Item,
    Panel,
    Row,
    Spans,
    bars,
    compose,
    glyphs_of,
)
from kitlib.views.stage.deeds import is_refused
from kitlib.views.stage.score import State
from kitlib.views.svg import Svg, el, group, letter_paint, line_paint
from kitlib.words.glyphs import BLUE, DISC, ORANGE, RED, Glyph

ROW_TALL, CHART_TALL = 28, 70
LOGS = frozenset({"offsets log", "log"})
NO_CONSUMERS = LOGS | {"cleaner", "operator", "broker", "controller", "monitor", "producer", "coordinator"}
SIGN_WORDS = (  # in the legend's order
    "write_many", "roll", "clean", "pass", "compact", "purge", "delete", "dies", "move",
    "load_failed", "evict", "alter", "forget", "start", "reset", "gap", "error", "told", "none", "wait",
)  # fmt: skip
LOG_WORDS = frozenset({"write", "tombstone", "write_many", "roll", "clean", "compact", "purge", "delete"})
LANE_WORDS = {
    "its answers": ("told", "none", "wait", "move", "load_failed", "evict", "alter", "forget"), "the cleaner": ("pass", "dies"),
}  # fmt: skip
ANSWERS = {
    "told": Glyph("it answers with an offset", DISC, "ink", 0.8, BLUE),
    "none": Glyph("it answers −1: no offset", DISC, RED, 2.4, "paper"),
    "wait": Glyph("it answers: try again", DISC, ORANGE, 2.4, "paper"),
}
SPELL_WORDS = frozenset({"move", "load_begin", "load", "load_end", "load_failed", "answer"})  # which tell who answers now
CONSUMER_WORDS = frozenset({"start", "process", "again", "commit", "reset", "gap", "error"})
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
    rows: list[Row] = field(default_factory=list)
    further: list[Item] = field(default_factory=list)  # of the legend

    def steps(self, wanted: Callable[[Step], object]) -> list[tuple[Step, float]]:
        """The steps that are wanted, with their places."""
        return [(step, x) for step, x in zip(self.trace.steps, self.xs, strict=True) if wanted(step)]

    def add(self, row: Lanes | Spans) -> None:
        """A row, and what its legend explains."""
        self.rows.append(row)
        self.further += row.legend()

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
        once = list({item[1]: item for item in (*self.further, *legend)}.values())
        return compose(self.trace, self.xs, title, question, self.rows, panels, panel_height, once, gap=8, below=24)


def words_of(trace: Trace, is_shared: bool = False) -> list[str]:
    """The word whose sign or tick stands for each step; "" where nothing came of it.

    What is processed once more has a word of its own: by the same reader, or where the work `is_shared` by any of them.
    """
    done, found = set[tuple[object, ...]](), list[str]()
    for step in trace:
        word, data = step.what, step.data
        where = is_shared or step.actor, data.get("topic"), data.get("partition"), data.get("offset")
        if word == "process":
            word = "again" if where in done else word
            done.add(where)
        elif word == "commit":
            word = "" if is_refused(step) or not data.get("written", True) else word
        elif word == "answer":
            word = "wait" if is_refused(step) else "none" if data.get("offset") == -1 else "told"
        elif is_shared and step.actor == "operator" and word in ("alter", "forget"):
            word = "" if is_refused(step) else "operator"
        elif word in ("write", "append") and step.actor in LOGS:
            values = data.get("values", [data.get("value", "")])
            word = "tombstone" if isinstance(values, list) and None in values and "members" not in data else "write"
        found.append(word)
    return found


def log_lanes(trace: Trace, xs: Sequence[float], *rows: str) -> Lanes:
    """The rows above a log of those that are asked for: the log, the coordinator and its answers, the cleaner, and the consumers.

    The cleaner's line ends where it dies. A row of which nothing is told is left out.
    """
    words, consumers = words_of(trace), list[str]()

    def lane_of(step: Step) -> str:
        word = words[step.number]
        if word in LOG_WORDS and (step.actor in LOGS or word not in ("write", "tombstone")):
            return "the log"
        if word in CONSUMER_WORDS and "topic" in step.data and step.actor.split(" ")[0] not in NO_CONSUMERS:
            consumers.extend([step.actor] if step.actor not in consumers else [])
            return step.actor
        return next((lane for lane, those in LANE_WORDS.items() if word in those), "")

    told = {lane_of(step) for step in trace}
    states = coordinator_states(trace) if "coordinator" in rows else []
    spells: list[Spell] = [("coordinator", bar, None) for bar in bars(states, xs)]
    names = [row for row in rows if row in told or (row == "coordinator" and spells)]
    names += consumers[:MOST_CONSUMERS] if "consumers" in rows else []
    died: list[tuple[float, State]] = [(float(step.number), "down") for step in trace if step.what == "dies"][:1]
    return Lanes(
        trace, xs, glyphs_of(trace, SIGN_WORDS, ANSWERS), lane_of, spells, word_of=lambda step: words[step.number], names=names,
        ticks=TICKS, states={"the cleaner": [(0.0, "up"), *died]}, is_staged=False, pitch=ROW_TALL,
    )  # fmt: skip


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
