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
from kitlib.experiments.cluster_audit.offset_files import read_files
from kitlib.lab import workspace
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, OffsetsTopic, RawRecord
from kitlib.lab.wire.records import WireBatch, encode_batch

DUMP = Path(__file__).with_name("dumped_offsets.txt")  # what kafka-dump-log of 4.3.1 printed of two groups' commits
READER, PIPELINE = "kit.auto-commit-c3abd2f6", "kit.consume-transform-produce-2594d939.group"


def committed(log: CommitLog) -> dict[str, list[int | None]]:
    return {where.group: [each.offset for each in found] for where, found in log.history.commits.items()}


def test_dump_is_read_as_the_records_that_it_shows() -> None:
    """Commits, who made them and what is skipped: a transaction's marker is no record."""
    log = read_files([DUMP])
    assert committed(log) == {READER: [300], PIPELINE: [3, 6, 9]} and log.reading.broken == 0
    [before] = next(found for where, found in log.history.commits.items() if where.group == READER)
    assert before.by == "B-a63fae8e-e792-4783-a045-b7d0970237f3 at /127.0.0.1" and before.members == 1
    assert (log.bounds[3].begin, log.bounds[3].end, log.removed, log.hidden) == (636, 646, 3, 0)
    assert [each.members for each in log.seen(READER)] == [0, 1, 0] and committed(read_files([DUMP], READER)) == {READER: [300]}


@pytest.mark.parametrize(
    ("change", "offsets", "hidden"),
    [
        (lambda text: text.replace("endTxnMarker: COMMIT", "endTxnMarker: ABORT", 2), [9], 0),
        (lambda text: text[: text.rindex("baseOffset")], [3, 6], 1),
    ],
    ids=["aborted", "open"],
)
def test_records_of_a_transaction_count_once_it_is_committed(change: Any, offsets: list[int], hidden: int, tmp_path: Path) -> None:
    """Those of an aborted one never took effect; behind an open one nothing can be read, and it is said."""
    file = tmp_path / "dump.txt"
    file.write_text(change(DUMP.read_text()))
    log = read_files([file])
    assert committed(log)[PIPELINE] == offsets and log.hidden == hidden


SEGMENT = bytes(encode_batch(WireBatch(0, [b"a", b"b"], timestamp_ms=5)))
HEAD = "baseOffset: 0 lastOffset: 0 producerId: -1 isTransactional: false\n"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("notes.txt", "hello\n", "no segment, nothing that kafka-dump-log prints"),
        ("raw.txt", "Dumping /x/__consumer_offsets-3/0.log\n| offset: 1 CreateTime: 5 keySize: 1 key: k payload: v\n", "--offsets-decoder"),
        ("export.json", '{"offset": 3, "key": "!"}\n', "export.json:1: .*expected partition, offset, timestamp, key, value"),
        ("export.parquet", "no parquet", "cannot be read"),
        ("dump.txt.gz", gzip.compress(DUMP.read_bytes()), "packed by gzip. Unpack it"),
        ("other.txt", f"Dumping /x/orders-0/0.log\n{HEAD}", "line 1: it is a dump of topic orders, expected __consumer_offsets"),
        ("heads.txt", f"Dumping /x/{OFFSETS_TOPIC}-0/0.log\n{HEAD}", "has batches and none of their records"),
        ("cut.txt", DUMP.read_text()[:1_500], "cut.txt: line 6 is no record as kafka-dump-log prints it, or was cut"),
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

    def row(record: RawRecord, shown: Any) -> dict[str, Any]:
        moment = datetime.fromtimestamp(record.at_ms / 1000, UTC)
        key, value = (None if each is None else shown(each) for each in (record.key, record.value))
        return {"partition": record.partition, "offset": record.offset, "timestamp": moment, "key": key, "value": value}

    lines = (row(each, lambda data: base64.b64encode(data).decode()) for each in records)
    (folder / "part-0.json").write_text("".join(json.dumps(line, default=lambda moment: moment.isoformat()) + "\n" for line in lines))
    parquet.write_table(pa.Table.from_pylist([row(each, bytes) for each in records]), folder / "part-0.parquet")
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
