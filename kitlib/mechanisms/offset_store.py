"""Where a spout keeps the offset it will resume from: what is written, and how it is read back.

One short JSON text per spout id and partition is all that survives a crash. Storm keeps it in
ZooKeeper; here it is behind a protocol of two methods, so that memory and a compacted Kafka topic
both work. The path names the spout and the partition but not the topic, which is a trap of its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from kitlib.java.numbers import to_long


class OffsetStore(Protocol):
    """A map from paths to texts that outlives the spout. Trouble is raised as an exception."""

    def read(self, path: str) -> str | None:
        """The text last written at `path`, or None."""
        ...

    def write(self, path: str, text: str) -> None:
        """Keep `text` at `path`; when this returns, it is kept."""
        ...


@dataclass(slots=True)
class MemoryOffsetStore:
    """An offset store that lives as long as this object: the model's ZooKeeper."""

    texts: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> str | None:
        return self.texts.get(path)

    def write(self, path: str, text: str) -> None:
        self.texts[path] = text


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What a start reads out of a stored text: the topology that wrote it, and its offset."""

    topology_id: str
    offset: int


def read_stored_offset(store: OffsetStore, path: str) -> StoredOffset | None:
    """The stored offset at `path`; None when there is none that a start can use.

    Storm swallows every trouble here: a lost connection, a text that is not JSON or has a number of more than
    64 bits, an offset that is a string or a float all count as "nothing stored", and the start then jumps elsewhere.

    Source: Storm 0.9.3, constructor of `storm.kafka.PartitionManager`, `ZkState.readJSON`.
    Differs: a text is JSON or it is not; json-simple also reads some that are nearly JSON.
    """
    try:
        text = store.read(path)
        stored: Any = None if text is None else json.loads(text, strict=False, parse_int=_long, parse_constant=_long)
        topology_id, offset = stored["topology"]["id"], stored["offset"]
    except Exception:  # noqa: BLE001 - Storm catches Throwable here: it is the rule, not carelessness of ours
        return None
    if isinstance(topology_id, str) and type(offset) is int:
        return StoredOffset(topology_id, offset)
    return None


def _long(digits: str) -> int:
    """A JSON number as json-simple reads it. ValueError when it has more than 64 bits, or is NaN or Infinity."""
    value = int(digits)
    if to_long(value) != value:
        raise ValueError(digits)
    return value


def offset_text(
    offset: int, topic: str, partition: int, topology_id: str, topology_name: str, host: str, port: int
) -> str:
    """What a commit stores: the offset, and who wrote it for which partition.

    Source: Storm 0.9.3, `PartitionManager.commit`, written by json-simple (its order of keys).
    Differs: nothing.
    """
    text = json.dumps(
        {
            "topology": {"id": topology_id, "name": topology_name},
            "offset": offset,
            "partition": partition,
            "broker": {"host": host, "port": port},
            "topic": topic,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).replace("/", "\\/")
    return re.sub(r"[\x7f-\x9f\u2000-\u20ff]", lambda found: f"\\u{ord(found[0]):04X}", text)
