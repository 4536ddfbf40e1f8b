"""Compares the kit's hashes with those that Kafka 4.4.0 computed: of keys, and of the names of groups.

Each row is one question, so it is a trace of one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import unknown
from kitlib.java.hash_codes import text_hash_code
from kitlib.more.hashes import group_partition, murmur2, partition_of_key, to_positive, utils_abs


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the functions give for one row."""
    for step in trace["steps"]:
        args, counts = step["args"], [int(each) for each in step["result"]["partition_by_count"]]
        match step["op"]:
            case "murmur2":
                key = bytes.fromhex(args["key_hex"] or "")
                told = murmur2(key)
                yield {
                    "result": {
                        "murmur2": told,
                        "to_positive": to_positive(told),
                        "partition_by_count": {str(each): partition_of_key(key, each) for each in counts},
                    }
                }
            case "group_partition":
                group = args["group"]
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
