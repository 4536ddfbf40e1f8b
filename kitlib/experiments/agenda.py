"""What is to be done later, in virtual time, and a run that keeps such a clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from kitlib.experiments.run import Run

Action = Callable[[], None]
NEVER = 2**63  # later than any time of a run


@dataclass(slots=True)
class AgendaRun(Run):
    """A run in virtual time: its clock, and what is to be done later."""

    now_ms: int = 0
    agenda: list[tuple[int, int, Action]] = field(default_factory=list)  # heap: (ms, order in which it was added, what to do)
    added: int = 0

    def after(self, ms: int, action: Action) -> None:
        self.added += 1
        heapq.heappush(self.agenda, (self.now_ms + ms, self.added, action))

    def run_for(self, ms: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let virtual time pass; ends early when `until()` holds."""
        end_ms = self.now_ms + ms
        while not until():
            wake_ms, act = self.next_wake()
            at_ms = self.agenda[0][0] if self.agenda else NEVER
            if min(at_ms, wake_ms) > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, min(at_ms, wake_ms))
            if at_ms <= wake_ms:
                *_, act = heapq.heappop(self.agenda)
            act()

    def next_wake(self) -> tuple[int, Action]:
        """What goes on besides the agenda, whose entries of the same time come first: when it is due next, and what is done then."""
        return NEVER, lambda: None
