"""State files: written whole, private, and put aside when they make no sense."""

from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from kitlib.errors import LabError
from kitlib.lab import state

STATE = state.ClusterState(
    pid=4711, born_s=12.5, token="0123456789abcdef", brokers=1, phase="running", since=1.0, cluster_id="c",
    nodes=(state.NodeState(1, 20001, 20002, 4712, 13.0, "running"),), notes=("a note",),
)  # fmt: skip

# What a file may hold.
NONSENSE = {
    "an empty file": b"",
    "a file cut in the middle": b'{"schema": 1, "pid": 47',
    "bytes that are no text": b"\xff\xfe\x00\x01",
    "a very deep list": b"[" * 100_000,
    "a list": b"[1, 2]",
    "no schema": b'{"pid": 1}',
    "a text for a schema": b'{"schema": "1"}',
    "an old schema": b'{"schema": 0}',
    "a schema alone": b'{"schema": 1}',
    "nodes that are none": b'{"schema": 1, "nodes": [3], "notes": []}',
    "an unknown field": b'{"schema": 1, "nodes": [], "notes": [], "colour": "red"}',
}


def test_write_then_read_returns_the_same_state(tmp_path: Path) -> None:
    """A state that was written is read back equal, and only its owner can read the file."""
    path = tmp_path / "kafka.json"
    state.write_json(path, asdict(STATE))
    assert state.read_as(state.ClusterState.from_json, path, pytest.fail) == STATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["kafka.json"]


@pytest.mark.parametrize("case", NONSENSE)
def test_read_of_nonsense_puts_the_file_aside_and_goes_on(tmp_path: Path, case: str) -> None:
    """A file that makes no sense is renamed, kept byte for byte and spoken of; the reader sees no state."""
    content = NONSENSE[case]
    path = tmp_path / "kafka.json"
    path.write_bytes(content)
    said: list[str] = []
    assert state.read_as(state.ClusterState.from_json, path, said.append) is None
    assert not path.exists()
    assert (tmp_path / "kafka.json.broken").read_bytes() == content
    assert len(said) == 1 and said[0].startswith("kafka.json makes no sense (") and "kafka.json.broken" in said[0]


def test_second_broken_file_does_not_overwrite_the_first(tmp_path: Path) -> None:
    """What was put aside once is not overwritten by what is put aside later."""
    path = tmp_path / "kafka.json"
    for content in ("one", "two", "three"):
        path.write_text(content)
        state.read_json(path, lambda text: None)
    assert [entry.read_text() for entry in sorted(tmp_path.iterdir())] == ["one", "two", "three"]


def test_read_of_a_newer_schema_refuses_and_changes_nothing(tmp_path: Path) -> None:
    """The state of a newer kit is not put aside: that kit may be running."""
    path = tmp_path / "kafka.json"
    path.write_text('{"schema": 2}')
    with pytest.raises(LabError, match=r"schema 2; this kit reads 1.*KIT_HOME"):
        state.read_json(path, pytest.fail)
    assert path.read_text() == '{"schema": 2}'


def test_write_without_room_leaves_the_old_file(tmp_path: Path) -> None:
    """When there is no room, the write fails with one sentence and the old state stays whole."""
    path = tmp_path / "kafka.json"
    path.write_text('{"schema": 1}')
    code = (
        "import resource, sys, pathlib; from kitlib.lab import state\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))\n"
        "try: state.write_json(pathlib.Path(sys.argv[1]), {'text': 'x' * 100})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("DiskError") and "a limit on file sizes is reached" in answer.stdout
    assert path.read_text() == '{"schema": 1}'
    assert [entry.name for entry in tmp_path.iterdir()] == ["kafka.json"]
