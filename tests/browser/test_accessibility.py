"""Players as axe-core judges them, in both themes and at two widths, and by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from kitlib.experiments import get
from tests.browser.conftest import Lab, MakePage
from tests.browser.pages import JUDGE, open_run, visiting
from tests.browser.players import ROOT, UNREADABLE

pytestmark = pytest.mark.browser

SCRIPT = "answers_lost lost_answers=0 idempotence=false\nlose answer 4"
PLAYERS = ("'small_max_offset_behind', open_at='anomaly'", "'tuple_tree', open_at=40", f"{SCRIPT!r}, open_at=60", "'zombie', open_at=40", "'restart', open_at=90")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_players_have_no_serious_fault_and_their_words_are_readable(lab: Lab, new_page: MakePage, axe: str, theme: str) -> None:
    """On a wide and on a narrow page, whatever the system prefers, with all that can be unfolded, asked and pinned, axe finds nothing serious;
    words stand out by 4.5 or more, and none is smaller than 11 px on the wide one, than 9 on the other."""
    lab.set_theme(theme)
    watched = new_page(color_scheme="dark" if theme == "Light" else "light", viewport={"width": 1400, "height": 900})
    page = watched.page
    lab.open(page, "from kitlib.views import Player, show", *(f"Player({asked})" for asked in PLAYERS), "show(Player('restart').trace)")
    page.locator(f"{ROOT}[data-step]").first.wait_for()
    page.evaluate(axe)
    for width, least in ((1400, 10.99), (868, 9)):
        page.set_viewport_size({"width": width, "height": 900})
        for number in range(len(PLAYERS)):
            player = page.locator(ROOT).nth(number)
            player.scroll_into_view_if_needed()
            player.and_(page.locator("[data-step]")).wait_for()
            player.evaluate("node => node.querySelectorAll('details').forEach((one) => { one.open = true; })")
            player.focus()
            page.keyboard.press("i")
            player.locator(".kit-life-field").fill("record 9" if number == 0 else "broker")
            page.keyboard.press("Enter")
            assert player.evaluate(UNREADABLE, least) == [], (width, number)
        assert page.evaluate(JUDGE, ROOT) == [], (theme, width)
    page.locator(".jp-RenderedSVG img").scroll_into_view_if_needed()
    assert len(page.locator(".jp-RenderedSVG img").screenshot()) > 10_000, "the still picture is not blank"
    watched.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_saved_page(chromium: Browser, axe: str, tmp_path: Path, theme: str) -> None:
    """The whole page of a saved run, with all that can be unfolded, has no serious or critical fault."""
    with visiting(chromium, tmp_path.as_uri(), color_scheme=theme) as visit:
        open_run(visit.page, tmp_path, get("small_max_offset_behind").run())
        visit.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        visit.page.evaluate(axe)
        assert visit.page.evaluate(JUDGE, "html") == []
        visit.check()


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
