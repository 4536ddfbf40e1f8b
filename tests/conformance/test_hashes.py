"""The kit's hashes against those that Kafka 4.4.0 computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.conformance.golden import bundled, read_traces
from kitlib.errors import KnobError
from kitlib.more import hashes

ROWS = list(read_traces(bundled("groups", "hashes.jsonl.gz")))


@given(st.binary(max_size=40), st.integers(1, 1_000))
def test_partition_of_a_key_is_one_of_the_topics(key: bytes, partitions: int) -> None:
    """Any bytes, the empty key included, have one partition."""
    assert 0 <= hashes.partition_of_key(key, partitions) < partitions


@given(st.text(max_size=20), st.integers(1, 1_000))
def test_partition_of_a_group_is_one_of_the_topics(group: str, partitions: int) -> None:
    """Any string that Java can hold has one partition, lone halves of a pair included."""
    assert 0 <= hashes.group_partition(group, partitions) < partitions
    assert 0 <= hashes.group_partition(group + "\ud800", partitions) < partitions


@pytest.mark.parametrize("ask", [lambda: hashes.partition_of_key(b"a", 0), lambda: hashes.group_partition("a", -1)])
def test_partition_of_no_partitions_is_a_knob_error(ask: Callable[[], int]) -> None:
    """There must be at least one to choose from."""
    with pytest.raises(KnobError, match="1 or more"):
        ask()
