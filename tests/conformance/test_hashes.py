"""The kit's hashes against those that Kafka 4.4.0 computed, and against bugs planted by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.conformance.hashes import Hashes, replay
from kitlib.errors import KnobError, TraceError
from kitlib.java.hash_codes import text_hash_code
from kitlib.java.numbers import INT_BITS, to_int
from kitlib.kafka import hashes

ROWS = list(read_traces(bundled("groups", "hashes.jsonl.gz")))


def murmur2_of_signed_bytes(data: bytes) -> int:
    """The bytes of the tail keep their sign, as a careless port from Java has it."""
    tail = data[len(data) & ~3 :]
    return hashes.murmur2(data) if all(byte < 128 for byte in tail) else hashes.murmur2(data) ^ 1


def code_of_characters(text: str) -> int:
    """Characters in the place of UTF-16 units."""
    h = 0
    for character in text:
        h = to_int(h * 31 + ord(character))
    return h


BUGS: dict[str, dict[str, Callable[..., Any]]] = {
    "another seed": {"murmur2": lambda data: hashes.murmur2(data) ^ 1},
    "signed bytes in the tail": {"murmur2": murmur2_of_signed_bytes},
    "an unsigned result": {"murmur2": lambda data: hashes.murmur2(data) & INT_BITS},
    "abs for to_positive": {"to_positive": abs},
    "abs for a key's partition": {"partition_of_key": lambda key, n: abs(hashes.murmur2(key)) % n},
    "a signed remainder": {"partition_of_key": lambda key, n: hashes.murmur2(key) % n},
    "characters for units": {"hash_code": code_of_characters},
    "the absolute value of the least int": {"absolute": abs},
    "to_positive for a group's partition": {
        "group_partition": lambda group, n: hashes.to_positive(text_hash_code(group)) % n
    },
    "murmur2 for a group's partition": {"group_partition": lambda group, n: hashes.partition_of_key(group.encode(), n)},
}


@pytest.mark.parametrize("bug", BUGS)
def test_hashes_with_a_planted_bug_are_caught(bug: str) -> None:
    """Each bug differs in some row."""
    assert not conform(partial(replay, own=Hashes(**BUGS[bug])), iter(ROWS)).agrees


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


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "sha1", "input": {}, "output": {"partition_by_count": {}}},
        {"kind": "murmur2", "input": {"key_hex": "zz"}, "output": {"partition_by_count": {}}},
        {"kind": "murmur2", "input": {"key_hex": "00"}, "output": {"partition_by_count": {"0": 0}}},
        {"kind": "group_partition", "input": {"group": 7}, "output": {"partition_by_count": {}}},
    ],
)
def test_row_that_is_none_of_the_recorded_is_told(row: dict[str, Any], tmp_path: Path) -> None:
    """The reader is told what was expected, and nothing counts as matched."""
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"name": "odd"} | row))
    found = conform(replay, read_traces(file))
    assert found.matched == 0 and TraceError.__name__ in str(found.differences[0].got)
