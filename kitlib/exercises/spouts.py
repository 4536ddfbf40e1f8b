"""Small spouts in memory, for the exercises whose truth is the PartitionManager's own answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.mechanisms.log import PartitionLog
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig


def spout_on(records: int, kind: Callable[..., PartitionManager] = PartitionManager, **config: Any) -> PartitionManager:
    """A spout at the start of a topic in memory, all of which one fetch brings."""
    log = PartitionLog("orders", max_fetch_records=max(records, 1))
    log.append([b"order %d" % number for number in range(records)])
    return kind(SpoutConfig("orders", "spout", force_from_start=True, **config), log, MemoryOffsetStore())


def emitted_spout(
    records: int, kind: Callable[..., PartitionManager] = PartitionManager, **config: Any
) -> PartitionManager:
    """The same spout after it has emitted all of its records."""
    spout = spout_on(records, kind, **config)
    for _ in range(records):
        spout.next()
    return spout
