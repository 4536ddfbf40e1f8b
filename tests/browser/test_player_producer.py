"""A producer's picture in a real Chromium: the player draws what Python draws, quickly, and no words collide."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from kitlib.experiments import get
from kitlib.views import show
from kitlib.views.browser.session import Session
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import (
    FAINT_WORDS,
    ROOT,
    attribute,
    check_reels,
    drawn,
    knob_to_picture,
    open_player,
    press,
    watch_answers,
)
from tests.clock import min_until
from tests.views.producing import everything
from tests.views.projector import Projector

pytestmark = pytest.mark.browser

KNOBS: dict[str, Any] = {"records": 800, "linger_ms": 2, "max_steps": 1000}
CELL = "from kitlib.views import Player, show\nplayer = Player('answers_lost', front=('records', 'delay_ms'), **{knobs})\nplayer"
# In a page: pairs of words in a picture that lie over each other, and words outside of it.
COLLISIONS = """() => {
  const image = document.querySelector("svg").getBoundingClientRect();
  const words = [...document.querySelectorAll("svg text")].map((text) => [text.textContent, text.getBoundingClientRect()]).filter(([text]) => text);
  const found = [];
  words.forEach(([text, box], index) => {
    if (box.left < image.left - 1 || box.right > image.right + 1 || box.bottom > image.bottom + 1) found.push(`outside: ${text}`);
    for (const [other, there] of words.slice(index + 1)) {
      const wide = Math.min(box.right, there.right) - Math.max(box.left, there.left);
      const tall = Math.min(box.bottom, there.bottom) - Math.max(box.top, there.top);
      if (wide > 1.5 && tall > 3.5) found.push(`${text} / ${other}`);
    }
  });
  return found;
}"""


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of a run of many requests, and below it a static picture."""
    watched = open_player(lab, make_page, CELL.format(knobs=KNOBS), "show(player.trace, 100)")
    watched.page.wait_for_selector(".jp-RenderedSVG img")
    return watched


def test_the_browser_draws_a_producers_run_as_python_does(page: Page, watched: Watched) -> None:
    """At any step, reached from any side, the pictures are those that were sent; the kernel hears nothing."""
    sent = Projector(Session("answers_lost", knobs=KNOBS).frames)
    last = len(sent.row["said"]) - 1
    for step in (last, 0, 60, last // 2, *range(130, 136), last // 3, 7):
        page.get_by_label("Step", exact=True).fill(str(step))
        check_reels(page, sent, step)
    page.locator(ROOT).focus()
    assert press(page, "Home", "ArrowRight", "ArrowRight", "Shift+ArrowRight") == 12
    described = page.locator(".kit-stage svg desc").first.text_content() or ""
    assert re.search(r"In the accumulator: nothing, In flight: \d of at most 5.*The log: ", described)
    assert watched.sent == []


@pytest.mark.pace
def test_knob_to_picture_of_a_producers_run_within_120_ms(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """From a key on a slider to the painted picture of another run: 120 ms for 95 of 100; a slower machine has longer."""
    watch_answers(page)
    page.locator("input[data-knob=delay_ms]").focus()
    with capsys.disabled():
        assert min_until(120, lambda: knob_to_picture(page, 40, at=37)) < 120


def words_of(page: Page) -> list[str]:
    """What stands in the rows and the log, below the lanes."""
    return sorted(text for _, y, *_, text in drawn(page)[0] if text and y > 200)


def test_a_fork_keeps_the_past_and_follows_the_knob(page: Page) -> None:
    """A fork stays at its step; a knob that may change then changes only what comes after it."""
    page.get_by_label("Step", exact=True).fill("90")
    before = words_of(page)
    answered = int(attribute(page, "answered"))
    page.get_by_role("button", name="Fork here").click()
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 1}']")
    assert (int(attribute(page, "step")), words_of(page)) == (90, before)
    assert page.locator("input[data-knob=records]").is_disabled()
    page.locator("input[data-knob=delay_ms]").focus()
    page.keyboard.press("End")
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 2}'][data-step='90']")
    assert words_of(page) == before


def test_words_of_the_player_are_readable(page: Page) -> None:
    """Words stand out by 4.5 or more and none is smaller than 10 px; the image has a name."""
    page.get_by_label("Step", exact=True).fill("120")
    wrong = page.evaluate(
        "() => {"
        + FAINT_WORDS
        + """
          const isShown = (node) => node.getClientRects().length && node.textContent;
          const wrong = faintWords([...root.querySelectorAll("text.ink, text.grey, p, label, li:not(.kit-absent)")].filter(isShown));
          for (const text of root.querySelectorAll("svg text")) {
            const image = text.ownerSVGElement, scale = image.getBoundingClientRect().width / image.viewBox.baseVal.width;
            if (text.getClientRects().length && parseFloat(getComputedStyle(text).fontSize) * scale < 10) wrong.push(`tiny: ${text.textContent}`);
          }
          for (const image of root.querySelectorAll("svg:not([aria-hidden])"))
            if (image.getAttribute("role") !== "img" || !image.querySelector("title")?.textContent) wrong.push("an image without a title");
          return wrong;
        }"""
    )
    assert wrong == []


def test_words_of_static_pictures_do_not_collide(chromium: Browser) -> None:
    """Measured in the browser: no two words lie over each other, and none leaves the picture."""
    page = chromium.new_page(viewport={"width": 800, "height": 1200})
    traces = [get("six_in_flight").run(), get("broker_restart").run(), get("two_producers_one_id").run()]
    traces += [get("answers_lost").run(max_in_flight=10, remembered_batches=10, lost_answers=12, records=120)]
    traces.append(everything())
    for trace in traces:
        for at in (len(trace) // 3, len(trace) * 2 // 3, len(trace) - 1):
            page.set_content(show(trace, at).svg)
            assert page.evaluate(COLLISIONS) == [], (trace.experiment, at)
    page.close()
