"""A PartitionManager whose records are emitted and finished by the batch, as Spark's micro-batches need it.

A stream in micro-batches asks for a million records at once, and later says of all of them that they are
done, but for a few that failed. Telling the ledgers that record by record would take longer than the
work. `BatchPartitionManager` takes whole ranges; its ledgers are afterwards those that the PartitionManager
has when each record is emitted, acked and failed by itself.

A batch says of itself all that a restart needs: what it emits, which failed records still wait, and what
was dropped so far. So whoever keeps batches, as a checkpoint does, can go on from any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from kitlib.errors import LabError
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME, FetchError
from kitlib.more.spout.offset_ranges import OffsetRanges
from kitlib.more.spout.retry import BackoffPartitionManager, RetryRecord
from kitlib.trace import to_ranges
from kitlib.words.word import Range

Retries = Mapping[int, int]  # offset -> which retry of it this is: 1, 2, ...; 0 for the first time it is emitted


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch takes from one partition, and how the partition stood when it was planned."""

    first: int  # the new records are those from here
    end: int  # to before this offset
    retries: Retries = field(default_factory=dict)  # emitted again in this batch
    waiting: Retries = field(default_factory=dict)  # failed, and left for a later batch
    number: int = 0  # of batches planned; two batches with the same records differ in it
    dropped: int = 0  # failures that were further behind than max_offset_behind, since the partition was begun
    given_up: int = 0  # records that failed at their last retry, since then
    lost: int = 0  # records that had left the log before they were emitted, since then

    def retry_of(self, offset: int) -> int | None:
        """Which retry of `offset` this batch holds, 0 for a new record; None when it does not hold it."""
        return self.retries.get(offset, 0 if self.first <= offset < self.end else None)

    def pieces(self) -> list[tuple[int, int, int]]:
        """What it emits as (first, last, which retry), in the order of the log."""
        new = [(self.first, self.end - 1, 0)] if self.first < self.end else []
        return sorted(_retried(self.retries) + new)

    def to_json(self) -> dict[str, Any]:
        """The batch as numbers and texts."""
        return asdict(self) | {"retries": retries_text(self.retries), "waiting": retries_text(self.waiting)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The batch that `to_json` told."""
        return cls(**{**told, "retries": read_retries(told["retries"]), "waiting": read_retries(told["waiting"])})


def retries_text(retries: Retries) -> str:
    """Retries as a text: "13#2 17-19#1" are the second retry of 13 and the first ones of 17, 18 and 19."""
    return " ".join(f"{first}#{retry}" if first == last else f"{first}-{last}#{retry}" for first, last, retry in _retried(retries))


def read_retries(text: str) -> dict[int, int]:
    """What `retries_text` wrote."""
    found: dict[int, int] = {}
    for word in text.split():
        offsets, _, retry = word.partition("#")
        first, _, last = offsets.partition("-")
        found |= dict.fromkeys(range(int(first), int(last or first) + 1), int(retry))
    return found


def _retried(retries: Retries) -> list[tuple[int, int, int]]:
    numbers = sorted(set(retries.values()))
    of_number = {number: to_ranges(offset for offset, retry in retries.items() if retry == number) for number in numbers}
    return sorted((first, last, number) for number, ranges in of_number.items() for first, last in ranges)


@dataclass(slots=True)
class BatchPartitionManager(BackoffPartitionManager):
    """One partition of a stream that is read in batches: `finish` the last one, `commit`, and ask for the `next_batch`.

    Source: as BackoffPartitionManager.
    Differs: ranges instead of records, with the same ledgers; a retry that is due joins the next batch; of the
    records that failed in a batch the others count as acked first; offsets that left the log do not stay
    pending, so commits go on; the records themselves are fetched by others.
    """

    pending: OffsetRanges = field(init=False, default_factory=OffsetRanges)  # type: ignore[assignment]  # the same questions
    dropped: int = 0  # failures that were further behind than max_offset_behind
    given_up_count: int = 0  # records that failed at their last retry
    number: int = 0  # of batches planned

    def resume(self, batch: Batch) -> None:
        """Go on where `batch` is in flight, and not where the start's rules have begun."""
        open_retries = {**batch.waiting, **batch.retries}
        self.emitted_to_offset = batch.end
        self.pending = OffsetRanges(open_retries)
        self.pending.add_range(batch.first, batch.end - 1)
        self.records = {offset: RetryRecord(offset, retry, self.now_ms) for offset, retry in open_retries.items()}
        self.waiting = {offset: self.records[offset] for offset in batch.waiting}
        self.number, self.dropped = batch.number, batch.dropped
        self.given_up_count, self.lost_message_count = batch.given_up, batch.lost

    def finish(self, batch: Batch, failed: Retries) -> None:
        """Everything in `batch` is done but for what `failed`; failures of other retries than the batch's are passed over.

        Raises TooManyTupleFailuresError as `fail`.
        """
        now = sorted(offset for offset, retry in failed.items() if batch.retry_of(offset) == retry)
        acked = OffsetRanges(batch.retries)
        acked.add_range(batch.first, batch.end - 1)
        for offset in now:
            acked.discard(offset)
        self.ack_ranges(acked.ranges)
        for offset in now:
            if self.fail(offset):
                continue
            if offset in self.given_up:
                self.given_up_count += 1
            else:
                self.dropped += 1
                self.records.pop(offset, None)

    def ack_ranges(self, ranges: Iterable[Range]) -> None:
        """As `ack` of each offset in these ascending ranges."""
        last = None
        for first, last in ranges:
            self.pending.discard_range(first, last)
            self.number_acked += last - first + 1
            for offset in [found for found in self.records if first <= found <= last]:
                self.records.pop(offset)
                self.waiting.pop(offset, None)
        if last is not None:
            self.pending.clear_below(last - self.config.max_offset_behind)

    def next_batch(self, limit: int | None = None, target: int | None = None) -> Batch:
        """Emit what is due to be retried, then new records up to `target` or the log's end; at most `limit` together.

        Raises FailedFetchError when the position is out of range and the settings do not allow to move on.
        """
        self.leave_what_is_gone()
        due = sorted(offset for offset in self.waiting if self.should_retry(offset))[:limit]
        self.due.clear()  # a batch takes all that is due, in the log's order
        for offset in due:
            del self.waiting[offset]
            self.pending.add(offset)
        first = self.emitted_to_offset
        ends = [self.offset_at(LATEST_TIME), *([] if target is None else [target])]
        end = max(first, min(ends if limit is None else [*ends, first + limit - len(due)]))
        self.pending.add_range(first, end - 1)
        self.emitted_to_offset = end
        self.number += bool(due or first < end)
        return Batch(
            first, end, {offset: self.records[offset].retry_num for offset in due},
            {offset: record.retry_num for offset, record in self.waiting.items()},
            self.number, self.dropped, self.given_up_count, self.lost_message_count,
        )  # fmt: skip

    def leave_what_is_gone(self) -> None:
        """Move on from what has left the log. Raises as `next_batch`; LabError for a position beyond the end, which would skip records."""
        if self.emitted_to_offset > (end := self.offset_at(LATEST_TIME)):
            raise LabError(
                f"{self.config.place}: the next record is {self.emitted_to_offset}, but the log ends at {end}: the topic was made anew, or "
                "lost its end. What is written up to there would never be read. Start with a new checkpoint and another id."
            )
        for offset in ([min(self.waiting)] if self.waiting else []) + [self.emitted_to_offset]:
            if self.fetch(offset).error is FetchError.OFFSET_OUT_OF_RANGE:
                self._go_to_what_is_left(offset, processing_new=False)
                self.pending.discard_range(0, self.offset_at(EARLIEST_TIME) - 1)
