"""A topic of transactions whose consumer is done, and whose lag is not 0.

The words of such a trace, for one partition, besides those of `kitlib.monitor.delivery`:

    log      append {first, last}   control {offset}             a marker takes an offset, and no reader is handed it
    monitor  lag {end, committed, lag}   judge {status, rule, why, silence_s}

The monitor is Burrow's (`kitlib.monitor.lag`). It judges once after the last commit, and once more as it would when
nothing but its own reading of the log's end had happened for `silence_s`; nobody waits for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import ClientLibrary
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Run
from kitlib.experiments.watching.marker_log import MarkerLog, marker_log
from kitlib.monitor.lag import Commit
from kitlib.monitor.lag_window import LagStorage
from kitlib.trace import to_ranges

PARTITION, GROUP = 0, "billing"
READS_END_S = 10  # how often the monitor reads the log's end; Burrow v1.9.5, offset-refresh


@dataclass(slots=True)
class TransactionalLagRun(Run):
    """One run: the log with its markers, its consumer, and a monitor that sees the commits."""

    domain: ClassVar[str] = "lag"

    log: MarkerLog = field(init=False)
    storage: LagStorage = field(default_factory=LagStorage)
    committed: int = 0
    position: int = 0  # after the last record that was handed out
    log_end: int = 0
    processed: set[int] = field(default_factory=set)
    commits: int = 0

    def __post_init__(self) -> None:
        self.log = marker_log(self.stage, self.trace.run, self.knobs["library"])

    def transaction(self) -> None:
        """A transaction is committed; the consumer reads it and commits its offset."""
        offsets = self.log.transaction(self.knobs["records"])
        self.log_end = self.log.end()
        self._record("log", "append", first=offsets[0], last=offsets[-1])
        self._record("log", "control", offset=offsets[-1] + 1)
        if not self.commits:
            self._record("A", "start", offset=0, why="earliest")
        for offset in self.log.poll():
            self.position = offset + 1
            self._record("A", "emit", offset=offset)
            self.processed.add(offset)
            self._record("A", "process", offset=offset)
        by_record = self.knobs["commits"] == "last record + 1"
        self.committed = self.log.commit(self.position if by_record else None)
        self.commits += 1
        self._record("A", "commit", offset=self.committed, written=True)
        self._note_lag()

    def _note_lag(self) -> None:
        """The monitor reads the log's end and the commit."""
        now_ms, where = self.log.now_ms, (self.log.name, PARTITION)
        self.storage.add_log_end(*where, self.log_end)
        self.storage.add_commit(GROUP, *where, Commit(self.committed, now_ms, order=self.commits), now_ms)
        self._record("monitor", "lag", end=self.log_end, committed=self.committed, lag=self.log_end - self.committed)

    def judge(self, silence_s: int) -> None:
        """The monitor's judgement after so many seconds in which nothing has happened."""
        for _ in range(silence_s // READS_END_S):
            self.storage.add_log_end(self.log.name, PARTITION, self.log_end)
        now_ms = self.log.now_ms + silence_s * 1000
        found = self.storage.status(GROUP, now_ms).partitions[self.log.name, PARTITION]
        told = found.judgement
        self._record("monitor", "judge", status=told.status.name, rule=told.rule, why=told.why, silence_s=silence_s)

    def _record(self, actor: str, what: str, /, **data: Any) -> None:
        ledger = {
            "log_start": 0, "log_end": self.log_end, "committed_to": self.committed, "emitted_to_offset": self.position,
            "processed": to_ranges(self.processed),
        }  # fmt: skip
        where = {"topic": self.log.name, "partition": PARTITION}
        self.write(self.log.now_ms, actor, what, where | data, ledger)


@experiment("A lag that never becomes 0", TransactionalLagRun)
def transactional_lag(
    run: TransactionalLagRun,
    commits: Annotated[
        Literal["last record + 1", "position"],
        Knob("What the consumer commits: the offset after its last record, or its own position, by commit() without an offset."),
    ] = "last record + 1",
    transactions: Annotated[int, Knob("Number of transactions.", "transactions", 1, 100)] = 10,
    records: Annotated[int, Knob("Records in each of them.", "records", 1, 100)] = 1,
    silence_s: Annotated[int, Knob("How long a silence before the monitor judges again.", "s", 0, 86_400)] = 120,
    library: ClientLibrary = "java",
) -> None:
    """Ten transactions of one record each are read to the end and committed. What is the lag, and what does a monitor
    make of it?
    """
    try:
        for _ in range(transactions):
            run.transaction()
        run.judge(0)
        run.judge(silence_s)
    finally:
        run.log.close()
