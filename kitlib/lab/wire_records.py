"""Batches of records as bytes: made for a broker by the protocol library, and read back from what a broker sends.

The library writes the records and gives the header its layout. What a batch says about its producer
(id, epoch, first sequence number) is whatever the caller wants, and on request the batch is damaged
in one way, so that one can see what a broker makes of it. The checksum is computed here: the
library's own takes longer for a batch than all else together.

Left out: keys and headers on the way to the broker, and the formats before Kafka 0.11.
"""

from __future__ import annotations

import functools
import struct
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kitlib.errors import LabError
from kitlib.lab.wire_library import DefaultRecordBatch, DefaultRecordBatchBuilder, KafkaError

MAGIC = 2
HEADER_BYTES = DefaultRecordBatchBuilder.HEADER_STRUCT.size
OFFSET_AND_LENGTH = struct.Struct(">qi")  # the first two fields; the length counts what follows them
MAGIC_AT = 16
CHECKSUM_AT = 17
ATTRIBUTES_AT = 21  # the checksum covers the batch from here on
COUNT_AT = 57
CONTROL = 0x20
COMPRESSIONS = {"none": 0, "gzip": 1}
DAMAGES = ("", "checksum", "count", "control", "magic")
# What a compressed batch that was read may grow to: a few bytes can claim to be gigabytes.
LONGEST_UNPACKED_BYTES = 64 << 20

# Checksums (CRC-32C, Castagnoli)

POLYNOMIAL = 0x82F63B78
BLOCK = 128  # bytes of which numpy takes one block at a time


@functools.cache
def _tables() -> tuple[NDArray[np.uint32], NDArray[np.int32], list[list[int]], list[int]]:
    """What each byte value adds to the checksum, for each place in a block; the block's place numbers; and two parts as lists."""
    one = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        one = np.where(one & 1, (one >> 1) ^ np.uint32(POLYNOMIAL), one >> 1).astype(np.uint32)
    places = np.zeros((BLOCK, 256), np.uint32)
    last = one
    for place in range(BLOCK - 1, -1, -1):
        places[place] = last
        last = one[last & 0xFF] ^ (last >> 8)
    # A checksum so far works on as if its four bytes stood at the beginning of the next block.
    carried = [places[place].tolist() for place in range(4)]
    return places.reshape(-1), np.arange(BLOCK, dtype=np.int32) * 256, carried, one.tolist()


def checksum(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C of the bytes, the checksum of a batch.

    A checksum is linear: what a byte adds depends on its value and its distance from the end. So numpy looks
    up all bytes of a block at once, and only blocks are chained one after the other.
    """
    table, places, (first, second, third, fourth), one = _tables()
    blocks = len(data) // BLOCK
    found = 0xFFFFFFFF
    if blocks:
        square = np.frombuffer(data, np.uint8, blocks * BLOCK).reshape(blocks, BLOCK)
        for block in np.bitwise_xor.reduce(table.take(square + places), axis=1).tolist():
            found = (
                first[found & 0xFF] ^ second[found >> 8 & 0xFF] ^ third[found >> 16 & 0xFF] ^ fourth[found >> 24] ^ block
            )
    for byte in memoryview(data)[blocks * BLOCK :]:
        found = one[(found ^ byte) & 0xFF] ^ (found >> 8)
    return found ^ 0xFFFFFFFF


# Batches on their way to a broker


@dataclass(frozen=True, slots=True)
class WireBatch:
    """One batch for one partition, with the producer's numbers of one's choosing; nothing is checked here.

    `values` are the records' values, in order. `timestamp_ms` is that of every record, now if None.
    `compression` is "none" or "gzip". `damage` spoils the batch after it was made: "checksum" (wrong),
    "count" (says one record more than it holds), "control" (claims to be a broker's own), "magic" (an old format).
    """

    partition: int
    values: Sequence[bytes]
    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    timestamp_ms: int | None = None
    is_transactional: bool = False
    compression: str = "none"
    damage: str = ""


class _Builder(DefaultRecordBatchBuilder):  # type: ignore[misc]  # the library has no type hints
    """The library's builder, with the faster checksum."""

    def write_header(self, use_compression_type: bool = True) -> None:
        buffer = self._buffer
        self.HEADER_STRUCT.pack_into(
            buffer, 0, 0, len(buffer) - OFFSET_AND_LENGTH.size, 0, MAGIC, 0, self._get_attributes(use_compression_type),
            self._last_offset, self._first_timestamp or 0, self._max_timestamp or 0,
            self._producer_id, self._producer_epoch, self._base_sequence, self._num_records,
        )  # fmt: skip
        seal(buffer)


def seal(batch: bytearray) -> None:
    """Write the checksum that the bytes of the batch have now."""
    struct.pack_into(">I", batch, CHECKSUM_AT, checksum(memoryview(batch)[ATTRIBUTES_AT:]))


def encode_batch(batch: WireBatch) -> bytearray:
    """The bytes of a batch; LabError when it cannot be made (no record, an unknown compression or damage, numbers too large)."""
    if not batch.values:
        raise LabError(f"A batch for partition {batch.partition} has no records. Give it at least one value.")
    if batch.compression not in COMPRESSIONS:
        raise LabError(f"Compression '{batch.compression}': the kit's wire knows {', '.join(COMPRESSIONS)}. Choose one of them.")
    if batch.damage not in DAMAGES:
        raise LabError(f"Damage '{batch.damage}': there is {', '.join(DAMAGES[1:])}. Choose one of them.")
    timestamp_ms = int(time.time() * 1000) if batch.timestamp_ms is None else batch.timestamp_ms
    builder = _Builder(
        MAGIC, COMPRESSIONS[batch.compression], batch.is_transactional,
        batch.producer_id, batch.epoch, batch.base_sequence, 1 << 62,
    )  # fmt: skip
    append = builder.append
    try:
        for number, value in enumerate(batch.values):
            append(number, timestamp_ms, None, value, ())
        made: bytearray = builder.build()
    except (struct.error, TypeError, ValueError) as error:
        raise LabError(f"A batch for partition {batch.partition} cannot be written: {error}. Correct its values.") from error
    if batch.damage:
        spoil(made, batch.damage)
    return made


def spoil(made: bytearray, damage: str) -> None:
    """Damage a batch that was good; all but "checksum" leave it with a checksum that fits."""
    if damage == "checksum":
        made[CHECKSUM_AT] ^= 0xFF
        return
    if damage == "count":
        struct.pack_into(">i", made, COUNT_AT, struct.unpack_from(">i", made, COUNT_AT)[0] + 1)
    elif damage == "control":
        made[ATTRIBUTES_AT + 1] |= CONTROL
    elif damage == "magic":
        made[MAGIC_AT] = 1
    seal(made)


# Batches that came from a broker


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

    LabError when the bytes are no batches: a length below a header's, an older format, a wrong checksum,
    records that do not fill the batch, a compression that cannot be undone.
    """
    found = []
    at = 0
    while len(data) - at >= OFFSET_AND_LENGTH.size:
        _, length = OFFSET_AND_LENGTH.unpack_from(data, at)
        end = at + OFFSET_AND_LENGTH.size + length
        if length < HEADER_BYTES - OFFSET_AND_LENGTH.size:
            raise _no_batch(at, f"a length of {length} bytes")
        if end > len(data):
            break
        found.append(_decode_batch(data[at:end], at))
        at = end
    return found


def _decode_batch(data: bytes, at: int) -> FetchedBatch:
    if data[MAGIC_AT] != MAGIC:
        raise _no_batch(at, f"format {data[MAGIC_AT]}, expected {MAGIC}")
    try:
        batch = DefaultRecordBatch(data)
        if batch.crc != checksum(memoryview(data)[ATTRIBUTES_AT:]):
            raise _no_batch(at, "a wrong checksum")
        if batch.compression_type:
            _check_unpacked_size(batch, data, at)
        records = [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    except (KafkaError, ValueError, IndexError, TypeError, OverflowError, struct.error, zlib.error, OSError, EOFError) as error:
        raise _no_batch(at, str(error) or type(error).__name__) from error
    return FetchedBatch(
        batch.base_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence,
        batch.is_transactional, batch.is_control_batch, records, batch.last_offset,
    )  # fmt: skip


def _check_unpacked_size(batch: DefaultRecordBatch, data: bytes, at: int) -> None:
    """LabError unless it is gzip and stays small when it is unpacked."""
    if batch.compression_type != COMPRESSIONS["gzip"]:
        raise _no_batch(at, f"compression {batch.compression_type}; the kit's wire reads none (0) and gzip (1)")
    unpacker = zlib.decompressobj(wbits=31)
    left = LONGEST_UNPACKED_BYTES
    packed = data[HEADER_BYTES:]
    while packed and left > 0 and not unpacker.eof:
        left -= len(unpacker.decompress(packed, min(left, 1 << 20)))
        packed = unpacker.unconsumed_tail
    if left <= 0:
        raise _no_batch(at, f"more than {LONGEST_UNPACKED_BYTES:,} bytes when it is unpacked")


def _no_batch(at: int, found: str) -> LabError:
    return LabError(f"The broker sent no batch of records at byte {at} of its answer: {found}. Ask `kit doctor` about the broker.")
