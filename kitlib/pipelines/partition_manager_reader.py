"""The reader behind "kit.partition_manager": plans batches in the driver, and fetches their records in executors.

Spark makes this reader in several Python processes of a query, one after the other: one plans, one keeps the ledgers,
one for each task fetches. So what only one of them needs is imported there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kitlib.errors import LabError
from kitlib.more.spout.batches import Batch, BatchPartitionManager
from kitlib.pipelines.partition_manager_source import FORMAT, SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from kitlib.experiments.kafka_backend import KafkaBackend
    from kitlib.pipelines.partition_manager_fetch import PartitionLog, Piece

SECONDS_TO_ANSWER = 10.0


@dataclass(slots=True)
class Desk:
    """One partition in the driver: its manager, the batch that it planned last, and whether that is finished."""

    manager: BatchPartitionManager
    batch: Batch
    is_finished: bool


@dataclass
class Pieces(InputPartition):
    """What one task reads: offsets of one partition, ascending."""

    topic: str
    partition: int
    pieces: Sequence[Piece]
    config: Mapping[str, Any] = field(repr=False)  # librdkafka's, with passwords, as Spark's own source sends them to its tasks


class PartitionManagerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's offset is {partition: Batch as JSON}: the batch that ends there."""

    def __init__(self, settings: SourceOptions) -> None:
        self.settings = settings
        self.backend: KafkaBackend | None = None  # of the driver; opened when it is first needed
        self.desks: dict[int, Desk] = {}
        self.targets: dict[int, int] = {}  # with availableNow: where each partition ended when the query was started
        self.gone: dict[int, int] = {}  # records of a batch that is done again which have left the log since

    def initialOffset(self) -> dict[str, Any]:
        """Where the start's rules begin, of a query without a checkpoint; earlier failures are forgotten."""
        from kitlib.pipelines.partition_manager_failures import write_failures

        begun = {}
        for partition in self._partitions():
            manager = self._new_manager(partition)
            write_failures(self._open().store, manager.config, {})
            begun[str(partition)] = manager.next_batch(limit=0).to_json()
        return begun

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.settings.max_offsets_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self.targets = {partition: self._log(partition).end() for partition in self._partitions()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Finish the batch that ends at `start`, and plan the next one: retries first, then new records, shared between partitions."""
        begun = {int(partition): Batch.from_json(told) for partition, told in start.items()}
        partitions = self._partitions()
        for partition in partitions:
            self._finish(partition, begun.get(partition, Batch(0, 0)))  # one that was added later is read from its first record on
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        planned: dict[int, Batch] = {}
        for left, partition in zip(range(len(partitions), 0, -1), partitions, strict=True):
            target = self.targets.get(partition, 0) if self.targets else None
            share = None if room is None else -(-room // left)
            planned[partition] = batch = self.desks[partition].manager.next_batch(share, target)
            if room is not None:
                room -= sum(last - first + 1 for first, last, _ in batch.pieces())
        if not any(batch.pieces() for batch in planned.values()):
            return start
        for partition, batch in planned.items():
            self.desks[partition] = Desk(self.desks[partition].manager, batch, is_finished=not batch.pieces())
        return {str(partition): batch.to_json() for partition, batch in planned.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The batch that ends at `end`, a task for each partition; what has left the log since it was planned is counted as lost.

        FailedFetchError when the settings do not allow that.
        """
        if start == end:
            return []
        tasks = []
        for name, told in end.items():
            partition, pieces = int(name), Batch.from_json(told).pieces()
            log_start = self._log(partition).start() if pieces else 0
            if pieces and log_start > pieces[0][0]:
                self._new_manager(partition).fetch(pieces[0][0])  # raises if the settings say so
                self.gone[partition] = sum(max(0, min(last + 1, log_start) - first) for first, last, _ in pieces)
                pieces = [(max(first, log_start), last, retry) for first, last, retry in pieces if last >= log_start]
            if pieces:
                tasks.append(Pieces(self.settings.topic, partition, pieces, self._log(partition).config))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task, in an executor. LabError when the broker does not give them."""
        from kitlib.pipelines.partition_manager_fetch import read_pieces

        assert isinstance(partition, Pieces)
        return read_pieces(partition.topic, partition.partition, partition.pieces, partition.config)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: a manager commits when its batch is finished, and so after the last one too."""

    def stop(self) -> None:
        if self.backend is not None:
            self.backend.close()

    # -- in the driver -----------------------------------------------------------------------------

    def _open(self) -> KafkaBackend:
        if self.backend is None:
            from kitlib.pipelines.partition_manager_failures import open_backend

            self.backend = open_backend("source", self.settings)
        return self.backend

    def _partitions(self) -> list[int]:
        """The topic's partitions now. LabError when there is no such topic."""
        topics = self._open().admin.list_topics(timeout=SECONDS_TO_ANSWER).topics
        found = sorted(topics[self.settings.topic].partitions) if self.settings.topic in topics else []
        if not found:
            raise LabError(f"{FORMAT}: there is no topic {self.settings.topic} at {self._open().cluster.bootstrap}. Create it first.")
        return found

    def _log(self, partition: int) -> PartitionLog:
        from kitlib.lab.clients import client_config
        from kitlib.pipelines.partition_manager_fetch import PartitionLog

        return PartitionLog(self.settings.topic, partition, client_config(self._open().cluster))

    def _new_manager(self, partition: int) -> BatchPartitionManager:
        backend, settings = self._open(), self.settings
        config = settings.spout_config(partition, backend.cluster.bootstrap)
        return BatchPartitionManager(config, self._log(partition), backend.store, retry_limit=settings.retry_limit)

    def _finish(self, partition: int, batch: Batch) -> None:
        """Spark has noted this batch as done: all of it is acked that its sink did not call failed, once."""
        from kitlib.pipelines.partition_manager_failures import read_failures

        desk = self.desks.get(partition)
        if desk is None or desk.batch != batch:
            desk = self.desks[partition] = Desk(self._new_manager(partition), batch, False)
            desk.manager.resume(batch)
        if desk.is_finished:
            return
        desk.manager.lost_message_count += self.gone.pop(partition, 0)
        desk.manager.finish(batch, read_failures(self._open().store, desk.manager.config))
        desk.manager.commit()
        desk.is_finished = True
