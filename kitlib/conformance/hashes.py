"""Compares the kit's hashes with those that Kafka 4.4.0 computed: of keys, and of the names of groups.

Each row is one question, so it is a trace of one step. Functions of the learner's own go through the same
door, in the place of the kit's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kitlib.conformance.golden import bytes_in, unknown
from kitlib.errors import TraceError
from kitlib.java.hash_codes import text_hash_code
from kitlib.more import hashes


@dataclass(frozen=True, slots=True)
class Hashes:
    """The functions that are compared."""

    murmur2: Callable[[bytes], int] = hashes.murmur2
    to_positive: Callable[[int], int] = hashes.to_positive
    partition_of_key: Callable[[bytes, int], int] = hashes.partition_of_key
    hash_code: Callable[[str], int] = text_hash_code
    absolute: Callable[[int], int] = hashes.utils_abs
    group_partition: Callable[[str, int], int] = hashes.group_partition


def replay(trace: dict[str, Any], own: Hashes = Hashes()) -> Iterator[dict[str, Any]]:
    """What the functions give for one row. TraceError for a row that is no recorded one."""
    for step in trace["steps"]:
        args, counts = step["args"], _counts(step.get("result"))
        match step["op"]:
            case "murmur2":
                key = bytes_in(args, "key_hex") or b""
                told = own.murmur2(key)
                yield {
                    "result": {
                        "murmur2": told,
                        "to_positive": own.to_positive(told),
                        "partition_by_count": {str(each): own.partition_of_key(key, each) for each in counts},
                    }
                }
            case "group_partition":
                group = args.get("group")
                if not isinstance(group, str):
                    raise TraceError(f"group is {group!r:.60}, expected a string.")
                code = own.hash_code(group)
                yield {
                    "result": {
                        "java_hash_code": code,
                        "utils_abs": own.absolute(code),
                        "partition_by_count": {str(each): own.group_partition(group, each) for each in counts},
                    }
                }
            case other:
                raise unknown(other)


def _counts(result: Any) -> list[int]:
    """The numbers of partitions that the row asks for."""
    asked = result.get("partition_by_count") if isinstance(result, dict) else None
    if not isinstance(asked, dict) or not all(each.isascii() and each.isdigit() and int(each) for each in asked):
        raise TraceError(f"partition_by_count is {asked!r:.60}, expected numbers of partitions, 1 or more.")
    return [int(each) for each in asked]
