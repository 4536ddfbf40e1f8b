"""A monitor's run: what it reads of log end and commit, and what it makes of the window of commits.

Time runs to the right: where the log ended and what was committed, records in and out, and the lag. The top row is
the monitor's word from one judgement to the next. The panel is the window as the monitor has it after the step, with
the rule that fires.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.errors import TraceError
from kitlib.experiments.offsets.signs import commits_in, samples_in
from kitlib.mechanisms.lag import Commit, Judgement, Status, Window
from kitlib.monitor.lag_window import LagStorage
from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import CHAR, LEFT
from kitlib.views.pictures.lag_window import STATUS_PAINT, draw_panel, judge_window
from kitlib.views.pictures.signs import SIGNS_TALL, draw_rows, look_for_signs, signs_legend
from kitlib.views.scene import AXIS_RIGHT, Scene
from kitlib.views.scenes.offsets import SIGNS_LEFT, StepClock, lane_of_signs
from kitlib.views.scenes.timeline import Drawn, compose, places
from kitlib.views.svg import Svg, el, group, letter_paint
from kitlib.words.offsets import LAG

PARTS = {
    "all": "What is the lag, and what does the monitor make of it?",
    "window": "Which rule fires, and on what?",
}
HAS_RECORDS = True
BAND_TALL = 26
READS_END_S = 10  # how often Burrow v1.9.5 reads the log's end (offset-refresh), as a judgement after silence takes it


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; "window" leaves the curves away."""
    xs = places(trace, left=SIGNS_LEFT, room=lambda step: LAG.room(step.what))
    band = _draw_band(trace, xs)
    rows = [Drawn(BAND_TALL + 4, lambda y: [band])]
    if part == "all":
        clock = StepClock([step.at_ms for step in trace], xs, SIGNS_LEFT, AXIS_RIGHT)
        try:
            lane = lane_of_signs(trace)
            curves = draw_rows(look_for_signs(commits_in(trace, *lane), samples_in(trace, *lane)), clock)
            rows.append(Drawn(SIGNS_TALL, lambda y: [group(curves, transform=f"translate(0 {y:g})")]))
        except TraceError:
            pass  # nobody has read or committed anything: the monitor's word stands alone
    monitor = _Monitor(sees_commits=not any(step.actor == "monitor" and step.what == "lag" for step in trace))
    panels = [monitor.panel(step) for step in trace]
    legend = signs_legend() if part == "all" else []
    title, tall = "A monitor of the lag", monitor.tall
    return compose(trace, xs, title, PARTS[part], rows, panels, tall, legend, begin=0, top=0, gap=6, below=24, left=SIGNS_LEFT)


@dataclass(slots=True)
class _Monitor:
    """The monitor's storage, filled again from what the trace says it read, or from the commits where it says nothing."""

    storage: LagStorage = field(default_factory=LagStorage)
    sees_commits: bool = False
    order: int = 0
    tall: int = 0  # of the highest panel
    words: str = ""

    def panel(self, step: Step) -> tuple[Svg | None, str]:
        """The window with its rules after a step, and the judgement; as before where the monitor does nothing."""
        looked = self.take(step)
        if looked is None:
            return None, self.words
        panel, height = draw_panel(*looked)
        self.tall, self.words = max(self.tall, height + 8), str(looked[1])
        return panel, self.words

    def take(self, step: Step) -> tuple[Window, Judgement] | None:
        """The window after a step of the monitor's, with its judgement; None for the others' steps."""
        data = step.data
        where = str(data.get("topic", "")), int(data.get("partition", 0))
        if self.sees_commits and step.what == "commit" and data.get("written", True) and not data.get("error"):
            self._add(step, where, step.state.get("log_end"), data.get("offset"))
        if step.actor != "monitor" or step.what not in ("lag", "judge"):
            return None
        silence_s = int(data.get("silence_s", 0)) if step.what == "judge" else 0
        if step.what == "lag":
            self._add(step, where, data["end"] if "end" in data else data["log_end"], data.get("committed"))
        elif self.sees_commits:
            self._add(step, where, step.state.get("log_end"), None)
        elif ends := self.storage.log_ends.get(where):
            for _ in range(min(silence_s // READS_END_S, self.storage.intervals)):
                self.storage.add_log_end(*where, ends[-1])
        windows = self.storage.windows("group", step.at_ms + silence_s * 1000) or {}
        window = windows.get(where) or Window([], [], int(data.get("lag") or 0), step.at_ms // 1000)
        judged = judge_window(window)
        if step.what == "judge":
            told = _told(data)
            return window, judged if told.status == judged.status and "rule" not in data else told
        return window, judged

    def _add(self, step: Step, where: tuple[str, int], end: Any, committed: Any) -> None:
        if isinstance(end, int):
            self.storage.add_log_end(*where, end)
        if isinstance(committed, int):
            self.order += 1
            self.storage.add_commit("group", *where, Commit(committed, step.at_ms, order=self.order), step.at_ms)


def _told(data: dict[str, Any]) -> Judgement:
    """The judgement as the monitor said it; what it says twice is said once."""
    name = str(data["status"])
    status = Status[name] if name in Status.__members__ else Status.NOTFOUND
    return Judgement(status, plain_text(data.get("rule", "none"), 30), plain_text(data["why"], 240).removeprefix(f"{name}: "))


def _draw_band(trace: Trace, xs: list[float]) -> Svg:
    """What the monitor said, from each judgement to the next."""
    found = [(step, x) for step, x in zip(trace.steps, xs, strict=True) if step.what == "judge" and step.actor == "monitor"]
    if not found:
        return Svg()
    parts = [el("text", "the monitor says", cls="ink", x=LEFT, y=BAND_TALL / 2 + 5, font_weight="bold")]
    for place, (step, x) in enumerate(found):
        end = found[place + 1][1] if place + 1 < len(found) else AXIS_RIGHT * 1.0
        said = _told(step.data)
        fill, text = STATUS_PAINT[said.status]
        box = {"x": x, "y": 4, "width": max(2.0, end - x), "height": BAND_TALL - 8}
        parts.append(el("rect", el("title", str(said)), fill=fill, cls="ink-line", stroke_width=0.8, **box))
        if len(said.status.name) * CHAR + 6 <= end - x:
            middle = {"x": (x + end) / 2, "y": BAND_TALL / 2 + 4, "font_size": 11, "text_anchor": "middle"}
            parts.append(el("text", said.status.name, **middle, **letter_paint(text)))
    return group(*parts)
