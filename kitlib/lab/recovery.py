"""What a broker cut off when it started: the end of a log whose file was damaged, told in sentences.

A broker that was not stopped in order checks its newest segments at its start. From the first batch
that does not fit its checksum on, all is cut off, with one line of warning, and the broker serves. What
had been acknowledged is then gone from it; with replicas, the others still have it. The broker itself
does not say how much it was: that is read from the high watermarks it wrote down while it lived.

Source: Apache Kafka 4.3.1, `LogLoader.recoverLog` (the warning), `OffsetCheckpointFile` (the file's form).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

HIGH_WATERMARKS = "replication-offset-checkpoint"  # written again and again, see node.settings
_CUT = re.compile(r"LogLoader partition=(?P<log>\S+-\d+), dir=.*truncating to offset (?P<offset>\d+)")


def high_watermarks(data: Path) -> dict[str, int]:
    """The high watermark of each log ("topic-partition") as the broker last wrote it down; {} when there is no such file."""
    try:
        lines = (data / HIGH_WATERMARKS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines[2:]:  # after the version and the number of entries
        topic, _, rest = line.partition(" ")
        partition, _, offset = rest.partition(" ")
        if topic and partition.isdecimal() and offset.isdecimal():
            found[f"{topic}-{partition}"] = int(offset)
    return found


def cuts(log_lines: Iterable[str], before: dict[str, int], node: int) -> list[str]:
    """A sentence for each log that the broker has cut at its start, by the lines of its log since then.

    `before` has the high watermarks from before the start.
    """
    ends = {found["log"]: int(found["offset"]) for line in log_lines if (found := _CUT.search(line))}
    return [_sentence(log, end, before.get(log, 0) - end, node) for log, end in ends.items()]


def _sentence(log: str, end: int, gone: int, node: int) -> str:
    lost = (
        f"{gone} acknowledged record{'s are' if gone > 1 else ' is'} gone from it, or more"
        if gone > 0
        else "what lay behind is gone from it"
    )
    return f"Broker {node} found {log} damaged at its start and cut it at offset {end}: {lost}. With replicas, the others still have it."
