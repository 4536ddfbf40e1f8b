"""The files of a broker that tell how far its cleaner has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitlib.lab.broker_health import PartitionFiles, files_of, read_checkpoint, segments_of
from kitlib.lab.clients import Cluster

SEGMENTS = ((0, 400), (100, 300), (200, 300), (300, 9_999))


@pytest.mark.parametrize(
    ("first_dirty", "ratio"),
    [
        pytest.param(None, 1.0, id="no pass has been over it"),
        pytest.param(0, 1.0, id="a pass that did nothing"),
        pytest.param(100, 0.6, id="the first segment is clean"),
        pytest.param(200, 0.3, id="two are clean"),
        pytest.param(300, 0.0, id="all but the active one, which does not count"),
        pytest.param(250, 0.3, id="a pass that ended within a segment has not done it"),
    ],
)
def test_dirty_ratio_is_the_share_of_bytes_before_the_active_segment(first_dirty: int | None, ratio: float) -> None:
    """By the segments' sizes, as the broker reckons it."""
    assert PartitionFiles(0, SEGMENTS, first_dirty, None).dirty_ratio == pytest.approx(ratio)


def test_dirty_ratio_of_one_segment_is_none() -> None:
    """There is nothing that a pass could take."""
    assert PartitionFiles(0, ((0, 5_000),), None, None).dirty_ratio == 0.0


def test_checkpoint_is_read_and_what_is_no_line_of_it_is_left_out(tmp_path: Path) -> None:
    """Version, count, lines; a file cut short has fewer lines, one that is not there has none."""
    file = tmp_path / "cleaner-offset-checkpoint"
    file.write_text("0\n4\n__consumer_offsets 3 250\na b 1\nt 0 x\nt 1 7\nt 2", encoding="utf-8")
    assert read_checkpoint(file) == {("__consumer_offsets", 3): 250, ("t", 1): 7}
    assert read_checkpoint(tmp_path / "nothing") == {}


def test_segments_are_the_log_files_by_their_first_offsets(tmp_path: Path) -> None:
    """Indexes and files that are being cleaned are none."""
    for name, size in (("00000000000000000100.log", 7), ("00000000000000000000.log", 5), ("00000000000000000000.index", 9),
                       ("00000000000000000200.log.cleaned", 3), ("x.log", 1)):  # fmt: skip
        (tmp_path / name).write_bytes(b"x" * size)
    assert segments_of(tmp_path) == [(0, 5), (100, 7)]


def test_files_of_another_cluster_are_not_looked_for() -> None:
    """Only the kit's own brokers keep their data where the kit can read it."""
    assert files_of(Cluster("127.0.0.1:1", None, 1, "external")) == []
