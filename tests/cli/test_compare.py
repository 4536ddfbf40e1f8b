"""`kit compare`: two files, or two settings of an experiment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kitlib.experiments import get
from tests.cli.conftest import CommandLine


def test_two_settings_of_an_experiment(command_line: CommandLine, tmp_path: Path) -> None:
    """One setting is compared with the defaults; --json and --svg give the same as data and as a picture."""
    code, out, err = command_line("compare", "small_max_offset_behind", "max_offset_behind=10")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("The runs part at step 11. In A, at 29 ms: That ack clears offsets 0 to 1")
    assert lines[1:4] == ["A: max_offset_behind=5", "B: max_offset_behind=10", "46 lost → 2 lost"]
    told = json.loads(command_line("compare", "happy_path", "seed=2", "seed=3", "--json", "--svg", str(tmp_path / "two.svg"))[1])
    assert told["runs"] == ["A: seed=2", "B: seed=3"] and told["step"] > 0
    assert (tmp_path / "two.svg").read_text().startswith("<svg")


def test_two_kept_traces(command_line: CommandLine, tmp_path: Path) -> None:
    """What `kit run --trace` has kept can be compared."""
    a, b = (str(tmp_path / name) for name in "ab")
    assert command_line("run", "happy_path", "--trace", a)[0] == 0
    assert command_line("run", "happy_path", "--trace", b, "--seed", "2")[0] == 0
    code, out, _ = command_line("compare", a, b)
    assert code == 0 and out.splitlines()[1:3] == ["A: seed=1", "B: seed=2"]
    assert command_line("compare", a, a)[1].startswith("The two runs are the same, step by step (129 steps).")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("happy_path",), "happy_path has 0 settings, expected one or two"),
        (("happy_path", "records"), "'records' is no setting of happy_path, expected knob=value"),
        (("happy_path", "recrods=5"), "recrods"),
        (("happy_path", "seed=x"), "seed is 'x', expected a whole number from 0 on."),
        (("nowhere.jsonl", "here.jsonl"), "the trace 'nowhere.jsonl' cannot be read (No such file or directory)."),
        (("happy_pth",), "'happy_pth' is no experiment, and two files of traces are expected, not 1."),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(command_line: CommandLine, given: tuple[str, ...], told: str) -> None:
    """Bad settings, files and names are refused without a traceback."""
    code, out, err = command_line("compare", *given)
    assert code and not out and told in err and "Traceback" not in err


def test_a_damaged_trace_is_a_sentence(command_line: CommandLine, tmp_path: Path) -> None:
    """The line that cannot be read is named."""
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b"\xff\xfe")
    assert "cannot be read (it is no text)" in command_line("compare", str(bad), str(bad))[2]
    bad.write_text("{}\n")
    assert "bad.jsonl, line 1" in command_line("compare", str(bad), str(bad))[2]


def test_a_strangers_trace_is_a_sentence(command_line: CommandLine, tmp_path: Path) -> None:
    """A field in words and a time of 400 digits are told with file and line."""
    rows = [json.loads(line) for line in get("happy_path").run().to_json_lines()]
    for name, change in (("words", {"data": rows[2]["data"] | {"offset": "zero"}}), ("digits", {"at_ms": 10**400})):
        path = tmp_path / name
        path.write_text("\n".join(json.dumps(row | (change if number == 2 else {})) for number, row in enumerate(rows)))
        code, out, err = command_line("compare", str(path), str(path))
        assert (code, out) == (4, "") and f"{name}, line 3: " in err and "Traceback" not in err


@pytest.mark.parametrize("command", [("compare", "{0}", "{0}"), ("conform", "acker", "{0}"), ("run", "--script", "{0}")], ids=" ".join)
@pytest.mark.parametrize("kind", ["a device", "a FIFO", "a folder", "500 MB"])
def test_what_is_no_file_of_ours_is_not_read(command_line: CommandLine, tmp_path: Path, kind: str, command: tuple[str, ...]) -> None:
    """A file that never ends, one that nobody writes to and one that is far too large are refused at once, by every command alike."""
    path = Path("/dev/zero") if kind == "a device" else tmp_path / "given"
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "500 MB":
        path.touch()
        os.truncate(path, 500_000_000)
    code, out, err = command_line(*(word.format(path) for word in command))
    assert code in (2, 4) and not out and str(path) in err
    assert ("it has 500,000,000 bytes" if kind == "500 MB" else "Is a directory" if kind == "a folder" else "it is no regular file") in err
