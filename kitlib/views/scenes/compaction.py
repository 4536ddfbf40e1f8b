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
from kitlib.views.scenes.offset_rows import Strip
from kitlib.views.scenes.timeline import as_before, places
from kitlib.views.svg import HATCH, Svg, el, group

PARTS = {
    "all": "Which record of each key is live, and what does the cleaner take out?",
    "before_after": "What was in the log before the cleaner came, and what is there now?",
}
HAS_RECORDS = True
PASSES = frozenset({"pass", "compact", "purge", "clean", "delete"})  # one after another they are one pass
HEAD = 18


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; "before_after" leaves the rows of events away but one."""
    xs = places(trace)
    labels = labels_of(step.state for step in trace)
    logs = as_before(keyed_log(step.state, labels) for step in trace)
    strip = Strip(trace, xs)
    strip.add_log()
    if part == "all":
        strip.add_cleaner()
        strip.add_consumers()
        strip.add_counts(logs)
    most = boxes_in(logs)
    tall = HEAD + log_tall(logs, most)
    legend = box_legend(logs, any(step.what in ("pass", "clean") for step in trace))
    if part == "before_after":
        legend.append((el("rect", x=3, y=2, width=20, height=14, fill=HATCH, cls="grey-line"), "taken out by the pass"))
    panels = _Panel(part, tall, most).over(trace, logs)
    return strip.compose("A compacted topic", PARTS[part], panels, tall * (2 if part == "before_after" else 1), legend)


class _Panel:
    """The log now, and as it was before the last pass."""

    def __init__(self, part: str, tall: int, most: int) -> None:
        self.part, self.tall, self.most = part, tall, most
        self.before: KeyedLog | None = None
        self.after: set[int] = set()  # what the last pass left
        self.cleaned_to: int | None = None
        self.was_pass = False

    def over(self, trace: Trace, logs: list[KeyedLog | None]) -> Iterator[tuple[list[Svg] | None, str]]:
        """The panel after each step, and what it shows in words."""
        for step, log, earlier in zip(trace.steps, logs, [None, *logs[:-1]], strict=True):
            self.follow(step.what, step.data.get("to"), log, earlier)
            yield (None, "") if log is None else (self.draw(log), log_words(log))

    def follow(self, what: str, to: object, log: KeyedLog | None, earlier: KeyedLog | None) -> None:
        """The next step: the log after it, and the log before it."""
        is_pass = what in PASSES
        if is_pass and not self.was_pass:
            self.before = earlier
        if is_pass and log is not None:
            self.after = {offset for offset, _, _ in log.records}
        if what in ("pass", "clean") and isinstance(to, int):
            self.cleaned_to = to
        self.was_pass = is_pass

    def draw(self, log: KeyedLog) -> list[Svg]:
        """The rows of the panel."""
        if self.part == "all":
            head = el("text", "The log", cls="ink", x=LEFT, y=12, font_weight="bold")
            return [head, *self._log(log, 0, set())]
        if self.before is None:
            return [
                el("text", "Before the first pass", cls="ink", x=LEFT, y=12, font_weight="bold"),
                *self._log(log, 0, set()),
                el("text", "After it: the cleaner has not been here yet", cls="grey", x=LEFT, y=self.tall + 12),
            ]
        gone = {offset for offset, _, _ in self.before.records} - self.after
        return [
            el("text", "Before the last pass", cls="ink", x=LEFT, y=12, font_weight="bold"),
            *self._log(self.before, 0, gone),
            el("text", "Now", cls="ink", x=LEFT, y=self.tall + 12, font_weight="bold"),
            *self._log(log, self.tall, set(), self.cleaned_to),
        ]

    def _log(self, log: KeyedLog, top: int, gone: set[int], cleaned_to: int | None = None) -> list[Svg]:
        cleaned = self.cleaned_to if self.part == "all" else cleaned_to
        return [group(row, transform=f"translate(0 {top + HEAD})") for row in draw_log(log, gone, cleaned, self.most)]
