"""Experiments with the checkpoint of a streaming query.

The query copies orders from a topic to a sink, by way of an operator with state (`dropDuplicates`). A run is told in the order of
its writes: `offsets`, `state`, `process` and `sink`, `commit`; a `kill` comes between two of them. `state["checkpoint"]` is what
lies in the folder: `offsets` [batch, first, last], `state` versions, `commits` batches; `state["sink"]` are rows [offset, how often].

On the real broker the query is Spark's (`RealQuery`), and what a step shows was read from its folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.monitor.figures import PROCESSED_AGAIN
from kitlib.more.micro_batch import SINKS, AppendSink, Batch, Checkpoint

STEP_MS = 10
FIRST_START, FROM_CHECKPOINT, STARTS_OVER = "there is no checkpoint yet", "the checkpoint", "the checkpoint was deleted"
AFTER = {
    "offsets": "its offsets are written, nothing else",
    "state": "offsets and state are written",
    "half the sink": "the sink is half written",
    "sink": "the sink is written, the commit is not",
    "commit": "its commit is written",
}
View = dict[str, list[Any]]  # a checkpoint as a step shows it
Kill = tuple[int, str] | None  # (batch, what has just been written), after which the query dies


class QueryKilled(Exception):
    """The query ends here."""


@dataclass(slots=True)
class ModelQuery:
    """A query on the model: its topic, its checkpoint and its sink."""

    on_kafka: ClassVar[str] = "kitlib.experiments.checkpoint.real_query:RealQuery"

    sink_kind: str
    per_batch: int
    name: str = "orders"
    log_end: int = 0
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    sink: AppendSink = field(init=False)

    def __post_init__(self) -> None:
        self.sink = SINKS[self.sink_kind]()

    def append(self, records: int) -> None:
        self.log_end += records

    def run(self, run: CheckpointRun, kill: Kill) -> None:
        """Batch after batch until there is nothing left, or until the query dies after this write of this batch."""
        batch = self.checkpoint.next_batch(self.log_end, self.per_batch)
        again = batch.number if batch is not None and batch.is_again else None
        run.starts(again, batch.first if batch is not None else self.checkpoint.begin_of(len(self.checkpoint.offsets)))
        try:
            while batch is not None:
                self.checkpoint.write_offsets(batch)
                run.work(batch, kill, partial(self.checkpoint.write_state, batch))
                self.checkpoint.write_commit(batch)
                run.has_commit(batch, self.view())
                if kill == (batch.number, "commit"):
                    raise QueryKilled("commit")
                batch = self.checkpoint.next_batch(self.log_end, self.per_batch)
        except QueryKilled as killed:
            run.is_killed(str(killed))

    def view(self) -> View:
        kept = self.checkpoint
        return {
            "offsets": [[number, kept.begin_of(number), end - 1] for number, end in sorted(kept.offsets.items())],
            "state": sorted(kept.state), "commits": sorted(kept.commits),
        }  # fmt: skip

    def forget(self) -> None:
        """The checkpoint is deleted; the sink keeps what it has."""
        self.checkpoint = Checkpoint()


PASSED_OVER = "it has seen this batch number, and passes the batch over"


def why_not_all(sink: str, is_half: bool) -> str:
    """Why a sink may show fewer rows than it was given; "" where there is nothing to say."""
    if is_half:
        return "the transaction is never committed" if sink == "transactional" else "half of them was written"
    return "keys that are there already are not written again" if sink == "idempotent" else ""


@dataclass(slots=True)
class CheckpointRun(Run):
    """One run: a topic, and queries that share a checkpoint, one after the other."""

    domain: ClassVar[str] = "checkpoint"

    query: ModelQuery = field(init=False)  # or Spark's
    ledger: PartitionLedger = field(init=False)
    rows: Counter[int] = field(default_factory=Counter)  # offset -> how often it lies in the sink
    shown: View = field(default_factory=lambda: {"offsets": [], "state": [], "commits": []})
    was_deleted: bool = False

    def __post_init__(self) -> None:
        self.query = self.backend.provide(ModelQuery, self.settings.sink, self.settings.per_batch)
        self.ledger = PartitionLedger(self.query.name)

    @property
    def now_ms(self) -> int:
        """Each step takes the same time: what matters is the order."""
        return STEP_MS * len(self.trace)

    def state(self) -> dict[str, Any]:
        return {"checkpoint": self.shown, "sink": sorted([offset, times] for offset, times in self.rows.items())}

    def append(self, records: int) -> None:
        if not records:
            return
        self.query.append(records)
        first, self.ledger.log_end = self.ledger.log_end, self.ledger.log_end + records
        self.record_in(self.ledger, "log", "append", first=first, last=self.ledger.log_end - 1)

    def start(self, kill: Kill = None) -> None:
        """A query runs until there is nothing left, or until it is killed after this write of this batch."""
        self.query.run(self, kill)

    def forget(self) -> None:
        """The checkpoint is deleted."""
        self.query.forget()
        self.was_deleted, self.shown = True, {"offsets": [], "state": [], "commits": []}
        self.record_in(self.ledger, "operator", "forget")

    def finish(self) -> None:
        """The last query has come to its end."""
        self.record_in(self.ledger, "query", "end")

    def starts(self, again: int | None, offset: int) -> None:
        is_new = not self.shown["offsets"]
        why = FROM_CHECKPOINT if not is_new else STARTS_OVER if self.was_deleted else FIRST_START
        self.ledger.committed_to = self.ledger.emitted_to_offset = offset
        self.record_in(self.ledger, "query", "start", offset=offset, batch=again, why=why)

    def work(self, batch: Batch, kill: Kill, rows: Callable[[], list[int]]) -> None:
        """One batch, from its offsets, which are written, to its sink; `rows` writes the state. QueryKilled where it is to die."""
        query = self.query

        def written(what: str) -> None:
            if kill == (batch.number, what):
                raise QueryKilled(what)

        self.shown, self.ledger.emitted_to_offset = query.view(), batch.end
        told = {"batch": batch.number, "first": batch.first, "last": batch.end - 1, "again": batch.is_again}
        self.record_in(self.ledger, "query", "offsets", **told)
        written("offsets")
        found = rows()
        self.shown = query.view()
        self.record_in(self.ledger, "state", "state", batch=batch.number, version=batch.number + 1, made_from=batch.number)
        written("state")
        is_half = kill == (batch.number, "half the sink")
        if query.sink.takes(batch):
            self._has_sink(batch, query.sink.write(batch, found, is_half), why_not_all(query.sink_kind, is_half))
        else:
            self._has_sink(batch, [], PASSED_OVER)
        written("half the sink")
        written("sink")

    def _has_sink(self, batch: Batch, written: list[int], why: str) -> None:
        for offset in written:
            self.rows[offset] += 1
            self.ledger.process(offset)
            self.record_in(self.ledger, "sink", "process", offset=offset, batch=batch.number)
        rows = batch.end - batch.first
        told = {"batch": batch.number, "rows": rows, "written": len(written), "why": why if len(written) < rows else ""}
        self.record_in(self.ledger, "sink", "sink", **told)

    def has_commit(self, batch: Batch, view: View) -> None:
        self.shown, self.ledger.committed_to = view, batch.end
        self.record_in(self.ledger, "query", "commit", batch=batch.number, offset=batch.end, written=True)

    def is_killed(self, after: str) -> None:
        self.record_in(self.ledger, "query", "kill", after=AFTER[after])


@experiment(
    "Killed between two writes", CheckpointRun,
    figure=PROCESSED_AGAIN, front=("killed_after", "sink", "killed_in_batch", "checkpoint"),
)
def checkpoint_kill(
    run: CheckpointRun,
    killed_after: Annotated[
        Literal["offsets", "state", "half the sink", "sink", "commit"], Knob("The last thing that the query writes before it is killed.")
    ] = "sink",
    sink: Annotated[
        Literal["append", "idempotent", "transactional"],
        Knob("The sink adds rows, or has a key for each, or writes a batch and its number in one transaction."),
    ] = "append",
    killed_in_batch: Annotated[int, Knob("The batch in which the query is killed; batches are numbered from 0.", "batch", 0, 50)] = 1,
    checkpoint: Annotated[Literal["kept", "deleted"], Knob("What becomes of the checkpoint before the next start.")] = "kept",
    records: Annotated[int, Knob("How many records the topic holds.", "records", 1, 200)] = 12,
    per_batch: Annotated[int, Knob("maxOffsetsPerTrigger: the most records of a batch.", "records", 1, 200)] = 4,
    records_while_down: Annotated[int, Knob("How many records arrive before the next start.", "records", 0, 100)] = 2,
) -> None:
    """A streaming query writes four things for each batch, and is killed after one of them. What does its next start do again,
    and what lies in the sink twice?
    """
    run.append(records)
    run.start(kill=(killed_in_batch, killed_after))
    if checkpoint == "deleted":
        run.forget()
    run.append(records_while_down)
    run.start()
    run.finish()
