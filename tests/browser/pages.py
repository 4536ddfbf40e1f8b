"""What tests of the kit's own pages share: a page outside of JupyterLab, and what must not happen on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from kitlib.trace import Trace
from kitlib.views.browser.saved_page import to_recording
from tests.browser.players import ROOT

# What axe-core finds in an element that is serious or critical: its rule, and where.
JUDGE = """(root) => axe.run(root, { resultTypes: ["violations"], preload: false }).then(({ violations }) => violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`)))"""


class Visit:
    """A page, and what happened on it that must not: dialogs, errors, requests to elsewhere, what its policy refused."""

    def __init__(self, page: Page, own: str) -> None:
        self.page, self.own = page, own
        self.wrong: list[str] = []
        page.on("dialog", self._on_dialog)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda line: self.wrong.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: None if request.url.startswith(own) else self.wrong.append(request.url))

    def _on_dialog(self, dialog: Any) -> None:
        self.wrong.append(dialog.message)
        dialog.dismiss()

    def check(self) -> None:
        """Nothing happened that must not. What a policy refuses is an error on the console."""
        assert self.wrong == []


@contextmanager
def visiting(browser: Browser, own: str, **options: Any) -> Iterator[Visit]:
    """A page that should ask for nothing but what begins with `own`, in a context of its own."""
    context = browser.new_context(**{"viewport": {"width": 1100, "height": 1000}, **options})
    try:
        yield Visit(context.new_page(), own)
    finally:
        context.close()


def open_run(page: Page, folder: Path, trace: Trace) -> Page:
    """The saved page of a run, opened from this folder."""
    (folder / "run.html").write_text(to_recording(trace), encoding="utf-8")
    page.goto((folder / "run.html").as_uri())
    page.wait_for_selector(f"{ROOT}[data-step='0']")
    return page
