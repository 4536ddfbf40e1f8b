"""Batches as columns: what the slower reader reads, every compression of real clients, and damaged bytes."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from kitlib.errors import LabError
from kitlib.lab.kafka_server import Cluster, client_config
from kitlib.lab.wire.columns import read_columns
from kitlib.lab.wire.records import DAMAGES, WireBatch, decode_batches, encode_batch, spoil
from tests.lab.wires import new_topic, open_wire

BATCH = bytes(encode_batch(WireBatch(0, [b"one", b"", b"three" * 40], 5, 0, 7, 1_000)))


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=150), st.integers(0, 2**40), st.sampled_from(["none", "gzip"]),
    st.integers(0, 70),
)  # fmt: skip
def test_columns_hold_what_the_slower_reader_reads(values: list[bytes], timestamp_ms: int, compression: str, cut: int) -> None:
    """Offsets, times, keys and values of whole batches; one that is cut is left out, and read again from its first offset."""
    made = bytes(encode_batch(WireBatch(0, values, timestamp_ms=timestamp_ms, compression=compression)))
    found = read_columns(made + made[: len(made) - 1 - cut])
    [batch] = decode_batches(made)
    assert list(zip(found.offsets, found.times_ms, found.keys, found.values, strict=True)) == batch.records
    assert found.next_offset == len(values)


@pytest.mark.kafka
def test_columns_of_every_compression_hold_what_was_produced(broker: Cluster) -> None:
    """Keys, values, nulls and long values come back from librdkafka's batches in each compression, from any offset on."""
    rows = [(None if number % 7 == 0 else b"key %d" % number, None if number % 11 == 0 else b"value %d " % number * number)
            for number in range(300)]
    topic = new_topic(broker)
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        producer = Producer(client_config(broker, **{"compression.codec": codec, "linger.ms": 50}))
        for key, value in rows:
            producer.produce(topic, value, key, 0, timestamp=1_700_000_000_000)
        assert producer.flush(20) == 0
    found: list[tuple[bytes | None, bytes | None]] = []
    with open_wire(broker) as wire:
        at, end = 0, len(rows) * len(codecs)
        while at < end:
            columns = wire.fetch_columns(topic, 0, at)
            assert set(columns.times_ms) == {1_700_000_000_000} and columns.next_offset is not None
            found += [row for offset, *row in zip(columns.offsets, columns.keys, columns.values, strict=True) if offset >= at]
            at = columns.next_offset
        assert wire.fetch_columns(topic, 0, end).next_offset is None
    assert [tuple(row) for row in found] == rows * len(codecs)


@pytest.mark.parametrize("damage", DAMAGES[1:])
def test_columns_damage_is_told(damage: str) -> None:
    """A wrong checksum, count or format is a sentence; a control batch has no records for a reader."""
    spoilt = bytearray(BATCH)
    spoil(spoilt, damage)
    if damage == "control":
        assert read_columns(bytes(spoilt)).offsets == [] and read_columns(bytes(spoilt)).next_offset == 3
        return
    with pytest.raises(LabError, match=r"offset 0 (has|cannot be read)"):
        read_columns(bytes(spoilt))


@given(st.binary(max_size=200))
def test_columns_bytes_of_chance_are_refused_or_empty(data: bytes) -> None:
    """Whatever comes, it is a sentence or nothing."""
    try:
        assert read_columns(data).offsets == []
    except LabError:
        pass


@given(st.integers(61, len(BATCH) - 1), st.integers(0, 255))
def test_columns_a_changed_record_behind_a_right_checksum_is_read_or_refused(at: int, byte: int) -> None:
    """A batch whose records do not fit it is told of, or gives as many records as it says."""
    changed = bytearray(BATCH)
    changed[at] = byte
    changed[17:21] = calc_crc32c(memoryview(changed)[21:]).to_bytes(4, "big")
    try:
        found = read_columns(bytes(changed))
    except LabError:
        return
    assert len(found.offsets) == len(found.keys) == len(found.values) == 3
