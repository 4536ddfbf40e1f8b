"""The kit's metadata, partitioner and memory pool against Kafka 4.3.1's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kitlib.conformance.client import replay
from kitlib.conformance.golden import bundled, read_traces
from kitlib.errors import TraceError

FILES = {name: list(read_traces(bundled("client", f"{name}.jsonl.gz"))) for name in ("metadata", "partitioner", "pool")}


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"kind": "consumer"}},
        {"config": {"kind": "pool", "total_memory": 10, "poolable_size": 4}, "steps": [{"op": "borrow", "args": {}}]},
        {"config": {"kind": "pool", "total_memory": 10, "poolable_size": 4}, "steps": [{"op": "allocate", "args": {"size": "x"}}]},
        {"config": {"kind": "pool", "total_memory": 10, "poolable_size": 4}, "steps": [{"op": "allocate"}]},
    ],
    ids=["another class", "another operation", "no number", "no argument"],
)
def test_client_with_a_script_that_is_none_says_so(change: dict[str, Any]) -> None:
    """A file that the recorder never wrote ends with a TraceError that tells what is wrong."""
    script = json.loads(json.dumps(FILES["pool"][0])) | change
    with pytest.raises(TraceError, match=r"\w+"):
        list(replay(script))
