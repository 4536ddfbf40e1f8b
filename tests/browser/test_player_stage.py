"""The stage and the time axis in a real Chromium: who is dark, what falls, how smoothly it moves, what the keyboard reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from kitlib.experiments import get
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views.play_clock import marks_of
from tests.browser.pages import open_run, visiting
from tests.browser.players import ROOT, attribute, press

pytestmark = pytest.mark.browser

RUN = get("restart").run()


def crowd() -> Trace:
    """Four spouts have sent nearly 200 tuples to four bolts; the bolts begin when all are in flight."""
    trace = Trace("crowd", "crowd", domain="topology")
    place = {"topic": "events", "partition": 0}
    for n in range(192):
        trace.record(n, f"in-{n % 4 + 1}", "emit", root=None, tuples=[[n + 1, f"out-{n // 4 % 4 + 5}", 0]], offset=n, **place)
    for n in range(192):
        trace.record(192 + n, f"out-{n // 4 % 4 + 5}", "execute", tuple=n + 1, values=[])
    return trace


@pytest.fixture
def page(chromium: Browser, tmp_path: Path) -> Iterator[Page]:
    """The page of a spout that dies and comes back; nothing forbidden may happen on it."""
    with visiting(chromium, tmp_path.as_uri(), bypass_csp=True) as visit:  # what a test waits for is evaluated in the page
        yield open_run(visit.page, tmp_path, RUN)
        visit.check()


def go_to(page: Page, step: int) -> None:
    page.get_by_label("Step", exact=True).fill(str(step))


def box_of(page: Page, name: str) -> tuple[str, list[str]]:
    """The class of an actor's box, and the words in it."""
    actor = page.locator(f".kit-actors [data-ref='process:{name}']")
    return (actor.locator("rect").last.get_attribute("class") or "").split()[0], actor.locator("text").all_text_contents()


def test_player_opens_at_its_start_with_a_large_play_button_that_goes_once_it_is_used(page: Page) -> None:
    """The button stands over the stage, plays the run, and is out of the way from then on."""
    page.locator(".kit-begin").click()
    page.wait_for_function("+document.querySelector('.kit-player').dataset.step > 3")
    assert page.locator(".kit-begin").is_hidden()
    page.get_by_role("button", name="Pause", exact=True).click()


def test_killed_spout_is_dark_what_was_in_flight_falls_and_it_comes_back(page: Page) -> None:
    """At the crash spout and bolt are dark and crossed things lie about; later both are as before."""
    crash = next(step.number for step in RUN.steps if step.what == "crash")
    go_to(page, crash - 1)
    assert box_of(page, "spout")[0] == "kit-lit"
    assert page.locator(".kit-fallen").count() == 0
    go_to(page, crash)
    for name in ("spout", "bolt"):
        box, words = box_of(page, name)
        assert (box, words[-1]) == ("kit-dark", "down")
    assert page.locator(".kit-fallen").count() == RUN.at(crash).data["on_their_way"]
    assert "Spout and bolt are down." in (page.locator(".kit-actors desc").text_content() or "")
    go_to(page, crash + 2)
    assert box_of(page, "spout")[1][-1] == "back"
    go_to(page, crash + 40)
    assert box_of(page, "spout")[0] == "kit-lit"
    assert page.locator(".kit-fallen").count() == 0


def test_marks_are_reached_by_keys_and_by_clicks(page: Page) -> None:
    """`]` and `[` go from marked step to marked step, and each mark on the axis is a button to its step."""
    steps = sorted({mark.step for mark in marks_of(RUN, judge(RUN))})
    page.locator(ROOT).focus()
    assert [press(page, "]") for _ in steps] == steps
    assert press(page, "]") == steps[-1]
    assert press(page, "[") == steps[-2]
    mark = page.get_by_role("button", name=re.compile("^Go to crash"))
    mark.click()
    crash = next(step.number for step in RUN.steps if step.what == "crash")
    assert int(attribute(page, "step")) == crash


def test_dragging_on_the_axis_scrubs(page: Page) -> None:
    """The step is the one nearest to the pointer, and the line up to it is drawn as passed."""
    box = page.locator(".kit-pad").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], box["y"] + 10, steps=4)
    page.mouse.up()
    assert int(attribute(page, "step")) == 207
    passed = page.locator(".kit-passed").bounding_box()
    assert passed and (passed["width"], passed["height"]) == (pytest.approx(box["width"], abs=1), 4)


def test_nothing_travels_where_motion_is_not_wanted(page: Page, tmp_path: Path) -> None:
    """With prefers-reduced-motion a thing stands half way from its start to its arrival, however long it plays."""
    page.emulate_media(reduced_motion="reduce")
    open_run(page, tmp_path, crowd())
    go_to(page, 100)
    places = "[...document.querySelectorAll('.kit-thing[data-ref=\"tuple:1\"]')].map((thing) => thing.getAttribute('transform'))"
    before = page.evaluate(places)
    page.locator(ROOT).focus()
    page.keyboard.press(" ")
    page.wait_for_function("+document.querySelector('.kit-player').dataset.step > 110")
    page.keyboard.press(" ")
    assert before and page.evaluate(places) == before
