"""The checkpoint folder of a Structured Streaming query, as plain data: which batches its logs name, and what lies in its state.

    metadata            the query's id
    offsets/N           which records batch N takes: a line "v1", a line about the query, a line for each source
    commits/N           batch N is done
    state/O/P/V.*       version V of partition P of the operator O with state; V.delta is what changed, V.snapshot and V.zip are all of it
    sources/            what some sources write for themselves

A sink that writes files has a log of its own, `_spark_metadata/N`, which says which files belong to batch N.

A folder is another program's, so nothing in it is believed: names are numbers or they are passed over, links are not followed, files
are read up to MOST_BYTES, and what cannot be read is said in `troubles`.

Source: Spark 4.2.0, `OffsetSeqLog`, `CommitLog`, `HDFSMetadataLog`, `HDFSBackedStateStoreProvider`, `RocksDBFileManager`, `FileStreamSink`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kitlib.errors import LabError
from kitlib.lab import workspace
from kitlib.text import plain_text

MOST_BYTES = 1 << 20  # of a file that is read
VERSION = re.compile(r"(\d{1,18})(?:_[0-9A-Za-z-]{1,60})?\.(?:delta|snapshot|changelog|zip)")
NUMBER = re.compile(r"\d{1,18}")
MOST_TROUBLES = 20


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """What lies in a checkpoint folder."""

    query_id: str  # "" when there is none
    offsets: dict[int, tuple[Any, ...]]  # batch -> for each source its end, as JSON values; None for a source that has none yet
    commits: tuple[int, ...]  # batches that are done, ascending
    state: dict[int, tuple[int, ...]]  # operator -> versions that all of its partitions have, ascending
    sources: int = 0  # how many files of its own the sources have there, checksums left out
    sink_batches: tuple[int, ...] = ()  # batches in the log of a file sink
    troubles: tuple[str, ...] = ()  # what could not be read, a sentence each

    @property
    def is_ahead(self) -> bool:
        """Whether commits names a batch above all those in offsets, as when a folder was put together from two copies."""
        return max(self.commits, default=-1) > max(self.offsets, default=-1)

    @property
    def unfinished(self) -> int | None:
        """The batch that the next start does again; None when the last one in offsets is the last one in commits."""
        last = max(self.offsets, default=None)
        return last if last not in self.commits or self.is_ahead else None

    @property
    def went_back(self) -> list[str]:
        """Each Kafka partition whose planned end is below an earlier one; a batch without an end hides nothing."""
        known, told = dict[tuple[str, str], int](), list[str]()
        for number in sorted(self.offsets):
            for where, to in self.ends(number).items():
                if to < known.get(where, to):
                    told.append(f"{where[0]}-{where[1]} from {known[where]} to {to} in batch {number}")
                known[where] = to
        return told

    def ends(self, number: int) -> dict[tuple[str, str], int]:
        """The end of each Kafka partition that a batch names."""
        return {where: end for source in self.offsets.get(number, ()) for where, end in (kafka_ends(source) or {}).items()}

    @property
    def beside(self) -> str:
        """What lies beside the batches."""
        own, kept = self.sources, len(self.state)
        query = f"metadata: query {self.query_id}" if self.query_id else "no metadata, so the next start is another query"
        told = f"{query}; sources: {own} file{'s' * (own != 1)}; state of {kept} operator{'s' * (kept != 1)}"
        return plain_text(told, 110)

    def beyond(self, number: int, log_ends: Mapping[tuple[str, int], int]) -> str:
        """The partitions that end before a batch does; "" without one. A folder proves only how far its topic once reached."""
        ends = {(topic, str(place)): end for (topic, place), end in log_ends.items()}
        planned = {where: to for where, to in self.ends(number).items() if to > ends.get(where, to)}
        return named([f"{topic}-{place} up to {to}, and the topic ends at {ends[topic, place]}" for (topic, place), to in planned.items()])

    def __repr__(self) -> str:
        told = f"{len(self.offsets)} batches in offsets, {len(self.commits)} in commits"
        state = "".join(f"; state {operator}: versions {list(versions)[-3:]}" for operator, versions in self.state.items())
        again = "" if self.unfinished is None else f"; batch {self.unfinished} is run again"
        return f"<checkpoint: {told}{state}{again}>"


def named(parts: list[str]) -> str:
    """Partitions in a sentence; what a folder says of them is another program's."""
    return plain_text(" and ".join(parts), 200)


@dataclass(slots=True)
class _Reader:
    folder: Path
    troubles: list[str] = field(default_factory=list)

    def trouble(self, path: Path | str, why: str) -> None:
        if len(self.troubles) < MOST_TROUBLES:
            self.troubles.append(f"{path}: {why}.")

    def below(self, *names: str) -> Iterator[os.DirEntry[str]]:
        """The entries of a folder inside, by name; none when it is not there, or is a link."""
        path = self.folder.joinpath(*names)
        if path.is_symlink() or not path.is_dir():
            return iter(())
        try:
            with os.scandir(path) as entries:
                return iter(sorted(entries, key=lambda entry: entry.name))
        except OSError as error:
            self.trouble("/".join(names), error.strerror or "cannot be read")
            return iter(())

    def numbers(self, *names: str) -> list[int]:
        """The files in a folder whose names are numbers."""
        found = (entry.name for entry in self.below(*names) if NUMBER.fullmatch(entry.name) and entry.is_file(follow_symlinks=False))
        return sorted(map(int, found))

    def lines(self, *names: str) -> list[str]:
        """A file's lines; [] and a trouble when it is too large, no file, or no text."""
        name = "/".join(names)
        try:
            path = self.folder.joinpath(*names)
            if path.is_symlink():
                raise ValueError("it is a link")
            return workspace.read_regular(path, MOST_BYTES).splitlines()
        except (OSError, ValueError) as error:
            self.trouble(name, str(getattr(error, "strerror", None) or error)[:120])
            return []

    def ends(self, number: int) -> tuple[Any, ...] | None:
        """What offsets/N says of each source; None when it cannot be read."""
        told = self.lines("offsets", str(number))
        if len(told) < 3 or not re.fullmatch(r"v\d{1,4}", told[0]):
            if told:
                self.trouble(f"offsets/{number}", "it does not begin with a version, and a line each for the query and its sources")
            return None
        try:
            return tuple(None if line == "-" else _json(line) for line in told[2:])
        except ValueError as error:
            self.trouble(f"offsets/{number}", f"a source's offset is no JSON ({str(error)[:60]})")
            return None

    def versions(self, operator: str) -> tuple[int, ...]:
        """The versions that every partition of an operator with state has. A version of one of its stores counts for the partition."""
        of_partition: list[set[int]] = []
        for partition in self.below("state", operator):
            if NUMBER.fullmatch(partition.name) and partition.is_dir(follow_symlinks=False):
                stores = [entry.name for entry in self.below("state", operator, partition.name) if entry.is_dir(follow_symlinks=False)]
                rooms = [("state", operator, partition.name), *(("state", operator, partition.name, store) for store in stores)]
                matches = (VERSION.fullmatch(entry.name) for room in rooms for entry in self.below(*room))
                of_partition.append({int(match[1]) for match in matches if match})
        return tuple(sorted(set.intersection(*of_partition))) if of_partition else ()


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("too deep") from None


def read_checkpoint(folder: str | Path, sink: str | Path | None = None) -> CheckpointFolder:
    """What lies in the checkpoint `folder` of a query, and in the `_spark_metadata` of the folder that its file `sink` writes to.

    LabError when there is no such folder, or it is no checkpoint; what else is wrong in it is in `troubles`.
    """
    where = Path(folder)
    if not where.is_dir():
        raise LabError(f"{where}: there is no such folder. Name the checkpointLocation of a query.")
    reader = _Reader(where)
    batches, commits = reader.numbers("offsets"), reader.numbers("commits")
    ends = {number: found for number in batches if (found := reader.ends(number)) is not None}
    about = reader.lines("metadata") if (where / "metadata").exists() else []
    if not batches and not commits and not about:
        raise LabError(f"{where} is no checkpoint: it has no metadata, no offsets and no commits. Name the checkpointLocation of a query.")
    query_id = ""
    try:
        told = _json(about[0]) if about else {}
        query_id = str(told.get("id", ""))[:60] if isinstance(told, dict) else ""
    except ValueError:
        reader.trouble("metadata", "it is no JSON")
    operators = [entry.name for entry in reader.below("state") if NUMBER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)]
    state = {int(name): reader.versions(name) for name in operators}
    sink_batches = _Reader(Path(sink)).numbers("_spark_metadata") if sink is not None else []
    sources = sum(not name.endswith(".crc") for _, _, names in os.walk(where / "sources") for name in names)
    return CheckpointFolder(query_id, ends, tuple(commits), state, sources, tuple(sink_batches), tuple(reader.troubles))


def kafka_ends(source: Any) -> dict[tuple[str, str], int] | None:
    """{(topic, partition): end} of a Kafka source's offset; None for another source's."""
    if not isinstance(source, Mapping) or not source:
        return None
    found: dict[tuple[str, str], int] = {}
    for topic, partitions in source.items():
        if not isinstance(partitions, Mapping) or not all(type(end) is int and 0 <= end < 2**63 for end in partitions.values()):
            return None
        found |= {(topic, partition): end for partition, end in partitions.items()}
    return found or None
