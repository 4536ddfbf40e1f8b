"""A run in which a topic gets more partitions while orders are under way, with a worker and a store for each partition.

The words of such a trace, besides those of `kitlib.monitor.delivery` for each partition:

    topic     partitions {count, why}   result {orders, moved, early_cancels, split, refused, left_over}
    worker N  process {topic, partition, offset, key, value, effect}

`effect` is "created", "changed", "cancelled", "cancel before create" or, at a sink that keeps versions,
"refused". `state["orders"]` counts them. Every partition's own verdict is clean: what breaks lies between
the partitions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.experiments.groups.partition_stage import KeyedTopic, keyed_topic
from kitlib.experiments.run import Run

Version = tuple[int, str]  # the offset that wrote a document, and its state: "open" or "gone"


@dataclass(slots=True)
class PartitionRun(Run):
    """One run: the topic, where each worker is, and what the sink holds."""

    domain: ClassVar[str] = "partitions"

    now_ms: int = 0
    topic: KeyedTopic = field(init=False)
    position: dict[int, int] = field(default_factory=dict)  # partition -> the next offset its worker processes
    ends: dict[int, int] = field(default_factory=dict)
    documents: dict[str, Version] = field(default_factory=dict)  # key -> what the sink holds
    counts: dict[tuple[int, str], int] = field(default_factory=dict)  # (partition's store, key) -> records
    partitions_of: dict[str, set[int]] = field(default_factory=dict)  # key -> where its records lie
    effects: Counter[str] = field(default_factory=Counter)
    told_ends: dict[int, int] = field(default_factory=dict)  # partition -> the end that a step has told of

    def __post_init__(self) -> None:
        self.topic = keyed_topic(self.backend, self.trace.run, "orders", self.knobs["partitions"])
        self._open("created")

    def grow(self) -> None:
        """The topic gets its new number of partitions, and each new one a worker."""
        if self.knobs["partitions_after"] > self.topic.partitions:
            self.topic.grow(self.knobs["partitions_after"])
        self.now_ms += 100
        self._open("partitions were added")

    def _open(self, why: str) -> None:
        for partition in range(self.topic.partitions):
            self.position.setdefault(partition, 0)
            self.ends.setdefault(partition, 0)
        self._record("topic", "partitions", count=self.topic.partitions, why=why)

    def send(self, value: str) -> None:
        """One record for each order, in the order of their numbers."""
        records = [(f"order-{number}", value) for number in range(self.knobs["orders"])]
        for (key, _), (partition, _offset) in zip(records, self.topic.append(records), strict=True):
            self.partitions_of.setdefault(key, set()).add(partition)
            self.ends[partition] += 1
        self.now_ms += 100
        for partition, end in self.ends.items():
            before = self.told_ends.get(partition, 0)
            if end > before:
                self._lane("log", "append", partition, first=before, last=end - 1)
                self.told_ends[partition] = end

    def work(self) -> None:
        """Every worker goes through its partition at the same pace, one record at a time."""
        waiting = self.topic.read(self.position)
        while any(waiting.values()):
            self.now_ms += 10
            for partition, records in waiting.items():
                if records:
                    key, value = records.pop(0)
                    self._process(partition, key, value)
        for partition, offset in self.position.items():
            if offset:
                self._lane(f"worker {partition}", "commit", partition, offset=offset, written=True)

    def _process(self, partition: int, key: str, value: str) -> None:
        offset = self.position[partition]
        self.position[partition] = offset + 1
        effect = (self._versioned if self.knobs["sink"] == "by offset" else self._plain)(key, value, offset)
        self.counts[partition, key] = self.counts.get((partition, key), 0) + 1
        self.effects[effect] += 1
        self._lane(f"worker {partition}", "process", partition, offset=offset, key=key, value=value, effect=effect)

    def _plain(self, key: str, value: str, offset: int) -> str:
        """A sink that does what it is told, in the order in which it is told."""
        before = self.documents.get(key)
        if value == "cancel":
            self.documents[key] = (offset, "gone" if before else "unknown")
            return "cancelled" if before else "cancel before create"
        self.documents[key] = (offset, "open")
        return "changed" if before and before[1] == "open" else "created"

    def _versioned(self, key: str, value: str, offset: int) -> str:
        """A sink that takes the record's offset for the document's version, and refuses a lower one."""
        before = self.documents.get(key)
        if before is not None and offset <= before[0]:
            return "refused"
        self.documents[key] = (offset, "gone" if value == "cancel" else "open")
        if value == "cancel":
            return "cancelled" if before else "cancel before create"
        return "changed" if before else "created"

    def tell_result(self) -> None:
        """What came of it: every order was cancelled, so none should be left."""
        split = [key for key, held in self.partitions_of.items() if len(held) > 1]
        left_over = sum(state == "open" for _, state in self.documents.values())
        self._record(
            "topic",
            "result",
            orders=self.knobs["orders"],
            moved=len(split),
            early_cancels=self.effects["cancel before create"],
            split=sum(len({p for p, key in self.counts if key == moved}) > 1 for moved in split),
            refused=self.effects["refused"],
            left_over=left_over,
        )

    # -- the trace -----------------------------------------------------------------------------------

    def _lane(self, actor: str, what: str, partition: int, /, **data: Any) -> None:
        at = self.position[partition]
        ledger = {"log_start": 0, "log_end": self.ends[partition], "committed_to": at, "emitted_to_offset": at}
        ledger["processed"] = [[0, at - 1]] if at else []  # type: ignore[assignment]
        self._write(actor, what, {"topic": self.topic.name, "partition": partition} | data, ledger)

    def _record(self, actor: str, what: str, /, **data: Any) -> None:
        self._write(actor, what, data, {})

    def _write(self, actor: str, what: str, data: dict[str, Any], ledger: dict[str, Any]) -> None:
        self.write(self.now_ms, actor, what, data, ledger | {"orders": dict(self.effects)})
