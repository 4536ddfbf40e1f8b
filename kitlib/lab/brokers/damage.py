"""Damages the file of a log as a failing disk does: its end is cut off, or one bit is another.

The broker has to be dead meanwhile, and not to have ended in order: only then does it check its files
when it starts. So a damage is a block: the broker is killed, its file is changed, the broker is back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kitlib.errors import KnobError, LabError
from kitlib.lab import kafka_server, workspace
from kitlib.lab.clients import Cluster, must_be_own

Damage = Literal["cut", "flip"]
CUT_BYTES = 7  # within the last batch
BATCH_HEADER_BYTES = 61  # a bit behind the header is one of the records, and the checksum notices it


def damage(cluster: Cluster, topic: str, how: Damage, partition: int = 0, node: int = 1, start: bool = True) -> list[str]:
    """Kill a broker of the kit's, damage the newest segment of a log on it, and start it again; what it says it has cut.

    "cut" takes the last 7 bytes of the file away, "flip" changes one bit in its middle. With `start` False the
    broker stays dead until `kafka_server.start_node`, and nothing is returned. KnobError for any other
    `how`; LabError when the cluster is not the kit's, has no such log, or the log is empty.
    """
    if how not in ("cut", "flip"):
        raise KnobError(f"damage(how={how!r}): a file is damaged by 'cut' or 'flip'. Choose one of them.")
    segment = newest_segment(cluster, topic, partition, node)
    if segment.stat().st_size <= BATCH_HEADER_BYTES:
        raise LabError(f"{segment.parent.name} on broker {node} has no record in its newest segment. Write some first.")
    kafka_server.kill_node(node, hold=True)
    try:
        content = bytearray(segment.read_bytes())
        if how == "cut":
            del content[-CUT_BYTES:]
        else:
            content[max(BATCH_HEADER_BYTES, len(content) // 2)] ^= 1
        segment.write_bytes(content)
    finally:
        if start:
            kafka_server.start_node(node)
    return [note for note in kafka_server.status().notes if f"found {topic}-{partition} damaged" in note] if start else []


def newest_segment(cluster: Cluster, topic: str, partition: int, node: int) -> Path:
    """The file of a log's active segment on a broker. LabError when there is none."""
    must_be_own(cluster, f"a file of {topic}")
    folder = workspace.data_dir() / f"kafka-{cluster.brokers}" / f"node-{node}" / f"{topic}-{partition}"
    segments = sorted(folder.glob("*.log"))
    if not segments:
        raise LabError(f"Broker {node} has no log of {topic}-{partition}. Name a topic and a broker that has a copy of it.")
    return segments[-1]
