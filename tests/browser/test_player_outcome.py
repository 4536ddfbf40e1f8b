"""The figure of merit and the comparison with another run, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Lab, MakePage
from tests.browser.players import ROOT

CELL = 'from kitlib.views import Player\nPlayer("small_max_offset_behind")'


@pytest.fixture(scope="module")
def opened(lab: Lab, make_page: MakePage) -> Iterator[Page]:
    page = make_page().page
    lab.open(page, CELL)
    page.wait_for_selector(f"{ROOT}[data-step]", timeout=60_000)
    yield page


def test_a_turned_knob_shows_what_changed_and_a_grey_curve(opened: Page) -> None:
    """The figure, the counts before and after, and the curves of the run before."""
    figure, changes = opened.locator(".kit-figure"), opened.locator(".kit-changes")
    ghosts = opened.locator("[data-ghost=curve]")
    expect(figure).to_have_text("46 records lost.")
    expect(changes).to_have_text("")
    expect(ghosts).to_have_count(0)
    opened.locator('[data-knob="max_offset_behind"]').press("ArrowRight")
    expect(changes).to_contain_text("Compared with max_offset_behind=5: 46 lost → ")
    expect(ghosts).to_have_count(4)
