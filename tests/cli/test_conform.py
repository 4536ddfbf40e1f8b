"""`kit conform`: any file from any folder, and a planted difference."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kitlib import cli
from kitlib.cli.conform import MODELS
from kitlib.conformance.golden import bundled
from tests.cli.conftest import CommandLine

SCENARIOS = bundled("storm", "pm_scenarios.jsonl.gz")


@pytest.fixture
def kit(command_line: CommandLine) -> CommandLine:
    """Runs `kit conform` in this process: exit code, stdout, stderr."""
    return partial(command_line, "conform")


@pytest.fixture(scope="module")
def plain() -> bytes:
    return gzip.decompress(SCENARIOS.read_bytes())


def planted(plain: bytes, trace: int = 2, step: int = 3) -> bytes:
    """The scenarios with one recorded number changed."""
    lines = plain.splitlines()
    found = json.loads(lines[trace])
    found["steps"][step]["state"]["emittedToOffset"] += 1
    lines[trace] = json.dumps(found).encode()
    return b"\n".join(lines) + b"\n"


def test_conform_without_a_model_replays_every_one(kit: Callable[..., Any]) -> None:
    """README's `kit conform` agrees with every recorded step of every model; with a model's name, of that one, with the sum."""
    code, out, err = kit()
    assert (code, err) == (0, "") and len(out.splitlines()) == 1 + sum(len(files) for _, files in MODELS.values())
    assert [line.split(" steps")[0] for line in kit("acker")[1].splitlines()] == ["183/183", "11372/11372", "11555/11555"]


def test_conform_traces_of_another_model_differ(kit: Callable[..., Any]) -> None:
    """The PartitionManager's traces are no traces of the acker: a difference in a sentence, never a traceback."""
    code, out, err = kit("acker", str(SCENARIOS))
    assert (code, err) == (1, "") and out.startswith("0/1024 steps matched") and "(KeyError: 'delivery')" in out


@pytest.mark.parametrize("is_gzipped", [False, True], ids=["plain", "gzipped"])
def test_conform_file_in_another_folder_agrees(tmp_path: Path, plain: bytes, is_gzipped: bool) -> None:
    """A file is found relative to where the command is called, plain or gzipped, whatever it is called, with blanks and umlauts."""
    folder = tmp_path / "ein Ördner"
    folder.mkdir()
    (folder / "traces.dat").write_bytes(gzip.compress(plain, 1) if is_gzipped else plain)
    ended = subprocess.run(
        [sys.executable, "-m", "kitlib", "conform", "partition_manager", "traces.dat"], cwd=folder, capture_output=True, text=True,
        timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "1024/1024 steps matched, 95 traces, traces.dat\n"


def test_conform_planted_difference_is_printed_and_ends_with_1(kit: Callable[..., Any], tmp_path: Path, plain: bytes) -> None:
    """The first difference is told with trace, step, operation, field, both values and the trace's meaning; the next file is replayed."""
    path = tmp_path / "planted.jsonl"
    path.write_bytes(planted(plain))
    trace = json.loads(plain.splitlines()[2])
    value = trace["steps"][3]["state"]["emittedToOffset"]
    code, out, err = kit("partition_manager", str(path), str(SCENARIOS))
    assert (code, err) == (1, "")
    lost = len(trace["steps"]) - 3
    assert out.splitlines() == [
        f"{1024 - lost}/1024 steps matched, 95 traces, {path}",
        f"  first difference: {trace['name']}, step 3 ({trace['steps'][3]['op']}): state.emittedToOffset should be {value + 1}, "
        f"the model has {value}.",
        f"  meaning: {trace['meaning']}",
        f"1024/1024 steps matched, 95 traces, {SCENARIOS}",
        f"{2048 - lost}/2048 steps matched in all",
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.jsonl", None, "there is no such file. Give the path of a recorded trace (.jsonl or .jsonl.gz)."),
        ("empty.jsonl", b"", "it holds no trace"),
        ("cut.jsonl.gz", SCENARIOS.read_bytes()[:5_000], "it cannot be read"), ("text.jsonl", b"hello\n", "line 1: it is not JSON"),
        ("list.jsonl", b"[]\n", "line 1: it is no recorded trace"), ("", None, ", line 1: it cannot be read (Is a directory)"),
    ],
)  # fmt: skip
def test_conform_bad_file_ends_with_4_and_one_line(
    kit: Callable[..., Any], tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    """A file that cannot be replayed is named with what is wrong, and is no difference."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    code, _, err = kit("partition_manager", str(path))
    assert code == 4 and len(err.splitlines()) == 1
    assert err.startswith("kit: ") and name in err and words in err and "Errno" not in err


@pytest.mark.parametrize("words", ["\ud800", "\x1b[2J", "\u202egnirts", "a\nb", ["a", "list"], 7, None, "long" * 10_000])
def test_conform_hostile_words_in_a_trace_are_told_as_text(kit: Callable[..., Any], tmp_path: Path, words: Any) -> None:
    """Whatever a file has for a trace's name, its meaning and an operation: three printable lines, and no traceback."""
    path = tmp_path / "hostile.jsonl"
    step = {"op": words if isinstance(words, str) else "init", "args": {"id": words}, "result": words, "state": words}
    path.write_text(json.dumps({"name": words, "meaning": words, "config": {"delivery": "immediate"}, "steps": [step]}))
    code, out, err = kit("acker", str(path))
    assert (code, err, len(out.splitlines())) == (1, "", 3)
    assert len(out) < 3_000 and out.replace("\n", "").isprintable()


@pytest.mark.parametrize("model", ["", "ackers", "Partition_Manager", "../../x"])
def test_conform_unknown_model_is_told_with_those_there_are(kit: Callable[..., Any], model: str) -> None:
    """A model's name is one of the list."""
    code, out, err = kit(model)
    assert (code, out) == (2, "") and f"The models are {', '.join(MODELS)}." in err
