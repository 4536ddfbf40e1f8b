"""The one real Chromium of a test session. Where none is found the tests that need it are skipped, and the reason is printed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """The Chromium to test with: KIT_CHROMIUM, or the first known name on the PATH."""
    return os.environ.get("KIT_CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The session's browser; ended with the session."""
    from playwright.sync_api import sync_playwright

    path = find_chromium()
    if path is None:
        reason = f"no Chromium on the PATH (looked for {', '.join(NAMES)}); install it or set KIT_CHROMIUM"
        print(f"browser tests are skipped: {reason}", file=sys.__stderr__)
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("chromium-home")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=ARGUMENTS, env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
        )
        yield browser
        browser.close()
