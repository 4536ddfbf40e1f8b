"""A topic of transactions whose consumer is done, and whose lag is not 0.

The monitor is Burrow's (`kitlib.mechanisms.lag`). It judges once after the last commit, and once more as it would when
nothing but its own reading of the log's end had happened for `silence_s`; nobody waits for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import ClientLibrary
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.mechanisms.lag import Commit
from kitlib.monitor.figures import LAG
from kitlib.monitor.lag_window import LagStorage

GROUP = "billing"
READS_END_S = 10  # how often the monitor reads the log's end; Burrow v1.9.5, offset-refresh
TRANSACTION_MS = 1_000  # virtual time from one transaction to the next


@dataclass(slots=True)
class ModelTransactionalTopic:
    """Partition 0 of a topic, its transactional producer, and the only member of a group that reads it; in memory.

    Records take offsets, and so do the markers behind them. What matters is one number, the consumer's *position*: the
    next offset it will ask for. After the last record it is that record's offset + 1, and once the client has read past
    the marker it is one more. All three client libraries move past a marker as soon as they have read it, though they
    hand out nothing.

    Source: Apache Kafka 4.3.1, FetchCollector.fetchRecords (position = nextFetchOffset, past control batches).
    """

    on_kafka: ClassVar[str] = "kitlib.experiments.lag.kafka_transactional_lag:KafkaTransactionalTopic"

    name: str
    library: str
    now_ms: int = 0
    records: list[int] = field(default_factory=list)
    end: int = 0  # the offset of the log's next record
    position: int = 0

    def transaction(self, records: int) -> list[int]:
        """Commit a transaction of so many records, and wait for its marker; the records' offsets."""
        self.now_ms += TRANSACTION_MS
        offsets = list(range(self.end, self.end + records))
        self.records += offsets
        self.end += records + 1
        return offsets

    def poll(self) -> list[int]:
        """The offsets of the next records, all that there are."""
        found = [offset for offset in self.records if offset >= self.position]
        self.position = self.end
        return found

    def member_commits(self, offset: int | None) -> int:
        """Commit this offset, or with None the client's own position once it is at the end; what the group has then."""
        return self.position if offset is None else offset


@dataclass(slots=True)
class TransactionalLagRun(Run):
    """One run: the log with its markers, its consumer, and a monitor that sees the commits."""

    domain: ClassVar[str] = "lag"

    topic: ModelTransactionalTopic = field(init=False)  # or its twin on Kafka
    ledger: PartitionLedger = field(init=False)
    storage: LagStorage = field(default_factory=LagStorage)
    commits: int = 0

    def __post_init__(self) -> None:
        self.topic = self.backend.provide(ModelTransactionalTopic, "orders", self.settings.library)
        self.ledger = PartitionLedger(self.topic.name)

    @property
    def now_ms(self) -> int:
        return self.topic.now_ms

    def transaction(self) -> None:
        """A transaction is committed; the consumer reads it and commits its offset."""
        ledger = self.ledger
        offsets = self.topic.transaction(self.settings.records)
        ledger.log_end = self.topic.end
        self.record_in(ledger, "log", "append", first=offsets[0], last=offsets[-1])
        self.record_in(ledger, "log", "control", offset=offsets[-1] + 1)
        if not self.commits:
            self.record_in(ledger, "A", "start", offset=0, why="earliest")
        for offset in self.topic.poll():
            ledger.emitted_to_offset = offset + 1
            self.record_in(ledger, "A", "emit", offset=offset)
            ledger.process(offset)
            self.record_in(ledger, "A", "process", offset=offset)
        by_record = self.settings.commits == "last record + 1"
        ledger.committed_to = committed = self.topic.member_commits(ledger.emitted_to_offset if by_record else None)
        self.commits += 1
        self.record_in(ledger, "A", "commit", offset=committed, written=True)
        now_ms, where = self.now_ms, (ledger.topic, ledger.partition)
        self.storage.add_log_end(*where, ledger.log_end)
        self.storage.add_commit(GROUP, *where, Commit(committed, now_ms, order=self.commits), now_ms)
        self.record_in(ledger, "monitor", "lag", end=ledger.log_end, committed=committed, lag=ledger.log_end - committed)

    def judge(self, silence_s: int) -> None:
        """The monitor's judgement after so many seconds in which nothing has happened."""
        where = self.ledger.topic, self.ledger.partition
        for _ in range(silence_s // READS_END_S):
            self.storage.add_log_end(*where, self.ledger.log_end)
        told = self.storage.status(GROUP, self.now_ms + silence_s * 1000).partitions[where].judgement
        self.record_in(
            self.ledger, "monitor", "judge", status=told.status.name, rule=told.rule, why=told.why, silence_s=silence_s
        )


@experiment(
    "A lag that never becomes 0", TransactionalLagRun,
    figure=LAG, front=("commits", "transactions", "records", "silence_s"),
)
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
    for _ in range(transactions):
        run.transaction()
    run.judge(0)
    run.judge(silence_s)
