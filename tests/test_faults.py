"""The table of faults: every row says what the kit does, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_each_fault_has_tests_that_exist(row: list[str]) -> None:
    """A row has a number, a fault, what the kit does, and one test or more."""
    _, fault, does, tests = row
    named = re.findall(r"`(tests/\S+?\.py)(?:::(\w+))?`", tests)
    assert fault and does and named
    assert len(named) == tests.count("`") // 2
    for path, test in named:
        assert names_in(path) and (not test or test in names_in(path)), f"{path}::{test}"


def test_faults_are_numbered_through() -> None:
    """No row is lost."""
    assert [int(row[0]) for row in ROWS] == list(range(1, 53))
