"""Compares the kit's hashes with those that Kafka 4.4.0 computed: of keys, and of the names of groups.

Each row is one question, so it is a trace of one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kitlib.conformance.golden import unknown
from kitlib.java.hash_codes import text_hash_code
from kitlib.more.hashes import group_partition, murmur2, partition_of_key, to_positive, utils_abs


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the functions give for one row."""
    for step in trace["steps"]:
        args = step["args"]
        counts = [int(each) for each in step["result"]["partition_by_count"]]
        match step["op"]:
            case "murmur2":
                key = bytes.fromhex(args["key_hex"] or "")
                told, partitions = {"murmur2": murmur2(key), "to_positive": to_positive(murmur2(key))}, partial(partition_of_key, key)
            case "group_partition":
                code, partitions = text_hash_code(args["group"]), partial(group_partition, args["group"])
                told = {"java_hash_code": code, "utils_abs": utils_abs(code)}
            case other:
                raise unknown(other)
        yield {"result": told | {"partition_by_count": {str(each): partitions(each) for each in counts}}}
