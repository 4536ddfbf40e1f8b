"""Players as axe-core judges them, in both themes and at two widths, and by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from kitlib.experiments import get
from kitlib.views.browser.saved_page import to_recording
from tests.browser.conftest import Lab, MakePage
from tests.browser.pages import JUDGE, visiting
from tests.browser.players import ROOT

pytestmark = pytest.mark.browser

NAMES = ("small_max_offset_behind", "tuple_tree", "answers_lost", "zombie")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_axe_finds_nothing_serious_in_players(lab: Lab, new_page: MakePage, axe: str, theme: str) -> None:
    """On a wide and on a narrow page, with all settings unfolded, no player has a serious or critical fault."""
    lab.set_theme(theme)
    watched = new_page(color_scheme=theme.lower())
    page = watched.page
    page.set_viewport_size({"width": 1400, "height": 900})
    lab.open(page, "from kitlib.views import Player", *(f"Player('{name}', open_at='anomaly')" for name in NAMES))
    page.locator(f"{ROOT}[data-step]").first.wait_for()
    page.evaluate(axe)
    for width in (1400, 868):
        page.set_viewport_size({"width": width, "height": 900})
        for number in range(len(NAMES)):
            player = page.locator(ROOT).nth(number)
            player.scroll_into_view_if_needed()
            player.locator("[data-step]").or_(player).first.wait_for()
            player.evaluate("node => node.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate(JUDGE, ROOT) == [], (theme, width)
    watched.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_saved_page(chromium: Browser, axe: str, tmp_path: Path, theme: str) -> None:
    """The whole page of a saved run, with all that can be unfolded, has no serious or critical fault."""
    (tmp_path / "run.html").write_text(to_recording(get("small_max_offset_behind").run()))
    with visiting(chromium, tmp_path.as_uri(), color_scheme=theme) as visit:
        visit.page.goto((tmp_path / "run.html").as_uri())
        visit.page.wait_for_selector(f"{ROOT}[data-step]")
        visit.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        visit.page.evaluate(axe)
        assert visit.page.evaluate(JUDGE, "html") == []
        visit.check()


def test_motion_that_is_not_wanted_is_not_shown(lab: Lab, new_page: MakePage) -> None:
    """With `prefers-reduced-motion` nothing in a player is animated or moves smoothly."""
    lab.set_theme("Light")
    watched = new_page(reduced_motion="reduce")
    page = watched.page
    lab.open(page, "from kitlib.views import Player\nPlayer('small_max_offset_behind')")
    page.wait_for_selector(f"{ROOT}[data-step='0']")
    moving = page.evaluate(
        """() => [...document.querySelectorAll(".kit-player, .kit-player *")].filter((node) => {
          const style = getComputedStyle(node);
          return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0.01;
        }).map((node) => node.outerHTML.slice(0, 100))"""
    )
    assert moving == []


def test_every_control_is_reached_and_used_by_keyboard(lab: Lab, new_page: MakePage) -> None:
    """Tab leads to each control that is shown, each with a visible focus; none keeps the focus."""
    lab.set_theme("Light")
    watched = new_page()
    page = watched.page
    lab.open(page, "from kitlib.views import Player\nPlayer('small_max_offset_behind')")
    page.wait_for_selector(f"{ROOT}[data-step='0']")
    page.locator(ROOT).focus()
    reached = []
    for _ in range(80):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
              const node = document.activeElement;
              if (!node.closest(".kit-player")) return null;
              const style = getComputedStyle(node.matches(".kit-slider") ? node.nextElementSibling.querySelector(".kit-thumb") ?? node : node);
              return [node.dataset.knob ?? node.getAttribute("aria-label") ?? node.textContent.trim(), style.outlineStyle !== "none"];
            }"""
        )
        if found is None:
            break
        reached.append(found)
    names = [name for name, _ in reached]
    wanted = ["max_offset_behind", "Seed", "Fork here", "Start over", "model", "real broker", "First step", "Play", "Last step", "Step"]
    assert [name for name in wanted if name not in names] == []
    assert any(name.startswith("More settings") for name in names)
    assert [name for name, is_seen in reached if not is_seen] == []
