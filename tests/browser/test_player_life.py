"""Asking a box in a real Chromium: its life by mouse and by keyboard, rings that follow what is pinned, and nothing that jumps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from kitlib.experiments import get, names
from kitlib.views.browser.player import HERE
from tests.browser.conftest import Lab, MakePage, Watched
from tests.browser.pages import open_run, visiting
from tests.browser.players import ROOT, attribute, open_player, press
from tests.views.lives import Event, Lives, life
from tests.views.traces import some_steps_of

pytestmark = pytest.mark.browser

EXPERIMENT = "small_max_offset_behind"
CELL = f"from kitlib.views import Player\nplayer = Player('{EXPERIMENT}')\nplayer"
CARD, TIP, RINGS = ".kit-card", ".kit-tip", ".kit-rings > g:not([display=none])"
STRIP_RINGS = ".kit-stage .kit-rings > g:not([display=none])"
LOST = 9  # a record that fails, is not retried, is cleared and lost

@pytest.fixture(scope="module")
def watched(lab: Lab, make_page: MakePage) -> Watched:
    """A page with a player of a spout that loses records."""
    return open_player(lab, make_page, CELL)


@pytest.fixture
def asked(page: Page) -> Iterator[Page]:
    """The page, and at the end no card and no pin."""
    yield page
    page.keyboard.press("Escape")
    while (off := page.locator(".kit-pinned li .kit-button", has_text="×")).count():
        off.first.click()


def go_to(page: Page, step: int) -> None:
    page.get_by_label("Step", exact=True).fill(str(step))
    assert int(attribute(page, "step")) == step


def box_of(page: Page, offset: int) -> Locator:
    """The box of a record in the close-up."""
    place = page.evaluate(
        """(offset) => {
          for (const row of document.querySelectorAll("[data-each]")) {
            const child = row.children[offset - row.dataset.each.split("/").pop()];
            if (child) { child.setAttribute("data-here", offset); return true; }
          }
          return false;
        }""",
        offset,
    )
    assert place, offset
    return page.locator(f"[data-here='{offset}']").last


def told(page: Page) -> list[str]:
    """The rows of the card: what happened, what the box shows, why and where."""
    return [" ".join(row.split()) for row in page.locator(f"{CARD} .kit-life-what").all_inner_texts()]


def events_of(offset: int, step: int) -> list[Event]:
    return [each for each in life(get(EXPERIMENT).run(), f"record:events/0/{offset}") if each.step <= step]


def expected(offset: int, step: int) -> list[str]:
    events = events_of(offset, step)
    return [" ".join(f"{each.said} {'→ ' * bool(each.state)}{each.state} {each.why}".split()) for each in events]


def test_click_on_a_box_tells_its_life_up_to_the_step(asked: Page, watched: Watched) -> None:
    """A click on a record opens its life as Python has it, up to the step that is shown; the kernel hears nothing."""
    go_to(asked, 40)
    box_of(asked, LOST).click()
    assert asked.locator(f"{CARD} b").inner_text() == f"record {LOST} of events/0"
    assert told(asked) == expected(LOST, 40) != []
    go_to(asked, 200)
    assert told(asked) == expected(LOST, 200)
    assert "PartitionManager.fail" in told(asked)[-1]
    go_to(asked, 272)
    assert told(asked) == expected(LOST, 272) and asked.locator(f"{CARD} .kit-life-now").inner_text() == "lost: given up"
    assert watched.sent == []


def test_rows_of_a_life_go_to_their_steps(asked: Page) -> None:
    """A row's time goes to its step, and "Next" to the first one that is still to come."""
    go_to(asked, 272)
    press(asked, "i")
    asked.locator(".kit-life-field").fill(f"record {LOST}")
    asked.locator(f"{CARD} .kit-life-when").nth(2).click()
    steps = [each.step for each in events_of(LOST, 272)]
    assert int(attribute(asked, "step")) == steps[2]
    asked.locator(f"{CARD} .kit-life-rest button").click()
    assert int(attribute(asked, "step")) == steps[3]
    asked.keyboard.press("Escape")
    assert not asked.locator(CARD).is_visible(), "the focus has stayed in the card"


def test_hover_gives_the_newest_sentence_in_one_line(asked: Page) -> None:
    """Pointing at a box shows its state and the newest sentence of its life up to the step; leaving hides it."""
    go_to(asked, 60)
    box_of(asked, LOST).hover()
    tip = asked.locator(TIP).inner_text()
    assert tip.startswith(f"record {LOST} of events/0 · ") and events_of(LOST, 60)[-1].said in tip
    asked.locator(f"{ROOT} h3").hover()
    assert not asked.locator(TIP).is_visible()


def test_the_keyboard_asks_pins_and_closes(asked: Page) -> None:
    """i opens the inspector with the things of the step; typing finds one, Enter pins it, Esc closes and gives the focus back."""
    go_to(asked, 120)
    asked.locator(ROOT).focus()
    press(asked, "i")
    options = asked.locator(f"{CARD} option").all_inner_texts()
    assert any(option.startswith("record 46 of") for option in options), "the step is about record 46"
    asked.locator(".kit-life-field").focus()
    asked.keyboard.type(f"record {LOST}")
    assert told(asked) == expected(LOST, 120)
    asked.keyboard.press("Enter")
    assert asked.locator(".kit-pinned li").count() == 1
    asked.keyboard.press("Enter")
    assert asked.locator(".kit-pinned li").count() == 1, "Enter once more does not take the pin away"
    asked.locator(".kit-life-field").fill("nonsense")
    assert "Nothing in this run is called “nonsense”" in asked.locator(f"{CARD} b").inner_text()
    asked.keyboard.press("Escape")
    assert not asked.locator(CARD).is_visible()
    assert press(asked, "ArrowRight") == 121, "the arrow keys scrub again"


def test_things_that_are_pinned_are_followed_through_play(asked: Page, watched: Watched) -> None:
    """Each pinned thing has a letter and a ring around its box at every step, and its state stands below the picture."""
    for offset in (2, 5):
        box_of(asked, offset).click()
        asked.get_by_role("button", name="Pin", exact=True).click()
    asked.keyboard.press("Escape")
    assert asked.locator(".kit-letter").all_inner_texts() == ["A", "B"]
    states = set()
    for step in (0, 3, 12, 30):
        go_to(asked, step)
        assert set(asked.locator(f"{RINGS} > text").all_text_contents()) == {"A", "B"}
        ring, box = asked.locator(STRIP_RINGS).nth(1).locator("rect").first.bounding_box(), box_of(asked, 5).bounding_box()
        assert ring and box and ring["x"] <= box["x"] + 1 and ring["x"] + ring["width"] >= box["x"] + box["width"] - 1
        states.add(asked.locator(".kit-pin-told").nth(1).inner_text())
    assert len(states) >= 3, states
    asked.locator(ROOT).focus()
    press(asked, "Home", " ")
    asked.wait_for_function("() => +document.querySelector('.kit-player').dataset.step > 4")
    press(asked, " ")
    assert asked.locator(".kit-letter").count() == 2 and watched.sent == []


def test_pictures_do_not_move_when_a_box_is_asked_or_pinned(asked: Page) -> None:
    """Opening a card, closing it and pinning leave every picture and the transport where they are."""
    places = "() => [...document.querySelectorAll('.kit-player svg.kit, .kit-bar')].map((one) => one.getBoundingClientRect().top)"
    before = asked.evaluate(places)
    box_of(asked, 3).click()
    asked.get_by_role("button", name="Pin", exact=True).click()
    assert asked.evaluate(places) == before
    box, card = box_of(asked, 3).bounding_box(), asked.locator(CARD).bounding_box()
    assert box and card and (card["y"] >= box["y"] + box["height"] or card["y"] + card["height"] <= box["y"]), "the card hides its own box"


DRAWN = {
    "zombie": ("transaction:0", "transaction 0", "TransactionalProducer.begin"),
    "unclean_election": ("process:broker 3", "broker 3", "decide"),
    "streams_failover": ("task:0_1", "task 0_1", "StreamsApp._read_changelogs"),
    "tuple_tree": ("tuple:1", "tuple 1", "SpoutOutputCollector.emit"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_whatever_stands_in_a_picture_is_asked_without_a_kernel(chromium: Browser, tmp_path: Path, name: str) -> None:
    """In a saved page, too, a click on a transaction, a broker, a task or a tuple tells its life with rule and line."""
    ref, title, rule = DRAWN[name]
    trace = get(name).run(max_steps=400)
    with visiting(chromium, tmp_path.as_uri(), viewport={"width": 1100, "height": 900}) as visit:
        page = open_run(visit.page, tmp_path, trace)
        events = life(trace, ref)
        thing = page.locator(f".kit-stage [data-ref='{ref}']").first
        for step in range(events[0].step, len(trace)):
            go_to(page, step)
            if thing.count() and thing.bounding_box():
                break
        thing.scroll_into_view_if_needed()
        box = thing.bounding_box()
        assert box
        page.mouse.click(box["x"] + min(box["width"] / 2, 30), box["y"] + box["height"] / 2)
        assert page.locator(f"{CARD} b").inner_text() == title
        assert int(attribute(page, "step")) == step, "a click asks and does not scrub"
        assert page.locator(f"{CARD} .kit-life-when").count() >= 1
        go_to(page, len(trace) - 1)
        assert rule in page.locator(f"{CARD} .kit-life-rows").inner_text()
        card = page.locator(CARD).bounding_box()
        assert card and card["x"] >= 0 and card["x"] + card["width"] <= 1100
        visit.check()


def test_lives_in_the_browser_are_those_of_python(chromium: Browser) -> None:
    """For what the steps of every experiment are about, the browser builds the life that Python does."""
    page = chromium.new_page()
    code = "".join((HERE / name).read_text(encoding="utf-8") for name in ("player_film.js", "player_lives.js"))
    page.evaluate(
        """async (code) => {
          const url = URL.createObjectURL(new Blob([code, "export { Lives };"], { type: "text/javascript" }));
          window.Lives = (await import(url)).Lives;
        }""",
        code,
    )
    look = """([told, said, refs]) => {
      const lives = new Lives(told, said);
      return refs.map((ref) => lives.of(ref).map(({ step, said, state, why, place }) => [step, said, state, `${why} ${place}`.trim()]));
    }"""
    for name in names():
        trace = some_steps_of(name)
        index = Lives(trace)
        mentioned = [ref for step in range(0, len(trace), 1 + len(trace) // 15) for ref in index.named(step)[:3]]
        refs = [*dict.fromkeys(mentioned), *(f"process:{actor}" for actor in list({step.actor: 0 for step in trace})[:3]), "record:no/0/1"]
        found = page.evaluate(look, [index.told, index.said, refs])
        for ref, rows in zip(refs, found, strict=True):
            assert rows == [[each.step, each.said, each.state, each.why] for each in index.of(ref)], (name, ref)
    page.close()
