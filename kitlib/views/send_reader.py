"""Where everything is that was sent, after each step: read from the steps' states, or from their words alone.

The model writes its path into every state. A real client shows only what was seen of it, so there the
same is put together from the words: a record is in a batch from its send to its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kitlib.trace import Step, Trace


@dataclass(frozen=True, slots=True)
class BatchShown:
    """A batch in a queue or in flight."""

    number: int
    records: int
    bytes: int = 0  # 0: not known
    attempts: int = 0  # before this one
    node: int | None = None  # where it is going


@dataclass(frozen=True, slots=True)
class PathShown:
    """The whole path after a step."""

    calls: tuple[tuple[int, str], ...] = ()  # record -> what its call waits for
    queues: tuple[tuple[str, tuple[BatchShown, ...]], ...] = ()  # partition -> its batches, the next one first
    in_flight: tuple[tuple[str, BatchShown], ...] = ()  # partition, batch
    stored: tuple[tuple[str, int], ...] = ()  # partition -> records in the log
    memory: tuple[int, int, int] | None = None  # available, total, waiting calls; None: not known


def paths(trace: Trace) -> Iterator[PathShown]:
    """The path after each step."""
    words = _Words()
    for step in trace.steps:
        words.take(step)
        told = step.state.get("path")
        yield _of_state(told) if isinstance(told, dict) else words.shown()


def _of_state(path: dict[str, Any]) -> PathShown:
    queues = tuple(
        (str(partition), tuple(BatchShown(batch, count, size, attempts) for batch, count, size, attempts in queue))
        for partition, queue in path["queues"].items()
    )
    in_flight = tuple((str(part), BatchShown(batch, count, node=node)) for _, batch, part, count, node in path["in_flight"])
    calls = tuple((record, waits_for) for record, waits_for in path["calls"])
    available, total, waiting = path["memory"]
    return PathShown(calls, queues, in_flight, tuple(path["stored"].items()), (available, total, waiting))


@dataclass(slots=True)
class _Words:
    """The path put together from what was said."""

    calls: dict[int, str] = field(default_factory=dict)
    queues: dict[str, dict[int, int]] = field(default_factory=dict)  # partition -> batch -> records
    in_flight: dict[int, tuple[str, BatchShown]] = field(default_factory=dict)  # batch -> where it is
    stored: dict[str, int] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Follow one step."""
        data, partition = step.data, str(step.data.get("partition", 0))
        batch = data.get("batch")
        count = data.get("last", 0) - data.get("first", 0) + 1
        match step.what:
            case "blocked" if "record" in data:
                self.calls[data["record"]] = str(data.get("on", "metadata"))
            case "returned":
                self.calls.pop(data.get("record", -1), None)
            case "send":
                self.calls.pop(data.get("record", data["first"]), None)
                if batch is not None:
                    queue = self.queues.setdefault(partition, {})
                    queue[batch] = queue.get(batch, 0) + count
            case "request" if batch is not None:
                self.queues.get(partition, {}).pop(batch, None)
                self.in_flight[batch] = partition, BatchShown(batch, count, attempts=data.get("attempt", 0), node=data.get("node"))
            case "requeue" if batch is not None:
                self.in_flight.pop(batch, None)
                self.queues.setdefault(partition, {})[batch] = count
            case "answer" | "no_answer" | "delivered" | "undelivered" | "expire" if batch is not None:
                self.in_flight.pop(batch, None)
                self.queues.get(partition, {}).pop(batch, None)
            case "write":
                self.stored[partition] = max(self.stored.get(partition, 0), data["offset"] + count)

    def shown(self) -> PathShown:
        """The path now."""
        queues = tuple(
            (partition, tuple(BatchShown(batch, count) for batch, count in queue.items()))
            for partition, queue in sorted(self.queues.items())
        )
        return PathShown(tuple(self.calls.items()), queues, tuple(self.in_flight.values()), tuple(sorted(self.stored.items())))
