"""Pictures of every kind in a real Chromium: drawn as they were sent, without words that collide, and as quick as a knob is turned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from kitlib.experiments import get, names, run
from kitlib.experiments.transactions.transaction_stories import commit_and_abort
from kitlib.mechanisms.lag import Window
from kitlib.views import draw_window, scene, show
from kitlib.views.browser.session import Session
from kitlib.views.frames import to_frames
from kitlib.views.picture import draw
from tests.browser.conftest import Lab, MakePage
from tests.browser.pages import open_run, visiting
from tests.browser.players import check_reels, knob_to_picture, open_player, watch_answers
from tests.clock import min_until
from tests.views.producing import everything
from tests.views.projector import Projector
from tests.views.test_lag_picture import CASES
from tests.views.traces import some_steps_of

pytestmark = pytest.mark.browser

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("poison_record", {"records": 400, "max_steps": 1000, "duration_ms": 5000}),
    ("out_of_range", {"seed": 5}),
    ("same_id_other_topic", {"seed": 5}),
    ("tuple_tree", {"id_bits": 8, "records": 12, "fan_out": 3, "max_spout_pending": 5, "fault": "drop", "max_steps": 1000}),
    ("tuple_tree", {"id_bits": 16, "join": True, "fault": "unanchored"}),
    ("acker_crash", {}),
    ("answers_lost", {"records": 800, "linger_ms": 2, "max_steps": 1000}),
    ("commit_and_abort", {"transactions": 6, "version": "2"}),
]
TAGS = "() => [...new Set([...document.querySelectorAll('.kit-stage > div > svg.kit *')].map((one) => one.localName))]"
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


@pytest.mark.parametrize(("name", "knobs"), RUNS, ids=str)
def test_the_browser_draws_what_it_was_sent(chromium: Browser, tmp_path: Path, name: str, knobs: dict[str, Any]) -> None:
    """At any step, reached from any side, the pictures are those that were sent, and so those of `show`; so is the paper over the future."""
    trace = get(name).run(**knobs)
    sent = Projector(Session(trace).frames)
    last = len(trace) - 1
    with visiting(chromium, tmp_path.as_uri()) as visit:
        page = open_run(visit.page, tmp_path, trace)
        for step in (last, 0, last // 3, last // 2, last // 4, last - 1, 7, *range(last // 2, last // 2 + 6)):
            page.get_by_label("Step", exact=True).fill(str(step))
            check_reels(page, sent, step)
            if (cursor := sent.reels[0].get("cursor")) and cursor["future"]:
                future = float(page.locator(".kit-stage rect.paper[opacity]").first.get_attribute("width") or "nan")
                assert future == pytest.approx(max(0, cursor["right"] - cursor["future"][step]))
        assert set(page.evaluate(TAGS)) <= {"title", "desc", "path", "g", "rect", "text", "tspan", "circle"}
        visit.check()


TURNED = {"poison_record": "process_ms", "tuple_tree": "execute_ms", "answers_lost": "delay_ms"}


@pytest.mark.pace
@pytest.mark.parametrize("name", TURNED)
def test_knob_moved_gives_a_new_picture_within_120_ms(lab: Lab, new_page: MakePage, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """From a key on a slider to the painted picture of another run of up to 1,000 steps: under 120 ms for 95 of 100.

    The best of up to five rounds of 40 counts; a slower machine has longer, in proportion.
    """
    knobs = next(knobs for each, knobs in RUNS if each == name)
    cell = f"from kitlib.views import Player\nPlayer({name!r}, front=({TURNED[name]!r},), **{knobs})"
    page = open_player(lab, new_page, cell).page
    watch_answers(page)
    page.locator(f"input[data-knob={TURNED[name]}]").focus()
    with capsys.disabled():
        best = min_until(120, lambda: knob_to_picture(page, 40, at=37))
    assert best < 120


def collisions(page: Page, svg: str) -> list[str]:
    page.set_content(svg)
    found: list[str] = page.evaluate(COLLISIONS)
    return found


def test_words_of_static_pictures_do_not_collide(chromium: Browser) -> None:
    """Measured in the browser, for producers, and for windows of commits with each rule: none lies over another or leaves the picture."""
    traces = [get("six_in_flight").run(), get("broker_restart").run(), get("two_producers_one_id").run(), everything()]
    traces += [get("answers_lost").run(max_in_flight=10, remembered_batches=10, lost_answers=12, records=120)]
    pictures = [show(trace, at) for trace in traces for at in (len(trace) // 3, len(trace) * 2 // 3, len(trace) - 1)]
    pictures += [draw_window(window) for window, _, _ in CASES.values()]
    pictures.append(draw_window(Window([], [5], 3, 5)))
    page = chromium.new_page(viewport={"width": 800, "height": 1200})
    for picture in pictures:
        assert collisions(page, picture.svg) == [], picture
    page.close()


def test_words_of_all_scenes_do_not_collide(chromium: Browser) -> None:
    """Measured in the browser, for every experiment that is a scene: no two words lie over each other, none leaves the picture."""
    traces = [some_steps_of(name) for name in names()]
    traces = [trace for trace in traces if scene.kind_of(trace)] + [run("client_cut_off"), commit_and_abort.run()]
    traces += [run("coordinator_moves", others_records=600)]
    page = chromium.new_page(viewport={"width": 800, "height": 1200})
    found = {}
    for trace in traces:
        kind = scene.kind_of(trace)
        assert kind is not None
        for part in kind.PARTS:
            frames = to_frames(trace, part)
            for at in (len(trace) // 2, len(trace) - 1) if part in ("all", "load", "before_after") else (len(trace) - 1,):
                if words := collisions(page, draw(frames, at).svg):
                    found[trace.experiment, part, at] = words
    page.close()
    assert found == {}, found
