"""`kit predictions`: the answers so far, the score, and a new beginning."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitlib.lab import predictions
from kitlib.lab.predictions import Answered
from tests.cli.conftest import CommandLine


def test_predictions_are_listed_with_their_score(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None, then two of them as text, then forgotten."""
    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    assert command_line("predictions") == (0, "No prediction has been answered yet. The first one is in notebook 00.\n", "")
    predictions.keep("a", Answered("happy_path", "How many?", "40", "40", True))
    predictions.keep("b", Answered("happy_path", "Which\x1b?", "3", "4", False))
    code, out, _ = command_line("predictions")
    assert (code, out.splitlines()) == (0, [
        "right  happy_path: How many?", "       you said 40; the run: 40",
        "wrong  happy_path: Which\\x1b?", "       you said 3; the run: 4", "1 of 2 right so far.",
    ])  # fmt: skip
    assert command_line("predictions", "--reset")[1] == "2 predictions forgotten.\n"
    assert predictions.load() == {}
