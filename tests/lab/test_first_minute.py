"""What a newcomer sees when the lab opens: the first notebook, and nothing that asks or complains."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.lab.labs import Lab

pytestmark = [pytest.mark.browser, pytest.mark.kafka, pytest.mark.timeout(120)]


def test_lab_opened_in_a_browser_shows_the_notebook_and_nothing_else(chromium: Browser, new_home: Path) -> None:
    """The copy opens with its kernel, beside the other copies, without dialog, notice, error in the console or request to elsewhere."""
    lab = Lab(new_home, "--notebook", "notebooks/00_start_here.ipynb").open()
    page = chromium.new_page()
    complaints: list[str] = []
    elsewhere: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: elsewhere.append(request.url) if is_elsewhere(request.url) else None)
    page.goto(lab.url)
    page.get_by_role("heading", name="Start here").first.wait_for(timeout=60_000)
    page.get_by_text("Python 3 (ipykernel) | Idle").first.wait_for(timeout=60_000)
    page.wait_for_load_state("networkidle")
    assert "/lab/tree/work/00_start_here.ipynb" in page.url
    assert page.locator(".jp-DirListing-item").filter(has_text="16a_work_that_moves.ipynb").count() == 1
    assert page.locator(".jp-Dialog, .Toastify__toast").count() == 0
    assert not complaints and not elsewhere
    page.close()
    assert lab.end() == 130
    assert not lab.processes()


def is_elsewhere(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
