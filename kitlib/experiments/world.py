"""The world of a story: one clock, what is to be done later, and messages with which anything may happen.

A run declares in `takes` what a script, a player or `every_fault` can do to its messages and its processes. A message is sent by
`send_message`, or by `carry` where the run itself knows what becomes of it: it comes once, late, twice or never. Processes break in
`break_process` and go on in `mend_process`; what they do by themselves is asked of `next_wake`: who acts next, and when.

The clock is virtual. Where the time is that of a model or of a real broker, a run overrides `now_ms` and `wait_until`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kitlib.experiments.run import Run
from kitlib.experiments.script import Intervention

Action = Callable[[], None]
NEVER = 2**63  # later than any time of a run
LOST_MS = 10_000  # from a lost message to the end of its connection, if nobody ends it before; as in the proxy


@dataclass(slots=True)
class Line:
    """A connection: messages come in the order in which they left, and behind a lost one all are lost until the connection ends."""

    end: Action  # what the network does when nothing has come for LOST_MS
    number: int = 0  # counts connections; what left on an older one never comes
    silent: set[str] = field(default_factory=set)  # kinds of messages of which one was lost
    ends_ms: int = NEVER
    last_ms: dict[str, int] = field(default_factory=dict)  # kind of message -> when the last one comes

    def cut(self) -> None:
        """What is under way never comes, and what leaves from now on is on another connection."""
        self.number, self.ends_ms = self.number + 1, NEVER
        self.silent.clear()
        self.last_ms.clear()


@dataclass(slots=True)
class World(Run):
    """A run with a clock, an agenda, and messages on lines."""

    clock_ms: int = 0
    agenda: list[tuple[int, int, Action]] = field(default_factory=list)  # heap: (ms, order in which it was added, what to do)
    added: int = 0
    lines: dict[str, Line] = field(default_factory=dict)

    @property
    def now_ms(self) -> int:
        return self.clock_ms

    def wait_until(self, at_ms: int) -> None:
        """Let time pass until then; where something happens by itself, perhaps less."""
        self.clock_ms = max(self.clock_ms, at_ms)

    def after(self, ms: int, action: Action, line: Line | None = None) -> None:
        """Do this later; not if it is about a line that has been cut by then."""
        self.added += 1
        act = action if line is None else partial(self._unless_cut, line, line.number, action)
        heapq.heappush(self.agenda, (self.now_ms + ms, self.added, act))

    def _unless_cut(self, line: Line, number: int, action: Action) -> None:
        if line.number == number:
            action()

    def line(self, name: str, end: Action) -> Line:
        """The line of this name; a new one ends in this way when it is silent for too long."""
        return self.lines.setdefault(name, Line(end))

    def send_message(self, kind: str, number: int, ms: int, arrive: Action, **data: Any) -> bool:
        """The message of this number leaves, as `carry` has it; what a script does to it the network's steps tell, with these data."""
        return self.carry(kind, self.interventions.on(kind, number), ms, arrive, partial(self.record, "network", **data))

    def carry(
        self, kind: str, done: Intervention | None, ms: int, arrive: Action, tell: Callable[..., None], line: Line | None = None,
        again: Action | None = None, is_lost_at_once: bool = True,
    ) -> bool:
        """A message leaves, and arrives after `ms` unless something else is `done` to it; whether it arrives at all.

        `tell` is called with "lose_<kind>" (as it leaves, or when it would have come), "delay" and its `ms`, or "duplicate_<kind>".
        """
        verb, late_ms = ("", 0) if done is None else (done.verb, done.ms or 0)
        come_ms = max(self.now_ms + ms, line.last_ms.get(kind, 0) if line else 0) + late_ms
        if verb == "delay":
            tell("delay", ms=late_ms)
        if line is not None:
            line.silent |= {kind} if verb == "lose" else set()
            line.last_ms[kind] = come_ms
        if verb == "lose" or (line is not None and kind in line.silent):
            if is_lost_at_once:
                self._drop(kind, tell, line)
            else:
                self.after(come_ms - self.now_ms, lambda: self._drop(kind, tell, line), line)
            return False
        self.after(come_ms - self.now_ms, arrive, line)
        if verb == "double":
            tell(f"duplicate_{kind}")
            self.after(come_ms - self.now_ms, again or arrive, line)
        return True

    def _drop(self, kind: str, tell: Callable[..., None], line: Line | None) -> None:
        if line is not None:
            line.ends_ms = min(line.ends_ms, self.now_ms + LOST_MS)
        tell(f"lose_{kind}")

    def run_for(self, ms: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass; ends early when `until()` holds."""
        end_ms = self.now_ms + ms
        while not until():
            at_ms, act = self.next_deed()
            if self.now_ms < (wake_ms := min(at_ms, end_ms)):
                self.wait_until(wake_ms)
            if at_ms == wake_ms and at_ms <= self.now_ms:
                act()
            elif self.now_ms >= end_ms:
                return

    def next_deed(self) -> tuple[int, Action]:
        """What is done next, and when; at the same time the agenda comes first, then the script, silent lines, and who wakes."""
        due_ms, act = (self.agenda[0][0], self._act) if self.agenda else (NEVER, self.meet)
        if (turn_ms := self.interventions.turn_ms) is not None and turn_ms < due_ms:
            due_ms, act = turn_ms, self.meet
        for line in self.lines.values():
            if line.ends_ms < due_ms:
                due_ms, act = line.ends_ms, partial(self._end_line, line)
        wake_ms, wake = self.next_wake()
        return (wake_ms, wake) if wake_ms < due_ms else (due_ms, act)

    def _end_line(self, line: Line) -> None:
        line.ends_ms = NEVER
        line.end()

    def _act(self) -> None:
        heapq.heappop(self.agenda)[2]()

    def next_wake(self) -> tuple[int, Action]:
        """Who does something by itself next: when, and what."""
        return NEVER, lambda: None
