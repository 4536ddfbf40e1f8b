"""How a Storm spout keeps its promise about one Kafka partition.

The spout emits records faster than they are finished, and they finish in any order. What it may
write down as done is one number, "everything below is finished". The PartitionManager holds the
ledgers from which that number follows:

* `waiting_to_emit`: fetched, not yet emitted;
* `pending`: fetched and not yet acked, so the smallest of them is where a restart must begin;
* `failed`: failed and waiting to be fetched again;
* `emitted_to_offset`: everything below has been fetched at least once.

One setting, `max_offset_behind`, bounds how far back the spout looks: a failure further back is not
retried, and an ack far ahead clears what lags behind it out of `pending`. Both happen without an
error, so "at least once" quietly ends there.

Effects are returned, never performed; the log and the stored offsets come through two small
protocols. Left out: metrics, log lines, the spout's loop over its partitions and its commit timer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kitlib.errors import KitError
from kitlib.java.numbers import MAX_LONG, to_long
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME, Fetch, FetchError, LogReader, Record
from kitlib.mechanisms.offset_set import OffsetSet
from kitlib.mechanisms.offset_store import OffsetStore, offset_text, read_stored_offset
from kitlib.mechanisms.spout_errors import (
    FailedFetchError,
    FetchCrashedError,
    MissingTopologyNameError,
    TooManyTupleFailuresError,
)

NO_OFFSET = -5  # what the start uses as an offset when the broker has none for a time stamp

Scheme = Callable[[Record], Sequence[Any] | None]


def raw_scheme(record: Record) -> Sequence[Any] | None:
    """One tuple with the record's bytes; None for a null payload."""
    return None if record.value is None else (record.value,)


@dataclass(slots=True)
class SpoutConfig:
    """The settings that a PartitionManager reads, with Storm 0.9.3's defaults.

    Source: Storm 0.9.3, `storm.kafka.KafkaConfig`, `SpoutConfig`, and the topology's own id and name.
    Differs: `scheme` maps a record to its tuples; the fetch size belongs to the LogReader.
    """

    topic: str
    id: str  # the spout's; part of the path that the offset is stored at
    topology_id: str = "topology-1"  # a new one with every submission of the topology
    topology_name: str | None = "topology"
    zk_root: str = "/kafka"
    partition: int = 0
    broker_host: str = "127.0.0.1"
    broker_port: int = 9092
    max_offset_behind: int = MAX_LONG  # in offsets; MAX_LONG means without bound
    force_from_start: bool = False  # lets `start_offset_time` decide, for a new topology id
    start_offset_time: int = EARLIEST_TIME
    use_start_offset_time_if_offset_out_of_range: bool = True
    scheme: Scheme = raw_scheme

    def committed_path(self) -> str:
        """Where the offset is stored. The topic is no part of it."""
        return f"{self.zk_root}/{self.id}/partition_{self.partition}"

    @property
    def place(self) -> str:
        """The partition's name in messages."""
        return f"{self.topic}-{self.partition}"

    @property
    def broker(self) -> str:
        """Its leader's address in messages."""
        return f"{self.broker_host}:{self.broker_port}"


class EmitState(Enum):
    """What `next` reports to the spout's loop."""

    EMITTED_MORE_LEFT = "EMITTED_MORE_LEFT"  # emitted, and more is waiting from the same fetch
    EMITTED_END = "EMITTED_END"  # emitted the last one that was waiting
    NO_EMITTED = "NO_EMITTED"  # nothing to emit now


@dataclass(frozen=True, slots=True)
class Emission:
    """The answer of `next`: the record emitted and its tuples, which share the offset as message id."""

    state: EmitState
    record: Record | None = None
    tuples: Sequence[Any] = ()
    acked: Sequence[int] = ()  # offsets without tuples that were acked before it


@dataclass(slots=True)
class PartitionManager:
    """The ledgers of one partition, from the start's choice of an offset to the committed one.

    Source: Storm 0.9.3, `storm.kafka.PartitionManager` (whole) and `storm.kafka.KafkaUtils`
    (`getOffset`, `fetchMessages`, `generateTuples`).
    Differs: answers and cleared offsets are returned instead of collected, counted or logged.
    """

    config: SpoutConfig
    log: LogReader
    store: OffsetStore
    emitted_to_offset: int = field(init=False)  # every offset below it was fetched, or jumped over
    committed_to: int = field(init=False)  # the offset last written; at the start the one begun from
    pending: OffsetSet = field(init=False, default_factory=OffsetSet)  # fetched, neither acked nor cleared
    failed: OffsetSet = field(init=False, default_factory=OffsetSet)  # to be fetched again, smallest first
    waiting_to_emit: deque[Record] = field(init=False, default_factory=deque)  # fetched, not emitted, in order
    number_acked: int = field(init=False, default=0)  # every call of ack, null payloads included
    number_failed: int = field(init=False, default=0)  # failures that were not skipped; never falls

    def __post_init__(self) -> None:
        """Choose the offset to begin from. Nothing is written.

        The current offset is always asked for, and "too far behind" is measured from it: from the
        log's end, unless `force_from_start` makes it another. A stored offset of 0 counts as none.
        """
        config = self.config
        stored = read_stored_offset(self.store, config.committed_path())
        current = self.configured_offset()
        if stored is None:
            begin = current
        elif stored.topology_id != config.topology_id and config.force_from_start:
            begin = self.offset_at(config.start_offset_time)
        else:
            begin = stored.offset
        if to_long(current - begin) > config.max_offset_behind or begin <= 0:
            begin = current
        self.committed_to = self.emitted_to_offset = begin

    def next(self) -> Emission:
        """Emit the next record that has tuples; fetch first when nothing is waiting.

        A record whose scheme gives None (a null payload) is acked on the spot and passed over. One
        whose scheme gives no tuples at all is emitted as nothing and stays pending.
        Raises what `fill` raises.
        """
        waiting = self.waiting_to_emit
        if not waiting:
            self.fill()
        acked: list[int] = []
        while waiting:
            record = waiting.popleft()
            tuples = self.config.scheme(record)
            if tuples is not None:
                state = EmitState.EMITTED_MORE_LEFT if waiting else EmitState.EMITTED_END
                return Emission(state, record, tuples, acked)
            self.ack(record.offset)
            acked.append(record.offset)
        return Emission(EmitState.NO_EMITTED, acked=acked)

    def fill(self) -> None:
        """Fetch into `waiting_to_emit`: the failed records if there are any, else new ones.

        With failures the fetch begins at the smallest one, and only failed records are taken from
        it; new records wait. Out of range with `use_start_offset_time_if_offset_out_of_range` moves
        `emitted_to_offset` and nothing else: `failed` and `pending` stay, even if what they name is gone.
        Raises FailedFetchError (out of range without that setting, any other error code, an OSError of
        the reader) and FetchCrashedError (any other exception of the reader, but for a KitError, which
        comes through as it is); the ledgers are then as before.
        """
        retrying = bool(self.failed)
        offset = self.failed.first() if retrying else self.emitted_to_offset
        fetched = self.fetch(offset)
        if fetched.error is FetchError.OFFSET_OUT_OF_RANGE:
            self.emitted_to_offset = self.configured_offset()
            return
        for record in fetched.records:
            at = record.offset
            if at < offset or (retrying and at not in self.failed):  # a compressed batch is fetched whole
                continue
            self.pending.add(at)
            self.waiting_to_emit.append(record)
            self.failed.discard(at)
            if self.emitted_to_offset <= at < MAX_LONG:
                self.emitted_to_offset = at + 1

    def ack(self, offset: int) -> Sequence[int]:
        """The tuples of `offset` are finished; the far-behind offsets that this cleared from `pending`.

        Cleared is everything below `offset - max_offset_behind`, if the smallest pending one is below
        that. Nothing asks whether `offset` was ever emitted. The difference has 64 bits: an ack of -2 or less
        with MAX_LONG clears everything.
        """
        cleared: Sequence[int] = ()
        if self.pending:
            bound = to_long(offset - self.config.max_offset_behind)
            if self.pending.first() < bound:
                cleared = self.pending.clear_below(bound)
            self.pending.discard(offset)
        self.number_acked += 1
        return cleared

    def fail(self, offset: int) -> bool:
        """A tuple of `offset` failed; whether it will be retried.

        False when offset < emitted_to_offset - max_offset_behind: it is neither counted nor retried
        and stays pending. `emitted_to_offset` is the end of what was fetched, so with a bound smaller
        than a fetch the first records of each fetch are already too old.
        Raises TooManyTupleFailuresError when number_acked == 0 and number_failed > max_offset_behind;
        `offset` is in `failed` and counted all the same.
        """
        if offset < to_long(self.emitted_to_offset - self.config.max_offset_behind):
            return False
        self.failed.add(offset)
        self.number_failed += 1
        self.check_tuple_failures()
        return True

    def check_tuple_failures(self) -> None:
        """Raise TooManyTupleFailuresError if nothing was acked and too much failed."""
        config = self.config
        if self.number_acked == 0 and self.number_failed > config.max_offset_behind:
            raise TooManyTupleFailuresError(config.id, config.place, self.number_failed, config.max_offset_behind)

    def commit(self) -> str | None:
        """Store `last_completed_offset()` if it differs from `committed_to`; the text written, or None.

        It may be smaller than before. Raises MissingTopologyNameError without a topology name, and
        whatever the store raises; `committed_to` is then unchanged and the next commit tries again.
        """
        completed = self.last_completed_offset()
        if completed == self.committed_to:
            return None
        config = self.config
        if config.topology_name is None:
            raise MissingTopologyNameError(config.id, completed)
        text = offset_text(
            completed, config.topic, config.partition,
            config.topology_id, config.topology_name, config.broker_host, config.broker_port,
        )  # fmt: skip
        self.store.write(config.committed_path(), text)
        self.committed_to = completed
        return text

    def last_completed_offset(self) -> int:
        """Everything below it is finished or given up: the smallest pending offset, else `emitted_to_offset`."""
        return self.pending.first() if self.pending else self.emitted_to_offset

    def failed_offsets(self) -> list[int]:
        """Offsets waiting to be fetched again, ascending."""
        return sorted(self.failed)

    def configured_offset(self) -> int:
        """The offset at `start_offset_time` if `force_from_start`, else at the log's end."""
        return self.offset_at(self.config.start_offset_time if self.config.force_from_start else LATEST_TIME)

    def offset_at(self, time: int) -> int:
        """The broker's offset for `time`, NO_OFFSET when it has none."""
        found = self.log.offset_before(time)
        return NO_OFFSET if found is None else found

    def fetch(self, offset: int) -> Fetch:
        """The records from `offset`, or an out-of-range answer that the settings allow to be followed."""
        config = self.config
        try:
            fetched = self.log.fetch(offset)
        except OSError as trouble:
            raise FailedFetchError(config.place, offset, trouble) from trouble
        except KitError:  # the reader itself has said what to do
            raise
        except Exception as trouble:
            raise FetchCrashedError(config.place, offset, trouble) from trouble
        error = fetched.error
        if error is FetchError.NO_ERROR:
            return fetched
        if error is FetchError.OFFSET_OUT_OF_RANGE and config.use_start_offset_time_if_offset_out_of_range:
            return fetched
        raise self.failed_fetch(offset, error)

    def failed_fetch(self, offset: int, error: FetchError) -> FailedFetchError:
        """What to raise when the fetch from `offset` was answered with `error`."""
        return FailedFetchError(f"{self.config.place} at {self.config.broker}", offset, error)

    def __repr__(self) -> str:
        return (
            f"<PartitionManager {self.config.place}: committed_to={self.committed_to}, "
            f"emitted_to_offset={self.emitted_to_offset}, {len(self.pending)} pending, {len(self.failed)} failed, "
            f"{len(self.waiting_to_emit)} waiting>"
        )
