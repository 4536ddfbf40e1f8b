"""A producer's picture in a real Chromium: the player draws what Python draws, quickly, and no words collide."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from kitlib.experiments import get
from kitlib.views import show
from kitlib.views.frames import Frames, to_frames
from kitlib.views.lanes import steps_between
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import FAINT_WORDS, ROOT, attribute, knob_to_picture, press, watch_answers
from tests.clock import min_until
from tests.conftest import within
from tests.views.producing import everything, two_producers

pytestmark = pytest.mark.browser

KNOBS: dict[str, Any] = {"records": 800, "linger_ms": 2, "max_steps": 1000}
CELL = "from kitlib.views import Player, show\nplayer = Player('answers_lost', front=('records', 'delay_ms'), **{knobs})\nplayer"
DRAWN = """() => {
  const shown = (node) => node.getClientRects().length > 0;
  const all = (selector) => [...document.querySelectorAll(`.kit-stage ${selector}`)].filter(shown);
  return {
    marks: all("[data-mark-code]").map((mark) => [mark.dataset.markCode, ...[...mark.querySelectorAll("text")].filter(shown).map((text) => text.textContent)]),
    boxes: all("[data-box]").map((box) => [box.dataset.box, ...[...box.querySelectorAll("text")].map((text) => text.textContent)]),
    records: all("[data-record]").map((box) => [+box.dataset.record, box.dataset.code]),
  };
}"""
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
    lab.set_theme("Light")
    watched = make_page()
    lab.open(watched.page, CELL.format(knobs=KNOBS), "show(player.trace, 100)")
    watched.page.wait_for_selector(f"{ROOT}[data-step]")
    watched.page.wait_for_selector(".jp-RenderedSVG img")
    return watched


def expected(frames: Frames, step: int) -> dict[str, list[list[Any]]]:
    """What the browser should show after a step."""
    scene = frames.space_time
    assert scene is not None
    found: dict[str, list[list[Any]]] = {"marks": [], "boxes": [], "records": []}
    window = scene.window_at(step)
    for number in steps_between(scene.x, window, scene.x[step]):
        if (mark := scene.marks[number]) is not None and number <= step:
            found["marks"].append([mark.code, *mark.lines])
    for row in scene.rows:
        found["boxes"] += [list(scene.boxes[box]) for box in row.boxes.at(step, [])]
    log = scene.logs[0]
    first, start = log.window.at(step, log.base), log.start.at(step, log.base)
    for one in log.segments_after(step):
        after = min(one.offset + one.last - one.first + 1, first + log.boxes)
        for offset in range(max(one.offset, first), after):
            found["records"].append([one.first + offset - one.offset, one.code_after(step, start, offset)])
    return found


def test_the_browser_draws_a_producers_run_as_python_does(page: Page, watched: Watched) -> None:
    """At any step, reached from any side: the same marks, boxes, records and sentence; the kernel hears nothing."""
    frames = to_frames(get("answers_lost").run(**KNOBS))
    for step in (len(frames) - 1, 0, 60, len(frames) // 2, 130, len(frames) // 3, 7):
        page.get_by_label("Step", exact=True).fill(str(step))
        drawn, there = page.evaluate(DRAWN), expected(frames, step)
        assert (drawn["boxes"], drawn["records"]) == (there["boxes"], there["records"])
        assert [mark[0] for mark in drawn["marks"]] == [mark[0] for mark in there["marks"]]
        labels = zip(drawn["marks"], there["marks"], strict=True)
        assert all(mark == other or len(mark) == 1 for mark, other in labels), "at the left edge labels are left out"
        assert page.locator(".kit-said").inner_text() == frames.said[step]
    page.locator(ROOT).focus()
    assert press(page, "Home", "ArrowRight", "ArrowRight", "Shift+ArrowRight") == 12
    assert page.locator(".kit-stage svg desc").first.text_content() is not None
    assert watched.sent == []


@pytest.mark.alone
def test_knob_to_picture_of_a_producers_run_within_120_ms(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """From a key on a slider to the painted picture of another run: 120 ms in the median; a slower machine has longer."""
    watch_answers(page)
    page.locator("input[data-knob=delay_ms]").focus()
    with capsys.disabled():
        assert min_until(within(120), lambda: knob_to_picture(page, 15, at=7)) < within(120)


def test_a_fork_keeps_the_past_and_follows_the_knob(page: Page) -> None:
    """A fork stays at its step; a knob that may change then changes only what comes after it."""
    page.get_by_label("Step", exact=True).fill("90")
    before = page.evaluate(DRAWN)
    answered = int(attribute(page, "answered"))
    page.get_by_role("button", name="Fork here").click()
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 1}']")
    assert (int(attribute(page, "step")), page.evaluate(DRAWN)) == (90, before)
    assert page.locator("input[data-knob=records]").is_disabled()
    page.locator("input[data-knob=delay_ms]").focus()
    page.keyboard.press("End")
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 2}'][data-step='90']")
    assert page.evaluate(DRAWN)["boxes"] == before["boxes"]


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
    traces += [everything(), two_producers()]
    for trace in traces:
        for at in (len(trace) // 3, len(trace) * 2 // 3, len(trace) - 1):
            page.set_content(show(trace, at).svg)
            assert page.evaluate(COLLISIONS) == [], (trace.experiment, at)
    page.close()
