"""Batches of records from the wire as columns: a megabyte of them becomes four lists, and no object for each record.

`records.decode_batches` shows a batch with all its numbers. A job that reads millions of records wants their
offsets, times, keys and values alone, and wants them several times faster. Markers of transactions are passed
over; records of aborted transactions are not, as for a reader of uncommitted records.

Left out: headers, and the formats before Kafka 0.11.
Source: Apache Kafka 4.3.1, org.apache.kafka.common.record.internal.DefaultRecordBatch, DefaultRecord.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pyarrow as pa
from kafka.record.util import calc_crc32c

from kitlib.errors import LabError

HEADER = struct.Struct(">qiibIhiqqqhii")
AFTER_LENGTH = 12  # bytes before those that a batch's length counts
CHECKED_FROM = 21  # where its checksum begins
COMPRESSION, LOG_APPEND_TIME, CONTROL = 0x07, 0x08, 0x20  # bits of its attributes
CODECS = {1: "gzip", 3: "lz4", 4: "zstd"}
SNAPPY = 2
XERIAL = b"\x82SNAPPY\x00"  # how Java's snappy begins; its blocks follow, each with its length
XERIAL_BYTES = 16


@dataclass(slots=True)
class Columns:
    """Records of one partition in the log's order; the lists are equally long."""

    offsets: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    next_offset: int | None = None  # behind the last batch that was there as a whole; None when none was


def read_columns(data: bytes) -> Columns:
    """All batches that are there as a whole; the last one of a fetch may be cut, and is left out.

    LabError when a batch has a wrong checksum or an old format, or is not what its numbers say.
    """
    found, at = Columns(), 0
    while len(data) - at >= HEADER.size:
        base, length, _, magic, checksum, attributes, last, first_ms, max_ms, _, _, _, count = HEADER.unpack_from(data, at)
        end = at + AFTER_LENGTH + length
        if end > len(data):
            break
        if magic != 2 or end < at + HEADER.size:
            raise LabError(f"The batch at offset {base} has format {magic}, the kit reads format 2. Let a newer client write the topic.")
        if calc_crc32c(memoryview(data)[at + CHECKED_FROM : end]) != checksum:
            raise LabError(
                f"The batch at offset {base} has a wrong checksum: it was damaged on the broker's disk. `kit doctor` checks the broker."
            )
        if not attributes & CONTROL:
            try:
                body, begin = (_unpacked(data[at + HEADER.size : end], attributes & COMPRESSION), 0) \
                    if attributes & COMPRESSION else (data, at + HEADER.size)
                _read_records(found, body, begin, count, base, first_ms)
            except (IndexError, ValueError, KeyError, OSError, struct.error) as error:
                raise LabError(f"The batch at offset {base} cannot be read: {error!r}. `kit doctor` checks the broker.") from error
            if attributes & LOG_APPEND_TIME:
                found.times_ms[-count:] = [max_ms] * count
        found.next_offset, at = base + last + 1, end
    return found


def _unpacked(body: bytes, compression: int) -> bytes:
    if compression != SNAPPY:
        return bytes(pa.CompressedInputStream(pa.py_buffer(body), CODECS[compression]).read())
    if not body.startswith(XERIAL):
        return _snappy(body)
    parts, at = [], XERIAL_BYTES
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at)
        parts.append(_snappy(body[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def _snappy(block: bytes) -> bytes:
    size = shift = at = 0
    while True:  # the block says first how long it will be
        byte = block[at]
        size |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return bytes(pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True))


def _read_records(found: Columns, data: bytes, at: int, count: int, base: int, first_ms: int) -> None:
    """Add `count` records that begin at `at`.

    Numbers are zigzag varints; each is read on the spot, as a call would take longer than all the rest.
    """
    add_offset, add_time, add_key, add_value = found.offsets.append, found.times_ms.append, found.keys.append, found.values.append
    for _ in range(count):
        number = data[at]
        at += 1
        if number > 127:
            number, shift = number & 127, 7
            while (byte := data[at]) > 127:
                number |= (byte & 127) << shift
                at, shift = at + 1, shift + 7
            number |= byte << shift
            at += 1
        end = at + (number >> 1)
        at += 1  # the attributes, which no record has
        number = data[at]
        at += 1
        if number > 127:
            number, shift = number & 127, 7
            while (byte := data[at]) > 127:
                number |= (byte & 127) << shift
                at, shift = at + 1, shift + 7
            number |= byte << shift
            at += 1
        add_time(first_ms + ((number >> 1) ^ -(number & 1)))
        number = data[at]
        at += 1
        if number > 127:
            number, shift = number & 127, 7
            while (byte := data[at]) > 127:
                number |= (byte & 127) << shift
                at, shift = at + 1, shift + 7
            number |= byte << shift
            at += 1
        add_offset(base + (number >> 1))
        for add in (add_key, add_value):
            number = data[at]
            at += 1
            if number > 127:
                number, shift = number & 127, 7
                while (byte := data[at]) > 127:
                    number |= (byte & 127) << shift
                    at, shift = at + 1, shift + 7
                number |= byte << shift
                at += 1
            if number & 1:
                add(None)
            else:
                size = number >> 1
                add(data[at : at + size])
                at += size
        if at > end:
            raise ValueError(f"a record is longer than it says, by {at - end} bytes")
        at = end
    if at > len(data):
        raise ValueError("the last record is cut")
