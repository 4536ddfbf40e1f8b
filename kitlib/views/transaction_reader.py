"""A transaction's trace, read once: what each producer did, what the coordinator held, how the log grew.

The fate of a batch is what a reader of the log makes of it: it counts by the first marker of its
producer id behind it, and is undecided until there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace

READERS = ("read_committed", "read_uncommitted")
PLAIN, OPEN, COMMITTED, ABORTED = "plain", "open", "committed", "aborted"
SIGN_WORDS = frozenset({"kill", "freeze", "thaw", "fenced", "unknown"})
LogRow = list[Any]  # of the state's log: first and last offset, producer id, epoch, transaction or None, marker or None


@dataclass(slots=True)
class Span:
    """From one place of the time axis to another: a transaction as its producer has it open, or a coordinator's state."""

    x0: float
    x1: float
    name: str
    end: str = ""  # of a transaction: how its producer saw it end


@dataclass(slots=True)
class ActorRow:
    """One producer over the run."""

    spans: list[Span] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    signs: list[tuple[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class TransactionStory:
    """All that the picture's body is made of."""

    producers: dict[str, ActorRow] = field(default_factory=dict)
    ids: dict[str, list[Span]] = field(default_factory=dict)  # transactional id -> states
    effects: list[tuple[float, str]] = field(default_factory=list)  # of the database: "charge", "again" or "known"
    network: list[tuple[float, str]] = field(default_factory=list)  # "held", "release", "late_marker", "refuse"
    ends: list[int] = field(default_factory=list)  # high watermark after each step
    stable: list[int] = field(default_factory=list)  # last stable offset after each step
    records: dict[int, str] = field(default_factory=dict)  # offset -> record
    reads: dict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: {name: [] for name in READERS}
    )  # step, offset


def read_transactions(trace: Trace, xs: list[float]) -> TransactionStory:
    """The story of a trace whose steps lie at `xs`."""
    reader = _Reader()
    for step, x in zip(trace.steps, xs, strict=True):
        reader.take(step, x)
    reader.finish(xs[-1] if xs else 0.0)
    return reader.story


def fate_of(row: LogRow, log: list[LogRow]) -> str:
    """What a batch is worth by the markers that the log holds."""
    _, last, pid, _, tx, _ = row
    if tx is None:
        return PLAIN
    for first, _, other, _, _, kind in log:
        if kind is not None and other == pid and first > last:
            return COMMITTED if kind == "COMMIT" else ABORTED
    return OPEN


class _Reader:
    """What is known while the steps go by."""

    def __init__(self) -> None:
        self.story = TransactionStory()
        self.open: dict[str, Span] = {}  # producer -> its open transaction
        self.states: dict[str, Span] = {}
        self.charged: set[str] = set()
        self.end = self.lso = 0

    def take(self, step: Step, x: float) -> None:
        """Take one step that lies at `x`."""
        data, state = step.data, step.state
        self.end, self.lso = state.get("high_watermark", self.end), state.get("lso", self.lso)
        self.story.ends.append(self.end)
        self.story.stable.append(self.lso)
        if step.actor in READERS:
            if step.what == "read":
                self.story.reads[step.actor].append((step.number, data["offset"]))
        elif step.actor == "coordinator" and step.what == "transition":
            self._transition(data, x)
        elif step.actor == "broker" and step.what == "write":
            for offset, record in enumerate(range(data["first"], data["last"] + 1), data["offset"]):
                self.story.records[offset] = str(record)
        elif step.actor == "network" or step.what == "refuse":
            self.story.network.append((x, step.what))
        elif step.actor == "database":
            key = str(data.get("record"))
            self.story.effects.append(
                (x, "known" if not data["charged"] else "again" if key in self.charged else "charge")
            )
            self.charged |= {key} if data["charged"] else set()
        elif step.actor.startswith("producer"):
            self._produce(step, x)

    def finish(self, x: float) -> None:
        """The run ends at `x`: what is open stays so."""
        for span in (*self.open.values(), *self.states.values()):
            span.x1 = x

    def _produce(self, step: Step, x: float) -> None:
        name, data = plain_text(step.actor, 12), step.data
        row = self.story.producers.setdefault(name, ActorRow())
        if step.what == "send":
            row.sent.append(x)
            if data.get("held"):
                self.story.network.append((x, "held"))
        elif step.what in SIGN_WORDS:
            row.signs.append((step.what, x))
        if step.what == "begin":
            self._end(name, x, "")
            self.open[name] = Span(x, x, f"{data['tx']:d}")
            row.spans.append(self.open[name])
        elif step.what in ("commit_tx", "abort_tx"):
            self._end(name, x, step.what)
        elif step.what == "kill" or data.get("fatal"):
            self._end(name, x, "gone")

    def _end(self, name: str, x: float, how: str) -> None:
        if (span := self.open.pop(name, None)) is not None:
            span.x1, span.end = x, how

    def _transition(self, data: dict[str, Any], x: float) -> None:
        name = plain_text(data["transactional_id"], 12)
        if name in self.states:
            self.states[name].x1 = x
        self.states[name] = Span(x, x, plain_text(data["to"], 20), f"{data['pid']:d}/{data['epoch']:d}")
        self.story.ids.setdefault(name, []).append(self.states[name])
