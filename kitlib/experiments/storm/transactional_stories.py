"""The word count that is wrong after a replay, and the ways to make it right: batches with a transaction id.

The run asks the coordinator of `kitlib.storm.transactional` what is to be done. A batch is read from
the topic by its offsets and worked on for a while; when its turn comes, its words are written one by
one. A commit may break off between two words. Time is virtual and chance is drawn from the seed and
the attempt alone, so the same knobs give the same run on the model and on a real broker.

`process` is told when a word's count has changed for good, after the writes of a commit and in the
order of the offsets. An opaque count can be taken back until its batch is committed, so there it is
told at the end of the commit.

Left out: the tuples between spout and bolts; what they do with a failure is in the topologies' runs.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from kitlib.errors import LabError
from kitlib.experiments.backend import Topic
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.experiments.storm.spout_run import PATIENCE_MS
from kitlib.experiments.storm.word_stories import count_words, make_lines
from kitlib.monitor.figures import MISCOUNTED
from kitlib.storm.transactional import (
    Batch,
    BatchSpout,
    EmitBatch,
    EmitCommit,
    OpaqueTransactionalSpout,
    TransactionalSpout,
    TransactionalSpoutCoordinator,
    TransactionAttempt,
)
from kitlib.storm.transactional_state import CountState, Write
from kitlib.trace import to_ranges

RESTART_MS = 100  # from the worker's death to its next start
Effect = tuple[int, int]  # (offset, part): one word of one line


@dataclass(slots=True)
class BatchRun(Run):
    """One run: the backend it takes place on, its clock, and the trace it writes.

    A story calls `append`, `start`, and `run_for`, which also lets the worker die and start again.
    """

    domain: ClassVar[str] = "spout"
    simulated: ClassVar[str] = "coordinator, bolts and clock"

    now_ms: int = 0
    topic: Topic | None = None
    counts: CountState | None = None
    coordinator: TransactionalSpoutCoordinator | None = None
    due: list[tuple[int, int, EmitBatch | EmitCommit]] = field(default_factory=list)  # heap: (due_ms, order, work)
    order: int = 0
    ledger: PartitionLedger = field(init=False)  # emitted up to the end of the highest batch that was handed out
    crashed: bool = False  # the story's crash has been
    emitted: dict[int, int] = field(default_factory=dict)  # offset -> times
    retries: int = 0  # emits of lines that had been emitted before
    unsettled: dict[str, list[Effect]] = field(default_factory=dict)  # word -> what an uncommitted opaque write holds
    truth: Counter[str] = field(default_factory=Counter)
    acked: int = 0  # batches
    failed: int = 0  # attempts

    # -- what a story is told with ---------------------------------------------------------------

    def append(self, lines: list[bytes]) -> None:
        """Append lines to the topic `lines`."""
        if self.topic is None:
            self.topic = self.backend.create_topic("lines", max_fetch_records=1_000)
            self.ledger = PartitionLedger(self.topic.name)
        offsets = self.topic.append(lines)
        self.ledger.log_end = offsets[-1] + 1
        self.truth += count_words(lines)
        self._record("log", "append", first=offsets[0], last=offsets[-1], parts=[len(line.decode().split()) for line in lines])

    def start(self, why: str = "no stored offset") -> None:
        """A worker begins, or begins again, at the first transaction that is not committed."""
        spout: BatchSpout
        if self.knobs["replay_differs"] == "no":
            spout = TransactionalSpout(self._records_of)
        else:
            spout = OpaqueTransactionalSpout(self._records_of)
        path = f"/{self.trace.run}/transactional"
        self.coordinator = TransactionalSpoutCoordinator(spout, self.backend.store, path, self.knobs["max_spout_pending"])
        self.counts = CountState(self.knobs["state"], self.backend.create_table("counts"))
        self._record("spout", "start", offset=self.ledger.committed_to, why=why, txid=self.coordinator.curr_txid)

    def run_for(self, ms: int) -> None:
        """Let `ms` of virtual time pass, or less when every line is committed."""
        end = self.now_ms + ms
        while self.ledger.committed_to < self.ledger.log_end:
            self._hand_out()
            if not self.due or self.due[0][0] > end:
                return
            self.now_ms, _, work = heapq.heappop(self.due)
            self._finish(work)

    def tell_result(self) -> None:
        """Write down what the table holds now, and what it should hold."""
        assert self.counts
        counts, truth = self.counts.counts(), dict(self.truth)
        self._record("counts", "result", counts=dict(sorted(counts.items())), truth=dict(sorted(truth.items())))

    # -- what happens ------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        assert self.coordinator
        self.coordinator.max_spout_pending = self.knobs["max_spout_pending"]
        for work in self.coordinator.next(self.ledger.log_end):
            attempt, batch = work.attempt, work.batch
            if isinstance(work, EmitCommit):
                self._record("coordinator", "batch_commit", **_named(attempt))
                takes = max(1, self._latency("commit", attempt) // 4)
            else:
                self.ledger.emitted_to_offset = max(self.ledger.emitted_to_offset, batch.end)
                self._record("coordinator", "batch_begin", **_named(attempt), first=batch.first, last=batch.last)
                for offset in range(batch.first, batch.end):
                    self.emitted[offset] = self.emitted.get(offset, 0) + 1
                    self.retries += self.emitted[offset] > 1
                    self._record("spout", "emit", offset=offset, attempt=self.emitted[offset], txid=attempt.txid)
                takes = self._latency("process", attempt)
            self.order += 1
            heapq.heappush(self.due, (self.now_ms + takes, self.order, work))

    def _finish(self, work: EmitBatch | EmitCommit) -> None:
        """A phase of an attempt ends; nobody waits for the end of an attempt that is no longer current."""
        assert self.coordinator
        attempt = work.attempt
        status = self.coordinator.active.get(attempt.txid)
        if status is None or status.attempt != attempt:
            return
        if isinstance(work, EmitCommit):
            self._commit(attempt, work.batch)
        elif self._breaks_off(attempt) == "processing":
            self._fail(attempt, "a bolt failed while it worked on the batch")
        else:
            self.coordinator.ack(attempt)
            self._record("coordinator", "batch_done", **_named(attempt))

    def _commit(self, attempt: TransactionAttempt, batch: Batch) -> None:
        """Write the batch's words, all of them or up to where the commit breaks off."""
        assert self.coordinator and self.counts
        effects = self._words_of(batch)
        planned = self.counts.plan(attempt.txid, {word: len(found) for word, found in effects.items()})
        is_crash = not self.crashed and attempt.txid == self.knobs["crash_txid"]
        if is_crash:
            written = {"before": 0, "middle": (len(planned) + 1) // 2, "after": len(planned)}[self.knobs["crash_when"]]
        elif self._breaks_off(attempt) == "commit":
            written = int(self._chance("written", attempt) * (len(planned) + 1))
        else:
            self._write(attempt, planned, effects)
            self._settle()
            self.coordinator.ack(attempt)
            self.ledger.committed_to, self.acked = batch.end, self.acked + 1
            self._record("spout", "commit", offset=batch.end, written=True, txid=attempt.txid)
            return
        self._write(attempt, planned[:written], effects)
        if is_crash:
            self._crash()
        else:
            self._fail(attempt, f"the commit broke off after {written} of {len(planned)} words")

    def _write(self, attempt: TransactionAttempt, planned: list[Write], effects: dict[str, list[Effect]]) -> None:
        assert self.counts
        changed: list[Effect] = []
        for write in planned:
            self.counts.write(write)
            word, value = write.key, write.after.value
            if write.is_skip:
                self._record("counts", "batch_skip", txid=attempt.txid, word=word, value=value)
                continue
            self._record("counts", "put", txid=attempt.txid, word=word, value=value, before=write.before.value)
            if self.counts.kind == "opaque":
                self.unsettled[word] = effects[word]
            else:
                changed += effects[word]
        self._process(changed)

    def _settle(self) -> None:
        """The batch is committed: what its opaque writes hold is counted for good."""
        changed = list(chain.from_iterable(self.unsettled.values()))
        self.unsettled = {}
        self._process(changed)

    def _process(self, changed: list[Effect]) -> None:
        for offset, part in sorted(changed):
            self.ledger.process(offset)
            self._record("bolt", "process", offset=offset, part=part)

    def _fail(self, attempt: TransactionAttempt, why: str) -> None:
        assert self.coordinator
        ended = self.coordinator.fail(attempt)
        self.failed += 1
        self._record("coordinator", "batch_fail", **_named(attempt), why=why, ended=[str(found) for found in ended])

    def _crash(self) -> None:
        """The worker dies and starts again: what it did not store is forgotten."""
        assert self.coordinator
        lost, self.crashed = len(self.coordinator.active), True
        self.coordinator, self.counts, self.due = None, None, []
        self._record("spout", "crash", lost=lost, on_their_way=lost)
        self.now_ms += RESTART_MS
        self.start("stored offset" if self.ledger.committed_to else "no stored offset")

    def _words_of(self, batch: Batch) -> dict[str, list[Effect]]:
        """Each word of a batch's lines with the places where it stands, read from the topic."""
        assert self.topic
        found: dict[str, list[Effect]] = {}
        at = batch.first
        while at <= batch.last:
            records = [record for record in self.topic.fetch(at).records if at <= record.offset <= batch.last]
            if not records:
                raise LabError(
                    f"{self.topic.name}-0: offsets {at} to {batch.last} of a batch are gone. "
                    "A batch that cannot be read again cannot be replayed; run the experiment again."
                )
            for record in records:
                for part, word in enumerate((record.value or b"").decode(errors="replace").split()):
                    found.setdefault(word, []).append((record.offset, part))
            at = records[-1].offset + 1
        return found

    # -- the parts that the knobs decide -----------------------------------------------------------

    def _records_of(self, attempt: TransactionAttempt) -> int:
        """How many lines a fetch would bring for this attempt."""
        size: int = self.knobs["batch_records"]
        differs = "no" if attempt.attempt == 1 else self.knobs["replay_differs"]
        return {"no": size, "longer": size + (size + 1) // 2, "shorter": max(1, size // 2)}[differs]

    def _breaks_off(self, attempt: TransactionAttempt) -> str:
        """Where this attempt fails by chance: "processing", "commit" or nowhere ("")."""
        if self._chance("failure", attempt) * 100 >= self.knobs["fail_percent"]:
            return ""
        return "processing" if self._chance("place", attempt) < 0.5 else "commit"

    def _latency(self, what: str, attempt: TransactionAttempt) -> int:
        base: int = self.knobs["process_ms"]
        return max(1, base // 2 + int(self._chance(what, attempt) * base))

    def _chance(self, what: str, attempt: TransactionAttempt) -> float:
        """A number in [0, 1) that depends on the seed and on these alone."""
        return Random(f"{self.trace.seed} {what} {attempt}").random()

    # -- the trace -----------------------------------------------------------------------------------

    def _record(self, actor: str, what: str, **data: Any) -> None:
        self.record(actor, what, **self.ledger.place, **data)

    def state(self) -> dict[str, Any]:
        ledgers = self.ledger.log_state()
        if self.coordinator is None:
            return ledgers
        active = [status for _, status in sorted(self.coordinator.active.items())]
        out = {offset for status in active for offset in range(status.batch.first, status.batch.end)}
        return ledgers | {
            "committed_to": self.ledger.committed_to,
            "emitted_to_offset": self.ledger.emitted_to_offset,
            "pending": to_ranges(out),
            "failed": [],
            "waiting": [],
            "number_acked": self.acked,
            "number_failed": self.failed,
            "retries": self.retries,
            "batches": [
                {
                    **_named(status.attempt),
                    "first": status.batch.first,
                    "last": status.batch.last,
                    "status": status.status.value,
                }
                for status in active
            ],
        }


def _named(attempt: TransactionAttempt) -> dict[str, int]:
    return {"txid": attempt.txid, "attempt": attempt.attempt}


@experiment(
    "A word count that survives a replay", BatchRun,
    figure=MISCOUNTED, front=("state", "replay_differs", "crash_txid", "crash_when", "max_spout_pending"),
)
def transactional_word_count(
    run: BatchRun,
    state: Annotated[
        Literal["plain", "transactional", "opaque"],
        Knob("What is stored for a word: its count; count and batch; or count, batch and previous count."),
    ] = "transactional",
    replay_differs: Annotated[
        Literal["no", "longer", "shorter"],
        Knob("Whether a replayed batch has the same lines (no), or is longer or shorter than before."),
    ] = "no",
    lines: Annotated[int, Knob("How many lines the topic holds.", "lines", 1, 5_000)] = 24,
    batch_records: Annotated[int, Knob("How many lines make a batch.", "lines", 1, 1_000)] = 4,
    max_spout_pending: Annotated[
        int, Knob("How many batches may be in flight at once.", "batches", 1, 10_000, scale="log", live=True)
    ] = 3,
    crash_txid: Annotated[int, Knob("The batch during whose first commit the worker dies; -1 for none.", "", -1, 5_000, live=True)] = 3,
    crash_when: Annotated[
        Literal["before", "middle", "after"],
        Knob("Whether it dies before the commit's writes, in the middle of them, or after the last one.", live=True),
    ] = "middle",
    fail_percent: Annotated[
        int, Knob("Share of attempts that fail at random, while processing or between two writes.", "%", 0, 100, live=True)
    ] = 0,
    process_ms: Annotated[
        int, Knob("Mean time per batch; each takes 50 to 150 % of it.", "ms", 1, 5_000, live=True)
    ] = 40,
) -> None:
    """The worker dies while writing a batch's counts, and the batch is replayed. Which kind of state counts each word once?"""
    run.append(make_lines(lines, run.trace.seed))
    run.start()
    run.run_for(PATIENCE_MS)
    run.tell_result()
