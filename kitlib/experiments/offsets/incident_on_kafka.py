"""An incident on a real broker: a real group, and an operator who does what the old coordinator would have said.

The model is told the story first (`kitlib.experiments.offsets.offsets_run`). Then its delivery words are done
for real, in their order: records are appended and deleted, a real consumer reads, works and commits, is closed,
and comes back. Where the model's coordinator answers something else than what is committed, the real group's
offset is set to that, or deleted, while nobody is a member.

Left out of the real run: the offsets topic's own steps; days (they pass at once).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kitlib.experiments.backend import Backend, ModelBackend
from kitlib.experiments.groups.group import MemberSettings
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.offsets.offsets_run import NAME, OffsetsRun
from kitlib.experiments.run import Fork, RunIsOver
from kitlib.trace import Step, Trace


@dataclass(slots=True)
class RealIncident(GroupRun):
    """One run of an incident on a real broker."""

    answered: int | None = None  # what the model's coordinator said last; None: no offset
    pending: int = 0  # records that A has been handed by the model and not yet for real

    def replay(self, story: Callable[[OffsetsRun], None]) -> None:
        """Tell the story to the model, then do it."""
        name = self.trace.run
        imagined = OffsetsRun(Trace(name, self.trace.experiment, domain=self.trace.domain), ModelBackend(name), dict(self.knobs))
        cut: RunIsOver | None = None
        try:
            story(imagined)
        except RunIsOver as over:  # what it had told until then is done
            cut = over
        self.create(1)
        for step in imagined.trace:
            self.do(step)
        if cut:
            raise cut

    def do(self, step: Step) -> None:
        """Do for real what one step of the model tells."""
        data = step.data
        match step.actor, step.what:
            case "log", "append":
                self.append(0, data["last"] - data["first"] + 1)
            case "log", "delete":
                self.delete_before(0, data["to"])
            case _, "answer":
                self.answered = None if data["offset"] < 0 else data["offset"]
            case (who, "leave") if who == NAME:
                self.close(NAME)
            case (who, "start") if who == NAME:
                self._resume()
            case (who, "emit") if who == NAME:
                self.pending += 1
            case (who, "commit") if who == NAME:
                self._work(data["offset"])

    def _resume(self) -> None:
        """The group's offset becomes what the model was answered, if it is something else; then A begins."""
        committed = self.group.committed()[0]
        if self.answered is None and committed is not None:
            self.forget([0])
        elif self.answered is not None and self.answered != committed:
            self.alter({0: self.answered})
        settings = MemberSettings(auto_offset_reset=self.knobs["auto_offset_reset"], max_poll_records=self.knobs["poll_records"])
        self.join(NAME, settings)
        self.settle([NAME])

    def _work(self, next_offset: int) -> None:
        self.work(NAME, self.take(NAME, self.pending))
        self.pending = 0
        self.commit(NAME, {0: next_offset})


def incident_run(trace: Trace, backend: Backend, knobs: dict[str, Any], fork: Fork | None = None) -> OffsetsRun | RealIncident:
    """The run of an incident on its backend."""
    return (RealIncident if backend.name == "kafka" else OffsetsRun)(trace, backend, knobs, fork)
