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


def test_no_question_is_asked_twice() -> None:
    """The score of the course knows a question by its words and its run."""
    asked = [ast.unparse(node) for path in NOTEBOOKS for kind, source in cells_of(path) if kind == "code"
             for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and ast.unparse(node.func) == "predict"]  # fmt: skip
    assert len(asked) == len(set(asked)) > 100


@pytest.mark.parametrize(
    ("cells", "count"),
    [
        ([("markdown", "**Predict** it:"), ("code", "predict(1)")], 0),
        ([("markdown", "**Predict** it:"), ("code", "x = 1"), ("code", "x = 2\npredict(1)")], 0),
        ([("markdown", "**Predict** it:"), ("code", "run()"), ("markdown", "And so."), ("code", "predict(1)")], 1),
        ([("markdown", "Two things. **Predict** one. **predict** the other:"), ("code", "predict(1)")], 1),
        ([("markdown", "Before you run it. Predict it.")], 1),
        ([("markdown", "Each round is *predict*, *run*, *look*. **Think.** Your prediction?"), ("code", "run()")], 0),
    ],
)
def test_a_predict_without_a_widget_is_found(cells: list[Cell], count: int) -> None:
    """At the end of a notebook too, and where a text asks twice and one cell follows."""
    assert len(unasked(cells)) == count
