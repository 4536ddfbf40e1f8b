"""Batches of records as bytes: made for a broker by the protocol library, and read back from what a broker sends.

What a batch says about its producer (id, epoch, first sequence number) is whatever the caller wants.

Left out: keys, headers and compression on the way to the broker, and the formats before Kafka 0.11.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from kitlib.errors import LabError

MAGIC = 2
UNCOMPRESSED = 0


@dataclass(frozen=True, slots=True)
class WireBatch:
    """One batch for one partition, with the producer's numbers of one's choosing; nothing is checked here.

    `values` are the records' values, in order. `timestamp_ms` is that of every record, now if None.
    """

    partition: int
    values: Sequence[bytes]
    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    timestamp_ms: int | None = None
    is_transactional: bool = False


def encode_batch(batch: WireBatch) -> bytearray:
    """The bytes of a batch; LabError when it cannot be made (no record, numbers too large)."""
    if not batch.values:
        raise LabError(f"A batch for partition {batch.partition} has no records. Give it at least one value.")
    timestamp_ms = int(time.time() * 1000) if batch.timestamp_ms is None else batch.timestamp_ms
    builder = DefaultRecordBatchBuilder(
        MAGIC, UNCOMPRESSED, batch.is_transactional,
        batch.producer_id, batch.epoch, batch.base_sequence, 1 << 62,
    )  # fmt: skip
    try:
        for number, value in enumerate(batch.values):
            builder.append(number, timestamp_ms, None, value, ())
        made: bytearray = builder.build()
        return made
    except (struct.error, TypeError, ValueError) as error:
        raise LabError(f"A batch for partition {batch.partition} cannot be written: {error}. Correct its values.") from error


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """One batch as a broker keeps it. A control batch is a transaction's marker: its value says nothing, its key what ended."""

    base_offset: int
    producer_id: int
    epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    # (offset, timestamp in ms, key, value) of each record that is still there.
    records: list[tuple[int, int, bytes | None, bytes | None]]
    # A compacted batch may end after its last record that is still there.
    last_offset: int = -1

    @property
    def values(self) -> tuple[bytes, ...]:
        """The records' values in order; an absent value is empty."""
        return tuple(value or b"" for _, _, _, value in self.records)


def decode_batches(data: bytes) -> list[FetchedBatch]:
    """All batches that are there as a whole; the last one of a fetch may be cut, and is left out.

    LabError when one has a wrong checksum: a broker hands out what is on its disk, damaged or not.
    """
    found = []
    for batch in MemoryRecords(data):
        if not batch.validate_crc():
            raise LabError(
                f"The batch at offset {batch.base_offset} has a wrong checksum: it was damaged on the broker's disk. "
                "`kit doctor` checks the broker."
            )
        records = [(record.offset, record.timestamp, record.key, record.value) for record in batch]
        found.append(FetchedBatch(
            batch.base_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence,
            batch.is_transactional, batch.is_control_batch, records, batch.last_offset,
        ))  # fmt: skip
    return found
