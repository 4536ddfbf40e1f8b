"""`kit conform`: any file from any folder, and a planted difference."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("model", ["", "ackers", "Partition_Manager", "../../x"])
def test_conform_unknown_model_is_told_with_those_there_are(kit: Callable[..., Any], model: str) -> None:
    """A model's name is one of the list."""
    code, out, err = kit(model)
    assert (code, out) == (2, "") and f"The models are {', '.join(MODELS)}." in err
