"""A compacted topic: the log before and after the cleaner, and what a reader of it knows of the keys.

Time runs to the right: writes, new segments, what the cleaner takes out, and the reader's work with the gaps it
meets. The panel is the log after the step with the live record of each key; part "before_after" shows the log as
it was before the last pass as well, with what that pass took out.
"""

from __future__ import annotations

from collections.abc import Iterator

from kitlib.trace import Trace
from kitlib.views.look import LEFT
from kitlib.views.scene import Scene
from kitlib.views.scenes.log_panel import (
    KeyedLog,
    box_legend,
    boxes_in,
    draw_log,
    keyed_log,
    labels_of,
    log_tall,
    log_words,
)
from kitlib.views.scenes.offset_rows import Strip, log_lanes
from kitlib.views.scenes.offsets import cleaned_after, log_panels
from kitlib.views.scenes.timeline import as_before, places
from kitlib.views.svg import Svg, el, group

PARTS = {
    "all": "Which record of each key is live, and what does the cleaner take out?",
    "before_after": "What was in the log before the cleaner came, and what is there now?",
}
PASSES = frozenset({"pass", "compact", "purge", "clean", "delete"})  # one after another they are one pass
HEAD = 18


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; "before_after" leaves the rows of events away but one."""
    xs = places(trace)
    labels = labels_of(step.state for step in trace)
    logs = as_before(keyed_log(step.state, labels) for step in trace)
    strip = Strip(trace, xs)
    strip.add(log_lanes(trace, xs, "the log", *(("the cleaner", "consumers") if part == "all" else ())))
    if part == "all":
        strip.add_counts(logs)
    most = boxes_in(logs)
    tall = HEAD + log_tall(logs, most)
    legend = box_legend(logs, any(step.what in ("pass", "clean") for step in trace), has_taken=part == "before_after")
    if part == "before_after":
        return strip.compose("A compacted topic", PARTS[part], _before_after(trace, logs, tall, most), 2 * tall, legend)
    return strip.compose("A compacted topic", PARTS[part], log_panels(trace, logs, tall, most), tall, legend)


def _before_after(trace: Trace, logs: list[KeyedLog | None], tall: int, most: int) -> Iterator[tuple[list[Svg] | None, str]]:
    """The log as it was before the last pass, with what that took out, and now, after each step; and in words."""
    before: KeyedLog | None = None
    after, cleaned_to, was_pass = set[int](), None, False  # what the last pass left, and how far it came
    for step, log, earlier in zip(trace.steps, logs, [None, *logs[:-1]], strict=True):
        is_pass = step.what in PASSES
        before = earlier if is_pass and not was_pass else before
        after = {offset for offset, _, _ in log.records} if is_pass and log is not None else after
        cleaned_to, was_pass = cleaned_after(step, cleaned_to), is_pass
        if log is None:
            yield None, ""
            continue
        if before:
            title, was, gone = "Before the last pass", before, {offset for offset, _, _ in before.records} - after
            rows = [group(row, transform=f"translate(0 {tall + HEAD})") for row in draw_log(log, set(), cleaned_to, most)]
            now = [el("text", "Now", cls="ink", x=LEFT, y=tall + 12, font_weight="bold"), *rows]
        else:
            title, was, gone = "Before the first pass", log, set()
            now = [el("text", "After it: the cleaner has not been here yet", cls="grey", x=LEFT, y=tall + 12)]
        head = el("text", title, cls="ink", x=LEFT, y=12, font_weight="bold")
        yield [head, *(group(row, transform=f"translate(0 {HEAD})") for row in draw_log(was, gone, None, most)), *now], log_words(log)
