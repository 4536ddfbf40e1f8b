"""A real Chromium before a real JupyterLab, both of their own and gone at the end."""

from __future__ import annotations

import json
import secrets
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4
from playwright.sync_api import Browser, Dialog, Page, Request

from kitlib.errors import SupplyError
from kitlib.lab import jars, jupyter
from kitlib.lab.jars import Jar
from tests.browser.players import ROOT, attribute

AXE = Jar(**json.loads(Path(__file__).with_name("axe.lock.json").read_text(encoding="utf-8")))  # only tests use it


KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
# In a page: end what is open in its JupyterLab, and its kernel.
CLOSE = """async () => {
  for (const panel of [...window.jupyterapp.shell.widgets("main")]) {
    await panel.sessionContext?.shutdown();
    panel.dispose();
  }
}"""
OPEN = """async ([theme, path]) => {
  await window.jupyterapp.commands.execute("apputils:change-theme", { theme });
  await window.jupyterapp.commands.execute("docmanager:open", { path });
}"""

# JupyterLab opens its launcher some time after the last notebook is closed, which can be when the next one is open already.
READY = """(path) => {
  const shell = window.jupyterapp.shell;
  const opened = [...shell.widgets("main")].find((panel) => panel.context?.path === path);
  if (opened && shell.currentWidget !== opened) shell.activateById(opened.id);
  const session = shell.currentWidget === opened && opened?.sessionContext;
  return session && session.isReady && session.session?.kernel?.status === "idle";
}"""


@dataclass
class Lab:
    """A running JupyterLab: where it is, its folder of notebooks, and its pages that nobody uses."""

    url: str
    token: str
    folder: Path
    theme: str = "JupyterLab Light"
    free: list[Watched] = field(default_factory=list)

    def set_theme(self, theme: str) -> None:
        """What the notebook that is opened next is shown in."""
        self.theme = f"JupyterLab {theme}"
        settings = jupyter.config_dir() / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": self.theme}))

    def open(self, page: Page, *cells: str) -> None:
        """Open a new notebook with these cells and run all of them; a page that has JupyterLab keeps it, which takes seconds to load."""
        name = f"test-{secrets.token_hex(4)}.ipynb"
        nbformat.write(v4.new_notebook(cells=[*map(v4.new_code_cell, cells)], metadata={"kernelspec": KERNEL}), self.folder / name)
        if page.url.startswith(self.url):
            page.evaluate(OPEN, [self.theme, name])
        else:
            page.goto(f"{self.url}doc/tree/{name}?token={self.token}")
        page.wait_for_selector(".jp-CodeCell", timeout=30_000)
        page.wait_for_function("window.jupyterapp && window.jupyterapp.commands.hasCommand('notebook:run-all-cells')")
        page.wait_for_function(READY, arg=name, timeout=30_000)
        page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")


@pytest.fixture(scope="session")
def lab(chromium: Browser, tmp_path_factory: pytest.TempPathFactory, kit_home: Path) -> Iterator[Lab]:
    """JupyterLab as `kit lab` starts it, before a folder of its own."""
    folder = tmp_path_factory.mktemp("notebooks")
    jupyter.write_settings()
    command = [*jupyter.command(0, False, folder, "none.ipynb"), "--LabApp.expose_app_in_browser=True"]
    jupyter.log_path().parent.mkdir(parents=True, exist_ok=True)
    with jupyter.log_path().open("w") as log:
        process = subprocess.Popen(command, env=jupyter.environment(), stdout=log, stderr=log, cwd=folder)
    try:
        server = jupyter.wait_until_open(process, 90)
        yield Lab(server.url, server.token, folder)
    finally:
        process.terminate()
        process.wait(60)


class Watched:
    """A page and what happened on it that must not: dialogs, script errors, requests to elsewhere."""

    def __init__(self, browser: Browser, lab: Lab) -> None:
        self.lab = lab
        self.page = browser.new_page()
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.sent: list[str] = []  # questions to the kernel; the step that is shown is told, not asked
        self.page.on("dialog", self._on_dialog)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.on(
            "websocket", lambda socket: socket.on("framesent", self._on_frame)
        )

    def _on_dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _on_frame(self, frame: str | bytes) -> None:
        if '"method":"update"' not in str(frame):
            self.sent.append(str(frame)[:200])

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.lab.url, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def check(self) -> None:
        """Nothing happened that must not."""
        assert (self.dialogs, self.errors, self.elsewhere) == ([], [], [])

    def begin(self, viewport: Any = None, color_scheme: Any = "light", reduced_motion: Any = "no-preference") -> None:
        """Be as a new page is."""
        self.page.set_viewport_size(viewport or {"width": 1100, "height": 1300})
        self.page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
        for happened in (self.dialogs, self.errors, self.elsewhere, self.sent):
            happened.clear()

    def end(self) -> None:
        """End what is open, and be there for the next who needs a page."""
        if self.page.url.startswith(self.lab.url):
            self.page.evaluate(CLOSE)
            self.lab.free.append(self)


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script, from the locked package."""
    try:
        [package] = jars.ensure([AXE], "axe-core")
    except SupplyError as error:
        pytest.skip(f"axe-core cannot be had here: {error}")
    with tarfile.open(package) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


MakePage = Callable[..., Watched]


def give_pages(chromium: Browser, lab: Lab) -> Iterator[MakePage]:
    """Gives pages, with a `viewport`, `color_scheme` and `reduced_motion`, to be used until what asks for them has ended."""
    given: list[Watched] = []

    def give(**options: Any) -> Watched:
        given.append(lab.free.pop() if lab.free else Watched(chromium, lab))
        given[-1].begin(**options)
        return given[-1]

    yield give
    for watched in given:
        watched.end()


make_page = pytest.fixture(give_pages, scope="module")
new_page = pytest.fixture(give_pages)


@pytest.fixture
def page(watched: Watched) -> Iterator[Page]:
    """The module's page, as after "Start over" and on its first step; nothing forbidden may happen on it."""
    page = watched.page
    answered = int(attribute(page, "answered"))
    page.get_by_role("button", name="Start over").click()
    page.wait_for_selector(f"{ROOT}[data-answered='{answered + 1}']")
    page.locator(ROOT).focus()
    page.keyboard.press("Home")
    page.wait_for_selector(f"{ROOT}[data-step='0']")
    watched.sent.clear()
    yield page
    watched.check()
