"""The switch to the real broker in a real page: the run, its progress, and whether both agree."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import Lab, MakePage
from tests.browser.players import ROOT, attribute, open_player

pytestmark = [pytest.mark.browser, pytest.mark.kafka]


def test_the_switch_runs_the_story_on_the_broker_while_the_page_stays_alive(lab: Lab, new_page: MakePage, broker: Any) -> None:
    """Pressed by keyboard the switch shows that a run is under way, steps can be moved meanwhile, and then both agree."""
    watched = open_player(lab, new_page, "from kitlib.views import Player\nPlayer('restart', records=20)")
    page = watched.page
    page.get_by_role("button", name="real broker").press("Enter")
    page.locator(".kit-progress:not([hidden]) progress").wait_for()
    page.locator(ROOT).focus()
    page.keyboard.press("ArrowRight")
    assert attribute(page, "step") == "1"
    page.locator(".kit-live [data-live=agrees]").wait_for(timeout=60_000)
    assert page.locator(".kit-live p").inner_text().startswith("Model and broker agree: ")
    assert page.get_by_role("button", name="real broker").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="model", exact=True).click()
    page.locator(".kit-live [data-live=idle]").wait_for(state="attached")
    assert page.locator(".kit-live p").inner_text() == ""
    watched.check()
