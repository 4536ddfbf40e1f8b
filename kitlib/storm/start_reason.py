"""Why a PartitionManager began where it did, in words that a verdict understands."""

from __future__ import annotations

from kitlib.storm.offset_store import OffsetStore, StoredOffset
from kitlib.storm.partition_manager import SpoutConfig


def why_begun(config: SpoutConfig, store: OffsetStore, stored: StoredOffset | None, begun: int) -> str:
    """The rule by which a start chose the offset `begun`, given what was stored before it."""
    if stored is None:
        text = store.read(config.committed_path())
        return "no stored offset" if text is None else "the stored text holds no usable offset and counts as none"
    if stored.offset <= 0:
        return f"a stored offset of {stored.offset} counts as none"
    if begun == stored.offset:
        return "stored offset"
    if stored.topology_id != config.topology_id and config.force_from_start:
        return "another topology id"
    return f"the stored offset is more than max_offset_behind={config.max_offset_behind} behind"
