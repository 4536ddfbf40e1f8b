"""A failure map in a real Chromium: cells open runs by the mouse and by the keyboard, and the slider changes the picture."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Lab, MakePage
from tests.browser.players import ROOT

pytestmark = pytest.mark.browser

CELL = """import pandas as pd
from kitlib.experiments.grid import Grid
from kitlib.views.browser.failure_map import FailureMap
over = {"max_offset_behind": [5, 30], "fetch_records": [2, 20], "process_ms": [20, 40]}
grid = Grid.of("small_max_offset_behind", over, seeds=2)
rows = pd.DataFrame([grid.row(place) for place in range(len(grid))])
FailureMap(rows, "max_offset_behind", "fetch_records", by="process_ms")"""


def test_cell_opens_its_run_in_a_player(lab: Lab, new_page: MakePage) -> None:
    """A click on one, then the arrow keys and Enter on another, after the slider was moved."""
    watched = new_page()
    page = watched.page
    lab.open(page, CELL)
    page.locator('[data-cell="0,1"]').click()
    page.wait_for_selector(ROOT, timeout=30_000)
    lost = page.locator(f"{ROOT} .kit-verdict").inner_text()
    page.locator(".noUi-handle").first.press("ArrowRight")
    page.wait_for_function("""document.querySelector('[data-cell="0,1"] title').textContent.includes("process_ms=40")""")
    page.locator("[aria-label^='Failure map']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function("lost => document.querySelector('.kit-verdict')?.innerText !== lost", arg=lost)
    assert page.locator(ROOT).count() == 1
    watched.check()
