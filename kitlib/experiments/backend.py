"""Where an experiment takes place: the model in memory, or a real broker.

An experiment needs topics of one partition to append to, to shorten and to read, and a place to keep
offsets. A backend provides both, so that the same script runs on either; `kitlib.experiments.kafka_backend`
is the real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kitlib.errors import LabError
from kitlib.mechanisms.log import Fetch, FetchError, LogReader, PartitionLog, Record
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.trace import Trace


@dataclass(slots=True)
class NotedTopic:
    """A LogReader that remembers the offset outside the log that it was asked for last."""

    topic: LogReader
    out_of_range_at: int | None = None

    def fetch(self, offset: int) -> Fetch:
        fetched = self.topic.fetch(offset)
        if fetched.error is FetchError.OFFSET_OUT_OF_RANGE:
            self.out_of_range_at = offset
        return fetched

    def offset_before(self, time: int) -> int | None:
        return self.topic.offset_before(time)


def read_between(topic: LogReader, begin: int, end: int) -> Iterator[Record]:
    """The records from `begin` to before `end`, both in the log. LabError when the log does not give them out."""
    while begin < end:
        fetched = topic.fetch(begin)
        if fetched.error is not FetchError.NO_ERROR:
            raise LabError(f"offset {begin} cannot be read: {fetched.error.name}. Look at `kit status`.")
        if not fetched.records:  # behind the last one there are markers, or offsets of records that compaction took
            return
        yield from (record for record in fetched.records if record.offset >= begin)
        begin = fetched.records[-1].offset + 1


@dataclass(slots=True)
class MemoryTable:
    """A map from keys to texts; on a broker it outlives its writer, here it lives as long as this object."""

    texts: dict[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        return self.texts.get(key)

    def put(self, key: str, text: str) -> None:
        self.texts[key] = text

    def all(self) -> dict[str, str]:
        return dict(self.texts)


@dataclass(slots=True)
class ModelBackend:
    """The model: logs and offsets in memory."""

    run: str
    name: str = "model"
    store: MemoryOffsetStore = field(default_factory=MemoryOffsetStore)  # where the spout keeps its offsets; all spouts share it
    tables: dict[str, MemoryTable] = field(default_factory=dict)

    def provide(self, facet: type[Any], *given: Any, **settings: Any) -> Any:
        """A part of the world that one kind of run needs (a group, a compacted log, a leader), closed with the backend.

        `facet` is the model's class. On Kafka the class that its `on_kafka` names takes its place: "module:Class",
        opened by `Class.open(backend, *given, **settings)`.
        """
        return facet(*given, **settings)

    def on_kafka(self, twin: str, *given: Any, **settings: Any) -> Any:
        """What a run has on Kafka beside its model, named and opened in the same way; None on the model."""
        return None

    def create_topic(self, name: str, max_fetch_records: int) -> PartitionLog:
        """A new, empty topic of one partition."""
        return PartitionLog(name, max_fetch_records=max_fetch_records)

    def create_table(self, name: str) -> MemoryTable:
        """A table of the run's own. The same name is the same table."""
        return self.tables.setdefault(name, MemoryTable())

    def publish(self, trace: Trace) -> None:
        """Keep the finished trace where the audit finds it; here the caller holds it."""

    def close(self) -> None:
        """Let go of connections, of which there are none; what was written stays."""
