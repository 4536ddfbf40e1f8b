"""Batches of records as bytes: written with numbers of one's own choosing, and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c, crc32c_c

from kitlib.errors import LabError
from kitlib.lab.wire.records import WireBatch, decode_batches, encode_batch

BATCH = bytes(encode_batch(WireBatch(0, [b"one", b"", b"three" * 40], 5, 0, 7, 1_000)))


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=30), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1), st.integers(0, 2**40), st.booleans(),
)  # fmt: skip
def test_batches_come_back_as_they_were_made(
    values: list[bytes], producer_id: int, epoch: int, sequence: int, timestamp_ms: int, transactional: bool
) -> None:
    """Every number and every value of a batch is read back; the last of several that is cut is left out."""
    made = bytes(encode_batch(WireBatch(0, values, producer_id, epoch, sequence, timestamp_ms, transactional)))
    first, second = decode_batches(made + made + made[:-1])
    assert first == second and first.values == tuple(values)
    assert (first.producer_id, first.epoch, first.base_sequence, first.is_transactional) == (producer_id, epoch, sequence, transactional)
    assert [record[:2] for record in first.records] == [(number, timestamp_ms) for number in range(len(values))]


def test_batches_a_wrong_checksum_is_told() -> None:
    """A batch of which one bit is another is not read."""
    for at in (25, 60, len(BATCH) - 1):
        wrong = bytearray(BATCH)
        wrong[at] ^= 1
        with pytest.raises(LabError, match="a wrong checksum"):
            decode_batches(bytes(wrong))


def test_batches_checksum_is_made_by_the_compiled_library() -> None:
    """Without the package `crc32c` the protocol library computes the checksum in Python, 5,000 times as slowly."""
    assert calc_crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert crc32c_c is not None
