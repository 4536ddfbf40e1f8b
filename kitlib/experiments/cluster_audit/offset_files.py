"""A commit history from files that somebody has sent: copied segments, or an exported topic.

    PARTITION_FOLDER or *.log     segments of __consumer_offsets, as they lie on a broker's disk
    *.json, *.parquet, or folders of these     a topic exported with partition, offset, timestamp, key and value; in JSON lines
                                  key and value are base64, as Spark writes binary columns

Of a transaction's records only those of a committed one count; what lies behind one that is open in the files cannot be read, as on a
broker. Left out: segments of before Kafka 0.11; what kafka-dump-log printed of segments, which can be copied themselves.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka.errors import CorruptRecordError as Broken
from pyarrow import parquet

from kitlib.errors import KnobError, LabError, TraceError
from kitlib.experiments.cluster_audit.commit_log import CommitLog, add_records, check_times, watched
from kitlib.lab.offsets_topic import NO_TIME, OFFSETS_TOPIC, Bounds, RawRecord
from kitlib.lab.wire.records import FetchedBatch, decode_batches
from kitlib.text import plain_text

COLUMNS = ("partition", "offset", "timestamp", "key", "value")
KINDS = (".log", ".parquet", ".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a file, or the end of a transaction."""

    record: RawRecord
    producer_id: int | None = None  # None: in no transaction
    is_committed: bool | None = None  # of a marker; None: a record


def read_files(paths: Iterable[Path], group: str | None = None, since_ms: int | None = None, until_ms: int | None = None) -> CommitLog:
    """The history in these files and folders, as `read_commit_log` gives that of a cluster.

    KnobError for a file of no known kind; TraceError for one that is damaged, with the place.
    """
    check_times(since_ms, until_ms)
    by_partition: dict[int, dict[int, Entry]] = {}
    for path in paths:
        for file in _files_of(path):
            for entry in _entries(file):
                by_partition.setdefault(entry.record.partition, {})[entry.record.offset] = entry
    log = CommitLog()
    for partition, entries in sorted(by_partition.items()):
        last = max(entries) + 1
        records, readable = settled([entries[offset] for offset in sorted(entries)], last)
        add_records(log, watched(records, log), group, since_ms, until_ms)
        log.bounds[partition] = Bounds(min(entries), min(entries), readable, last)
    return log


def settled(entries: list[Entry], end: int) -> tuple[list[RawRecord], int]:
    """The records that a reader of committed transactions sees, and the offset that it can read up to."""
    found: list[RawRecord] = []
    is_open: dict[int, list[RawRecord]] = {}
    for entry in entries:
        if entry.producer_id is None:
            found.append(entry.record)
        elif entry.is_committed is None:
            is_open.setdefault(entry.producer_id, []).append(entry.record)
        else:
            ended = is_open.pop(entry.producer_id, [])
            found += ended if entry.is_committed else []
    stable = min((records[0].offset for records in is_open.values()), default=end)
    return sorted((each for each in found if each.offset < stable), key=lambda each: each.offset), stable


def _files_of(path: Path) -> list[Path]:
    """The files of a folder, in the order of their names; a file itself."""
    if not path.exists():
        raise KnobError(f"--from {path}: there is nothing. Name a file or a folder.")
    found = sorted(each for each in path.rglob("*") if each.suffix in KINDS and each.is_file()) if path.is_dir() else [path]
    if not found:
        raise KnobError(f"--from {path}: the folder has no file that ends in {', '.join(KINDS)}.")
    return found


def _entries(path: Path) -> Iterator[Entry]:
    try:
        if path.suffix == ".parquet":
            yield from (_exported(row) for row in parquet.read_table(path, columns=[*COLUMNS]).to_pylist())
            return
        content = path.read_bytes()
        if len(content) > 16 and content[16] == 2:  # the magic of a batch
            yield from _of_segment(path, content)
            return
        lines = content.decode("utf-8", "replace").splitlines()
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise TraceError(f"{path} cannot be read: {plain_text(error, 300)}") from error
    if next((line for line in lines if line.strip()), "").startswith("{"):
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    yield _exported(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise TraceError(f"{path}:{number}: {plain_text(repr(error), 200)}; expected {', '.join(COLUMNS)}, as base64.") from error
    elif content:
        raise KnobError(f"--from {path}: it is neither a segment nor an exported topic; unpack what is packed. See `kit offsets --help`.")


def _of_segment(path: Path, content: bytes) -> Iterator[Entry]:
    """A segment's records; its partition is that of its folder's name. KnobError where that is named for another topic."""
    topic, _, number = path.resolve().parent.name.rpartition("-")
    partition = int(number) if number.isdecimal() else 0
    if number.isdecimal() and topic not in ("", OFFSETS_TOPIC):
        told = f"its folder is named as partition {partition} of topic {plain_text(topic, 60)}, expected {OFFSETS_TOPIC}-N"
        raise KnobError(f"--from {path}: {told}. Name the right folder; if this is its segment after all, rename the folder.")
    for batch in _batches_of(path, content):
        for offset, at_ms, key, value in batch.records:
            record = RawRecord(partition, offset, at_ms, key, value)
            if batch.is_control:
                yield Entry(record, batch.producer_id, key is not None and struct.unpack(">hh", key[:4])[1] == 1)
            else:
                yield Entry(record, batch.producer_id if batch.is_transactional else None)


def _batches_of(path: Path, content: bytes) -> list[FetchedBatch]:
    """Its batches, up to the zeros that lie behind them in a file of a fixed size. TraceError for one that is damaged or cut."""
    at = 0
    while at < len(content) and content[at : at + 17].strip(b"\0"):
        length = struct.unpack_from(">i", content, at + 8)[0] if at + 12 <= len(content) else len(content)
        if length <= 0 or at + 12 + length > len(content):
            where = f"ends at byte {len(content)}, within the batch that begins at byte {at}, or is damaged there"
            raise TraceError(f"{path} {where}. Copy it again, or read what is whole of it: truncate -s {at} on a copy.")
        at += 12 + length
    try:
        return decode_batches(content[:at])
    except (LabError, Broken) as error:
        raise TraceError(f"{path} is damaged: {plain_text(error, 200)} Copy it again from its broker.") from error


def _exported(row: dict[str, Any]) -> Entry:
    at = row["timestamp"]
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    if isinstance(moment, datetime):
        moment = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    key, value = (base64.b64decode(each, validate=True) if isinstance(each, str) else each for each in (row.get("key"), row.get("value")))
    return Entry(RawRecord(int(row["partition"]), int(row["offset"]), NO_TIME if moment is None else int(moment), key, value))
