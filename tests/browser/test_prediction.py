"""Predictions and comparisons in a real JupyterLab: asked, answered by keyboard, told, and shown."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Lab, MakePage

pytestmark = pytest.mark.browser

ASK = "from kitlib.views import compare, predict\nfrom kitlib.experiments import run\nS = 'small_max_offset_behind'\n"
CELLS = (
    ASK + "a = predict(S, 'How many are lost?', truth='lost')\na",
    """import asyncio
later = predict(None, 'How many lose?', unit='runs')
async def settle():
    while later.given is None:
        await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    later.settle(9)
settling = asyncio.ensure_future(settle())
later""",
    "predict('happy_path', 'Will any be <b>lost</b>?', 'choice', choices=['yes', 'no'], truth=lambda trace: 'no')",
    "predict(lambda: 7, 'Which offset comes next?', unit='offset')",
    "compare(run(S), run(S, max_offset_behind=10))",
)


@pytest.fixture(scope="module")
def opened(lab: Lab, make_page: MakePage) -> Page:
    lab.set_theme("Light")
    page = make_page(reduced_motion="reduce").page
    lab.open(page, *CELLS)
    page.get_by_text("The runs part at step").wait_for(timeout=60_000)
    return page


def told(asked: Locator) -> Locator:
    """What stands below a question's form."""
    return asked.locator("[role=status], [role=alert]").first


def test_a_number_is_asked_for_before_anything_is_shown(opened: Page) -> None:
    """No picture and no verdict until it is answered; nothing is refused; Enter answers, and the run stands below with its verdict uncovered."""
    asked = opened.locator(".kit-predict").nth(0)
    expect(asked.locator("svg.kit")).to_have_count(0)
    asked.get_by_role("button", name="That is my prediction").press("Enter")
    expect(told(asked)).to_have_text("'' is no number. Type one, such as 12.")
    asked.get_by_label("Your prediction, records").fill("12")
    opened.keyboard.press("Enter")
    expect(told(asked)).to_contain_text("Not quite: you said 12, it is 46.", timeout=30_000)
    expect(told(asked)).to_contain_text("right so far")
    expect(asked.locator(".kit-sentence")).to_contain_text("46 lost", timeout=30_000)
    for shown in (asked, opened.locator(".kit-told").last):  # nothing covers what was asked for, and answered
        assert shown.locator(".kit-cover").evaluate_all("nodes => nodes.some((node) => node.checkVisibility())") is False
        expect(shown.locator(".kit-chips").first).to_be_visible()


def test_what_is_not_done_yet_is_settled_where_it_was_asked(opened: Page) -> None:
    """The answer is kept without a mark; when the work is done the sentence and the score stand there, and the focus stays where it is."""
    asked = opened.locator(".kit-predict").nth(1)
    asked.get_by_label("Your prediction, runs").fill("10")
    opened.keyboard.press("Enter")
    expect(told(asked)).to_contain_text("Your answer is kept. Run the next cell")
    other = opened.locator(".kit-predict").nth(2).get_by_role("button").first
    other.focus()
    expect(told(asked)).to_contain_text("Not quite: you said 10, it is 9.")
    expect(told(asked)).to_contain_text("right so far")
    expect(other).to_be_focused()


def test_a_choice_is_text_and_not_markup(opened: Page) -> None:
    """The question's angle brackets are shown; the choice that is pressed is the answer."""
    asked = opened.locator(".kit-predict").nth(2)
    expect(asked.locator("b").first).to_have_text("Will any be <b>lost</b>?")
    asked.get_by_role("button", name="yes").click()
    expect(told(asked)).to_contain_text("Not quite: you chose “yes”, it is “no”.")


def test_a_question_without_a_run_has_no_picture(opened: Page) -> None:
    """There is nothing to play."""
    asked = opened.locator(".kit-predict").nth(3)
    asked.get_by_label("Your prediction, offset").fill("3")
    opened.keyboard.press("Enter")
    expect(told(asked)).to_contain_text("Not quite: you said 3, it is 7.")
    expect(asked.locator("svg.kit")).to_have_count(0)


def test_two_runs_open_where_they_part(opened: Page) -> None:
    """Both are at the step that differs, side by side or one below the other."""
    pair = opened.locator(".kit-told").last
    expect(pair).to_contain_text("The runs part at step 11. In A, at 29 ms: That ack clears offsets 0 to 1")
    for side in (0, 1):
        expect(pair.locator(".kit-player").nth(side)).to_have_attribute("data-step", "11")
