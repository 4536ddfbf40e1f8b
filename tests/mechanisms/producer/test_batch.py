"""A batch's size is that of the wire, and its parts lose and add nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.java.numbers import to_int
from kitlib.lab.wire.records import WireBatch, encode_batch
from kitlib.mechanisms.producer.batch import ProducerBatch, batch_upper_bound, closed_batch
from kitlib.mechanisms.protocol import Batch

VALUES = st.lists(st.binary(max_size=200), min_size=1, max_size=90)


def wire_bytes(values: list[bytes]) -> int:
    """The size of these records in a batch that a protocol library makes."""
    return len(encode_batch(WireBatch(0, tuple(values))))


@given(VALUES)
def test_closed_batch_weighs_what_the_wire_carries(values: list[bytes]) -> None:
    """The size, by which batches are closed and split, and by which a broker refuses them, is that of the real format."""
    assert closed_batch(0, 0, 0, values, 0).size_bytes == wire_bytes(values)
    assert Batch(0, len(values), values=tuple(values)).size_bytes == wire_bytes(values)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 8_191, 8_192, 100_000])
def test_closed_batch_of_one_large_value_weighs_what_the_wire_carries(length: int) -> None:
    """Lengths at which a number takes one byte more."""
    assert closed_batch(0, 0, 0, [b"x" * length], 0).size_bytes == wire_bytes([b"x" * length]) <= batch_upper_bound(length)


@given(VALUES, st.integers(0, 500))
def test_open_batch_takes_what_fits_and_always_the_first(values: list[bytes], batch_size: int) -> None:
    """An open batch never grows beyond its capacity, and has room for at least one record."""
    capacity = max(batch_size, batch_upper_bound(len(values[0])))
    batch = ProducerBatch(0, 0, 0, 0, 0, 0, capacity_bytes=capacity, is_open=True)
    for value in values:
        batch.try_append(value, 0)
    assert batch.count >= 1 and capacity >= batch.size_bytes == wire_bytes(batch.values)


@given(VALUES, st.integers(0, 600), st.integers(0, 2**31 - 1))
def test_split_keeps_every_record_in_order_and_shares_out_the_sequences(values: list[bytes], target: int, base: int) -> None:
    """The parts are the same records in the same order, each but one that cannot be smaller within the target."""
    batch = closed_batch(0, 3, 0, values, 17)
    batch.number_from(7, 1, base)
    parts = batch.split(target, 10)
    assert [value for part in parts for value in part.values] == values
    assert [part.number for part in parts] == list(range(10, 10 + len(parts)))
    begins = 0
    for part in parts:
        assert (part.first, part.base_sequence, part.send, part.created_ms) == (begins, to_int(base + begins), 3, 17)
        assert part.size_bytes <= max(target, batch_upper_bound(len(part.values[0]))) and part.is_split and part.count
        begins += part.count
