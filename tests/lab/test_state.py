"""State files: written whole, private, and put aside when they make no sense."""

from __future__ import annotations

import stat
from dataclasses import asdict
from pathlib import Path

import pytest

from kitlib.lab import state

STATE = state.ClusterState(
    pid=4711, token="0123456789abcdef", brokers=1, phase="running", since=1.0, cluster_id="c",
    nodes=(state.NodeState(1, 20001, 20002, 4712, "running"),), notes=("a note",),
)  # fmt: skip

# What a file may hold.
NONSENSE = {
    "an empty file": b"",
    "a file cut in the middle": b'{"pid": 47',
    "bytes that are no text": b"\xff\xfe\x00\x01",
    "a very deep list": b"[" * 100_000,
    "a list": b"[1, 2]",
    "nothing of it": b'{"pid": 1}',
    "nodes that are none": b'{"nodes": [3], "notes": []}',
    "an unknown field": b'{"nodes": [], "notes": [], "colour": "red"}',
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
    """A file that makes no sense is renamed, beside those that were before, kept byte for byte and spoken of; the reader sees no state."""
    path, said = tmp_path / "kafka.json", list[str]()
    (tmp_path / "kafka.json.broken").write_text("an earlier one")
    path.write_bytes(NONSENSE[case])
    assert state.read_as(state.ClusterState.from_json, path, said.append) is None
    assert not path.exists() and (tmp_path / "kafka.json.broken-2").read_bytes() == NONSENSE[case]
    assert len(said) == 1 and said[0].startswith("kafka.json makes no sense (") and "kafka.json.broken-2" in said[0]
