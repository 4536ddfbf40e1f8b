"""A checkpoint folder as plain data: a query's own, and one with a file that Spark has not written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitlib.errors import LabError
from kitlib.lab.checkpoint_folder import CheckpointFolder, read_checkpoint

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"orders":{"0":%d}}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three batches, the last one without a commit and without its state."""
    for name in ("offsets", "commits", "state/0/0", "state/0/1/left", "state/0/_metadata"):
        (tmp_path / name).mkdir(parents=True)
    for number in range(3):
        (tmp_path / "offsets" / str(number)).write_text(OFFSETS % (4 * number + 4))
        (tmp_path / "offsets" / f".{number}.crc").write_bytes(b"\0")
    for number in range(2):
        (tmp_path / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        for store in ("0", "1/left"):
            (tmp_path / f"state/0/{store}/{number + 1}.delta").write_bytes(b"x")
    (tmp_path / "state/0/0/3.delta").write_bytes(b"x")  # the other partition has not come to it
    return tmp_path


def test_a_folder_says_which_batches_were_planned_and_done(folder: Path) -> None:
    """offsets, commits, and the versions that all partitions have; checksums are no files."""
    ends = {number: ({"orders": {"0": 4 * number + 4}},) for number in range(3)}
    assert read_checkpoint(folder) == CheckpointFolder(ends, (0, 1), {0: (1, 2)})
    assert read_checkpoint(folder / "not there yet") == CheckpointFolder({}, (), {})


@pytest.mark.parametrize("content", [b"", b"v1\n", b"v1\n{}\nnot json\n", b"\xff\xfe"], ids=["empty", "cut", "no JSON", "no text"])
def test_a_file_that_is_no_offsets_is_named(folder: Path, content: bytes) -> None:
    """What Spark has not written is not guessed at."""
    (folder / "offsets/1").write_bytes(content)
    with pytest.raises(LabError, match=r"cannot be read: .*offsets/1"):
        read_checkpoint(folder)
