"""The rows above the log in the pictures of the offsets topic and of compacted topics: who did what, when.

A row each for the log, for the broker that answers for the group, for the cleaner and for every consumer, and a
chart of how many records lie in the log: live ones, tombstones, and those that a later record has replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import LEFT
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes.log_panel import KeyedLog
from kitlib.views.scenes.timeline import (
    Drawn,
    Found,
    Item,
    Panel,
    apart,
    box_swatch,
    centred,
    compose,
    draw_glyph,
    draw_tick,
    glyph_legend,
    glyphs_of,
    occurred,
    tick_legend,
)
from kitlib.views.svg import HATCH, Svg, el, group
from kitlib.words.glyphs import BLACK, BLUE, DISC, ORANGE, RED, Glyph

ROW_TALL, BAND_TALL, CHART_TALL = 28, 18, 70
LOGS = frozenset({"offsets log", "log"})
NO_CONSUMERS = LOGS | {"cleaner", "operator", "broker", "controller", "monitor", "producer"}
SIGN_WORDS = (  # in the legend's order
    "write_many", "clean_many", "roll", "clean", "pass", "compact", "purge", "retention", "delete", "dies", "move",
    "load_failed", "evict", "alter", "forget", "start", "reset", "gap", "error",
)  # fmt: skip
LOG_WORDS = frozenset({"write_many", "clean_many", "roll", "clean", "compact", "purge", "retention", "delete"})
ANSWERS = {"offset": (BLUE, "it answers with an offset"), "none": (RED, "it answers −1: no offset"),
           "wait": (ORANGE, "it answers: try again")}  # fmt: skip
SPELL_WORDS = frozenset({"move", "load_begin", "load", "load_end", "load_failed", "answer"})  # which tell who answers now
CONSUMER_WORDS = frozenset({"start", "emit", "process", "commit", "reset", "error"})
NEAR = 11  # signs nearer than this are moved on


@dataclass(slots=True)
class Strip:
    """The rows as they are drawn, from `y` on downwards, and what the legend must explain."""

    trace: Trace
    xs: list[float]
    y: float = 8
    drawn: list[Svg] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    variants: Mapping[str, Glyph] = field(default_factory=dict)  # glyphs of what is no word by itself

    def steps(self, wanted: Callable[[Step], bool]) -> list[tuple[Step, float]]:
        """The steps that are wanted, with their places."""
        return [(step, x) for step, x in zip(self.trace.steps, self.xs, strict=True) if wanted(step)]

    def row(self, name: str, parts: Iterable[Svg], tall: float = ROW_TALL) -> None:
        """A named row; its middle is y = 0 for the parts."""
        label = el("text", name, cls="ink", x=LEFT, y=4, font_weight="bold")
        ref = f"process:{name}" if any(step.actor == name for step in self.trace) else None
        self.drawn.append(group(label, *parts, transform=f"translate(0 {self.y + tall / 2:g})", data_ref=ref))
        self.y += tall

    def signs(self, found: Found, gap: float = NEAR) -> list[Svg]:
        """Their glyphs, moved on where they would cover each other."""
        glyphs = glyphs_of(self.trace, None, self.variants)
        self.seen |= {what for what, _ in found}
        moved = apart([x for _, x in found], gap, 2 * gap)
        return [draw_glyph(glyphs[what], x, 0) for (what, _), x in zip(found, moved, strict=True)]

    def happened(self, words: Collection[str], actor: str | None = None) -> list[tuple[str, float]]:
        """What happened of some words, by anybody or by one actor, and where."""
        return [(step.what, x) for step, x in self.steps(lambda step: step.what in words and actor in (None, step.actor))]

    def add_log(self) -> None:
        """Writes as ticks, tombstones as red ones, and what is done to the log."""
        writes = self.steps(lambda step: step.actor in LOGS and step.what in ("write", "append"))
        ends: dict[bool, str] = {False: "", True: ""}
        for step, x in writes:
            values = step.data.get("values", [step.data.get("value", "")])
            is_tomb = isinstance(values, list) and None in values and "members" not in step.data
            ends[is_tomb] += f"M{x:.1f} -4v8"
            self.seen.add("tombstone" if is_tomb else "write")
        done = self.signs(self.happened(LOG_WORDS))
        line = el("path", d=f"M{AXIS_LEFT} 0H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7)
        ticks = [el("path", d=ends[False], stroke=BLUE, stroke_width=1.6)] if ends[False] else []
        ticks += [el("path", d=ends[True], stroke=RED, stroke_width=2.4)] if ends[True] else []
        self.row("the log", [line, *ticks, *done])

    def add_coordinator(self) -> None:
        """Who answers for the group, while its cache is loaded, and what it answers."""
        spells = coordinator_spells(self.trace, self.xs)
        if not spells:
            return
        boxes = []
        for x0, x1, name, state in spells:
            fill, paint = {"loading": (ORANGE, {"fill": BLACK}), "failed": (HATCH, {"cls": "ink"})}.get(state, ("none", {"cls": "ink"}))
            boxes.append(
                el("rect", el("title", f"{name}: {state}"), x=x0, y=-BAND_TALL / 2, width=max(1.0, x1 - x0), height=BAND_TALL,
                   fill=fill, cls="ink-line", stroke_width=0.8)
            )  # fmt: skip
            self.seen.add(state)
            if state != "failed":
                boxes += centred((f"{name}: {state}", name, name[-1:]), x0, x1, 4, paint)
        self.row("coordinator", boxes)
        paths = dict.fromkeys(ANSWERS, "")
        for step, x in self.steps(lambda step: step.what == "answer"):
            error = step.data.get("error") not in (None, "NONE")
            kind = "wait" if error else "none" if step.data.get("offset") == -1 else "offset"
            paths[kind] += f"M{x - 4.5:.1f} 0{DISC[7:]}"
            self.seen.add(kind)
        dots = [answer_path(kind, path) for kind, path in paths.items() if path]
        found = self.happened(("move", "load_failed", "evict", "alter", "forget"))
        if found or dots:
            self.row("its answers", [*self.signs(found), *dots])

    def add_cleaner(self) -> None:
        """A line while it runs, dashed from its death on."""
        found = self.happened(("dies", "pass"))
        dead = next((x for what, x in found if what == "dies"), None)
        if not found:
            return
        parts = [el("path", d=f"M{AXIS_LEFT} 0H{AXIS_RIGHT if dead is None else dead:g}", cls="ink-line", stroke_width=1.6)]
        if dead is not None:
            parts.append(el("path", d=f"M{dead:g} 0H{AXIS_RIGHT}", stroke=RED, stroke_width=1.6, stroke_dasharray="2 5"))
        self.row("the cleaner", [*parts, *self.signs(found)])

    def add_consumers(self) -> None:
        """What each consumer has worked on, once more in another sign, and its commits."""
        names = dict.fromkeys(
            step.actor
            for step in self.trace
            if step.what in CONSUMER_WORDS and "topic" in step.data and _is_consumer(step.actor)
        )
        for name in list(names)[:3]:
            ticks: dict[str, list[float]] = {"process": [], "again": [], "commit": []}
            done: set[tuple[object, object, object]] = set()
            for step, x in self.steps(lambda step, name=name: step.actor == name):  # type: ignore[misc]
                where = (step.data.get("topic"), step.data.get("partition"), step.data.get("offset"))
                if step.what == "process":
                    ticks["again" if where in done else "process"].append(x)
                    done.add(where)
                elif step.what == "commit" and step.data.get("written", True):
                    ticks["commit"].append(x)
            self.seen |= {kind for kind, found in ticks.items() if found}
            line = el("path", d=f"M{AXIS_LEFT} -2H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7)
            mine = self.happened(("start", "reset", "gap", "error"), name)
            drawn = [draw_tick(kind, found, -2) for kind, found in ticks.items() if found]
            self.row(plain_text(name, 12), [line, *drawn, *self.signs(mine)])

    def add_chart(self, logs: list[KeyedLog | None]) -> None:
        """How many records lie in the log after each step: live ones, tombstones above, replaced ones on top."""
        counts = [(x, log.counts()) for x, log in zip(self.xs, logs, strict=True) if log is not None]
        high = max(1, *(sum(each) for _, each in counts), 1)
        levels = ((3, None, 0.3, ""), (2, RED, 0.8, ""), (1, BLUE, 0.8, ""))  # from the highest stack down
        self._areas([([(x, sum(each[:upto])) for x, each in counts], *paint) for upto, *paint in levels], high)

    def add_sizes(self) -> None:
        """How many records the log holds where only their number is told, and thinly how many were ever written."""
        found = [(x, step.state["size"]) for step, x in self.steps(lambda step: isinstance(step.state.get("size"), dict))]
        levels = (("commits", None, 0.3, "ever written"), ("records", BLUE, 0.8, "in the log"))
        high = max(1, *(int(size["commits"]) for _, size in found), 1)
        self._areas([([(x, int(size[name])) for x, size in found], *paint) for name, *paint in levels], high)
        self.seen |= {"sizes"} if found else set()

    def _areas(self, levels: list[Any], high: int) -> None:
        """Surfaces over each other, each from its points with its colour (None: grey), opacity and title."""
        if not levels[0][0]:
            return
        self.y += 6
        foot = self.y + CHART_TALL
        parts = [
            el("text", "records", cls="ink", x=LEFT, y=self.y + 24, font_weight="bold"),
            el("text", "in the log", cls="grey", x=LEFT, y=self.y + 40, font_size=11),
            el("text", f"{high:,}", cls="grey", x=AXIS_LEFT - 6, y=self.y + 14, font_size=11, text_anchor="end"),
        ]
        for points, colour, opacity, title in levels:
            path = area(points, high, self.y + 10, foot)
            named = [el("title", title)] if title else []
            parts.append(el("path", *named, d=path, fill=colour, cls=None if colour else "grey", opacity=opacity))
        self.drawn.append(group(*parts))
        self.y = foot

    def compose(self, title: str, question: str, panels: Iterable[tuple[Panel, str]], panel_height: int, legend: list[Item]) -> Scene:
        """The scene with these rows, each meaning once in the legend."""
        rows, once = [Drawn(self.y - 8, lambda y: self.drawn)], list({item[1]: item for item in legend}.values())
        return compose(self.trace, self.xs, title, question, rows, panels, panel_height, once, gap=8, below=24)

    def legend(self) -> list[Item]:
        """What occurred."""
        seen, stair = self.seen, "M2 12H13V6H24"
        answers = {kind: group(answer_path(kind, "M-4.5 0" + DISC[7:]), transform="translate(13 9)") for kind in ANSWERS}
        writes = [
            ("write" in seen, el("path", d="M13 5v8", stroke=BLUE, stroke_width=1.6), "a record is written"),
            ("tombstone" in seen, el("path", d="M13 5v8", stroke=RED, stroke_width=2.4), "a tombstone is written"),
        ]
        states = [
            ("loading" in seen, box_swatch(fill=ORANGE, cls="ink-line"), "its cache is being loaded"),
            ("cached" in seen, el("path", d=stair, fill="none", stroke=BLUE, stroke_width=2), "the offset in the cache"),
            ("cached" in seen, el("path", d=stair, fill="none", cls="grey-line", stroke_width=4, opacity="0.5"), "what the log says"),
            ("cached" in seen, el("path", d="M4 9h3m4 0h3m4 0h3", stroke=RED, stroke_width=3), "not in the cache"),
            ("sizes" in seen, box_swatch(fill=BLUE, opacity=0.8), "records that lie in the log"),
            ("sizes" in seen, box_swatch(cls="grey", opacity=0.3), "records that were ever written"),
            ("failed" in seen, box_swatch(fill=HATCH, cls="ink-line"), "its cache is not all of the log"),
            *((kind in seen, answers[kind], meaning) for kind, (_, meaning) in ANSWERS.items()),
        ]
        signs = glyph_legend(glyphs_of(self.trace, SIGN_WORDS), seen - ({"pass"} if "clean" in seen else set()))
        return [*occurred(writes), *signs, *occurred(states), *tick_legend(seen)]


def _is_consumer(actor: str) -> bool:
    return actor not in NO_CONSUMERS and not actor.startswith(("coordinator", "broker"))


def answer_path(kind: str, path: str) -> Svg:
    """The dots of one kind of answer; hollow ones are no offsets."""
    colour = ANSWERS[kind][0]
    if kind == "offset":
        return el("path", d=path, fill=colour, cls="ink-line", stroke_width=0.8)
    return el("path", d=path, cls="paper", stroke=colour, stroke_width=2.4, stroke_dasharray="2 1.5" if kind == "wait" else None)


def coordinator_spells(trace: Trace, xs: list[float]) -> list[tuple[float, float, str, str]]:
    """From where to where which broker answered for the group, and how it was: ready, loading or failed."""
    spells: list[tuple[float, float, str, str]] = []
    name, state, since = "", "", AXIS_LEFT * 1.0
    for step, x in zip(trace.steps, xs, strict=True):
        is_refusal = step.what == "answer" and step.data.get("error") not in (None, "NONE")
        if not step.actor.startswith("coordinator") or step.what not in SPELL_WORDS or is_refusal:
            continue
        now_name, now_state = plain_text(step.actor, 24), state or "ready"
        if step.what == "move" and not name:
            name, state = broker_of(step.data.get("from", step.actor)), "ready"
        if step.what == "move":
            now_name = broker_of(step.data.get("to", step.actor))
        elif step.what in ("load_begin", "load"):
            now_state = "loading"
        elif step.what == "load_failed":
            now_state = "failed"
        elif step.what == "load_end":
            now_state = "failed" if state == "failed" else "ready"
        if (now_name, now_state) != (name, state):
            if name:
                spells.append((since, x, name, state))
            since = x if name or step.what == "load_begin" else since
            name, state = now_name, now_state
    if name:
        spells.append((since, AXIS_RIGHT * 1.0, name, state))
    return spells


def broker_of(name: object) -> str:
    """A coordinator by its name or by its broker's number."""
    return f"coordinator {name}" if isinstance(name, int) else plain_text(name, 24)


def area(points: list[tuple[float, int]], high: int, top: float, foot: float) -> str:
    """The surface below a stair, a corner only where the value changes."""
    path, last = [f"M{points[0][0]:g} {foot:g}"], foot
    for x, value in points:
        y = round(foot - (foot - top) * value / high, 1)
        if y != last:
            path.append(f"H{x:g}V{y:g}")
            last = y
    return "".join(path) + f"H{AXIS_RIGHT}V{foot:g}Z"


def last_known(states: Iterable[Mapping[str, object]], read: Callable[[Mapping[str, object]], KeyedLog | None]) -> list[KeyedLog | None]:
    """The log after each step: what a step does not tell is as before."""
    found: list[KeyedLog | None] = []
    for state in states:
        found.append(read(state) or (found[-1] if found else None))
    return found
