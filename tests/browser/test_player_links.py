"""A player linked with other widgets, in a real page."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Lab, MakePage
from tests.browser.players import ROOT
from tests.conftest import wait_for

pytestmark = pytest.mark.browser

SAYS = "print(player.step, player.values['records'], player.seed)"


def test_a_slider_linked_in_the_page_moves_the_picture_and_follows_it(lab: Lab, new_page: MakePage) -> None:
    """With `jslink` a slider's value and the player's step are one; what either side does is known to the other."""
    lab.set_theme("Light")
    watched = new_page()
    page = watched.page
    lab.open(
        page,
        "from ipywidgets import IntSlider, VBox, jslink\nfrom kitlib.views import Player\n"
        "player, slider = Player('poison_record', records=20), IntSlider(max=50)\n"
        "jslink((slider, 'value'), (player, 'step'))\n"
        "from kitlib.errors import KnobError\nVBox([slider, player])",
    )
    page.wait_for_selector(f"{ROOT}[data-step='0']")
    page.locator(".widget-slider .noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"{ROOT}[data-step='1']")
    page.get_by_label("Step", exact=True).fill("9")
    page.wait_for_function("document.querySelector('.widget-readout').textContent.trim() === '9'")
    run = """source => {
      const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
      const words = [], future = kernel.requestExecute({ code: source });
      future.onIOPub = (message) => words.push(message.content.text ?? message.content.evalue ?? "");
      return future.done.then(() => words.join("").trim());
    }"""
    assert wait_for(lambda: page.evaluate(run, SAYS) == "9 20 1", 20), "a step is told when it rests"
    page.evaluate(run, "player.step = 12")
    page.wait_for_selector(f"{ROOT}[data-step='12']")
    assert page.locator(".widget-readout").inner_text().strip() == "12"
    page.evaluate(run, "player.values = {'records': 33}")
    page.wait_for_function("document.querySelector('[data-knob=records]').getAttribute('aria-valuetext') === '33 records'")
    assert page.evaluate(run, "player.values = {'records': 0}").startswith("records is 0, expected 1 to")
    assert page.locator("[data-knob=records]").get_attribute("aria-valuetext") == "33 records"
    watched.check()
