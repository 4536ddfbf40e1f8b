"""A scene in a real Chromium: it is scrubbed on its picture, without the kernel, and its knobs run it anew."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page

from kitlib.views.browser.session import Session
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import ROOT, attribute, check_reels, open_player
from tests.views.projector import Projector

pytestmark = pytest.mark.browser

KNOBS: dict[str, Any] = {"transactions": 6, "version": "2"}
CELL = f"""from kitlib.experiments.transactions.transaction_stories import commit_and_abort
from kitlib.views import Player
player = Player(commit_and_abort, **{KNOBS})
player"""

def sent_of(**knobs: Any) -> Projector:
    return Projector(Session("commit_and_abort", knobs=knobs).frames)


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of a run of transactions."""
    return open_player(lab, make_page, CELL)


def test_dragging_on_the_picture_scrubs(page: Page, watched: Watched) -> None:
    """The step is the last one at or left of the pointer; the kernel hears nothing."""
    reel = sent_of(**KNOBS).reels[0]
    xs = reel["cursor"]["x"]
    picture = page.locator(".kit-stage > div > svg.kit").first
    picture.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
    box = picture.bounding_box()
    assert box is not None
    scale = box["width"] / reel["width"]
    target = next(n for n, (x, after) in enumerate(pairwise(xs)) if n > 20 and after - x > 4)
    low = reel["cursor"]["top"] + reel["cursor"]["tall"] - 10  # below the rows: a press on what has a life asks about it
    x, y = box["x"] + (xs[target] + 1) * scale, box["y"] + low * scale
    page.mouse.move(x, y)
    page.mouse.down()
    assert int(attribute(page, "step")) == target
    page.mouse.move(box["x"] + (xs[2] + 0.5) * scale, y)
    page.mouse.up()
    assert int(attribute(page, "step")) == 2 and watched.sent == []


def test_a_knob_of_a_scene_runs_the_experiment_anew(page: Page) -> None:
    """A knob's new value gives another body, another panel and another number of steps."""
    answered = int(attribute(page, "answered"))
    page.locator("input[data-knob=abort_every]").focus()
    page.keyboard.press("Home")
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 1}']")
    sent = sent_of(**KNOBS, abort_every=0)
    last = len(sent.row["said"]) - 1
    page.get_by_label("Step", exact=True).fill(str(last))
    check_reels(page, sent, last)
    page.locator("select[data-knob=isolation], [data-knob=isolation]").first.select_option("read_uncommitted")
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 2}']")
