"""The player in a real Chromium and a real JupyterLab: fast, right, readable, and deaf to hostile content."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from kitlib.experiments import get
from kitlib.views.browser.session import Session
from kitlib.views.frames import to_frames
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import ROOT, attribute, check_reels, open_player, press
from tests.clock import at_pace, min_until
from tests.views.projector import Projector

pytestmark = pytest.mark.browser

KNOBS = {"records": 400, "max_steps": 1000, "duration_ms": 5000}
CELL = f"from kitlib.views import Player\nplayer = Player('poison_record', front=('records', 'process_ms', 'fail_percent'), **{KNOBS})\nplayer"


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of a run of 1,000 steps."""
    return open_player(lab, make_page, CELL)


def type_seed(page: Page, text: str) -> None:
    page.get_by_label("Seed").select_text()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_all_steps_follow_when_the_knob_rests(page: Page) -> None:
    """A knob that is turned shows the same step of the new run; soon afterwards every step of it is there."""
    press(page, "Home", "Shift+ArrowRight")
    page.locator("input[data-knob=process_ms]").focus()
    for key in ("ArrowRight", "ArrowLeft"):
        answered = int(attribute(page, "answered"))
        page.keyboard.press(key)
        page.wait_for_selector(f"{ROOT}[data-answered='{answered + 1}'][data-whole=false][data-step='10']")
    sent = Projector(Session("poison_record", knobs=KNOBS).frames)
    page.wait_for_selector(f"{ROOT}[data-whole=true][data-step='10']")
    for step in (10, 500, 999):
        page.get_by_label("Step", exact=True).fill(str(step))
        check_reels(page, sent, step)


@pytest.mark.pace
def test_playing_draws_at_least_30_pictures_a_second_without_the_kernel(
    page: Page, watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    """Playing 1,000 steps draws 30 or more different pictures a second, and the kernel hears nothing of it.

    A slower machine draws fewer, in proportion.
    """
    page.get_by_label("Speed of time").select_option("5")
    page.evaluate(
        """() => {
          window.drawn = [];
          window.watcher = new MutationObserver(() => window.drawn.push(performance.now()));
          window.watcher.observe(document.querySelector(".kit-player"), { attributes: true, attributeFilter: ["data-step"] });
        }"""
    )

    def seconds_of_100_pictures() -> float:
        page.locator(ROOT).focus()
        page.keyboard.press("Home")
        page.evaluate("window.drawn.length = 0")
        page.keyboard.press(" ")
        page.wait_for_function("window.drawn.length > 100")
        page.keyboard.press(" ")
        return float(page.evaluate("window.drawn[100] - window.drawn[0]")) / 1000

    best = min_until(100 / 30, lambda: at_pace(seconds_of_100_pictures))
    page.get_by_label("Speed of time").select_option("1")
    with capsys.disabled():
        print(f"\nplaying: {100 / best:.0f} pictures a second")
    assert page.get_by_role("button", name="Play", exact=True).count() == 1
    assert watched.sent == []
    assert best <= 100 / 30


def test_scrubbing_asks_the_kernel_nothing_and_the_keyboard_moves(page: Page, watched: Watched) -> None:
    """Arrow keys, Home, End, the slider and dragging on the curves move through the steps in the browser."""
    assert press(page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft") == 2
    assert press(page, "Shift+ArrowRight") == 12
    assert press(page, "End") == 999
    assert press(page, "Home") == 0
    page.get_by_label("Step", exact=True).focus()
    assert press(page, "ArrowRight") == 1
    for name, step in (("One step forward", 2), ("One step back", 1), ("Last step", 999), ("First step", 0)):
        page.get_by_role("button", name=name).click()
        assert int(attribute(page, "step")) == step
    assert press(page, "ArrowRight", "ArrowRight") == 2, "the arrows go on working while a button has the focus"
    page.locator(".kit-scrub > rect").first.scroll_into_view_if_needed()
    box = page.locator(".kit-scrub > rect").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20, steps=5)
    page.mouse.up()
    dragged = int(attribute(page, "step"))
    clock = to_frames(get("poison_record").run(**KNOBS)).clock
    assert abs(clock.share(dragged) - 0.5) < 0.01
    assert press(page, "ArrowLeft") == dragged - 1
    assert watched.sent == []


def test_slider_moves_are_coalesced_and_the_latest_wins(page: Page) -> None:
    """Thirty moves at once are a few runs, and the last one is what is shown."""
    before = int(attribute(page, "answered"))
    page.evaluate(
        """() => {
          const slider = document.querySelector("input[data-knob=records]");
          for (let stop = 5; stop < 35; stop++) {
            slider.value = stop;
            slider.dispatchEvent(new Event("input"));
          }
        }"""
    )
    page.wait_for_function(
        "[...document.querySelectorAll('.kit-stage svg.kit text')].some((text) => text.textContent === 'log end 35')"
    )
    assert int(attribute(page, "answered")) - before <= 3


def test_a_bad_value_is_told_as_a_sentence(page: Page) -> None:
    """A bad seed is answered in the widget by one sentence, which goes away with the next good value."""
    type_seed(page, "-5")
    page.wait_for_selector(".kit-error:not([hidden])")
    assert page.get_by_role("alert").inner_text() == "seed is '-5', expected a whole number from 0 on."
    type_seed(page, "7")
    page.wait_for_selector(".kit-error", state="hidden")


def test_fork_here_and_start_over(page: Page) -> None:
    """A fork keeps the steps before it, says so, freezes the knobs of the whole run; starting over undoes it."""
    press(page, "Home", *["Shift+ArrowRight"] * 6)
    page.get_by_role("button", name="Fork here").click()
    page.wait_for_function("document.querySelector('.kit-mood').textContent !== ''")
    assert page.locator(".kit-mood").inner_text() == "Forked: steps 0 to 60 stay, your changes act after them."
    assert attribute(page, "step") == "60"
    assert page.locator("input[data-knob=records]").is_disabled()
    page.locator("input[data-knob=fail_percent]").focus()
    answered = int(attribute(page, "answered"))
    page.keyboard.press("End")
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 1}']")
    assert attribute(page, "step") == "60"
    assert page.locator(".kit-error").is_hidden()
    page.get_by_role("button", name="Start over").click()
    page.wait_for_function("document.querySelector('.kit-mood').textContent === ''")
    assert page.locator("input[data-knob=fail_percent]").input_value() == "0"
    assert page.locator("input[data-knob=records]").is_enabled()


def test_fork_at_the_last_step_is_refused_and_no_knob_is_dead_afterwards(page: Page) -> None:
    """There the browser says what to do instead; each knob can still be turned, and one that is turned acts."""
    press(page, "End")
    page.get_by_role("button", name="Fork here").click()
    page.wait_for_selector(".kit-error:not([hidden])")
    assert page.get_by_role("alert").inner_text().endswith("and fork there.")
    assert page.locator("[data-knob]:disabled").count() == 0
    page.locator("input[data-knob=records]").focus()
    page.keyboard.press("Home")
    page.wait_for_selector(".kit-error", state="hidden")
    page.wait_for_function(
        "[...document.querySelectorAll('.kit-stage svg.kit text')].some((text) => text.textContent === 'log end 1')"
    )


def test_a_verdict_leads_to_its_first_witness(page: Page) -> None:
    """Each anomaly that was found is a button to the first step that shows it."""
    chip = page.get_by_role("button", name=re.compile("^1 stalled"))
    witness = re.search(r"step (\d+)", chip.get_attribute("aria-label") or "")
    assert witness is not None
    chip.click()
    assert attribute(page, "step") == witness.group(1)
