"""docs/sources.md: each claim of the five texts has a cell that is there, and says truthfully what ran in it, or why no broker did."""

from __future__ import annotations

import re
from collections import Counter

import nbformat
import pytest

from kitlib.exercises.instructor import sections_of
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "sources.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| (?:\[\w+\]\(\.\./(notebooks/\S+)\) `(\S+)`)? \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
ON_A_BROKER = re.compile(r"kafka|ask_both|both\(|three_brokers|real\b|leaders\[|evidence|exchanges|admin\.|rebalance_lines|commits|guarantees|settings_table|acker_stream")


def test_every_line_of_the_tables_is_a_claim() -> None:
    """No row is written in a way that the tests below would pass over, and the sum on top is that of the rows."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| claim", "| ---"))]
    assert len(rows) == len(ROWS) > 90
    summed = PAGE.partition("claims: ")[2].partition(".\n")[0].split(", ")
    told = {how.removeprefix("on ").removeprefix("in ").removeprefix("the "): int(number) for number, how in (each.split(" ", 1) for each in summed)}
    assert f"{len(ROWS)} claims: " in PAGE and told == Counter(how.partition(":")[0] for *_, how, _ in ROWS)


@pytest.mark.parametrize(("claim", "notebook", "cell", "how", "agrees"), ROWS, ids=[f"{row[2]} {row[0][:40]}" for row in ROWS])
def test_a_claim_has_a_cell_that_shows_it(claim: str, notebook: str, cell: str, how: str, agrees: str) -> None:
    """The cell is in that notebook, and where a broker is named, its section runs on one."""
    assert agrees and re.match(r"model and broker$|broker \(Storm's parts simulated\)$|model only: \w|words only$", how)
    cells = nbformat.read(REPOSITORY / notebook, 4).cells
    [section] = [part for part in sections_of(cells) if cell in [each.id for each in part.cells]]
    if "broker" in how.partition(":")[0]:
        assert any(ON_A_BROKER.search(each.source) for each in section.cells if each.cell_type == "code"), claim
