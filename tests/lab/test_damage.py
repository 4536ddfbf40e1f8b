"""Damaged files: what a broker cuts off is told, and counted as lost (rows 19 and 20 of the faults)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.lab import kafka_server, workspace
from kitlib.lab.brokers.damage import damage
from kitlib.lab.brokers.node import cuts, high_watermarks
from kitlib.lab.clients import Cluster
from kitlib.lab.processes import wait_until
from tests.lab.records import TOPIC, Books, create_topic, produce, read_all

LINE = "2026-01-01 WARN LogLoader - [LogLoader partition={log}, dir=/x] Corruption found in segment 0, truncating to offset {end}"


@pytest.mark.parametrize(
    ("watermark", "told"),
    [
        (505, "cut it at offset 500: 5 acknowledged records are gone from it, or more."),
        (501, "cut it at offset 500: 1 acknowledged record is gone from it, or more."),
        (500, "cut it at offset 500: what lay behind is gone from it."),
        (None, "cut it at offset 500: what lay behind is gone from it."),
    ],
)
def test_cut_is_told_with_what_was_acknowledged(watermark: int | None, told: str) -> None:
    """The sentence names the broker, the log, the place, and how many records below the old high watermark are gone."""
    before = {} if watermark is None else {"a-b-12": watermark}
    (sentence,) = cuts(["something else", LINE.format(log="a-b-12", end=500)], before, 2)
    assert sentence.startswith("Broker 2 found a-b-12 damaged at its start") and told in sentence


def test_high_watermarks_are_read_as_far_as_the_file_makes_sense(tmp_path: Path) -> None:
    """Half a line, a line of something else and a file that is not there: what can be read is read."""
    assert high_watermarks(tmp_path) == {}
    file = tmp_path / "replication-offset-checkpoint"
    file.write_text("0\n3\norders 0 505\norders x 7\n__consumer_offsets 3 12\norders 1")
    assert high_watermarks(tmp_path) == {"orders-0": 505, "__consumer_offsets-3": 12}
    file.write_bytes(b"\xff\xfe")
    assert high_watermarks(tmp_path) == {}


def written_down(count: int) -> bool:
    return high_watermarks(workspace.data_dir() / "kafka-1" / "node-1").get(f"{TOPIC}-0") == count


@pytest.fixture
def books(own_home: Path) -> Books:
    """A broker of this test's own with 500 acknowledged records in one batch and 5 in another, all of it written down."""
    cluster = kafka_server.ensure(progress=lambda _text: None)
    create_topic(cluster)
    books = produce(cluster, range(500), **{"linger.ms": 500, "batch.num.messages": 500})
    books.acknowledged |= produce(cluster, range(500, 505), **{"linger.ms": 500}).acknowledged
    assert books.acknowledged == set(range(505))
    wait_until(lambda: written_down(505), 30, "the high watermark is written down")
    return books


@pytest.mark.kafka
def test_damaged_logs_lose_acknowledged_records_and_the_status_says_how_many(books: Books, own_home: Path) -> None:
    """A tail cut by 7 bytes takes the last batch; then one bit in the middle takes all. Each time `kit status` names the loss."""
    cluster = kafka_server.ensure()
    (told,) = damage(cluster, TOPIC, "cut")
    assert "found orders-0 damaged at its start and cut it at offset 500: 5 acknowledged records are gone" in told
    assert books.acknowledged - set(read_all(cluster)) == set(range(500, 505))
    wait_until(lambda: written_down(500), 30, "the high watermark is written down")
    damage(cluster, TOPIC, "flip")
    told = kafka_server.status().notes[-1]
    assert "cut it at offset 0: 500 acknowledged records are gone" in told
    assert not read_all(cluster)


def test_damage_is_done_to_the_kits_own_logs_alone(own_home: Path) -> None:
    """Another's cluster, a log that is not there and another kind of damage are refused, and nothing is touched."""
    stranger = Cluster("127.0.0.1:1", "other", 1, "external", (), None, ())
    with pytest.raises(LabError, match="are not the kit's"):
        damage(stranger, TOPIC, "cut")
    with pytest.raises(LabError, match="has no log of orders-0"):
        damage(Cluster("127.0.0.1:1", "own", 1, "kit", (), None, ()), TOPIC, "cut")
    with pytest.raises(KnobError, match="'cut' or 'flip'"):
        damage(stranger, TOPIC, "burn")  # type: ignore[arg-type]
