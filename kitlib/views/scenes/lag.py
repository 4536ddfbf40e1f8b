"""A monitor's run: what it reads of log end and commit, and what it makes of the window of commits.

Time runs to the right: where the log ended and what was committed, records in and out, and the lag. The top row is
the monitor's word from one judgement to the next. The panel is the window as the monitor has it after the step, with
the rule that fires.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.mechanisms.lag import Commit, Judgement, Status, Window
from kitlib.monitor.lag_window import LagStorage
from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.pictures.lag_window import draw_panel, judge_window
from kitlib.views.scene import Scene
from kitlib.views.scenes.offset_rows import Strip
from kitlib.views.scenes.signs import add_signs
from kitlib.views.scenes.timeline import Spans, as_before, bars, places
from kitlib.views.svg import Svg
from kitlib.words.offsets import LAG

PARTS = {
    "all": "What is the lag, and what does the monitor make of it?",
}
HAS_RECORDS = True
READS_END_S = 10  # how often Burrow v1.9.5 reads the log's end (offset-refresh), as a judgement after silence takes it


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace, room=lambda step: LAG.room(step.what))
    strip, said = Strip(trace, xs), bars(_said(trace), xs)
    strip.rows += [Spans({"monitor says": said})] if said else []
    add_signs(strip)  # where nobody has read or committed anything the monitor's word stands alone
    monitor = _Monitor()
    panels = [monitor.panel(step) for step in trace]
    return strip.compose("A monitor of the lag", PARTS[part], panels, monitor.tall, [])


@dataclass(slots=True)
class _Monitor:
    """The monitor's storage, filled again from what the trace says it read."""

    storage: LagStorage = field(default_factory=LagStorage)
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
        if step.actor != "monitor" or step.what not in ("lag", "judge"):
            return None
        silence_s = int(data.get("silence_s", 0)) if step.what == "judge" else 0
        if step.what == "lag":
            self._add(step, where, data["end"] if "end" in data else data["log_end"], data.get("committed"))
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


def _said(trace: Trace) -> list[tuple[str, str] | None]:
    """What the monitor's word is after each step."""
    told = (_told(step.data).status.name if step.what == "judge" and step.actor == "monitor" else None for step in trace)
    return [None if name is None else (name, name) for name in as_before(told)]
