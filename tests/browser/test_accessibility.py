"""Players as axe-core judges them, in both themes and at two widths, and by keyboard alone."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from kitlib.errors import SupplyError
from kitlib.lab import npm
from kitlib.lab.jars import Jar
from tests.browser.conftest import Lab, MakePage
from tests.browser.players import ROOT

pytestmark = pytest.mark.browser

AXE = Jar(**json.loads(Path(__file__).with_name("axe.lock.json").read_text(encoding="utf-8")))  # only tests use it
NAMES = ("small_max_offset_behind", "tuple_tree", "answers_lost", "zombie")
JUDGE = """() => axe.run(".kit-player", { resultTypes: ["violations"] }).then(({ violations }) => violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`)))"""


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's script, from the locked package."""
    try:
        package = npm.ensure(AXE)
    except SupplyError as error:
        pytest.skip(f"axe-core cannot be had here: {error}")
    with tarfile.open(package) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_axe_finds_nothing_serious_in_players(lab: Lab, make_page: MakePage, axe: str, theme: str) -> None:
    """On a wide and on a narrow page, with all settings unfolded, no player has a serious or critical fault."""
    lab.set_theme(theme)
    watched = make_page(color_scheme=theme.lower())
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
        assert page.evaluate(JUDGE) == [], (theme, width)
    watched.check()


def test_motion_that_is_not_wanted_is_not_shown(lab: Lab, make_page: MakePage) -> None:
    """With `prefers-reduced-motion` nothing in a player is animated or moves smoothly."""
    lab.set_theme("Light")
    watched = make_page(reduced_motion="reduce")
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


def test_every_control_is_reached_and_used_by_keyboard(lab: Lab, make_page: MakePage) -> None:
    """Tab leads to each control that is shown, each with a visible focus; none keeps the focus."""
    lab.set_theme("Light")
    watched = make_page()
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
