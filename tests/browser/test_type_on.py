"""Shift+Enter in a real JupyterLab: from every widget of the kit one types on through the notebook, as from any cell."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser import test_desk, test_failure_map
from tests.browser.conftest import Lab, MakePage

pytestmark = pytest.mark.browser

CELLS = {
    "player": "from kitlib.views import Player, predict\nPlayer('small_max_offset_behind')",
    "failure map": test_failure_map.CELL,
    "prediction": "predict('small_max_offset_behind', 'How many are lost?', truth='lost')",
    "desk": test_desk.CELL,
    "check": "from kitlib import check, explain\ncheck('mend_the_crash', None)",
    "explanation": "explain('back_to_its_place', '')",
    "next": "'the end'",
}
WHERE = {
    "player": (".kit-play", ".kit-slider", "[data-knob]", "summary", ".kit-chip:is(button)", ".kit-seed", "textarea", ".kit-player"),
    "failure map": (".noUi-handle", "[aria-label^='Failure map']"),
    "prediction": ("input", "button"),
    "desk": ("[role=slider]", "input[type=checkbox]", "button"),
    "check": ("button",),
    "explanation": ("textarea", "button"),
}
ACTIVE = """() => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  return [notebook.activeCellIndex, ...notebook.widgets.map((cell) => cell.model.executionCount)];
}"""


@pytest.fixture(scope="module")
def notebook(lab: Lab, make_page: MakePage) -> Page:
    lab.set_theme("Light")
    page = make_page(reduced_motion="reduce").page
    lab.open(page, *CELLS.values())
    page.wait_for_function(f"({ACTIVE})().slice(1).every((count) => count !== null)", timeout=60_000)
    page.wait_for_selector(".kit-desk svg", timeout=60_000)
    page.get_by_role("button", name="Show the verdict").first.click()  # covered, it cannot have the focus
    return page


def type_on(page: Page, place: int) -> list[Any]:
    """What each cell counts when Shift+Enter has made this one active."""
    page.keyboard.press("Shift+Enter")
    page.wait_for_function(f"({ACTIVE})()[0] === {place}", timeout=5_000)
    counts: list[Any] = page.evaluate(ACTIVE)[1:]
    return counts


@pytest.mark.parametrize(("kind", "selector"), [(kind, selector) for kind, found in WHERE.items() for selector in found])
def test_shift_enter_in_a_widget_goes_to_the_next_cell_and_runs_nothing(notebook: Page, kind: str, selector: str) -> None:
    """From every kind of control the next cell is active, and the widget's own was not run again."""
    place = list(CELLS).index(kind)
    cell = notebook.locator(".jp-Cell").nth(place)
    cell.locator("details").evaluate_all("nodes => nodes.forEach((node) => { node.open = true; })")
    cell.locator(selector).first.focus()
    counted = notebook.evaluate(ACTIVE)
    assert counted[0] == place
    assert type_on(notebook, place + 1) == counted[1:]


def test_after_a_prediction_one_types_on(notebook: Page) -> None:
    """Answered by Enter, the focus stays in its field; Shift+Enter then goes on, and the one after that runs the next cell."""
    place = list(CELLS).index("prediction")
    asked = notebook.locator(".jp-Cell").nth(place).locator(".kit-predict")
    asked.locator("input").fill("12")
    notebook.keyboard.press("Enter")
    expect(asked).to_contain_text("Not quite: you said 12, it is 46.", timeout=30_000)
    expect(asked.locator("input").first).to_be_focused()
    counted = notebook.evaluate(ACTIVE)
    assert type_on(notebook, place + 1) == counted[1:]
    notebook.keyboard.press("Shift+Enter")
    notebook.wait_for_function(f"({ACTIVE})()[{place + 2}] !== {counted[place + 2]}")


def test_hint_and_model_answer_come_by_a_button(notebook: Page) -> None:
    """Under a finding the next hint, under a question to explain a field for one's own text and then a model answer."""
    cells = notebook.locator(".jp-Cell")
    found, asked = (cells.nth(list(CELLS).index(kind)) for kind in ("check", "explanation"))
    found.get_by_role("button", name="Solution").click()
    expect(found).to_contain_text("is shown after a right answer or 3 different tries", timeout=10_000)
    asked.locator("textarea").fill("A batch that comes back must not overtake an older one.")
    asked.get_by_role("button", name="Compare with a model answer").click()
    expect(asked).to_contain_text("Compare yours with this one.", timeout=10_000)
