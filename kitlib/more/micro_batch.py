"""What a Structured Streaming query writes for each batch, in which order, and what the next start does with it.

A batch has a number, and the same steps each time: `offsets/N` says which records it takes, the state store gets
version N + 1, the sink gets the rows, `commits/N` says that all of this is done. A query that is killed leaves
what it has written. The next one looks at the two logs alone: if the last batch of `offsets` is not in `commits`, it is done
again, with the same records and with the state of version N, so what the killed batch wrote to the state does not count. What
it wrote to the sink does, and only the sink can tell.

Three sinks: one appends, one has a key for each record, one writes a batch in a transaction together with the batch's number.

Left out: watermarks, several sources, and batches without new records; asynchronous progress tracking, which writes the logs later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch and its records."""

    number: int
    first: int  # offsets [first, end)
    end: int
    is_again: bool  # its offsets were in the checkpoint already

    @property
    def offsets(self) -> range:
        return range(self.first, self.end)


@dataclass(slots=True)
class Checkpoint:
    """The folder of one query, as far as its next start reads it.

    Source: Spark 4.2.0, `MicroBatchExecution.populateStartOffsets`, `constructNextBatch`, `runBatch`; `StateStore`'s versions.
    Differs: one source with one partition.
    """

    offsets: dict[int, int] = field(default_factory=dict)  # batch -> where it ends; each begins where the one before ends
    commits: set[int] = field(default_factory=set)  # batches that are done; all of them are in `offsets`
    state: dict[int, frozenset[int]] = field(default_factory=dict)  # version -> the keys that it holds; version N + 1 is batch N's

    def begin_of(self, number: int) -> int:
        """The first offset of a batch."""
        return self.offsets.get(number - 1, 0)

    def next_batch(self, log_end: int, most: int) -> Batch | None:
        """The batch that a query takes next: one that is not in `commits`, else at most `most` new records; None: there are none."""
        last = max(self.offsets, default=-1)
        if last >= 0 and last not in self.commits:
            return Batch(last, self.begin_of(last), self.offsets[last], True)
        first = self.begin_of(last + 1)
        return Batch(last + 1, first, min(log_end, first + most), False) if first < log_end else None

    def write_offsets(self, batch: Batch) -> None:
        """offsets/N."""
        self.offsets[batch.number] = batch.end

    def write_state(self, batch: Batch) -> list[int]:
        """Version N + 1 of the state, made from version N; the records whose keys version N did not hold."""
        before = self.state.get(batch.number, frozenset())
        self.state[batch.number + 1] = before | set(batch.offsets)
        return [offset for offset in batch.offsets if offset not in before]

    def write_commit(self, batch: Batch) -> None:
        """commits/N."""
        self.commits.add(batch.number)


def half(rows: Sequence[int]) -> Sequence[int]:
    """The rows that are written when a query dies in the middle of its sink."""
    return rows[: (len(rows) + 1) // 2]


@dataclass(slots=True)
class AppendSink:
    """Where the rows of a batch go: they are added. A row is the offset that it comes from."""

    rows: list[int] = field(default_factory=list)

    def takes(self, batch: Batch) -> bool:
        """Whether the batch is written at all."""
        return True

    def write(self, batch: Batch, rows: Sequence[int], is_killed_halfway: bool = False) -> list[int]:
        """Write the rows, or half of them; those that can be read afterwards and could not before."""
        written = list(half(rows) if is_killed_halfway else rows)
        self.rows += written
        return written


@dataclass(slots=True)
class IdempotentSink(AppendSink):
    """A row has a key; one that is there already is not written again."""

    def write(self, batch: Batch, rows: Sequence[int], is_killed_halfway: bool = False) -> list[int]:
        there = set(self.rows)
        new = [row for row in (half(rows) if is_killed_halfway else rows) if row not in there]
        return AppendSink.write(self, batch, new)


@dataclass(slots=True)
class TransactionalSink(AppendSink):
    """Rows and the batch's number are written together or not at all; a number that is not higher than the last one is passed over.

    Source: Delta Lake 4.0, `txnVersion` and `txnAppId` of a writer in foreachBatch.
    Differs: one writer, so there is no `txnAppId`; a query with a new checkpoint goes on under the old name.
    """

    last_batch: int = -1

    def takes(self, batch: Batch) -> bool:
        return batch.number > self.last_batch

    def write(self, batch: Batch, rows: Sequence[int], is_killed_halfway: bool = False) -> list[int]:
        if is_killed_halfway:
            return []
        self.last_batch = batch.number
        return AppendSink.write(self, batch, rows)


SINKS = {"append": AppendSink, "idempotent": IdempotentSink, "transactional": TransactionalSink}
