"""The checkpoint folder of a Structured Streaming query, as plain data: which batches its logs name, and what lies in its state.

    offsets/N           which records batch N takes: a line "v1", a line about the query, a line for each source
    commits/N           batch N is done
    state/O/P/V.*       version V of partition P of the operator O with state; V.delta is what changed, V.snapshot and V.zip are all of it

Source: Spark 4.2.0, `OffsetSeqLog`, `CommitLog`, `HDFSMetadataLog`, `HDFSBackedStateStoreProvider`, `RocksDBFileManager`.
Differs: reads the folders of the kit's own queries, so a file that is not as Spark writes it is an error and not passed over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitlib.errors import LabError

VERSION = re.compile(r"(\d{1,18})(?:_[0-9A-Za-z-]{1,60})?\.(?:delta|snapshot|changelog|zip)")


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """What lies in a checkpoint folder."""

    offsets: dict[int, tuple[Any, ...]]  # batch -> for each source its end, as JSON values
    commits: tuple[int, ...]  # batches that are done, ascending
    state: dict[int, tuple[int, ...]]  # operator -> versions that all of its partitions have, ascending


def read_checkpoint(folder: Path) -> CheckpointFolder:
    """What lies in the checkpoint `folder` of a query; nothing where none has begun. LabError for a batch that cannot be read."""
    ends = {number: _ends(path) for number, path in _numbered(folder / "offsets").items()}
    state = {operator: _versions(path) for operator, path in _numbered(folder / "state").items()}
    return CheckpointFolder(ends, tuple(_numbered(folder / "commits")), state)


def _numbered(folder: Path) -> dict[int, Path]:
    """What lies in a folder under numbers, ascending."""
    return dict(sorted((int(path.name), path) for path in folder.glob("*") if path.name.isdecimal()))


def _ends(path: Path) -> tuple[Any, ...]:
    try:
        _version, _about, *sources = path.read_text(encoding="utf-8").splitlines()
        return tuple(map(json.loads, sources))
    except (OSError, ValueError) as error:
        raise LabError(f"the query's checkpoint cannot be read: {path} ({error}). Run it again.") from error


def _versions(operator: Path) -> tuple[int, ...]:
    """The versions that every partition has. A version of one of its stores counts for the partition."""
    names = [[path.name for path in partition.rglob("*")] for partition in _numbered(operator).values()]
    found = [{int(match[1]) for name in of_partition if (match := VERSION.fullmatch(name))} for of_partition in names]
    return tuple(sorted(set.intersection(*found))) if found else ()
