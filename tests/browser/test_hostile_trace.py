"""A trace in which every text tries to become something else, in a real Chromium: it is read as text, nothing runs, nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from kitlib import experiments
from kitlib.errors import KitError
from kitlib.trace import Trace
from kitlib.views.browser.saved_page import to_recording
from tests.browser.pages import open_run, visiting
from tests.browser.players import ROOT, press

pytestmark = pytest.mark.browser

HOSTILE = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e\u2028\x1b]0;x\x07'
# A bar and a stage, trees, messages of a producer, members: what the page is sent of other domains is of the same kinds.
RUNS = ("happy_path", "tuple_tree", "answers_lost", "zookeeper_group")


def poisoned(value: Any) -> Any:
    """The value with the hostile text before each text in it."""
    match value:
        case str():
            return HOSTILE + value
        case list():
            return [poisoned(each) for each in value]
        case dict():
            return {key: poisoned(each) for key, each in value.items()}
    return value


def hostile_run(name: str) -> Trace:
    """A run in which each step's actor, data and state are poisoned; the words of its steps are the kit's own."""
    header, *steps = experiments.get(name).run(max_steps=60).to_json_lines()
    lines = [{key: value if key in ("n", "at_ms", "what") else poisoned(value) for key, value in json.loads(step).items()} for step in steps]
    return Trace.from_json_lines([header, *map(json.dumps, lines)])


def test_page_that_looks_a_value_up_refuses_one_that_no_run_writes() -> None:
    """A sentence says why there is no page."""
    with pytest.raises(KitError, match="it cannot be drawn, a step's data are not what its word needs"):
        to_recording(hostile_run("commit_and_abort"))


@pytest.mark.parametrize("name", RUNS)
def test_hostile_text_in_every_field_is_text(chromium: Browser, tmp_path: Path, name: str) -> None:
    """The page of such a run opens and moves to its end; for each domain, `views/test_hostile_pictures.py` reads what a page is sent."""
    trace = hostile_run(name)
    with visiting(chromium, tmp_path.as_uri()) as visit:
        page = open_run(visit.page, tmp_path, trace)
        page.locator(ROOT).focus()
        for _ in range(4):
            press(page, "ArrowRight")
            assert page.locator("img, iframe, script:not([type])").count() == 0
        assert press(page, "End") == len(trace) - 1
        press(page, "i", "Enter")
        assert page.locator(".kit-card, .kit-pinned").first.is_visible()
        assert page.locator("img, iframe, script:not([type])").count() == 0
        visit.check()
