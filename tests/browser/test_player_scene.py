"""A scene in a real Chromium: the player shows what Python lays out, scrubs without the kernel, and no words collide."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from kitlib.experiments import names, run
from kitlib.experiments.transactions.transaction_stories import commit_and_abort
from kitlib.mechanisms.lag import Window
from kitlib.monitor.commit_history import GroupPartition
from kitlib.views import draw_history, draw_window, scene
from kitlib.views.browser.session import Session
from kitlib.views.frames import to_frames
from kitlib.views.picture import draw
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import FAINT_WORDS, ROOT, attribute, check_reels, open_player, press
from tests.browser.test_player_producer import COLLISIONS
from tests.views.projector import Projector
from tests.views.test_history_picture import commits
from tests.views.test_lag_picture import CASES
from tests.views.test_unclean_scene import a_monitored_run
from tests.views.traces import some_steps_of

pytestmark = pytest.mark.browser

KNOBS: dict[str, Any] = {"transactions": 6, "version": "2"}
CELL = f"""from kitlib.experiments.transactions.transaction_stories import commit_and_abort
from kitlib.views import Player
player = Player(commit_and_abort, **{KNOBS})
player"""
TAGS = "() => [...new Set([...document.querySelectorAll('.kit-stage > div > svg.kit *')].map((one) => one.localName))]"


def sent_of(**knobs: Any) -> Projector:
    return Projector(Session("commit_and_abort", knobs=knobs).frames)


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of a run of transactions."""
    return open_player(lab, make_page, CELL)


def test_the_browser_shows_a_scene_as_python_lays_it_out_without_the_kernel(page: Page, watched: Watched) -> None:
    """At any step, reached from any side: the panel, the cursor, the paper over the future and the sentence."""
    sent = sent_of(**KNOBS)
    cursor, last = sent.reels[0]["cursor"], len(sent.row["said"]) - 1
    for step in (last, 0, last // 2, 17, last // 3, 3):
        page.get_by_label("Step", exact=True).fill(str(step))
        check_reels(page, sent, step)
        future = float(page.locator(".kit-stage rect.paper[opacity]").first.get_attribute("width") or "nan")
        assert future == pytest.approx(max(0, cursor["right"] - cursor["future"][step]))
    page.locator(ROOT).focus()
    assert press(page, "Home", "ArrowRight", "ArrowRight", "Shift+ArrowRight") == 12
    allowed = {"title", "desc", "path", "g", "rect", "text", "tspan", "circle"}
    assert set(page.evaluate(TAGS)) <= allowed
    assert watched.sent == []


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


def test_words_of_a_scene_are_readable_and_the_picture_has_a_name(page: Page) -> None:
    """Words on the page's paper stand out by 4.5 or more and none is smaller than 10 px; the image says what it shows."""
    page.get_by_label("Step", exact=True).fill("40")
    wrong = page.evaluate(
        "() => {"
        + FAINT_WORDS
        + """
          const wrong = faintWords([...root.querySelectorAll("text.ink, text.grey, p, label")].filter((node) => node.getClientRects().length && node.textContent));
          for (const text of root.querySelectorAll(".kit-stage svg text")) {
            const image = text.ownerSVGElement, scale = image.getBoundingClientRect().width / image.viewBox.baseVal.width;
            if (parseFloat(getComputedStyle(text).fontSize) * scale < 10) wrong.push(`tiny: ${text.textContent}`);
          }
          return wrong;
        }"""
    )
    assert wrong == []
    image = page.locator(".kit-stage > div > svg.kit").first
    assert image.locator("title").first.text_content() == "Transactions"
    assert (image.locator("desc").text_content() or "").startswith("After step 40 of ")


def test_words_of_pictures_of_lag_and_commits_do_not_collide(chromium: Browser) -> None:
    """The same for windows of commits with each rule, for a history, and for the signs of a rewind."""
    pictures = [draw_window(window, name="billing on orders-0") for window, _, _ in CASES.values()]
    pictures += [draw_window(Window([], [5], 3, 5)), draw_history({})]
    names = [GroupPartition("a-group-with-a-long-name", "a.topic.with.a.long.name", number) for number in range(14)]
    pictures.append(draw_history({where: commits(10, 12_345_678, 40, None, 3) for where in names}))
    page = chromium.new_page(viewport={"width": 800, "height": 1200})
    for picture in pictures:
        page.set_content(picture.svg)
        assert page.evaluate(COLLISIONS) == [], picture
    page.close()


def test_words_of_all_scenes_do_not_collide(chromium: Browser) -> None:
    """Measured in the browser, for every experiment that is a scene: no two words lie over each other, none leaves the picture."""
    traces = [some_steps_of(name) for name in names()]
    traces = [trace for trace in traces if scene.kind_of(trace)] + [run("client_cut_off"), commit_and_abort.run()]
    traces += [run("coordinator_moves", others_records=600), a_monitored_run()]
    page = chromium.new_page(viewport={"width": 800, "height": 1200})
    found = {}
    for trace in traces:
        kind = scene.kind_of(trace)
        assert kind is not None
        for part in kind.PARTS:
            frames = to_frames(trace, part)
            for at in (len(trace) // 2, len(trace) - 1) if part in ("all", "load", "before_after") else (len(trace) - 1,):
                page.set_content(draw(frames, at).svg)
                if words := page.evaluate(COLLISIONS):
                    found[trace.experiment, part, at] = words
    page.close()
    assert found == {}, found
