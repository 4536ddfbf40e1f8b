"""What is to be done later, in virtual time, and a run that keeps such a clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from kitlib.experiments.run import Run

Action = Callable[[], None]
NEVER = 2**63  # later than any time of a run


@dataclass(slots=True)
class Agenda:
    """Actions by their time in ms; those of the same time in the order in which they were added."""

    _entries: list[tuple[int, int, Action]] = field(default_factory=list)
    _added: int = 0

    def add(self, at_ms: int, action: Action) -> None:
        self._added += 1
        heapq.heappush(self._entries, (at_ms, self._added, action))

    def next_ms(self, otherwise: int) -> int:
        """When the next one is due; `otherwise` when there is none."""
        return self._entries[0][0] if self._entries else otherwise

    def pop(self) -> tuple[int, Action]:
        """Take the next one off: its time, and what to do. IndexError when there is none."""
        at_ms, _, action = heapq.heappop(self._entries)
        return at_ms, action

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(slots=True)
class AgendaRun(Run):
    """A run in virtual time: its clock, and what is to be done later."""

    now_ms: int = 0
    agenda: Agenda = field(default_factory=Agenda)

    def after(self, ms: int, action: Action) -> None:
        self.agenda.add(self.now_ms + ms, action)

    def run_for(self, ms: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let virtual time pass; ends early when `until()` holds."""
        end_ms = self.now_ms + ms
        while not until():
            wake_ms, act = self.next_wake()
            at_ms = self.agenda.next_ms(otherwise=NEVER)
            if min(at_ms, wake_ms) > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, min(at_ms, wake_ms))
            if at_ms <= wake_ms:
                _, act = self.agenda.pop()
            act()

    def next_wake(self) -> tuple[int, Action]:
        """What goes on besides the agenda, whose entries of the same time come first: when it is due next, and what is done then."""
        return NEVER, lambda: None
