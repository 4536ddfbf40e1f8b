"""Several players in one real page are told apart."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Lab, MakePage
from tests.browser.players import ROOT

pytestmark = pytest.mark.browser

CELLS = ("from kitlib.views import Player\nPlayer('small_max_offset_behind')", "Player('zombie')", "Player('streams_failover')")


def test_what_players_refer_to_by_name_is_their_own(lab: Lab, new_page: MakePage) -> None:
    """Every hatch, label, title and description that a player refers to lies in that player, and no name is given twice.

    A hatch of another player would vanish with it when JupyterLab hides the cells that are out of sight.
    """
    lab.set_theme("Light")
    page = new_page().page
    lab.open(page, *CELLS)
    for number in range(len(CELLS)):
        cell = page.locator(".jp-CodeCell").nth(number)
        cell.scroll_into_view_if_needed()
        cell.locator(f"{ROOT}[data-step]").wait_for()
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
