"""`make site`: the pages to read, made by Sphinx without a network and without running a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kitlib.cli import COMMANDS
from tests.conftest import REPOSITORY


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_site_has_every_notebook_page_and_command_and_asks_no_other_server(tmp_path: Path) -> None:
    """Every link leads somewhere (Sphinx ends with an error else), the search knows all pages, and nothing is loaded from elsewhere."""
    command = [sys.executable, str(REPOSITORY / "scripts" / "make_site.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stdout) == (0, "") and done.stderr == f"site: {tmp_path / 'index.html'}\n", done.stderr
    wanted = [f"notebooks/{path.stem}" for path in REPOSITORY.glob("notebooks/*.ipynb")]
    wanted += [f"docs/{path.stem}" for path in REPOSITORY.glob("docs/*.md")]
    wanted += [f"cli/{command}" for commands in COMMANDS.values() for command in commands] + ["words", "CHANGELOG"]
    found = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    for page in wanted:
        text = (tmp_path / f"{page}.html").read_text(encoding="utf-8")
        assert f'"{page}"' in found
        loaded = re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', text)
        assert loaded == [], (page, loaded)
    assert "<svg" in (tmp_path / "notebooks" / "02a_a_failure_that_nobody_retries.html").read_text(encoding="utf-8")
    assert not list(tmp_path.rglob("*.py"))
