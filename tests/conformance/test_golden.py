"""Recorded files: plain, gzipped, damaged, and of a wrong shape."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kitlib.conformance import golden
from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.errors import TraceError

SCENARIOS = bundled("storm", "pm_scenarios.jsonl.gz")


@pytest.fixture(scope="module")
def plain() -> list[bytes]:
    """The lines of the scenarios' file, each with its newline."""
    return gzip.decompress(SCENARIOS.read_bytes()).splitlines(keepends=True)


def refused(path: Path) -> str:
    """The sentence with which a file is refused."""
    with pytest.raises(TraceError) as raised:
        list(read_traces(path))
    return str(raised.value)


def _step(**changes: Any) -> bytes:
    step = {"op": "start", "result": {}, "state": {}} | changes
    return json.dumps({"config": {}, "steps": [{name: value for name, value in step.items() if value is not ...}]}).encode()


# What the second line of a file holds -> words of the sentence with which it is refused.
BAD_LINES = {
    "a line that ends in its middle": (b'{"name": "x", "config": {}, "steps": [{"op": "sta', "not JSON"),
    "bytes that are no UTF-8": (b'{"name": "\xff\xfe"}', "not JSON"),
    "a million brackets": (b"[" * 1_000_000, "not JSON"),
    "an integer of a million digits": (b"1" * 1_000_000, "not JSON"),
    "a list": (b"[1, 2]", "no recorded trace"),
    "an object without steps": (b'{"name": "x"}', "no recorded trace"),
    "no steps at all": (b'{"config": {}, "steps": []}', "no recorded trace"),
    "steps that are an object": (b'{"config": {}, "steps": {"op": "start"}}', "no recorded trace"),
    "a step that is a number": (b'{"config": {}, "steps": [3]}', "step 0 is no recorded step"),
    "a step without an operation": (_step(op=...), "step 0 is no recorded step"),
    "arguments that are a list": (_step(args=[]), "step 0 is no recorded step"),
    "no config": (b'{"steps": [{"op": "start"}]}', "no config"),
    "a config that is a text": (b'{"config": "x", "steps": [{"op": "start"}]}', "no config"),
}


@pytest.mark.parametrize("is_gzipped", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("case", BAD_LINES)
def test_read_traces_bad_line_is_named(tmp_path: Path, plain: list[bytes], case: str, is_gzipped: bool) -> None:
    """A line that is no trace is refused with the file's name, the line's number and what is wrong; the lines before it are given."""
    line, words = BAD_LINES[case]
    content = plain[0] + line + b"\n" + plain[1]
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(gzip.compress(content, 1) if is_gzipped else content)
    sentence = refused(path)
    assert sentence.startswith("damaged.jsonl, line 2: ") and words in sentence and len(sentence) < 300
    assert next(read_traces(path))["name"] == "happy_path"


@pytest.mark.parametrize("keep", [1, 2, 9, 10, 100, 1_000, -9, -8, -4, -1])
def test_read_traces_gzip_cut_short_names_file_and_line(tmp_path: Path, keep: int) -> None:
    """A gzipped file without its last bytes is refused wherever the cut is, with file and line."""
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(SCENARIOS.read_bytes()[:keep])
    sentence = refused(path)
    assert "cut.jsonl.gz, line " in sentence
    assert ("it cannot be read" in sentence) or ("not JSON" in sentence and keep == 1)


@pytest.mark.parametrize("at", [20, 5_000, -6])
def test_read_traces_gzip_with_a_changed_byte_is_refused(tmp_path: Path, at: int) -> None:
    """A gzipped file in which a byte has changed is refused with file and line, be it data or checksum."""
    damaged = bytearray(SCENARIOS.read_bytes())
    damaged[at] ^= 0xFF
    path = tmp_path / "changed.jsonl.gz"
    path.write_bytes(damaged)
    assert "changed.jsonl.gz, line " in refused(path)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\r\n", gzip.compress(b"")], ids=["no bytes", "blank lines", "CR LF", "gzip"])
def test_read_traces_empty_file_holds_no_trace(tmp_path: Path, content: bytes) -> None:
    """An empty file is no damage: it holds no trace."""
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    assert list(read_traces(path)) == []


# How an editor or a tool may have written the same two traces.
HARMLESS = {
    "a byte order mark": lambda lines: b"\xef\xbb\xbf" + b"".join(lines),
    "CR LF ends": lambda lines: b"".join(line.replace(b"\n", b"\r\n") for line in lines),
    "blank lines between": lambda lines: b"\n \n".join(lines),
    "no newline at the end": lambda lines: b"".join(lines).rstrip(b"\n"),
    "two gzip members": lambda lines: b"".join(gzip.compress(line) for line in lines),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_read_traces_written_by_another_tool_are_the_same(tmp_path: Path, plain: list[bytes], case: str) -> None:
    """A byte order mark, CR LF, blank lines, a missing last newline and gzip members change nothing."""
    path = tmp_path / "anything.at.all"
    path.write_bytes(HARMLESS[case](plain[:2]))
    assert list(read_traces(path)) == [json.loads(line) for line in plain[:2]]


def test_read_traces_line_beyond_the_bound_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an endless line no more than the bound is read: gzipped zeros do not fill the memory."""
    monkeypatch.setattr(golden, "MAX_LINE_BYTES", 10_000)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"0" * 50_000_000, 1))
    assert refused(path) == "bomb.jsonl.gz, line 1: it is longer than 10,000 bytes. Expected one trace a line."


def test_conform_replay_that_ends_early_differs() -> None:
    """A replay that has no answer for a step has differed at it."""

    def nothing(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from ()

    found = conform(nothing, read_traces(SCENARIOS))
    assert found.matched == 0 and not found.agrees and "StopIteration" in str(found.differences[0])
