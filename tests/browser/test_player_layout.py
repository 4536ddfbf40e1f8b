"""How a player is laid out: picture, transport bar and verdict on one screen, few knobs beside them, and nothing that jumps."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import Page

from kitlib.experiments import get
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import ROOT, open_player

pytestmark = pytest.mark.browser

NAMES = ("small_max_offset_behind", "tuple_tree", "answers_lost", "zombie")
PARTS = (".kit-bar", ".kit-now", ".kit-chips", ".kit-side .kit-knobs", ".kit-actors")

FIRST_IS = "isWide => document.querySelector('.kit-player').dataset.wide === isWide"  # the first player, not one out of sight

# In a page: [left, top, right, bottom] of the parts of the player `number`, and of what of the notebook is in sight.
BOXES = """([number, parts]) => {
  const box = (node) => { const { left, top, right, bottom } = node.getBoundingClientRect(); return [left, top, right, bottom].map(Math.round); };
  const root = document.querySelectorAll(".kit-player")[number];
  return { sight: box(root.closest(".jp-WindowedPanel-outer")), root: box(root), ...Object.fromEntries(parts.map((part) => [part, box(root.querySelector(part))])) };
}"""


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of each kind."""
    cells = "from kitlib.views import Player", *(f"Player('{name}')" for name in NAMES)
    return open_player(lab, make_page, *cells, viewport={"width": 1400, "height": 900})


def boxes(page: Page, number: int, *parts: str) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(BOXES, [number, parts])
    return found


def is_inside(part: list[int], whole: list[int]) -> bool:
    return all(a >= b - 1 for a, b in zip(part[:2], whole[:2], strict=True)) and all(
        a <= b + 1 for a, b in zip(part[2:], whole[2:], strict=True)
    )


def scrolled(page: Page, number: int, to: str, block: str, parts: tuple[str, ...]) -> dict[str, Any]:
    """The boxes after scrolling to the start or end of the player or a part of it, and under "hidden" which parts are not in
    sight. JupyterLab measures cells that come into sight and moves the page once more; so it is asked again for 5 s."""
    player = page.locator(ROOT).nth(number)
    place, deadline = player.locator(to) if to else player, time.monotonic() + 5
    while True:
        place.evaluate("(node, block) => node.scrollIntoView({ block })", block)
        found = boxes(page, number, *PARTS)
        found["hidden"] = [part for part in parts if not is_inside(found[part], found["sight"])]
        if not found["hidden"] or time.monotonic() > deadline:
            return found


@pytest.fixture
def wide(watched: Watched) -> Page:
    watched.page.set_viewport_size({"width": 1400, "height": 900})
    watched.page.wait_for_function(FIRST_IS, arg="true")
    return watched.page


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_picture_bar_and_verdict_are_on_one_screen_at_1400_by_900(wide: Page, number: int) -> None:
    """With the player at the top of the notebook its knobs, transport bar, verdict and first picture are all in sight;
    at the player's end the knobs, the transport bar and the verdict still are."""
    found = scrolled(wide, number, ".kit-body", "start", PARTS)
    assert found["hidden"] == []
    assert found[".kit-side .kit-knobs"][2] <= found[".kit-actors"][0], "the knobs stand beside the picture"
    assert scrolled(wide, number, "", "end", PARTS[:-1])["hidden"] == []


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1400, 900)])
def test_a_player_that_was_just_run_is_seen_from_its_top_with_stage_and_strip(watched: Watched, width: int, height: int) -> None:
    """After Shift+Enter its title is in sight, and below it knobs, transport, stage, strip and the verdict's figure together."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
    page.wait_for_function("!document.querySelector('.kit-player').dataset.played && document.querySelector('.kit-player').dataset.step === '0'")
    parts = ("h3", *PARTS, ".kit-verdict .kit-figure", ".kit-stage svg.kit")
    page.wait_for_function(
        "top => Math.abs(document.querySelector('.kit-player').getBoundingClientRect().top - top) < 3", arg=boxes(page, 0)["sight"][1]
    )
    found = boxes(page, 0, *parts)
    assert [part for part in parts if not is_inside(found[part], found["sight"])] == []
    assert found[".kit-side .kit-knobs"][2] <= found[".kit-actors"][0], "the knobs stand beside the picture"


def test_at_700_px_the_knobs_stand_above_and_nothing_lies_outside(watched: Watched) -> None:
    """On a narrow page knobs, verdict and picture follow each other, every control is inside, and bar and verdict stay."""
    page = watched.page
    page.set_viewport_size({"width": 868, "height": 900})  # with JupyterLab's own columns: 700 px for the player
    page.locator(ROOT).first.locator("h3").evaluate("node => node.scrollIntoView({ block: 'start' })")
    page.wait_for_function(FIRST_IS, arg="false")
    found = boxes(page, 0, *PARTS)
    assert found["root"][2] - found["root"][0] == 700
    order = [found[part][1] for part in (".kit-side .kit-knobs", ".kit-bar", ".kit-now", ".kit-chips", ".kit-actors")]
    assert order == sorted(order)
    outside = page.locator(ROOT).first.evaluate(
        """(root) => {
          const { left, right } = root.getBoundingClientRect();
          return [...root.querySelectorAll("input, select, button, p, summary")].filter((node) => {
            const box = node.getBoundingClientRect();
            return box.width && !node.closest(".kit-stage") && (box.left < left || box.right > right);
          }).map((node) => node.outerHTML);
        }"""
    )
    assert outside == []
    page.locator(ROOT).first.locator(".kit-stage").evaluate("node => node.scrollIntoView({ block: 'end' })")
    found = boxes(page, 0, *PARTS)
    assert [part for part in PARTS[:3] if not is_inside(found[part], found["sight"])] == []


def test_the_experiments_own_knobs_are_in_sight_and_all_others_folded(wide: Page) -> None:
    """The front row has the experiment's knobs in its order; the others are counted, and one key unfolds them."""
    player = wide.locator(ROOT).first
    experiment = get(NAMES[0])
    shown = "nodes => nodes.filter((node) => node.checkVisibility()).map((node) => node.dataset.knob)"
    assert player.locator("[data-knob]").evaluate_all(shown) == list(experiment.front)
    rest = len(experiment.knobs) - len(experiment.front)
    summary = player.locator(".kit-more > summary")
    assert summary.inner_text() == f"More settings ({rest})"
    summary.focus()
    wide.keyboard.press("Enter")
    assert len(player.locator("[data-knob]").evaluate_all(shown)) == len(experiment.knobs)
    wide.keyboard.press("Enter")
    assert player.locator("[data-knob]").evaluate_all(shown) == list(experiment.front)


def test_a_changed_knob_is_marked_and_can_be_put_back(wide: Page) -> None:
    """Its button names the value that the player opened with; pressed, it gives that run again, and the mark goes."""
    player = wide.locator(ROOT).first
    player.get_by_role("button", name="Show the verdict").click()
    said = player.locator(".kit-verdict").inner_text()
    assert player.locator(".kit-back:visible").count() == 0
    player.locator("[data-knob=max_offset_behind]").focus()
    answered = int(attribute_of_first(wide, "answered"))
    wide.keyboard.press("End")
    wide.locator(f"{ROOT}[data-answered='{answered + 1}']").wait_for()
    assert player.locator(".kit-verdict").inner_text() != said
    back = player.locator(".kit-back:visible")
    assert (back.inner_text(), back.get_attribute("aria-label")) == ("\u21ba 5", "Put max_offset_behind back to 5 offsets")
    back.press("Enter")
    wide.locator(f"{ROOT}[data-answered='{answered + 2}']").wait_for()
    assert player.locator(".kit-verdict").inner_text() == said
    assert player.locator(".kit-back:visible").count() == 0
    assert wide.evaluate("document.activeElement.dataset.knob") == "max_offset_behind"


def test_nothing_jumps_while_a_knob_moves(wide: Page) -> None:
    """Knobs, transport bar, verdict and picture begin where they were at each of a knob's stops, at either width."""
    for width in (1400, 868):
        wide.set_viewport_size({"width": width, "height": 900})
        wide.locator(ROOT).first.locator("h3").evaluate("node => node.scrollIntoView({ block: 'start' })")
        wide.wait_for_function(FIRST_IS, arg="true" if width == 1400 else "false")
        begun = [box[:2] for box in boxes(wide, 0, *PARTS).values()]
        wide.locator(ROOT).first.locator("[data-knob=outage_ms]").focus()
        for key in ("Home", "PageUp", "PageUp", "PageUp", "End"):
            answered = int(attribute_of_first(wide, "answered"))
            wide.keyboard.press(key)
            wide.locator(f"{ROOT}[data-answered='{answered + 1}']").wait_for()
            assert [box[:2] for box in boxes(wide, 0, *PARTS).values()] == begun, (width, key)


def attribute_of_first(page: Page, name: str) -> str:
    value = page.locator(ROOT).first.get_attribute(f"data-{name}")
    assert value is not None
    return value
