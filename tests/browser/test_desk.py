"""The desk's page in a real Chromium: its controls reach the kernel, and what is refused is told in a sentence.

Nothing is started behind it: that the parts run is in tests/desk.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

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
desk.run.drained, desk.run.phase = Drained(10, 10, tuple(told)), "drained"
desk._show()
desk"""


def test_desk_page_turns_knobs_and_tells_what_is_refused(lab: Lab, new_page: MakePage) -> None:
    """A slider's end of a move reaches the run, a bad one is taken back with a sentence, and hostile text stays text."""
    watched = new_page()
    page = watched.page
    lab.open(page, CELL)
    desk = page.locator(".kit-desk")
    desk.get_by_text("✗ Spark").wait_for(timeout=60_000)
    drawn = desk.locator("svg").last.text_content() or ""
    assert all(told in drawn for told in ("lost", "✓ our ledgers", "✓ the broker's log", "Spark counts 1 missing in the topic"))
    expect(desk).to_contain_text("0 s: <img src=x onerror=alert(1)>")

    desk.get_by_text("More settings").click()
    max_in_flight = desk.locator(".widget-inline-hbox", has_text="max_in_flight")
    max_in_flight.get_by_role("slider").press("ArrowLeft")
    expect(desk).to_contain_text("max_in_flight changes from 5 to 4", timeout=10_000)
    max_in_flight.get_by_role("slider").press("End")
    expect(desk.get_by_role("alert")).to_contain_text("librdkafka allows at most 5", timeout=10_000)
    expect(max_in_flight.locator(".widget-readout")).to_have_text("4 requests")

    desk.get_by_role("button", name="Go on").wait_for()
    desk.get_by_role("button", name="Stop").click()
    expect(desk.get_by_role("button", name="Stop")).to_be_disabled(timeout=10_000)
    expect(desk.get_by_role("checkbox", name="idempotence")).to_be_disabled()
    watched.check()
