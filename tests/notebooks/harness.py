"""Runs a notebook and compares every output with the stored one: `compare`, the one door to nbval.

nbval is hardly kept up any more; whoever replaces it replaces the body of `compare` and keeps its
promises: a dead kernel, a hung cell, a changed, missing or new output, and a notebook of which not
every cell was run are failures; the kernel and all that came of it are gone when it returns.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from kitlib.lab import notebooks
from kitlib.lab.processes import find_by_token, sweep
from kitlib.lab.reaper import TOKEN_NAME, is_broker
from tests.conftest import REPOSITORY

SECONDS_TO_START = 60.0  # of pytest and of a kernel, beside another test


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found."""

    passed: bool
    seconds: float  # from the first cell to the end, the kernel's start left out
    report: str


def compare(path: Path, seconds: float = 60.0, failures: int = 3) -> Comparison:
    """Run the notebook in a kernel of its own and compare its outputs; it may take `seconds` after its start.

    It gives up after so many `failures`: what follows a failed cell mostly fails because of it.
    """
    token = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="kit-nbval-") as folder:
        account = Path(folder) / "account.json"
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        sanitize = Path(folder) / "sanitize.cfg"
        sanitize.write_text(sanitize_rules())
        command = [
            sys.executable, "-m", "pytest", "--nbval", str(path), "--nbval-sanitize-with", str(sanitize),
            "--nbval-cell-timeout", str(seconds), "-p", "nbval.plugin", "-p", "tests.notebooks.nbval_plugin",
            "-p", "no:cacheprovider",
            "-c", str(Path(folder) / "pytest.ini"), "--rootdir", str(path.parent), "--color=no", "--maxfail", str(failures),
            "-q", "-W", "ignore",
        ]
        environment = {
            **os.environ, "KIT_NOTEBOOK": path.stem, TOKEN_NAME: token, "KIT_NBVAL_ACCOUNT": str(account),
            "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )
        try:
            report, _ = process.communicate(timeout=seconds + SECONDS_TO_START)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            report, _ = process.communicate()
            report += f"\n{path.name} was stopped: not done {seconds + SECONDS_TO_START:.0f} s after its start"
        finally:
            sweep(lambda: [each for each in find_by_token(token) if not is_broker(each)])
        ran = json.loads(account.read_text()) if account.exists() else {"cells": 0, "seconds": 0.0, "exit": -1}
    expected = sum(cell.cell_type == "code" for cell in notebooks.load(path).cells)
    if ran["cells"] != expected:
        report += f"\n{path.name}: {ran['cells']} of {expected} code cells were run"
    if ran["seconds"] > seconds:
        report += f"\n{path.name} took {ran['seconds']:.0f} s, {seconds:.0f} s are allowed"
    passed = process.returncode == 0 and ran["cells"] == expected > 0 and ran["seconds"] <= seconds
    return Comparison(passed, ran["seconds"], report)


def sanitize_rules() -> str:
    """The kit's list of what never is the same twice, as nbval wants it."""
    return "\n".join(
        f"[rule{number}]\nregex: {pattern}\nreplace: {replacement}\n"
        for number, (pattern, replacement) in enumerate(notebooks.VOLATILE)
    )
