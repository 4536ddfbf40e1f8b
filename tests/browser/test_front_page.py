"""The site's front page in a real Chromium: a story plays as it opens, whether Python comes or not."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from kitlib.experiments import get
from kitlib.views.browser import site

pytestmark = pytest.mark.browser


def test_the_front_page_plays_a_story_and_names_five(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told of its end; a link opens it with its knobs, and the front page comes back with the story."""
    monkeypatch.setattr(site, "every", lambda: [get(name) for name in site.START])
    monkeypatch.setattr(site.pyodide, "unpack", lambda package, room: [])  # recordings alone
    site._build(tmp_path, tmp_path, tmp_path, lambda line: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        story = page.locator("#kit-hero .kit-player[data-played]")
        expect(story).to_have_attribute("data-step", re.compile("[1-9]"), timeout=30_000)
        assert page.locator("#kit-hero .kit-verdict").is_hidden() and page.locator("#kit-hero .kit-figure").is_hidden()
        assert page.locator("#kit-first a").all_inner_texts() == [get(name).title for name in site.START]
        page.get_by_role("link", name="Turn its knobs").click()
        page.wait_for_selector("#kit-place [data-knob]")
        assert page.locator("#kit-hero .kit-player").count() == 0
        page.get_by_role("link", name="All experiments").click()
        page.wait_for_selector("#kit-hero .kit-player")
        page.close()
        server.shutdown()
