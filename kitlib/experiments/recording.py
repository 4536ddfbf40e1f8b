"""What every kind of run does alike when it writes a step: a fork takes over, a trace is cut, ledgers are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kitlib.trace import Trace, to_ranges
from kitlib.words.word import Range

if TYPE_CHECKING:
    from kitlib.storm.partition_manager import PartitionManager

MAX_STEPS = 20_000  # a run that goes on for ever is cut here


class RunIsOver(Exception):
    """The trace has room for one more step, which says that the run was cut; the experiment ends here."""

    def __init__(self, max_steps: int) -> None:
        super().__init__(max_steps)
        self.max_steps = max_steps


@dataclass(frozen=True, slots=True)
class Fork:
    """From step `at` on, these knobs replace the run's own."""

    at: int
    knobs: dict[str, Any]


def step_written(
    trace: Trace, knobs: dict[str, Any], fork: Fork | None, apply: Callable[[], object] = lambda: None
) -> None:
    """To be called after each step: at the fork's one its knobs take over, and `apply` puts them into force.

    Raises RunIsOver when len(trace) >= max_steps - 1.
    """
    if fork and len(trace.steps) == fork.at + 1:
        knobs.update(fork.knobs)
        apply()
    max_steps = min(MAX_STEPS, knobs.get("max_steps", MAX_STEPS))
    if len(trace.steps) >= max_steps - 1:
        raise RunIsOver(max_steps)


@dataclass(slots=True)
class ShownLedgers:
    """A partition's ledgers as the steps hold them; one that has not changed is the list of the step before."""

    before: dict[str, tuple[tuple[object, ...], list[Range]]] = field(default_factory=dict)

    def of_log(self, topic: str, bounds: tuple[int, int], processed: list[Range]) -> dict[str, Any]:
        """Where a topic's log begins and ends, and which of its records were processed, a growing list."""
        count = sum(last - first + 1 for first, last in processed)
        shown = self._ranges(f"processed {topic}", (count,), lambda: [list(found) for found in processed])
        return {"log_start": bounds[0], "log_end": bounds[1], "processed": shown}

    def of_manager(self, manager: PartitionManager, retries: int) -> dict[str, Any]:
        """What a PartitionManager holds. It is to be asked after each of its calls."""
        pending, waiting = manager.pending, manager.waiting_to_emit
        # Between two steps one call has happened, so these tell whether a ledger changed.
        pending_key = id(manager), manager.number_acked, len(pending), manager.emitted_to_offset
        waiting_key = id(manager), len(waiting), manager.emitted_to_offset, retries
        return {
            "committed_to": manager.committed_to,
            "emitted_to_offset": manager.emitted_to_offset,
            "pending": self._ranges("pending", pending_key, lambda: to_ranges(pending.members)),
            "failed": to_ranges(manager.failed_offsets()),
            "waiting": self._ranges("waiting", waiting_key, lambda: to_ranges(record.offset for record in waiting)),
            "number_acked": manager.number_acked,
            "number_failed": manager.number_failed,
            "retries": retries,
        }

    def _ranges(self, name: str, key: tuple[object, ...], make: Callable[[], list[Range]]) -> list[Range]:
        """A ledger as ranges; the list of the step before, when `key` says that nothing changed."""
        before = self.before.get(name)
        if before is None or before[0] != key:
            before = self.before[name] = key, make()
        return before[1]
