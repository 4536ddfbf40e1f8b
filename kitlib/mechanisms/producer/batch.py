"""A batch in flight: its records, the numbers that it carries now, and how often it was tried.

The broker knows a batch by producer id, epoch and the sequence number of its first record. The client
may rewrite these numbers while the batch waits for a retry, so a batch that was sent is frozen as a
`protocol.Batch`; this object lives on in the client's ledgers. Left out: headers, keys, compression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kitlib.java.numbers import to_int
from kitlib.mechanisms.protocol import (
    BATCH_OVERHEAD_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
    record_bytes,
    varint_bytes,
)

MAX_RECORD_OVERHEAD_BYTES = 21  # what Java reserves for a record's own numbers before it knows them
MOST_AROUND_A_VALUE = BATCH_OVERHEAD_BYTES + MAX_RECORD_OVERHEAD_BYTES + 1 + 5 + 1  # `batch_upper_bound` minus the value


@dataclass(slots=True, eq=False, repr=False)
class ProducerBatch:
    """The records of one send, or of a part of it after a split.

    Source: Apache Kafka 4.3.1, `ProducerBatch` (and 2.0.0, which has the same fields).
    Differs: sizes are those of records without key and headers that share one timestamp; `number`,
    `send` and `first` name the batch for the reader, Java has futures instead.
    """

    number: int  # stable through retries; the parts of a split batch have numbers of their own
    send: int  # which hand-over of the user it belongs to
    partition: int
    first: int  # index of its first record within the send: above 0 in the later parts of a split one
    count: int  # records, at least 1
    created_ms: int  # of the send, also in parts; the delivery timeout counts from here
    values: list[bytes] = field(default_factory=list)
    capacity_bytes: int = 0  # an open batch takes records up to here
    size_bytes: int = BATCH_OVERHEAD_BYTES  # as it would lie on the wire
    longest_value_bytes: int = 0  # of its records
    is_open: bool = False  # whether `append` may still add records
    is_split: bool = False  # whether it is a part of a batch that was too large
    attempts: int = 0  # how often it was queued again; 0 while its first attempt is under way
    in_retry: bool = False  # whether it was ever queued again
    last_attempt_ms: int = field(init=False)  # when it was queued last: the back-off counts from here
    last_append_ms: int = field(init=False)  # when it took its last record or was queued again
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE  # NO_SEQUENCE until it is drained for the first time
    reopened: bool = False  # its numbers were rewritten since it last left
    final_state: str | None = None  # "SUCCEEDED", "FAILED" or "ABORTED": what the user was told, once

    def __post_init__(self) -> None:
        self.last_attempt_ms = self.last_append_ms = self.created_ms

    @property
    def is_done(self) -> bool:
        """Whether the user has been told how it ended."""
        return self.final_state is not None

    @property
    def has_sequence(self) -> bool:
        """Whether it has been numbered."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, as Java computes it: beyond 2^31 - 1 it turns negative."""
        return to_int(self.base_sequence + self.count - 1)

    @property
    def key(self) -> tuple[int, int, int]:
        """What the in-flight set is ordered by: producer id, epoch, base sequence."""
        return (self.producer_id, self.producer_epoch, self.base_sequence)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more records, so that lingering longer gains nothing."""
        return not self.is_open or self.capacity_bytes <= self.size_bytes

    @property
    def max_record_bytes(self) -> int:
        """What Java sets aside for a batch with its largest record alone."""
        return batch_upper_bound(self.longest_value_bytes)

    def try_append(self, value: bytes, now_ms: int) -> bool:
        """Take one more record, if it is open and the record fits. The first one always does."""
        length = len(value)
        size_bytes = self.size_bytes + record_bytes(length, self.count)
        if not self.is_open or (size_bytes > self.capacity_bytes and self.count):
            return False
        self.values.append(value)
        self.size_bytes = size_bytes
        self.count += 1
        if length > self.longest_value_bytes:
            self.longest_value_bytes = length
        if now_ms > self.last_append_ms:
            self.last_append_ms = now_ms
        return True

    def number_from(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Carry these numbers from now on, for the first time."""
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence

    def renumber(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Carry other numbers than it left with. A request that is out still has the old ones."""
        self.number_from(producer_id, producer_epoch, base_sequence)
        self.reopened = True

    def close(self) -> None:
        """It leaves now, with the numbers that it has."""
        self.is_open = self.reopened = False

    def reenqueued(self, now_ms: int) -> None:
        """It waits for another attempt."""
        self.attempts += 1
        self.last_attempt_ms = self.last_append_ms = max(self.last_append_ms, now_ms)
        self.in_retry = True

    def waited_ms(self, now_ms: int) -> int:
        """For how long it has been waiting since it was made or queued again."""
        return max(0, now_ms - self.last_attempt_ms)

    def has_reached(self, delivery_timeout_ms: int, now_ms: int) -> bool:
        """Whether its delivery timeout is over: delivery_timeout_ms <= its age."""
        return delivery_timeout_ms <= now_ms - self.created_ms

    def done(self, state: str) -> bool:
        """Tell the user how it ended; False when the user had been told before (the first word stands)."""
        if self.final_state is not None:
            return False
        self.final_state = state
        return True

    def on_wire(self) -> Batch:
        """It as it leaves now."""
        return Batch(
            self.partition,
            self.count,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            timestamp_ms=self.created_ms,
            values=tuple(self.values),
        )

    def __repr__(self) -> str:
        numbers = f"epoch {self.producer_epoch} sequence {self.base_sequence}" if self.has_sequence else "no sequence"
        return f"<batch {self.number} for partition {self.partition}: {self.count} records, {numbers}, {self.attempts} retries>"

    def split(self, target_bytes: int, first_number: int) -> list[ProducerBatch]:
        """Its records in batches of at most `target_bytes`, each with at least one, numbered one after another.

        The parts share out its sequence numbers and keep its creation time; they count as not tried.

        Source: Apache Kafka 4.3.1, `ProducerBatch.split`.
        Differs: nothing.
        """
        parts: list[ProducerBatch] = []
        lengths = [len(value) for value in self.values]
        begins = 0
        while begins < self.count:
            capacity = max(batch_upper_bound(lengths[begins]), target_bytes)
            size, ends = BATCH_OVERHEAD_BYTES, begins
            while ends < self.count:
                more = record_bytes(lengths[ends], ends - begins)
                if ends > begins and size + more > capacity:
                    break
                size, ends = size + more, ends + 1
            part = ProducerBatch(
                first_number + len(parts),
                self.send,
                self.partition,
                self.first + begins,
                ends - begins,
                self.created_ms,
                self.values[begins:ends],
                capacity,
                size,
                max(lengths[begins:ends]),
                is_split=True,
            )
            if self.has_sequence:
                part.number_from(self.producer_id, self.producer_epoch, to_int(self.base_sequence + begins))
            parts.append(part)
            begins = ends
        return parts


def closed_batch(number: int, send: int, partition: int, values: Sequence[bytes], now_ms: int) -> ProducerBatch:
    """A batch that the user hands over whole."""
    batch = ProducerBatch(number, send, partition, 0, len(values), now_ms, list(values))
    lengths = [len(value) for value in values]
    batch.size_bytes += sum(record_bytes(length, index) for index, length in enumerate(lengths))
    batch.longest_value_bytes = max(lengths)
    return batch


def batch_upper_bound(value_bytes: int) -> int:
    """What Java sets aside for a batch with this one record."""
    return BATCH_OVERHEAD_BYTES + MAX_RECORD_OVERHEAD_BYTES + 1 + varint_bytes(value_bytes) + value_bytes + 1
