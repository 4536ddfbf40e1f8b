"""A topic gets more partitions while orders are under way, with a worker and a store for each partition.

The words of such a trace: `kitlib.words.connect`. A worker's `process` has an `effect`: "created", "changed",
"cancelled", "cancel before create" or, at a sink that keeps versions, "refused". `state["orders"]` counts them.
Every partition's own verdict is clean: what breaks lies between the partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.monitor.figures import EARLY_CANCELS
from kitlib.more.hashes import partition_of_key

Keyed = tuple[str, str]  # key, value
Version = tuple[int, str]  # the offset that wrote a document, and its state: "open" or "gone"


@dataclass(slots=True)
class ModelKeyedTopic:
    """A topic of several partitions, written by key and read partition by partition; on a real broker `on_kafka` takes its place.

    The producer is the client's own: on a real broker librdkafka with Java's rule for keys hashes each key
    and asks nobody. The number of partitions is what it has last heard from the broker.
    """

    on_kafka: ClassVar[str] = "kitlib.experiments.groups.kafka_partitions:KafkaKeyedTopic"

    name: str
    partitions: int
    logs: list[list[Keyed]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.grow(self.partitions)

    def grow(self, partitions: int) -> None:
        """Raise the number of partitions. There is no way back."""
        self.partitions = partitions
        self.logs += [[] for _ in range(partitions - len(self.logs))]

    def append(self, records: Sequence[Keyed]) -> list[tuple[int, int]]:
        """Append the records one after the other; each one's (partition, offset)."""
        where = []
        for key, value in records:
            partition = partition_of_key(key.encode(), self.partitions)
            where.append((partition, len(self.logs[partition])))
            self.logs[partition].append((key, value))
        return where

    def read(self, positions: Mapping[int, int]) -> dict[int, list[Keyed]]:
        """All records of each partition from its position on."""
        return {partition: self.logs[partition][offset:] for partition, offset in positions.items()}


@dataclass(slots=True)
class PartitionRun(Run):
    """One run: the topic, where each worker is, and what the sink holds."""

    domain: ClassVar[str] = "partitions"

    now_ms: int = 0
    topic: ModelKeyedTopic = field(init=False)
    ledgers: dict[int, PartitionLedger] = field(default_factory=dict)  # by partition, each with a worker
    documents: dict[str, Version] = field(default_factory=dict)  # key -> what the sink holds
    partitions_of: dict[str, set[int]] = field(default_factory=dict)  # key -> where its records lie
    effects: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.topic = self.backend.provide(ModelKeyedTopic, "orders", self.settings.partitions)
        self._open("created")

    def grow(self, partitions: int) -> None:
        """The topic gets its new number of partitions, and each new one a worker; a broker never takes one away."""
        if partitions > self.topic.partitions:
            self.topic.grow(partitions)
        self.now_ms += 100
        self._open("partitions were added")

    def _open(self, why: str) -> None:
        for partition in range(self.topic.partitions):
            self.ledgers.setdefault(partition, PartitionLedger(self.topic.name, partition))
        self.record("topic", "partitions", count=self.topic.partitions, why=why)

    def send(self, value: str) -> None:
        """One record for each order, in the order of their numbers."""
        records = [(f"order-{number}", value) for number in range(self.settings.orders)]
        counts = Counter[int]()
        for (key, _), (partition, _offset) in zip(records, self.topic.append(records), strict=True):
            self.partitions_of.setdefault(key, set()).add(partition)
            counts[partition] += 1
        self.now_ms += 100
        for partition, ledger in self.ledgers.items():
            if counts[partition]:
                first, ledger.log_end = ledger.log_end, ledger.log_end + counts[partition]
                self.record_in(ledger, "log", "append", first=first, last=ledger.log_end - 1)

    def work(self) -> None:
        """Every worker goes through its partition at the same pace, one record at a time."""
        waiting = self.topic.read({partition: ledger.emitted_to_offset for partition, ledger in self.ledgers.items()})
        while any(waiting.values()):
            self.now_ms += 10
            for partition, records in waiting.items():
                if records:
                    key, value = records.pop(0)
                    self._process(partition, key, value)
        for partition, ledger in self.ledgers.items():
            if ledger.committed_to:
                self.record_in(ledger, f"worker {partition}", "commit", offset=ledger.committed_to, written=True)

    def _process(self, partition: int, key: str, value: str) -> None:
        ledger = self.ledgers[partition]
        offset = ledger.emitted_to_offset
        ledger.process(offset)
        ledger.committed_to = ledger.emitted_to_offset = offset + 1
        effect = self._apply(key, value, offset)
        self.effects[effect] += 1
        self.record_in(ledger, f"worker {partition}", "process", offset=offset, key=key, value=value, effect=effect)

    def _apply(self, key: str, value: str, offset: int) -> str:
        """What the sink makes of a record. One that takes the offset for the document's version refuses a lower one."""
        has_versions, (version, state) = self.settings.sink == "by offset", self.documents.get(key, (-1, ""))
        if has_versions and offset <= version:
            return "refused"
        self.documents[key] = (offset, "gone" if value == "cancel" else "open")
        if value == "cancel":
            return "cancelled" if state else "cancel before create"
        return "changed" if state == "open" or (has_versions and state) else "created"

    def tell_result(self) -> None:
        """What came of it: every order was cancelled, so none should be left."""
        moved = sum(len(held) > 1 for held in self.partitions_of.values())  # all is processed, so each worker counts its share
        left_over = sum(state == "open" for _, state in self.documents.values())
        self.record(
            "topic",
            "result",
            orders=self.settings.orders,
            moved=moved,
            early_cancels=self.effects["cancel before create"],
            refused=self.effects["refused"],
            left_over=left_over,
        )

    def state(self) -> dict[str, Any]:
        """How the sink took its records."""
        return {"orders": dict(self.effects)}


@experiment(
    "More partitions, different partitions", PartitionRun,
    figure=EARLY_CANCELS, front=("partitions", "partitions_after", "backlog", "sink", "updates"),
)
def partitions_added(
    run: PartitionRun,
    partitions: Annotated[int, Knob("How many partitions the topic has at first.", "partitions", 1, 24)] = 6,
    partitions_after: Annotated[int, Knob("How many it has afterwards; never fewer.", "partitions", 1, 48)] = 12,
    orders: Annotated[int, Knob("Number of orders; each order's key is its number.", "orders", 1, 500)] = 60,
    updates: Annotated[int, Knob("How often each order is changed before it is cancelled.", "updates", 0, 10)] = 0,
    backlog: Annotated[bool, Knob("Whether nothing had been read yet when the partitions were added (because of the lag).")] = True,
    sink: Annotated[
        Literal["as told", "by offset"],
        Knob("What the sink does: apply every record, or treat the offset as a version and refuse lower ones."),
    ] = "as told",
) -> None:
    """Orders are created, the topic gets more partitions, and the orders are cancelled. Which cancellations arrive
    before their creation?
    """
    run.send("create")
    for _ in range(updates):
        run.send("update")
    if not backlog:
        run.work()
    run.grow(partitions_after)
    run.send("cancel")
    run.work()
    run.tell_result()
