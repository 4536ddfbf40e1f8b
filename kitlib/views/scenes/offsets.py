"""The offsets topic as a log, the coordinator that answers from its cache of it, and the consumers who believe the answer.

Time runs to the right: what is written to the log and taken out of it, who answers for the group and whether
its cache is still being loaded, and what the consumers do with the answers. The panel is the log after the
step with the live record of each key, and the cache beside what the log says. Where a run tells its writes and no
more, the log is put together from them; of records that others write only their number is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kitlib.errors import TraceError
from kitlib.experiments.offsets.signs import commits_in, lane_of, samples_in
from kitlib.trace import Step, Trace
from kitlib.views.look import LEFT
from kitlib.views.pictures.clock import figure
from kitlib.views.pictures.history import short, stair
from kitlib.views.pictures.signs import SIGNS_TALL, draw_rows, look_for_signs, signs_legend
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes.log_panel import (
    OTHERS,
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
from kitlib.views.scenes.offset_rows import Strip, last_known
from kitlib.views.scenes.timeline import draw_axis, places
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLUE, RED
from kitlib.words.offsets import OFFSETS

PARTS = {
    "all": "What does the log hold, and what does the coordinator answer?",
    "load": "What does the cache know while it is loaded?",
    "signs": "Which signs could have been seen, and when?",
}
HAS_RECORDS = True
LOAD_WORDS = frozenset({"move", "load_begin", "load", "load_end", "load_failed", "evict", "answer"})
MOST_LANES = 16  # partitions that are looked at for signs
MOST_KEYS = 3  # whose cached offsets are followed
KEY_TALL = 56
SIGNS_LEFT = 176  # the rows of signs have longer names


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; "load" gives the loads more room and follows what is cached, "signs" shows what a monitor saw."""
    if part == "signs":
        return signs_scene(trace)
    xs = places(trace, room=_room_in_load if part == "load" else None)
    states = states_of(trace)
    labels = labels_of(states)
    logs = last_known(states, lambda state: keyed_log(state, labels))
    strip = Strip(trace, xs)
    if part == "all":
        strip.add_log()
    strip.add_coordinator()
    if part == "load":
        strip.y += 8
        _add_cached(strip, logs)
    else:
        strip.add_cleaner()
        strip.add_consumers()
        strip.add_chart(logs)
        strip.add_sizes()
    most = boxes_in(logs)
    log_room = 22 + log_tall(logs, most)
    cache_room = max((cache_tall(len(log.own)) for log in logs if log is not None and log.cache is not None), default=0)
    legend = strip.legend() + box_legend(logs, True)
    panels = _panels(trace, logs, log_room, most)
    return strip.compose("The offsets topic", PARTS[part], panels, log_room + cache_room if any(logs) else 0, legend)


def _panels(trace: Trace, logs: list[KeyedLog | None], log_room: int, most: int) -> Iterator[tuple[list[Svg] | None, str]]:
    """The log after each step, and the cache below it, each row a piece; and both in words."""
    head = el("text", "The log", cls="ink", x=LEFT, y=12, font_weight="bold")
    cleaned_to: int | None = None
    for step, log in zip(trace.steps, logs, strict=True):
        if step.what in ("clean", "pass") and isinstance(step.data.get("to"), int):
            cleaned_to = step.data["to"]
        if log is None:
            yield None, ""
            continue
        rows = [group(row, transform="translate(0 18)") for row in draw_log(log, cleaned_to=cleaned_to, most=most)]
        yield [head, *rows, *(group(row, transform=f"translate(0 {log_room})") for row in draw_cache(log))], log_words(log)


def _room_in_load(step: Step) -> float:
    return 30.0 if step.what in LOAD_WORDS else 0.12  # days of waiting take some room, too


def _add_cached(strip: Strip, logs: list[KeyedLog | None]) -> None:
    """For each of a few keys: what the cache holds of it, and thinly what the log says."""
    changes: dict[str, int] = {}
    last: dict[str, int] = {}
    for log in logs:
        for name in log.own if log is not None else ():
            held = -1 if log is None or log.cache is None else log.cache.get(name, -1)
            changes[name] = changes.get(name, 0) + (last.get(name) != held)
            last[name] = held
    asked = {
        f"{step.data.get('group')} {step.data.get('topic')}-{step.data.get('partition')}" for step in strip.trace if step.what == "answer"
    }
    for name in sorted(changes, key=lambda each: (each not in asked, -changes[each]))[:MOST_KEYS]:
        points: list[tuple[float, int | None]] = []
        says: list[tuple[float, int | None]] = []
        for x, log in zip(strip.xs, logs, strict=True):
            if log is not None:
                points.append((x, None if log.cache is None else log.cache.get(name)))
                told = log.values.get(name)
                says.append((x, told if isinstance(told, int) else None))
        strip.drawn.append(_draw_cached(name, points, says, strip.y))
        strip.y += KEY_TALL
        strip.seen.add("cached")


def _draw_cached(name: str, points: list[tuple[float, int | None]], says: list[tuple[float, int | None]], top: float) -> Svg:
    known = [value for _, value in points + says if value is not None] or [0]
    low, high = min(known), max(known)

    def y(value: int) -> float:
        return round(top + 44 - 34 * ((value - low) / (high - low) if high > low else 0.5), 1)

    gone = "".join(f"M{x:.1f} {top + 50:g}h3" for x, value in points if value is None)
    return group(
        el("text", el("title", name), short(name, 13), cls="ink", x=LEFT, y=top + 24, font_size=11),
        el("text", figure(high), cls="grey", x=LEFT, y=top + 40, font_size=11),
        el("path", d=stair(says, y), fill="none", cls="grey-line", stroke_width=4, opacity="0.5"),
        el("path", d=stair(points, y), fill="none", stroke=BLUE, stroke_width=2),
        el("path", el("title", "not in the cache: an answer would be −1"), d=gone or "M0 0", stroke=RED, stroke_width=3),
        el("path", d=f"M{AXIS_LEFT} {top + 53:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5),
    )


@dataclass(frozen=True, slots=True)
class StepClock:
    """Where a time lies on an axis that is laid out by steps: at the last step that is not later."""

    times_ms: list[int]
    xs: list[float]
    left: float
    right: float

    def x(self, at_ms: int) -> float:
        """The place of a time."""
        place = bisect_right(self.times_ms, at_ms) - 1
        return self.xs[place] if place >= 0 else self.left


def lane_of_signs(trace: Trace) -> tuple[str, int]:
    """The partition with the most signs, the first one of a run without any. TraceError when no step is about one."""
    first = lane_of(trace)
    lanes = dict.fromkeys(
        (str(step.data["topic"]), int(step.data.get("partition", 0))) for step in trace if step.what == "commit" and "topic" in step.data
    )
    looks = {lane: look_for_signs(commits_in(trace, *lane), samples_in(trace, *lane)) for lane in list(lanes)[:MOST_LANES]}
    weights = {lane: (len(seen.moments_ms), len(seen.steps), len(seen.surges) + len(seen.spikes)) for lane, seen in looks.items()}
    return max(weights, key=lambda lane: weights[lane], default=first)


def signs_scene(trace: Trace) -> Scene:
    """What a monitor would have seen of one partition in a run, with the signs in it; for any run with commits.

    It is put together by hand: its curves lie over the time axis.
    """
    xs = places(trace, left=SIGNS_LEFT, room=lambda step: OFFSETS.room(step.what))
    clock = StepClock([step.at_ms for step in trace], xs, SIGNS_LEFT, AXIS_RIGHT)
    scene = Scene("The signs of an offset that goes back", PARTS["signs"], height=SIGNS_TALL + 30, top=0, bottom=SIGNS_TALL + 6)
    drawn = [draw_axis(trace, xs, SIGNS_TALL + 6, SIGNS_LEFT)]
    words = "nobody has committed anything in this run"
    try:
        lane = lane_of_signs(trace)
        seen = look_for_signs(commits_in(trace, *lane), samples_in(trace, *lane))
        drawn.append(draw_rows(seen, clock))
        words = f"partition {lane[1]}: {seen.sentence}"
    except TraceError:
        drawn.append(el("text", words, cls="ink", x=SIGNS_LEFT, y=40))
    scene.body, scene.legend = group(*drawn), signs_legend()
    for step, x in zip(trace.steps, xs, strict=True):
        scene.add_step(x, trace.sentence(step), None, words)
    return scene


def states_of(trace: Trace) -> list[Mapping[str, Any]]:
    """The state of each step with its log in `offsets`: as it is told, or else put together."""
    if any("offsets" in step.state for step in trace):
        return [step.state for step in trace]
    if not any(step.what == "write" and "key" in step.data for step in trace):
        return [step.state for step in trace]
    writes = _Writes()
    return [writes.after(step) for step in trace]


class _Writes:
    """The log so far."""

    def __init__(self) -> None:
        self.records: list[list[Any]] = []
        self.keys: dict[str, int] = {}
        self.shown: list[list[Any]] = []

    def after(self, step: Step) -> Mapping[str, Any]:
        """The state after the next step."""
        told = step.state.get("coordinator")
        log = told if isinstance(told, dict) else {}
        if step.what == "write" and "key" in step.data:
            if "members" not in step.data:  # the group's own records are no offsets, and leave a gap here
                self._add(int(step.data["offset"]), str(step.data["key"]), step.data["value"])
        elif step.what == "write_many":
            first = self.records[-1][0] + 1 if self.records else 0
            for number in range(int(step.data["records"])):
                self._add(first + number, f"{OTHERS}{number % max(1, int(step.data['keys'])) + 1}", number)
        if not self.records:
            return step.state
        loading = log.get("loading")
        cache = log["cache"] if isinstance(log.get("cache"), dict) else None
        end = self.records[-1][0] + 1
        return {
            **step.state,
            "offsets": {
                "records": self.shown, "keys": list(self.keys), "segments": [[0, end, True]], "cache": cache,
                "cached": log.get("cached"), "loading": loading,
            },
        }  # fmt: skip

    def _add(self, offset: int, key: str, value: Any) -> None:
        self.records.append([offset, self.keys.setdefault(key, len(self.keys)), value])
        self.shown = list(self.records)
