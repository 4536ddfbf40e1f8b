"""Several players in one real page: each opens where it should, and is told apart from the others."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from kitlib.experiments import get
from kitlib.views import Player
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import ROOT

pytestmark = pytest.mark.browser

CELLS = (
    "from kitlib.views import Player\nPlayer('small_max_offset_behind')",
    "Player('small_max_offset_behind', open_at='anomaly')",
    "Player('zombie')",
    "Player('poll_too_late', trouble='frozen', open_at=40)",
    "Player('streams_failover')",
)
NAMES = [re.findall(r"Player\('(\w+)'", cell)[0] for cell in CELLS]


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with one player for each of the cells."""
    lab.set_theme("Light")
    watched = make_page()
    lab.open(watched.page, *CELLS)
    return watched


@pytest.fixture
def page(watched: Watched) -> Page:
    """The page, with all of its players drawn."""
    for number in range(len(CELLS)):
        cell = watched.page.locator(".jp-CodeCell").nth(number)
        cell.scroll_into_view_if_needed()
        cell.locator(f"{ROOT}[data-step]").wait_for()
    return watched.page


def test_a_player_opens_at_the_start_or_where_it_is_asked_to(page: Page, watched: Watched) -> None:
    """The first step is the first picture; `open_at` names another one."""
    witness = Player("small_max_offset_behind", open_at="anomaly").told["at"]
    steps = [page.locator(ROOT).nth(number).get_attribute("data-step") for number in range(4)]
    assert steps == ["0", str(witness), "0", "40"]
    said = page.locator(ROOT).nth(0).locator(".kit-step").text_content()
    assert said == f"after step 0 of {len(get('small_max_offset_behind').run()) - 1}"
    watched.check()


def test_a_story_that_cannot_be_forked_has_no_button_for_it(page: Page) -> None:
    """Where no knob can change in the middle of a run, nothing invites to fork."""
    forks = [page.locator(ROOT).nth(number).get_by_text("Fork here").count() for number in range(len(CELLS))]
    live = [any(knob.live for knob in get(name).knobs) for name in NAMES]
    assert forks == [int(each) for each in live]


def test_what_players_refer_to_by_name_is_their_own(page: Page) -> None:
    """Every hatch, label, title and description that a player refers to lies in that player, and no name is given twice.

    A hatch of another player would vanish with it when JupyterLab hides the cells that are out of sight.
    """
    names, strangers = page.evaluate(
        """() => {
          const strangers = [], ids = [...document.querySelectorAll("[id^=kit-]")].map((node) => node.id);
          for (const root of document.querySelectorAll(".kit-player")) {
            const named = [...root.querySelectorAll("*")].flatMap((node) => [
              ...["for", "aria-describedby", "aria-labelledby"].flatMap((name) => (node.getAttribute(name) ?? "").split(" ")),
              /^url\\(#(.*)\\)$/.exec(node.getAttribute("fill") ?? "")?.[1] ?? ""]).filter(Boolean);
            if (!named.some((name) => name.includes("hatch"))) strangers.push("no hatch at all");
            strangers.push(...named.filter((name) => document.getElementById(name)?.closest(".kit-player") !== root));
          }
          return [ids.length - new Set(ids).size, strangers];
        }"""
    )
    assert (names, strangers) == (0, [])
