"""`make test`: what is run again, and nothing left behind in any worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, has_ended, wait_for

pytestmark = pytest.mark.slow  # together: each is a run of tests, of two workers of its own

# What a small suite has instead of tests/conftest.py: the same hooks and fixtures.
CONFTEST = "from tests.conftest import *\n"
PLUGINS = ("-p", "no:cacheprovider", "-p", "xdist", "-p", "pytest_timeout")  # the others take seconds to import


def options(workers: int = 2) -> list[str]:
    """What `make test` gives to pytest before ARGS, with two workers: most small suites have two files for them."""
    [line] = re.findall(r"-m pytest (.*) \$\(ARGS\)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    return line.replace("-n auto", f"-n {workers}").split()


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder for a small suite of its own; `temporary` in it is where its run makes temporary files."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


def start(suite: Path, workers: int = 2, **files: str) -> subprocess.Popen[str]:
    """Run the files with the options of `make test`."""
    for name, text in files.items():
        (suite / f"test_{name}.py").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    own = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(suite / "temporary"), "SUITE": str(suite)}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *PLUGINS, "-q", *options(workers), "."], cwd=suite, start_new_session=True, text=True,
        env={**kept, **own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=120)
    return said


# Fails where its file of that name is not there yet, and makes it.
AT_FIRST = """
import os, pathlib
def test_fails_at_first():
    place = pathlib.Path(os.environ["SUITE"], "{name}-ran")
    ran = place.exists()
    place.touch()
    assert ran, "{name} failed"
"""


def test_test_that_failed_beside_others_is_run_again_alone_and_both_results_are_told(suite: Path) -> None:
    """The first failure stays on the screen, and the closing line is that of the second run."""
    process = start(suite, late=AT_FIRST.format(name="late"), other="def test_passes(): pass")
    said = finish(process)
    assert process.returncode == 0, said
    assert "1 failed, 1 passed" in said and "late failed" in said and "Once more, with nothing beside them, the 1 that failed:" in said
    assert said.rstrip().rpartition("\n")[2].strip("= ").startswith("1 passed")
    assert not list((suite / "temporary").iterdir())


def test_what_fails_twice_fails_the_run(suite: Path) -> None:
    """A second run excuses nothing that is broken."""
    process = start(suite, broken="def test_broken(): assert False", late=AT_FIRST.format(name="late"))
    said = finish(process)
    assert process.returncode == 1 and "1 failed, 1 passed" in said, said


LEAK = """
import os, pathlib, subprocess
def test_leaves_a_process():
    pathlib.Path(os.environ["SUITE"], "pid").write_text(str(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid))
"""


def test_process_left_by_a_worker_is_ended_and_fails_the_run(suite: Path) -> None:
    """The check at a session's end is made in each worker."""
    process = start(suite, leak=LEAK, other="def test_passes(): pass")
    said = finish(process)
    assert process.returncode == 1 and "processes of the tests were left running: ['" in said, said
    assert "2 passed, 1 error" in said
    assert wait_for(lambda: has_ended(int((suite / "pid").read_text())), 10)  # whoever adopts orphans may be slow to collect it
