"""A saved run in a real Chromium, opened as a file: it plays, hostile text is text, and damage is told in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from kitlib.experiments import get
from kitlib.views.browser.saved_page import FORMAT, to_recording
from tests.browser.pages import Visit, visiting
from tests.browser.players import ROOT, press

pytestmark = pytest.mark.browser

SMALL = "small_max_offset_behind"


def opened(visit: Visit, folder: Path, page: str | bytes) -> None:
    """Write the page and open it."""
    path = folder / "run.html"
    path.write_bytes(page if isinstance(page, bytes) else page.encode())
    visit.page.goto(path.as_uri())


@pytest.mark.parametrize("name", [SMALL, "word_count"])
def test_a_saved_run_is_scrubbed_and_played_without_any_server(chromium: Browser, tmp_path: Path, name: str) -> None:
    """Each kind of picture opens from a file, moves by keyboard, and shows the last step's sentence; nothing else is asked for."""
    trace = get(name).run(max_steps=800)
    recording = to_recording(trace)
    assert ('"frames":{' in recording) is (name != "word_count"), "the pictures of a long run are packed"
    with visiting(chromium, tmp_path.as_uri()) as visit:
        opened(visit, tmp_path, recording)
        page = visit.page
        page.wait_for_selector(f"{ROOT}[data-step='0']")
        assert not page.is_visible("#kit-status")
        page.locator(ROOT).focus()
        assert press(page, "ArrowRight", "ArrowRight") == 2
        assert press(page, "End") == len(trace) - 1
        assert page.locator(".kit-said").inner_text() == trace.sentence(trace.steps[-1])
        visit.check()


def test_a_recording_says_what_gives_it_a_kernel(chromium: Browser, tmp_path: Path) -> None:
    """There is no knob, no seed, no fork, no start over and no script to run; the page names the command that can do all that."""
    page = to_recording(get(SMALL).run(seed=3))
    with visiting(chromium, tmp_path.as_uri()) as visit:
        opened(visit, tmp_path, page)
        visit.page.wait_for_selector(f"{ROOT}[data-step='0']")
        assert visit.page.locator("[data-knob], .kit-seed").count() == 0
        assert visit.page.get_by_role("button", name=re.compile("Fork here|Start over")).count() == 0
        command = "kit run small_max_offset_behind --seed 3"
        assert f"To run it with other settings: {command}" in visit.page.inner_text("main")
        visit.page.get_by_text("Script of this run").click()
        assert not visit.page.get_by_role("button", name="Run this script").is_visible()
        visit.check()


def damaged(page: str) -> dict[str, str]:
    """The page with one thing wrong with it each."""
    data, script = page.index('<script type="application/json"'), page.index('<script type="module"')
    return {
        "cut in its data": page[: data + 3_000],
        "cut in its script": page[: script + 30_000],
        "another script": page.replace("class Player {", "class Player { /* longer */", 1),
        "data that are no JSON": page.replace('"heading":{', '"heading":}', 1),
        "data without pictures": re.sub(r'"nodes":\[.*?\]\]', '"nodes":[]', page, count=1),
        "of another format": page.replace(f'{{"format":{FORMAT},', '{"format":99,', 1),
    }


def test_a_damaged_page_of_a_long_run_says_so(chromium: Browser, tmp_path: Path) -> None:
    """Pictures that cannot be unpacked are told in a sentence as well."""
    page = to_recording(get("word_count").run(max_steps=800))
    half = page.index('"frames":"') + 20_000
    with visiting(chromium, tmp_path.as_uri()) as visit:
        opened(visit, tmp_path, page[:half] + page[half : half + 200][::-1] + page[half + 200 :])
        visit.page.get_by_text("This page is damaged").wait_for()


@pytest.mark.parametrize("harm", list(damaged(to_recording(get("happy_path").run(records=3)))))
def test_a_damaged_page_says_so_and_is_never_blank(chromium: Browser, tmp_path: Path, harm: str) -> None:
    """Whatever is cut off or changed, the reader gets a sentence, and what the page says as text."""
    page = damaged(to_recording(get(SMALL).run()))[harm]
    with visiting(chromium, tmp_path.as_uri()) as visit:
        opened(visit, tmp_path, page)
        visit.page.locator("#kit-status").wait_for(state="visible", timeout=10_000)
        told = visit.page.locator("#kit-status").inner_text()
        assert re.search(r"is damaged|of format 99, and its script reads format 1\. Save the run again", told)
        assert visit.page.locator(ROOT).count() == 0
        assert "A recorded run of Delivery Lab" in visit.page.inner_text("main")
