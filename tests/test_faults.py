"""The table of faults: every row says what the kit does, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]

TESTS = {  # of each row: the files that hold it, and the tests in each
    int(number): [(path, re.findall(r"`(\w+)`", names)) for path, names in re.findall(r"`([\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?", told)]
    for number, told in re.findall(r"^(\d+)\. (.*)$", PAGE, re.MULTILINE)
}


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_each_fault_has_tests_that_exist(row: list[str]) -> None:
    """A row has a number, a fault and what the kit does, and there is a test or more that holds it."""
    number, fault, does = row
    assert fault and does and TESTS[int(number)]
    for path, tests in TESTS[int(number)]:
        assert names_in(f"tests/{path}") >= {*tests}, path


def test_faults_are_numbered_through() -> None:
    """No row is lost."""
    assert [int(row[0]) for row in ROWS] == list(range(1, 53))
