"""The worked example in CONTRIBUTING.md: a whole mechanism, run as it stands there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from kitlib.monitor.delivery import LEDGERS
from kitlib.views.scene import SCENES
from kitlib.words import DOMAINS
from tests.conftest import REPOSITORY

FILES = re.findall(r"^`(leaky/\w+\.py)`.*?```python\n(.*?)```", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)


def test_a_mechanism_is_five_files_and_fewer_than_120_lines() -> None:
    """Model, words, story, picture and cell: nothing else is needed."""
    assert [Path(name).stem for name, _ in FILES] == ["model", "words", "story", "picture", "cell"]
    assert sum(len(text.splitlines()) for _, text in FILES) < 120


def test_the_worked_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdict counts what was lost and names the setting; its picture shows each loss, and its steps are sentences."""
    for table in (LEDGERS, SCENES, DOMAINS):
        monkeypatch.setitem(table, "leaky", None)  # type: ignore[index]  # and taken away again at the end
    (tmp_path / "leaky").mkdir()
    for name, text in FILES:
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    cell = importlib.import_module("leaky.cell")
    assert str(cell.verdict) == "32 of 40 records were processed: 8 lost. Explained by every=5: each record whose turn it is gets lost."
    assert cell.picture.svg.count("<title>lost</title>") == 8 + 1, "each loss, and the legend"
    assert "Counted so far: 32" in cell.picture.sentence
    assert cell.trace.sentence(cell.trace.at(5)) == "Record 4 is lost, and nothing reports it."
