"""What every run is: a trace that is written, where it takes place, its settings, its fork and its end.

A domain's run adds the verbs of its stories and the state that its steps show; when a fork takes over and
when a run is cut is decided here, as each step is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from kitlib.experiments.script import Intervention, Interventions, MissedError
from kitlib.settings import Settings
from kitlib.trace import Trace, add_to_ranges
from kitlib.words.word import Range

if TYPE_CHECKING:
    from kitlib.experiments.kafka_backend import Backend

MAX_STEPS = 20_000  # a run that goes on for ever is cut here


class RunStopped(Exception):
    """Whoever asked for the run wants it no more; it ends at its next step, and what it opened is closed."""


class RunIsOver(Exception):
    """The trace has room for one more step, which says that the run was cut; the experiment ends here."""

    def __init__(self, max_steps: int) -> None:
        super().__init__(max_steps)
        self.max_steps = max_steps


@dataclass(frozen=True, slots=True)
class Fork:
    """From step `at` on, these settings replace the run's own."""

    at: int
    settings: dict[str, Any]


@dataclass(slots=True)
class PartitionLedger:
    """A partition as a verdict reads it from a step: where its log begins and ends, and how far one reader has come."""

    topic: str
    partition: int = 0
    log_start: int = 0
    log_end: int = 0  # the offset of the next record
    emitted_to_offset: int = 0  # the next offset that the reader is handed
    committed_to: int = 0
    processed: list[Range] = field(default_factory=list)
    _shown: list[Range] | None = None  # as the last step shows it, until more is processed

    @property
    def place(self) -> dict[str, Any]:
        """Which partition it is, as a step's data says it."""
        return {"topic": self.topic, "partition": self.partition}

    def process(self, offset: int) -> None:
        """The reader has done its work on this record."""
        add_to_ranges(self.processed, offset)
        self._shown = None

    def cut_to(self, end: int) -> None:
        """The log ends here now, and what lay behind it is gone."""
        self.log_end, self._shown = end, None
        self.processed = [[first, min(last, end - 1)] for first, last in self.processed if first < end]

    def log_state(self) -> dict[str, Any]:
        """The log and what was processed of it, as a step's state holds them; what has not changed is the list of the step before."""
        if self._shown is None:
            self._shown = [list(each) for each in self.processed]
        return {"log_start": self.log_start, "log_end": self.log_end, "processed": self._shown}

    def state(self) -> dict[str, Any]:
        """The same with how far the reader has come."""
        return self.log_state() | {"committed_to": self.committed_to, "emitted_to_offset": self.emitted_to_offset}


@dataclass(slots=True)
class Run:
    """One run of a story, on the model or on a real broker."""

    domain: ClassVar[str]  # whose words its trace is told in
    takes: ClassVar[tuple[str, ...]] = ()  # the interventions of a script: their lines, with N, D, T or TASK for what a line names
    model_script: ClassVar[str] = ""  # why they can be done on the model alone; "" when a real run takes them as well
    real_takes: ClassVar[tuple[str, ...]] = ()  # those of them that a real run takes all the same
    on_kafka: ClassVar[str] = ""  # the run that takes this one's place on Kafka, "module:Class"; "" where one does for both

    simulated: ClassVar[str] = ""  # of a run on a broker, what is not real beside topic and stored offset; else ""

    trace: Trace
    backend: Backend
    settings: Settings  # the live ones change at the fork
    fork: Fork | None = None
    interventions: Interventions = field(default_factory=Interventions)
    is_stopped: Callable[[], bool] = lambda: False  # asked at each step
    most_steps: int = 0  # where the trace is cut; known from the first step on

    @property
    def now_ms(self) -> int:
        """The time of the next step, in ms since the run began: of a clock of its own, or of what the run is on."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What a step shows beside its data."""
        return {}

    def record(self, actor: str, what: str, /, **data: Any) -> None:
        """Write the next step, at the present time, with the run's state."""
        self.write(self.now_ms, actor, what, data, self.state())

    def record_in(self, ledger: PartitionLedger, actor: str, what: str, /, **data: Any) -> None:
        """Write the next step about a partition, with its ledger."""
        self.write(self.now_ms, actor, what, ledger.place | data, ledger.state() | self.state())

    def write(self, at_ms: int, actor: str, what: str, data: dict[str, Any], state: dict[str, Any]) -> None:
        """Write the next step; at the fork's one its knobs take over.

        Raises RunIsOver when len(trace) >= max_steps - 1 then, RunStopped when it is to end, and TraceError as `Trace.append`.
        """
        if self.is_stopped():
            raise RunStopped
        self.trace.append(at_ms, actor, what, data, state)
        if self.fork and len(self.trace) == self.fork.at + 1:
            self.settings.update(self.fork.settings)
            self.apply_settings()
        self.most_steps = self.most_steps or min(MAX_STEPS, self.settings.max_steps)
        if len(self.trace.steps) >= self.most_steps - 1:
            raise RunIsOver(self.most_steps)

    def apply_settings(self) -> None:
        """Put settings into force that a fork has changed; most runs read theirs when they need them."""

    @property
    def script_ms(self) -> int:
        """The clock by which a script breaks processes."""
        return self.now_ms

    def meet(self) -> None:
        """Do to processes what the script asks for by now. ScriptError when there is no such process, or none that can be broken."""
        while (turn := self.interventions.next_turn(self.script_ms)) is not None:
            found, begins = turn
            (self.break_process if begins else self.mend_process)(found)

    def break_process(self, found: Intervention) -> None:
        """A process dies or stands still; ScriptError when it cannot."""
        raise NotImplementedError

    def mend_process(self, found: Intervention) -> None:
        """It is back; nothing when the story has seen to that, or has let it die for good."""
        raise NotImplementedError

    def no_process(self, found: Intervention, kind: str, names: Iterable[str]) -> MissedError:
        """That a line of the script names none of these, which are there at that time."""
        there = ", ".join(names) or "none"
        return MissedError(f'{self.trace.experiment}: "{found}" names no {kind} that runs then. Running: {there}. Change that line.')

    def tell(self, story: Callable[..., None], /, **given: Any) -> None:
        """Tell the story with its knobs. A run that has only observed what the story is about does so in its own way."""
        story(self, **given)
