"""What is to be done later, in virtual time: for the runs that keep a clock of their own."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

Action = Callable[[], None]


@dataclass(slots=True)
class Agenda:
    """Actions by their time in ms; those of the same time in the order in which they were added."""

    _entries: list[tuple[int, int, Action]] = field(default_factory=list)
    _added: int = 0

    def add(self, at_ms: int, action: Action) -> None:
        """Do something at a time."""
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
