"""The desk's page in a real Chromium: its controls reach the kernel, and what is refused is told in a sentence.

Nothing is started behind it: that the parts run is in tests/desk.
"""

from __future__ import annotations

import pytest

from tests.browser.conftest import Lab, MakePage

pytestmark = pytest.mark.browser

CELL = """from kitlib.desk import Desk, DeskRun
from kitlib.desk.lamps import Drained, Witness
from kitlib.desk.fold import tally_of
import numpy as np
DeskRun.start = lambda run: run  # the page alone is looked at
desk = Desk(rate=300)
def look(at_s, lost):
    spark = {"lost": lost, "duplicated_topic": 0, "duplicated_results": 0, "reordered_topic": 0, "reordered_results": 0}
    return {"at_s": at_s, "stored": 0, "written": 0, "rate": {"stored": 300, "written": 290}, "lag": 40, "spark": spark}
desk.run.snapshots.extend(look(at_s, 3 * at_s) for at_s in range(30))
desk.marks = [(5, "<script>alert(1)</script>"), (29, "kill spout")]
desk.run.say("<img src=x onerror=alert(1)>")
told = [Witness(name, *2 * [tally_of(np.arange(10 - (name == "Spark")), 10)]) for name in ("our ledgers", "the broker's log", "Spark")]
desk.run.drained, desk.run.phase = Drained.of(10, *told, committed_to=10), "drained"
desk._show()
desk"""


def test_desk_page_turns_knobs_and_tells_what_is_refused(lab: Lab, new_page: MakePage) -> None:
    """A slider's end of a move reaches the run, a bad one is taken back with a sentence, and hostile text stays text."""
    watched = new_page()
    page = watched.page
    lab.open(page, CELL)
    page.wait_for_selector(".kit-desk .kit-lamp[data-lamp=parts]", timeout=60_000)
    assert page.locator(".kit-desk .kit-lamp").evaluate_all("nodes => nodes.map((node) => node.dataset.lamp)") == ["agrees", "agrees", "parts"]
    assert "Spark counts 1 missing in the topic" in page.locator(".kit-desk [role=status]").inner_text()
    assert "<img src=x" in page.locator(".kit-desk .kit-happened").inner_text()
    assert "lost" in (page.locator(".kit-desk .kit-charts svg").text_content() or "")

    page.locator(".kit-desk summary").first.click()  # more settings
    page.locator("[data-knob=max_in_flight]").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelector('.kit-happened').innerText.includes('max_in_flight changes from 5 to 4')", timeout=10_000)
    page.locator("[data-knob=max_in_flight]").focus()
    page.keyboard.press("End")
    page.wait_for_function("!document.querySelector('.kit-desk .kit-error').hidden", timeout=10_000)
    assert "librdkafka allows at most 5" in page.locator(".kit-desk .kit-error").inner_text()
    assert page.locator("[data-knob=max_in_flight]").get_attribute("aria-valuetext") == "4 requests"

    assert page.locator("[data-deed='drain and compare']").inner_text() == "Go on"
    page.locator("[data-deed=stop]").click()
    page.wait_for_function("document.querySelector('[data-deed=stop]').disabled", timeout=10_000)
    assert page.locator("[data-knob=rate]").is_disabled()
    watched.check()
