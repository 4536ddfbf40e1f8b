"""What the offsets topic holds in a run that tells its writes and no more: the log is put together from them.

Of records that others write only their number is told: their keys are taken in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kitlib.trace import Step, Trace
from kitlib.views.log_panel import OTHERS


def states_of(trace: Trace) -> list[Mapping[str, Any]]:
    """The state of each step with its log in `offsets`: as it is told, or else put together."""
    if any("offsets" in step.state for step in trace):
        return [step.state for step in trace]
    if not any(step.what == "write" and "key" in step.data for step in trace):
        return [step.state for step in trace]
    writes = _Writes()
    return [writes.after(step) for step in trace]


class _Writes:
    """The log so far."""

    def __init__(self) -> None:
        self.records: list[list[Any]] = []
        self.keys: dict[str, int] = {}
        self.shown: list[list[Any]] = []

    def after(self, step: Step) -> Mapping[str, Any]:
        """The state after the next step."""
        told = step.state.get("coordinator")
        log = told if isinstance(told, dict) else {}
        if step.what == "write" and "key" in step.data:
            if "members" not in step.data:  # the group's own records are no offsets, and leave a gap here
                self._add(int(step.data["offset"]), str(step.data["key"]), step.data["value"])
        elif step.what == "write_many":
            first = self.records[-1][0] + 1 if self.records else 0
            for number in range(int(step.data["records"])):
                self._add(first + number, f"{OTHERS}{number % max(1, int(step.data['keys'])) + 1}", number)
        if not self.records:
            return step.state
        loading = log.get("loading")
        cache = log["cache"] if isinstance(log.get("cache"), dict) else None
        end = self.records[-1][0] + 1
        return {
            **step.state,
            "offsets": {
                "records": self.shown, "keys": list(self.keys), "segments": [[0, end, True]], "cache": cache,
                "cached": log.get("cached"), "loading": loading,
            },
        }  # fmt: skip

    def _add(self, offset: int, key: str, value: Any) -> None:
        self.records.append([offset, self.keys.setdefault(key, len(self.keys)), value])
        self.shown = list(self.records)
