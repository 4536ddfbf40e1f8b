"""Drop it yourself in a real Chromium: a click on a message, its line in the script, and a script that is edited and run."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.players import ROOT, attribute, open_player

pytestmark = pytest.mark.browser

SCRIPT = "answers_lost lost_answers=0 idempotence=false"
CELL = f"from kitlib.views import Player\nPlayer({SCRIPT!r})"
CHIPS, FIELD, DEEDS = ".kit-did li", ".kit-script-text", ".kit-card .kit-deeds button"


@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of a producer whose answers all come."""
    return open_player(lab, make_page, CELL)


def answered(page: Page, press: Locator) -> None:
    """Press something that asks the kernel, and wait until it has answered."""
    number = int(attribute(page, "answered"))
    press.click()
    page.wait_for_selector(f"{ROOT}[data-answered='{number + 1}']")


def go_to(page: Page, step: int) -> None:
    page.locator(ROOT).focus()
    page.keyboard.press("Home")
    for _ in range(step // 10):
        page.keyboard.press("Shift+ArrowRight")
    for _ in range(step % 10):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"{ROOT}[data-step='{step}']")


def ask_about(page: Page, thing: str) -> None:
    page.keyboard.press("i")
    page.get_by_label("What to ask about").fill(thing)


def sentence(page: Page) -> str:
    return page.locator(".kit-sentence").text_content() or ""


def test_click_on_an_answer_in_transit_loses_it(page: Page) -> None:
    """A click on the answer's line, then on "Lose it": the run parts there, the verdict follows, and the chip takes it back."""
    go_to(page, 60)
    x, y = page.locator(".kit-message[data-ref='answer:4'] .kit-hit").first.evaluate(
        "n => { const p = n.getPointAtLength(n.getTotalLength() * 0.2), m = n.getScreenCTM(); return [p.x * m.a + m.e, p.y * m.d + m.f]; }"
    )
    page.mouse.click(x, y)
    assert page.locator(DEEDS).all_inner_texts() == ["Lose it", "Deliver it 200 ms late"]
    answered(page, page.get_by_role("button", name="Lose it", exact=True))
    assert page.locator(CHIPS).locator("span").all_inner_texts() == ["lose answer 4"]
    assert page.locator(".kit-said").inner_text().startswith("The answer to batch 4 is lost")
    assert "30 duplicated" in sentence(page)
    assert page.locator(FIELD).input_value().splitlines()[2] == "lose answer 4"
    answered(page, page.get_by_role("button", name="Leave out: lose answer 4"))
    assert page.locator(CHIPS).count() == 0
    assert "each of them once" in sentence(page)


def test_broker_is_broken_and_mended_by_keyboard(page: Page) -> None:
    """Break and mend need no mouse: i, the broker's name, and the buttons."""
    go_to(page, 60)
    ask_about(page, "broker")
    answered(page, page.get_by_role("button", name="Break", exact=True))
    go_to(page, 90)
    ask_about(page, "broker")
    answered(page, page.get_by_role("button", name="Mend", exact=True))
    (line,) = page.locator(CHIPS).locator("span").all_inner_texts()
    assert line.startswith("break broker at 145 ms for ")
    page.keyboard.press("Escape")


def test_script_is_edited_and_run(page: Page) -> None:
    """What is typed goes to the script alone; a bad line is named in a sentence, and a good script sets knobs and seed."""
    page.locator(".kit-script summary").click()
    field, run = page.locator(FIELD), page.get_by_role("button", name="Run this script")
    field.fill("answers_lost\nlose everything")
    answered(page, run)
    assert 'script, line 2: got "lose everything", expected' in page.locator(".kit-error").inner_text()
    assert field.input_value() == "answers_lost\nlose everything"
    field.fill("answers_lost seed=9 records=20 idempotence=false lost_answers=0")
    field.press("End")
    field.press_sequentially("\nlose answer 2 i")
    field.press("Backspace")
    assert field.input_value().endswith("\nlose answer 2 ")
    answered(page, run)
    assert page.locator(".kit-error").is_hidden()
    assert page.locator(".kit-seed").input_value() == "9"
    assert field.input_value().startswith("# kit script 1\nanswers_lost seed=9 records=20 ")
    assert page.locator(".kit-script").evaluate("node => node.getBoundingClientRect().width <= node.parentNode.getBoundingClientRect().width")
    page.locator(".kit-script summary").click()
