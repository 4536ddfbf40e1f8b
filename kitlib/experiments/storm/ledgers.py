"""What the steps of Storm's runs show of a partition's ledgers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kitlib.storm.partition_manager import PartitionManager
from kitlib.trace import to_ranges
from kitlib.words.word import Range


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
