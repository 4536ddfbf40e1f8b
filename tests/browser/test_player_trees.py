"""The player of a topology's trace in a real Chromium: the same trees, numbers and maps as Python draws, without the kernel."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from kitlib.experiments import get
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import ROOT, attribute, open_player, press

pytestmark = pytest.mark.browser

KNOBS = {"id_bits": 8, "records": 12, "fan_out": 3, "max_spout_pending": 5, "fault": "drop", "max_steps": 1000}


def player_of(name: str, **knobs: Any) -> str:
    front = [knob.name for knob in get(name).knobs]  # none is folded
    return f"from kitlib.views import Player\nplayer = Player({name!r}, front={front}, **{knobs})\nplayer"


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of whole trees."""
    return open_player(lab, make_page, player_of("tuple_tree", **KNOBS))


def name_of(page: Page) -> str:
    """Which tree is shown."""
    return page.locator("[data-reel=shown] text").first.text_content() or ""


def test_a_tree_can_be_kept_in_view(page: Page, watched: Watched) -> None:
    """A click on a box of the map, or the list of trees, keeps one tree in view until it is let go, without the kernel."""
    press(page, "Home", *["Shift+ArrowRight"] * 8)
    page.locator("[data-choice]").nth(1).click()
    kept = name_of(page)
    page.locator(ROOT).focus()
    for _ in range(5):
        press(page, "Shift+ArrowRight")
        assert name_of(page) == kept
    chooser = page.get_by_label("tree shown")
    first = chooser.locator("option").nth(1).text_content()
    chooser.select_option("0")
    assert name_of(page) == f"The tree of {first}".replace(", root", ": root")
    chooser.select_option("-1")
    page.locator(ROOT).focus()
    names = set()
    for _ in range(25):
        press(page, "ArrowRight")
        names.add(name_of(page))
    assert len(names) > 1 and watched.sent == []


def test_a_kept_tree_stays_when_a_knob_is_turned(page: Page) -> None:
    """The first picture of another run is of the tree that was chosen, and so are all that follow; starting over lets it stay too."""
    page.get_by_label("tree shown").select_option("2")
    kept = name_of(page).split(":")[0]
    answered = int(attribute(page, "answered"))
    page.locator("input[data-knob=execute_ms]").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 1}']")
    assert name_of(page).split(":")[0] == kept
    page.wait_for_selector(f"{ROOT}[data-whole=true]")
    page.locator(ROOT).focus()
    press(page, "End")
    assert name_of(page).split(":")[0] == kept
    page.get_by_label("tree shown").select_option("-1")
