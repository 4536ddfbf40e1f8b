"""The offsets topic as a log, the coordinator that answers from its cache of it, and the consumers who believe the answer.

Time runs to the right: what is written to the log and taken out of it, who answers for the group and whether
its cache is still being loaded, and what the consumers do with the answers. The panel is the log after the
step with the live record of each key, and the cache beside what the log says. A real coordinator tells neither.
"""

from __future__ import annotations

from collections.abc import Iterator

from kitlib.trace import Step, Trace
from kitlib.views.look import LEFT
from kitlib.views.pictures.history import short
from kitlib.views.scene import Scene
from kitlib.views.scenes.log_panel import (
    KeyedLog,
    box_legend,
    boxes_in,
    cache_tall,
    draw_cache,
    draw_log,
    keyed_log,
    labels_of,
    log_tall,
    log_words,
)
from kitlib.views.scenes.offset_rows import Curve, Strip, log_lanes
from kitlib.views.scenes.signs import QUESTION, signs_scene
from kitlib.views.scenes.timeline import as_before, places
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLUE, RED

PARTS = {
    "all": "What does the log hold, and what does the coordinator answer?",
    "load": "What does the cache know while it is loaded?",
    "signs": QUESTION,
}
LOAD_WORDS = frozenset({"move", "load_begin", "load", "load_end", "load_failed", "evict", "answer"})
MOST_KEYS = 3  # whose cached offsets are followed
KEY_TALL = 50


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; "load" gives the loads more room and follows what is cached, "signs" shows what a monitor saw."""
    if part == "signs":
        return signs_scene(trace)
    xs = places(trace, room=_room_in_load if part == "load" else None)
    labels = labels_of(step.state for step in trace)
    logs = as_before(keyed_log(step.state, labels) for step in trace)
    strip = Strip(trace, xs)
    coordinator = "coordinator", "its answers"
    if part == "load":
        strip.add(log_lanes(trace, xs, *coordinator))
        _add_cached(strip, logs)
    else:
        strip.add(log_lanes(trace, xs, "the log", *coordinator, "the cleaner", "consumers"))
        strip.add_counts(logs)
    most = boxes_in(logs)
    log_room = 22 + log_tall(logs, most)
    cache_room = max((cache_tall(len(log.values)) for log in logs if log is not None and log.cache is not None), default=0)
    panels = log_panels(trace, logs, log_room, most)
    tall = log_room + cache_room if any(logs) else 0
    return strip.compose("The offsets topic", PARTS[part], panels, tall, box_legend(logs, True))


def log_panels(trace: Trace, logs: list[KeyedLog | None], log_room: int, most: int) -> Iterator[tuple[list[Svg] | None, str]]:
    """The log after each step, and the cache below it where there is one, each row a piece; and both in words."""
    head = el("text", "The log", cls="ink", x=LEFT, y=12, font_weight="bold")
    cleaned_to: int | None = None
    for step, log in zip(trace.steps, logs, strict=True):
        cleaned_to = cleaned_after(step, cleaned_to)
        if log is None:
            yield None, ""
            continue
        rows = [group(row, transform="translate(0 18)") for row in draw_log(log, cleaned_to=cleaned_to, most=most)]
        yield [head, *rows, *(group(row, transform=f"translate(0 {log_room})") for row in draw_cache(log))], log_words(log)


def cleaned_after(step: Step, before: int | None) -> int | None:
    """How far the cleaner has come after a step."""
    to = step.data.get("to")
    return to if step.what in ("clean", "pass") and isinstance(to, int) else before


def _room_in_load(step: Step) -> float:
    return 30.0 if step.what in LOAD_WORDS else 0.12  # days of waiting take some room, too


def _add_cached(strip: Strip, logs: list[KeyedLog | None]) -> None:
    """For each of a few keys: what the cache holds of it, and thinly what the log says."""
    changes: dict[str, int] = {}
    last: dict[str, int] = {}
    known = [(x, log) for x, log in zip(strip.xs, logs, strict=True) if log is not None]
    for _, log in known:
        for name in log.values:
            held = -1 if log.cache is None else log.cache.get(name, -1)
            changes[name] = changes.get(name, 0) + (last.get(name) != held)
            last[name] = held
    asked = {
        f"{step.data.get('group')} {step.data.get('topic')}-{step.data.get('partition')}" for step in strip.trace if step.what == "answer"
    }
    for name in sorted(changes, key=lambda each: (each not in asked, -changes[each]))[:MOST_KEYS]:
        cached = [(x, None if log.cache is None else log.cache.get(name)) for x, log in known]
        says = [(x, told if isinstance(told := log.values.get(name), int) else None) for x, log in known]
        gone = [x for x, value in cached if value is None]

        def draw_gone(foot: float, gone: list[float] = gone) -> list[Svg]:
            path = "".join(f"M{x:.1f} {foot - 4:g}h3" for x in gone) or "M0 0"
            return [el("path", el("title", "not in the cache: an answer would be −1"), d=path, stroke=RED, stroke_width=3)]

        curves = [Curve(says, "grey", 0.5, "what the log says", 4), Curve(cached, BLUE)]
        strip.add_chart(short(name, 13), curves, "", KEY_TALL, at_foot=draw_gone)
    if changes:
        stair = "M2 12H13V6H24"
        strip.further += [
            (el("path", d=stair, fill="none", stroke=BLUE, stroke_width=2), "the offset in the cache"),
            (el("path", d=stair, fill="none", cls="grey-line", stroke_width=4, opacity="0.5"), "what the log says"),
            (el("path", d="M4 9h3m4 0h3m4 0h3", stroke=RED, stroke_width=3), "not in the cache"),
        ]
