"""The worked examples in CONTRIBUTING.md: a whole mechanism and a message of one's own, run as they stand there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kitlib import every_fault, judge, run
from kitlib.experiments.experiment import DECLARED
from kitlib.experiments.grid import Grid
from kitlib.monitor.delivery import LEDGERS
from kitlib.words import DOMAINS
from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = re.findall(r"^`((?:leaky|courier)/\w+\.py)`.*?```python\n(.*?)```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def written(tmp_path: Path, new_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The files on the path, in a workspace without rows; what they register is taken away again."""
    monkeypatch.setenv("KIT_HOME", str(new_home))
    before: list[tuple[dict[str, Any], dict[str, Any]]] = [(table, dict(table)) for table in (LEDGERS, DOMAINS, DECLARED)]
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for table, kept in before:
        table.clear()
        table.update(kept)


def test_a_mechanism_is_three_files_and_fewer_than_100_lines() -> None:
    """Model, story and cell: nothing else is needed."""
    own = [(Path(name).stem, text) for name, text in FILES if name.startswith("leaky/")]
    assert [name for name, _ in own] == ["model", "story", "cell"]
    assert sum(len(text.splitlines()) for _, text in own) < 100


def test_a_mechanism_has_sentences_verdict_picture_player_page_fork_and_sweep(tmp_path: Path) -> None:
    """Its verdict counts what was lost and names the setting; its picture shows each loss; its knob changes in a fork."""
    cell = importlib.import_module("leaky.cell")
    assert str(judge(cell.trace)).endswith(": 8 lost. Explained by every=5: each record whose turn it is gets lost.")
    assert cell.picture.svg.count("<title>lost</title>") == 8 + 1, "each loss, and the legend"
    assert "Counted: 32" in cell.picture.sentence
    assert cell.trace.sentence(cell.trace.at(5)) == "Record 4 is lost, and nothing reports it."
    player = cell.player
    assert player.verdict.counts["lost"] == 4 and player.save(tmp_path / "leaky.html").stat().st_size > 0
    player.session.answer({"number": 1, "do": "fork", "at": 20})
    player.session.answer({"number": 2, "knobs": {"every": "2"}, "seed": "1", "do": "run"})
    assert player.session.verdict.counts["lost"] > 4 and player.session.trace.steps[:21] == player.trace.steps[:21]
    grid = Grid.of("leaky_counter", {"every": [2, 10]})
    assert [grid.row(place)["lost"] for place in range(len(grid))] == [20, 4]


def test_a_message_of_ones_own_can_be_lost_and_stands_in_every_fault(capsys: Any) -> None:
    """A letter is lost only with its second try; a receipt that is lost leaves a copy, and its own history explains that."""
    importlib.import_module("courier.cell")
    told = capsys.readouterr().out
    assert told.startswith("Of 42 schedules with at most two faults, 2 lose a record; the smallest: lose letter 1 and lose letter 2. 22 du")
    trace = run(script="courier\nlose receipt 2")
    assert judge(trace).counts["duplicated"] == 1 and not judge(trace).violations
    assert "The receipt of letter 1 is lost." in map(trace.sentence, trace)
    one = every_fault("courier", 1, only="lose letter", progress=lambda *each: None)
    assert one.sentence.startswith("3 schedules with one fault. None of 3 loses a record, ")
