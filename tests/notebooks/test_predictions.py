"""A notebook that says *Predict* asks for the prediction: the widget stands below the text. What it cannot ask, it calls *Think*."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
ASKS = re.compile(r"\bPredict\b|\*\*predict\b")
PREDICTS = re.compile(r"^(?:\w+ = )?predict\(", re.MULTILINE)
Cell = tuple[str, str]  # its kind and its source


def cells_of(path: Path) -> list[Cell]:
    return [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def unasked(cells: list[Cell]) -> list[str]:
    """The texts with a *Predict* that no widget follows before the next text."""
    found, text, asked = [], "", 0
    for kind, source in [*cells, ("markdown", "")]:
        if kind == "markdown":
            if len(ASKS.findall(text)) > asked:
                found.append(text)
            text, asked = source, 0
        else:
            asked += len(PREDICTS.findall(source))
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_predict_in_a_text_is_asked_by_the_widget(path: Path) -> None:
    """Each *Predict* has a cell of its own before the next text."""
    assert unasked(cells_of(path)) == []


WORK = {"run", "sweep", "session", "find", "fork", "live", "unanswered", "sweep_linger", "count_audits",
        "leave_commits", "join_by_hand", "observe_rebalance", "audit", "follow", "toPandas", "collect"}  # fmt: skip


def work_before_the_answer(source: str) -> set[str]:
    """What a cell that asks does at once: calls in its statements, but for those in functions and in the question itself."""
    statements = [each for each in ast.parse(source).body if not isinstance(each, ast.FunctionDef) and "predict(" not in ast.unparse(each)]
    calls = [node.func for each in statements for node in ast.walk(each) if isinstance(node, ast.Call)]
    return WORK & {ast.unparse(func).rpartition(".")[2] for func in calls}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_prediction_is_asked_before_the_work_and_settled_after_it(path: Path) -> None:
    """A cell that asks runs nothing, and what is not known yet is said by a later cell, once."""
    code = [source for kind, source in cells_of(path) if kind == "code"]
    assert {source: work for source in code if PREDICTS.search(source) and (work := work_before_the_answer(source))} == {}
    for at, source in enumerate(code):
        for name in re.findall(r"^(\w+) = predict\(None", source, re.MULTILINE):
            assert [f"{name}.settle(" in "".join(cells) for cells in (code[: at + 1], code[at + 1 :])] == [False, True]


def test_no_question_is_asked_twice() -> None:
    """The score of the course knows a question by its words and its run."""
    asked = [ast.unparse(node) for path in NOTEBOOKS for kind, source in cells_of(path) if kind == "code"
             for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and ast.unparse(node.func) == "predict"]  # fmt: skip
    assert len(asked) == len(set(asked)) > 100
