"""Compares the kit's hashes with those that Kafka 4.4.0 computed: of keys, and of the names of groups.

Each row is one question, so it is a trace of one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import bytes_in, unknown
from kitlib.errors import TraceError
from kitlib.java.hash_codes import text_hash_code
from kitlib.more.hashes import group_partition, murmur2, partition_of_key, to_positive, utils_abs


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the functions give for one row. TraceError for a row that is no recorded one."""
    for step in trace["steps"]:
        args, counts = step.get("args", {}), _counts(step.get("result"))
        match step["op"]:
            case "murmur2":
                key = bytes_in(args, "key_hex") or b""
                told = murmur2(key)
                yield {
                    "result": {
                        "murmur2": told,
                        "to_positive": to_positive(told),
                        "partition_by_count": {str(each): partition_of_key(key, each) for each in counts},
                    }
                }
            case "group_partition":
                group = args.get("group")
                if not isinstance(group, str):
                    raise TraceError(f"group is {group!r:.60}, expected a string.")
                code = text_hash_code(group)
                yield {
                    "result": {
                        "java_hash_code": code,
                        "utils_abs": utils_abs(code),
                        "partition_by_count": {str(each): group_partition(group, each) for each in counts},
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
