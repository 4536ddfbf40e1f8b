"""A checkpoint folder as plain data: a query's own, half written ones, and folders that somebody has prepared."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import create_topic, deliver
from kitlib.lab.checkpoint_folder import MOST_BYTES, read_checkpoint
from kitlib.lab.clients import client_config
from kitlib.lab.log_ends import LogEnds
from kitlib.views.pictures.checkpoint import draw_checkpoint

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"orders":{"0":%d}}\n'
HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'  # without that Spark 4.2 fails
EVIL = '<script>alert(1)</script>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three batches, the last one without a commit and without its state."""
    made = tmp_path / "checkpoint"
    for name in ("offsets", "commits", "state/0/0", "state/0/1", "sources/0"):
        (made / name).mkdir(parents=True)
    (made / "sources/0/0").write_text("v1")
    (made / "sources/0/.0.crc").write_bytes(b"\0")
    (made / "metadata").write_text('{"id":"7d2"}')
    for number in range(3):
        (made / "offsets" / str(number)).write_text(OFFSETS % (4 * number + 4))
        (made / "offsets" / f".{number}.crc").write_bytes(b"\0")
    for number in range(2):
        (made / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        for partition in range(2):
            (made / f"state/0/{partition}/{number + 1}.delta").write_bytes(b"x")
    (made / "state/0/0/3.delta").write_bytes(b"x")  # the other partition has not come to it
    return made


def test_a_folder_says_which_batches_were_planned_done_and_run_again(folder: Path) -> None:
    """offsets, commits, and the versions that all partitions have; checksums are no files."""
    found = read_checkpoint(folder)
    assert found.query_id == "7d2" and found.offsets[2] == ({"orders": {"0": 12}},)
    assert (found.commits, found.state, found.unfinished, found.troubles) == ((0, 1), {0: (1, 2)}, 2, ())
    assert repr(found) == "<checkpoint: 3 batches in offsets, 2 in commits; state 0: versions [1, 2]; batch 2 is run again>"


def test_a_folder_is_drawn_batch_by_batch(folder: Path) -> None:
    """A column each, with what is missing left open; the sentence says what the next start does."""
    picture = draw_checkpoint(folder)
    assert repr(picture) == "Batch 2 is in offsets and not in commits: the next start runs it again with the same records."
    told = (">8–11<", ">v2<", ">done<", "the next start runs this batch again", "query 7d2; sources: 1 file; state of 1 operator")
    assert all(text in picture.svg for text in told)
    (folder / "commits/2").write_text("v1\n{}")
    assert repr(draw_checkpoint(folder)) == "Batches 0 to 2 are done: the next start plans batch 3."


def test_a_file_sinks_log_is_read_beside_it(folder: Path, tmp_path: Path) -> None:
    """`_spark_metadata` of the sink's folder names the batches whose files count."""
    (tmp_path / "out/_spark_metadata").mkdir(parents=True)
    for number in range(2):
        (tmp_path / f"out/_spark_metadata/{number}").write_text("v1")
    assert read_checkpoint(folder, tmp_path / "out").sink_batches == (0, 1)
    assert ">files<" in draw_checkpoint(folder, tmp_path / "out").svg


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", None), (b"v1\n{}\nnot json\n", "no JSON"), (b"\xff\xfe", "codec"), (b"v1\n", "does not begin"),
        (b"v1\n{}\n" + b"[" * 5000, "too deep"), (b"x" * (MOST_BYTES + 1), "at most"), (f"{EVIL}\n\n\n".encode(), "does not begin"),
    ],
    ids=["empty", "no JSON", "no text", "cut", "deep", "large", "another file"],
)  # fmt: skip
def test_a_file_that_is_no_offsets_is_a_trouble_and_no_error(folder: Path, content: bytes, told: str | None) -> None:
    """The other batches are read; what is wrong is a sentence."""
    (folder / "offsets/1").write_bytes(content)
    found = read_checkpoint(folder)
    assert sorted(found.offsets) == [0, 2] and found.commits == (0, 1)
    assert (told is None) == (found.troubles == ()) and (told is None or told in found.troubles[0])
    draw_checkpoint(folder)


def test_links_pipes_and_folders_in_a_files_place_are_not_followed(folder: Path, tmp_path: Path) -> None:
    """A name is not enough: what is no file of the folder's own is passed over, and nothing waits for a pipe."""
    secret = tmp_path / "secret"
    secret.write_text(OFFSETS % 99)
    (folder / "offsets/3").symlink_to(secret)
    (folder / "offsets/4").mkdir()
    os.mkfifo(folder / "offsets/5")
    (folder / "offsets/1e3").write_text(OFFSETS % 99)
    (folder / "state/1").symlink_to(tmp_path, target_is_directory=True)
    found = read_checkpoint(folder)
    assert sorted(found.offsets) == [0, 1, 2] and sorted(found.state) == [0]
    (folder / "metadata").unlink()
    (folder / "metadata").symlink_to(secret)
    assert read_checkpoint(folder).query_id == "" and "metadata" in read_checkpoint(folder).troubles[0]


def test_hostile_offsets_are_text_in_the_picture(folder: Path) -> None:
    """Whatever a source writes as its offset stays text."""
    (folder / "offsets/2").write_text(f'v1\n{{}}\n"{EVIL}"\n')
    svg = draw_checkpoint(folder).svg
    assert "<script" not in svg and "&lt;script" in svg
    (folder / "offsets/2").write_text('v1\n{}\n{"orders":{"0":-5}}\n{"a":{"0":"x"}}\n-\n')
    draw_checkpoint(folder)


def test_what_is_no_checkpoint_is_told(tmp_path: Path) -> None:
    """LabErrors that say what to name."""
    with pytest.raises(LabError, match="no such folder"):
        read_checkpoint(tmp_path / "nothing")
    with pytest.raises(LabError, match="is no checkpoint"):
        read_checkpoint(tmp_path)


def test_folder_proves_that_offsets_went_back_partition_by_partition(tmp_path: Path) -> None:
    """The sum of two partitions rises and one went back; a batch whose end is not known hides no step, and no folder is a step."""
    for number, ends in enumerate(({"orders": {"0": 100, "1": 100}}, {}, {"orders": {"0": 300, "1": 20}})):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / str(number)).write_text("v1\n{}\n" + json.dumps(ends), encoding="utf-8")
    picture = draw_checkpoint(tmp_path)
    proof = "The folder proves that offsets went back, as when a topic is made anew: orders-1 from 100 to 20 in batch 2. "
    assert picture.sentence.startswith(proof)
    (tmp_path / "offsets" / "2").unlink()
    assert "went back" not in draw_checkpoint(tmp_path).sentence


def at(first: int, second: int | None = None) -> list[int | None]:
    """The ends of two partitions; None: the batch does not name it."""
    return [first, second]


RUNS, PLANS, REFUSES = "runs it again", "plans batch", "Spark does not start"
# (the ends of each batch, batches that are done, what the kit says, what Spark then reads of partition 1 first: its batch and offsets)
SIGNS: dict[str, tuple[list[list[int | None] | None], list[int], str, tuple[int, int, int] | None]] = {
    "all are done": ([at(4, 4), at(6, 6)], [0, 1], f"{PLANS} 2.", (2, 6, 9)),
    "the last one is not": ([at(4, 4), at(6, 6)], [0], RUNS, (1, 4, 5)),
    "it goes back in one partition": ([at(4, 4), at(6, 2)], [0], REFUSES, None),
    "it goes back to the beginning": ([at(4, 4), at(6, 0)], [0], REFUSES, None),
    "it went back and is done": ([at(4, 4), at(6, 2)], [0, 1], "plans batch 2, orders-1 from 2.", (2, 2, 9)),
    "an earlier one went back": ([at(4, 4), at(6, 2), at(8, 8)], [0, 1], RUNS, (2, 2, 7)),
    "it has no ends": ([at(4, 4), []], [0], REFUSES, None),
    "it has none and is done": ([at(4, 4), []], [0, 1], "orders-1 is read again from its beginning", (2, 0, 9)),
    "a partition is missing from it": ([at(4, 4), at(6)], [0], REFUSES, None),
    "a partition is missing and it is done": ([at(4, 4), at(6)], [0, 1], "orders-1 is read again from its beginning", (2, 0, 9)),
    "a partition is new": ([at(4), at(6, 6)], [0], RUNS, (1, 0, 5)),
    "the one before is missing": ([at(4, 4), None, at(6, 6)], [0], "offsets/1 is not there", None),
    "commits is ahead of offsets": ([at(4, 4), at(6, 6)], [0, 1, 2], "/2 has no offsets/2: .*runs batch 1 again.*Concurrent", (1, 4, 5)),
    "commits is far ahead of offsets": ([at(4, 4), at(6, 6)], [0, 5], "commits/5 has no offsets/5: .*runs batch 1 again", (1, 4, 5)),
    "offsets is empty, commits is not": ([], [0, 1], "commits names batch 1 and offsets none: Spark does not start", None),
    "the topic ends before what was read": ([at(4, 4), at(6, 16)], [0, 1], "have read orders-1 up to 16, and the topic ends at 10", None),
    "the topic ends before what is to be read": ([at(4, 4), at(6, 16)], [0], "takes orders-1 up to 16, and the topic ends at 10", None),
    "the topic ends before its begin": ([at(4, 14), at(6, 16)], [0], "takes orders-1 up to 16, and the topic ends at 10", None),
    "the one before was never done": ([at(4, 4), at(6, 6), at(8, 8)], [0], "Batch 1 was never done and is passed over", (2, 6, 7)),
}  # fmt: skip


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("case", SIGNS)
def test_spark_does_what_the_folder_is_said_to_make_it_do(case: str, broker: Any, spark: Any, tmp_path: Path) -> None:
    """A real query starts from each folder, on a topic of ten records in each partition: what it reads first, or that it ends."""
    ends, done, said, first = SIGNS[case]
    topic, folder = f"kit.signs-{uuid.uuid4().hex[:8]}", tmp_path / "checkpoint"
    create_topic(AdminClient(client_config(broker)), topic, 1, shared=True, partitions=2)
    producer = Producer(client_config(broker))
    for partition in range(2):
        deliver(producer, topic, [(None, b"%d" % number) for number in range(10)], partition)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    for number, found in enumerate(ends):
        named = {str(partition): end for partition, end in enumerate(found or []) if end is not None}
        if found is not None:
            (folder / f"offsets/{number}").write_text(f"{HEAD}\n{json.dumps({topic: named} if named else {})}")
    for number in done:
        (folder / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    known = LogEnds.of(broker).ends([(topic, 0), (topic, 1)]).offsets
    assert re.search(said.replace("orders", topic), draw_checkpoint(folder, log_ends=known).sentence)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "latest",
               "kafkaConsumer.pollTimeoutMs": "3000"}  # fmt: skip
    sink = str(tmp_path / "sink")

    def write(batch: Any, number: int) -> None:  # in a process of Spark's
        rows = batch.select("offset", "partition").collect()
        with open(sink, "a") as file:
            file.write(json.dumps([number, sorted(row.offset for row in rows if row.partition == 1)]) + "\n")

    stream = spark.readStream.format("kafka").options(**options).load()
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    if first is None or "Concurrent" in said:
        words = r"offset was changed from|have been deleted|not found in offset log|assertion failed|Concurrent update"
        with pytest.raises(StreamingQueryException, match=words):
            query.awaitTermination(60)
    if first is None:
        assert not Path(sink).exists()
        return
    assert "Concurrent" in said or query.awaitTermination(60)
    batch, rows = json.loads(Path(sink).read_text().splitlines()[0])
    assert (batch, rows) == (first[0], list(range(first[1], first[2] + 1)))
