"""The one vocabulary that all rooms speak: what happened, in order.

A streaming system's promise can be judged only from what was done: which record was appended, handed
out, worked on, acknowledged, committed. A `Trace` is that history. An experiment turns its knobs into
a Trace; a verdict, a picture and the audit on Spark read nothing else. Steps are numbered from 0 and
never change; a fork keeps the steps up to one point and lets another future follow.

A run that is cut because it has as many steps as it may have says so in its last step, whatever it is
about: actor `run`, word `halt`, data `{max_steps}`.

Left out: what the other steps mean. A trace names its *domain*, and the words of that domain
(`kitlib.words`) say which verbs and fields its steps may have, and what they tell a learner.
"""

from __future__ import annotations

import html
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kitlib.errors import TraceError
from kitlib.settings import Settings
from kitlib.text import html_table, plain_text
from kitlib.trace_lines import BadLineError, parse, read_header, read_step
from kitlib.words import domain
from kitlib.words.fields import MOST_RECORDS, STATES
from kitlib.words.word import Domain, Range

SCHEMA = 2
MOST_SHOWN = 10_000  # characters of a step, or of a trace
RUN, HALT = "run", "halt"  # actor and word of the step that says that the run was cut


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened: when, who did it, what, with which data, and the state after it."""

    number: int  # 0, 1, 2, ... without gaps within a trace
    at_ms: int  # virtual time, or real milliseconds since the run began; never falls
    actor: str  # "log", "spout", "bolt", ...
    what: str  # the verb: "append", "emit", "ack", ...
    data: dict[str, Any]  # what the verb needs: offsets, reasons; JSON values only
    state: dict[str, Any] = field(default_factory=dict)  # of the actor's partition, for pictures

    @property
    def cut_at(self) -> int | None:
        """The `max_steps` that the run was cut at, if this step says that it was."""
        found = self.data.get("max_steps") if (self.actor, self.what) == (RUN, HALT) else None
        return found if isinstance(found, int) else None

    def __str__(self) -> str:
        told = ", ".join(f"{key}={value}" for key, value in self.data.items())
        return plain_text(f"#{self.number} at {self.at_ms} ms: {self.actor} {self.what}" + (f" ({told})" if told else ""), MOST_SHOWN)

    def to_json(self) -> str:
        """This step as one line of JSON, without the newline."""
        row = {"n": self.number, "at_ms": self.at_ms, "actor": self.actor, "what": self.what, "data": self.data}
        if self.state:
            row["state"] = self.state
        return json.dumps(row, separators=(",", ":"))


@dataclass(slots=True)
class Trace:
    """A run's settings, seed and backend, and every Step it took.

    `run` names the run in topics and files (a slug); `parent` is `{"run": ..., "at": step number}`
    for a fork and None otherwise.
    """

    run: str
    experiment: str
    backend: str = "model"
    seed: int = 1
    settings: Settings = field(default_factory=Settings)
    parent: dict[str, Any] | None = None
    steps: list[Step] = field(default_factory=list)
    domain: str = "spout"  # whose words the steps are told in; TraceError when there is no such domain
    script: list[str] = field(default_factory=list)  # what was done to the run, a line each (`kitlib.experiments.script`)
    simulated: str = ""  # what was not real in a run on a broker: "spout, bolt and clock"; else ""
    vocabulary: Domain = field(init=False, repr=False, compare=False)
    named: int = field(default=0, init=False, repr=False, compare=False)  # records in the ranges of the steps that were read

    def __post_init__(self) -> None:
        self.vocabulary, self.settings = domain(self.domain), Settings(self.settings)

    def append(self, at_ms: int, actor: str, what: str, data: dict[str, Any], state: dict[str, Any]) -> Step:
        """Append the next step and return it.

        TraceError when `at_ms` < the last step's, and when the domain does not declare the verb or its data.
        """
        self.vocabulary.check(actor, what, data)
        if self.steps and at_ms < self.steps[-1].at_ms:
            raise TraceError(
                f"trace {self.run}: step {len(self.steps)} ({what}) is at {at_ms} ms, "
                f"before the last one at {self.steps[-1].at_ms} ms. Time in a trace never falls."
            )
        step = Step(len(self.steps), at_ms, actor, what, data, state)
        self.steps.append(step)
        return step

    def record(self, at_ms: int, actor: str, what: str, *, state: dict[str, Any] | None = None, **data: Any) -> Step:
        """`append`, with the data as keywords."""
        return self.append(at_ms, actor, what, data, state or {})

    def halt(self, max_steps: int) -> Step:
        """Append the step that says that the run was cut; the state stays that of the step before."""
        at_ms, state = (self.steps[-1].at_ms, self.steps[-1].state) if self.steps else (0, {})
        return self.record(at_ms, RUN, HALT, state=state, max_steps=max_steps)

    @property
    def cut_at(self) -> int | None:
        """The `max_steps` that the run was cut at; None when its story came to its end."""
        return self.steps[-1].cut_at if self.steps else None

    def at(self, number: int) -> Step:
        """The step with this number. TraceError unless 0 <= number < len(trace)."""
        if not 0 <= number < len(self.steps):
            there = f". Expected 0 to {len(self.steps) - 1}." if self.steps else ", the trace is empty."
            raise TraceError(f"trace {self.run}: there is no step {number}{there}")
        return self.steps[number]

    @contextmanager
    def following(self, cannot: str) -> Iterator[None]:
        """While its steps are followed: TraceError, it `cannot` "be drawn", where they do not fit together.

        The one place for what no line shows by itself, such as an ack of what was never emitted, or a state of another shape.
        """
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise TraceError(
                f"trace {plain_text(self.run)}: it cannot {cannot}, a step's data are not what its word needs "
                f"({type(error).__name__}: {plain_text(error)}). Record the trace again."
            ) from error

    def sentence(self, step: Step) -> str:
        """What a step of this trace says to a learner: one printable line, not escaped for HTML."""
        return self.vocabulary.sentence(step.actor, step.what, step.data)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def words(self) -> dict[str, int]:
        """How often each verb occurs, in the order of first occurrence."""
        return Counter(step.what for step in self.steps)

    def __repr__(self) -> str:
        told = ", ".join(f"{count} {what}" for what, count in self.words().items())
        return plain_text(f"<Trace of {self.experiment} on the {self.backend}: {len(self.steps)} steps ({told})>", MOST_SHOWN)

    def _repr_html_(self) -> str:
        """A table of the last steps, escaped; pictures come from `kitlib.views`."""
        last = self.steps[-12:]
        rows = ((str(step.number), str(step.at_ms), step.actor, step.what, json.dumps(step.data)[:120]) for step in last)
        table = html_table(("step", "ms", "who", "what", "data"), rows)
        return f"<div><p>{html.escape(repr(self))}, the last {len(last)}:</p>{table}</div>"

    def header(self) -> str:
        """The first JSON line: everything but the steps."""
        row = {
            "kit_trace": SCHEMA, "run": self.run, "experiment": self.experiment, "domain": self.domain, "backend": self.backend,
            "seed": self.seed, "knobs": self.settings, "parent": self.parent, "script": self.script, "simulated": self.simulated,
        }  # fmt: skip
        row = {name: value for name, value in row.items() if value or name not in ("script", "simulated")}
        return json.dumps(row, separators=(",", ":"))

    def to_json_lines(self) -> Iterator[str]:
        """The header, then a line a step, without newlines."""
        yield self.header()
        for step in self.steps:
            yield step.to_json()

    @classmethod
    def from_json_lines(cls, lines: Iterable[str], where: str = "trace") -> Trace:
        """Read what `to_json_lines` wrote.

        A line that is not a step raises a TraceError which names the line; its `partial` attribute
        is the trace up to the line before (None when the header itself is bad). Blank lines, a byte
        order mark and CR LF ends are accepted.
        """
        trace: Trace | None = None
        for line_number, line in enumerate(lines, start=1):
            text = line.lstrip("\ufeff").strip() if line_number == 1 else line.strip()
            if not text:
                continue
            try:
                row = parse(text)
                if trace is None:
                    trace = cls(**read_header(row, SCHEMA))
                else:
                    trace._take(**read_step(row))
            except TraceError as bad:
                good = len(trace.steps) if trace else 0
                error = UnreadableTraceError(
                    f"{where}, line {line_number}: {bad}. The {good} steps before it can be read; "
                    "cut the file there, or record the trace again."
                )
                error.partial = trace
                raise error from None
        if trace is None:
            raise UnreadableTraceError(f"{where}: it is empty. Expected a header line with 'kit_trace': {SCHEMA}.")
        return trace

    def _take(self, number: int, at_ms: int, actor: str, what: str, data: dict[str, Any], state: dict[str, Any]) -> None:
        """Append a step that was read, if it can be the next one."""
        if number != len(self.steps):
            raise BadLineError(f"expected step {len(self.steps)}, got step {number}")
        if self.steps and at_ms < self.steps[-1].at_ms:
            raise BadLineError(f"it is at {at_ms} ms, before the last step at {self.steps[-1].at_ms} ms")
        self.vocabulary.check(actor, what, data)
        if (word := self.vocabulary.word(what)) is not None:
            word.check_values(data)
            self.named += word.records(data)
        self._check_state(state)
        if self.named > MOST_RECORDS:
            raise BadLineError(f"with it, the steps name more than {MOST_RECORDS:,} records as ranges")
        self.steps.append(Step(number, at_ms, actor, what, data, state))

    def _check_state(self, state: dict[str, Any]) -> None:
        """TraceError unless each part of the state that has a kind is of it; one that is as before is kept once."""
        before = self.steps[-1].state if self.steps else {}
        for name in STATES.keys() & state.keys():
            if name in before and before[name] == state[name]:
                state[name] = before[name]
            else:
                STATES[name].check(name, state[name])


class UnreadableTraceError(TraceError):
    """A recorded trace cannot be read from some line on; `partial` is what came before it."""

    partial: Trace | None = None


def to_ranges(offsets: Iterable[int]) -> list[Range]:
    """Offsets in ascending order as inclusive [first, last] ranges; any iterable of distinct ints."""
    return in_log_order(sorted(offsets))


def from_ranges(ranges: Iterable[Range]) -> list[int]:
    """The offsets of inclusive ranges, in the ranges' order."""
    return [offset for first, last in ranges for offset in range(first, last + 1)]


def add_to_ranges(ranges: list[Range], offset: int) -> None:
    """Add one offset to ascending, disjoint, inclusive ranges, in place."""
    at = bisect_left(ranges, offset, key=lambda found: found[1])
    if at < len(ranges) and ranges[at][0] <= offset:
        return
    first = last = offset
    if at < len(ranges) and ranges[at][0] == offset + 1:
        last = ranges.pop(at)[1]
    if at > 0 and ranges[at - 1][1] == offset - 1:
        at, first = at - 1, ranges.pop(at - 1)[0]
    ranges.insert(at, [first, last])


def in_log_order(records: Iterable[int]) -> list[Range]:
    """Record numbers in the order in which they lie in a log, as ranges; one that comes again begins another range."""
    ranges: list[Range] = []
    for record in records:
        if ranges and ranges[-1][1] + 1 == record:
            ranges[-1][1] = record
        else:
            ranges.append([record, record])
    return ranges
