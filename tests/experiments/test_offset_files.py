"""Commit histories from files: what a reader of files is told is what a reader of the broker is told."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kitlib import experiments
from kitlib.errors import KitError, TraceError
from kitlib.experiments.cluster_audit.commit_log import CommitLog, read_commit_log
from kitlib.experiments.cluster_audit.group_reader import snapshots_of
from kitlib.experiments.cluster_audit.offset_files import Entry, read_files, settled
from kitlib.lab import workspace
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, OffsetsTopic, RawRecord
from kitlib.lab.wire.records import WireBatch, encode_batch


def committed(log: CommitLog) -> dict[str, list[int | None]]:
    return {where.group: [each.offset for each in found] for where, found in log.history.commits.items()}


def entry(offset: int, producer_id: int | None = None, is_committed: bool | None = None) -> Entry:
    return Entry(RawRecord(0, offset, 5, None, None), producer_id, is_committed)


@pytest.mark.parametrize(
    ("end", "offsets", "readable"),
    [([entry(4, 7, True)], [0, 1, 2, 3], 5), ([entry(4, 7, False)], [0, 2], 5), ([], [0], 1)],
    ids=["committed", "aborted", "open"],
)
def test_records_of_a_transaction_count_once_it_is_committed(end: list[Entry], offsets: list[int], readable: int) -> None:
    """Those of an aborted one never took effect; behind an open one nothing can be read."""
    entries = [entry(0), entry(1, 7), entry(2), entry(3, 7), *end]
    found, up_to = settled(entries, len(entries))
    assert ([each.offset for each in found], up_to) == (offsets, readable)


SEGMENT = bytes(encode_batch(WireBatch(0, [b"a", b"b"], timestamp_ms=5)))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("notes.txt", "hello\n", "neither a segment nor an exported topic"),
        ("export.json", '{"offset": 3, "key": "!"}\n', "export.json:1: .*expected partition, offset, timestamp, key, value"),
        ("export.parquet", "no parquet", "cannot be read"),
        ("topic.json.gz", gzip.compress(b"{}", mtime=0), "unpack what is packed"),
        ("cut.log", SEGMENT * 2 + SEGMENT[:-3], f"within the batch that begins at byte {2 * len(SEGMENT)}, .*truncate -s"),
        ("bad.log", SEGMENT[:-1] + b"!", "bad.log is damaged: .*wrong checksum.*Copy it again"),
        ("orders-3/0.log", SEGMENT, f"its folder is named as partition 3 of topic orders, expected {OFFSETS_TOPIC}-N"),
        ("folder/readme.md", "", "the folder has no file that ends in .log"),
        (None, "", "there is nothing"),
    ],
)
def test_file_that_is_none_of_these_is_told_with_its_place(name: str | None, content: str | bytes, says: str, tmp_path: Path) -> None:
    """What is wrong, where, and what was expected."""
    file = tmp_path / (name or "absent")
    if name:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(KitError, match=says):
        read_files([file.parent if name and "/" in name else file])


def test_files_without_records_and_the_zeros_behind_them_are_read(tmp_path: Path) -> None:
    """A segment may have a fixed size, an export may have no rows, and JSON lines may have empty ones between them."""
    names = ("partition", "offset", "timestamp", "key", "value")
    parquet.write_table(pa.table({name: pa.array([], pa.int64()) for name in names}), tmp_path / "none.parquet")
    (tmp_path / "new.log").write_bytes(b"")
    assert read_files([tmp_path]).notes() == ["there is no record at all."]
    (tmp_path / "new.log").write_bytes(SEGMENT + b"\0" * 4_096)
    (tmp_path / "lines.json").write_text('\n{"partition": 7, "offset": 1, "timestamp": 5, "key": "eA==", "value": null}\n\n')
    assert read_files([tmp_path]).records == 3
    parquet.write_table(pa.table({name: pa.array([None], pa.int64()) for name in names}), tmp_path / "none.parquet")
    with pytest.raises(TraceError, match=r"none\.parquet cannot be read"):
        read_files([tmp_path])


def exported(records: list[RawRecord], folder: Path) -> tuple[Path, Path]:
    """The topic as Spark writes it: JSON lines with base64, and Parquet with bytes."""
    rows = [
        {"partition": each.partition, "offset": each.offset, "timestamp": datetime.fromtimestamp(each.at_ms / 1000, UTC),
         "key": each.key, "value": each.value}
        for each in records
    ]  # fmt: skip
    parquet.write_table(pa.Table.from_pylist(rows), folder / "part-0.parquet")

    def shown(value: Any) -> str:
        return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value.isoformat())

    (folder / "part-0.json").write_text("".join(json.dumps(row, default=shown) + "\n" for row in rows))
    return folder / "part-0.json", folder / "part-0.parquet"


@pytest.mark.kafka
def test_files_of_a_broker_say_what_the_broker_says(broker: Any, tmp_path: Path) -> None:
    """Copied segments, with transactions among them, and the exported topic: the same groups, commits, members and findings."""
    for name in ("auto_commit", "consume_transform_produce"):
        experiments.run(name, backend="kafka")
    live = read_commit_log(broker)
    with OffsetsTopic.open(broker) as source:
        records = [record for partition in range(source.partitions()) for record in source.read(partition)]
    for folder in workspace.data_dir().rglob(f"{OFFSETS_TOPIC}-*"):
        shutil.copytree(folder, tmp_path / "copied" / folder.name)
    for told in (tmp_path / "copied", *exported(records, tmp_path)):
        log = read_files([told])
        assert log.history.commits == live.history.commits and log.history.groups == live.history.groups
        assert snapshots_of(log) == snapshots_of(live) and committed(log)
