"""Several tests at a time: each worker of `make test` has a workspace, a broker and a Spark of its own.

Most tests of the real parts wait for those, for more than half of their time. So there is one worker more than cores,
where there is memory for it. A file is run whole, in its order, by one worker. One more worker takes the pure files
alone, at a low priority: it has the cores while the others wait. A test that is marked `alone` has a deadline so near
that a neighbour could make it miss it: while it runs, the other workers wait. That costs least at the end, so the
tests of a file that are marked so are a file of their own, and come last.

A few tests that failed are run once more, alone, after the summary: on two busy cores a real broker, Spark or
Chromium may answer late for once. Both results are on the screen, and the second one counts. A test that
needs its second run more than once has a defect, or the kit has.

Two workers take the files that need Spark, as long as the others have something else to do: a Spark takes long to start.

Without pytest-xdist's `-n` all of this is idle, and one test follows the other.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.conftest import carries

NAME = "KIT_TEST_RUN"  # in the environment of all that a run with workers starts
REAL = {"kafka", "spark", "browser", "notebooks", "broker", "chromium"}  # markers and fixtures of tests that mostly wait
LONGEST = ("test_notebooks.py", "test_commands_of_pages.py", "test_trial.py")  # a quarter of an hour, and minutes
PURE = "pure"  # a file of the shared folder: the names of the files that need no real part
ALONE = "alone"  # another: the tests that are run alone
SPARK = "spark"  # another: the names of the files that need Spark
SPARKS = 2  # so many workers have one; the others take such a file when there is nothing else to do
LOW = 10  # the priority of the worker that takes them
AGAIN = 8  # at most so many failed tests are run once more
AGAIN_OF = "KIT_TEST_AGAIN"  # in the environment of that second run: how many they are
TO_PASS = int(os.environ.pop(AGAIN_OF, 0))  # in the second run so many must pass: one that is skipped there would hide
ROOM = Path(tempfile.gettempdir())  # in a worker the folder that the run's workers share, see pytest_configure


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def has_workers(config: pytest.Config) -> bool:
    return not is_worker(config) and config.getoption("dist", "no") != "no"


def is_behind(worker: dict[str, Any]) -> bool:
    """Whether this is the worker that takes pure files alone: the last, of more than two."""
    return worker["workercount"] > 2 and worker["workerid"] == f"gw{worker['workercount'] - 1}"


class Scheduler(LoadFileScheduling):  # type: ignore[misc]
    @cached_property
    def alone(self) -> set[str]:
        return set(Path(os.environ[NAME], ALONE).read_text().splitlines())

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid) + "::alone" * (nodeid in self.alone)

    @cached_property
    def pure(self) -> list[str]:
        return Path(os.environ[NAME], PURE).read_text().splitlines()

    @cached_property
    def spark(self) -> list[str]:
        return Path(os.environ[NAME], SPARK).read_text().splitlines()

    def _assign_work_unit(self, node: WorkerController) -> None:
        has_spark = {each for each, units in self.assigned_work.items() if any(file in self.spark for file in units)}
        first: list[str] = []
        if is_behind(node.workerinput):
            if not (first := [file for file in self.workqueue if file in self.pure]):
                return node.shutdown()
        elif node in has_spark:
            first = [file for file in self.workqueue if file in self.spark]
        elif len(has_spark) >= SPARKS:
            first = [file for file in self.workqueue if file not in self.spark and not file.endswith("::alone")]
        if first:
            self.workqueue.move_to_end(first[0], last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Before the workers start: one temporary folder for all that they make."""
    if is_worker(config) and is_behind(config.workerinput):  # type: ignore[attr-defined]
        with suppress(OSError):  # Linux weighs sessions first, and then the processes of each
            os.setsid()
            Path("/proc/self/autogroup").write_text(str(LOW))
        os.nice(LOW)
    if has_workers(config):
        os.environ[NAME] = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="kit-")
        tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    """The workers have ended: what one that was killed or interrupted has left goes, and the folder with it."""
    if has_workers(config):
        room = os.environ.pop(NAME)
        for process in psutil.process_iter():
            if carries(process, NAME, room):
                process.kill()
        shutil.rmtree(room, ignore_errors=True)
        del os.environ["TMPDIR"]
        tempfile.tempdir = None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files that take long come first, the longest of all before them, those that are run alone last: so the workers end together."""
    if is_worker(config):
        files: dict[tuple[Path, bool], list[pytest.Item]] = {}
        for item in items:
            files.setdefault((item.path, is_alone(item)), []).append(item)
        items[:] = [item for file in sorted(files.values(), key=turn_of) for item in file]
        if config.workerinput["workerid"] == "gw0":  # type: ignore[attr-defined]
            (ROOM / PURE).write_text("\n".join(file[0].nodeid.partition("::")[0] for file in files.values() if turn_of(file) == 2))
            (ROOM / SPARK).write_text("\n".join(file[0].nodeid.partition("::")[0] for file in files.values() if "spark" in names_of(file)))
            (ROOM / ALONE).write_text("\n".join(item.nodeid for item in items if is_alone(item)))


def turn_of(file: list[pytest.Item]) -> int:
    """0 for the longest, 1 for a file with tests of the real parts, 2 for a pure one, 3 for tests that are run alone."""
    if is_alone(file[0]):
        return 3
    if file[0].path.name in LONGEST:
        return 0
    return 1 if REAL & names_of(file) else 2


def names_of(file: list[pytest.Item]) -> set[str]:
    """The markers and fixtures of a file's tests."""
    return {name for item in file for name in (*(mark.name for mark in item.iter_markers()), *getattr(item, "fixturenames", ()))}


def is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # so that what follows the yield comes after the summary
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    """Run what failed once more, unless it is much, or something was left behind: an error of a setup or a teardown stands."""
    yield
    config = session.config
    if is_worker(config):
        return
    results = config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus == pytest.ExitCode.OK and len(results.get("passed", ())) < TO_PASS:
        print(f"\nOf the {TO_PASS} that failed, some were not run again: that counts as a failure.", flush=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if not has_workers(config) or exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    failed = list(dict.fromkeys(report.nodeid for report in results.get("failed", ())))
    if results.get("error") or not 0 < len(failed) <= AGAIN:
        return
    print(f"\nOnce more, with nothing beside them, the {len(failed)} that failed:", *failed, sep="\n  ", flush=True)
    try:
        again = [sys.executable, "-m", "pytest", "-m", "", *failed]
        session.exitstatus = subprocess.call(again, cwd=config.rootpath, env=os.environ | {AGAIN_OF: str(len(failed))})
    except KeyboardInterrupt:
        session.exitstatus = pytest.ExitCode.INTERRUPTED


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the clock of pytest-timeout starts
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test waits while another is run that has to be alone; one that has to be alone waits until no other is run."""
    if not is_worker(item.config):
        return (yield)
    with turn(ROOM, is_alone(item)):
        return (yield)


@contextmanager
def turn(room: Path, alone: bool) -> Iterator[None]:
    """Be in the room, with others or alone.

    Everybody comes through the door, and whoever wants to be alone stays in it: nobody overtakes him.
    The locks end with the process that holds them, however it ends.
    """
    with lock(room / "door", fcntl.LOCK_EX) as door, lock(room / "room", fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
        if not alone:
            fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextmanager
def lock(path: Path, how: int) -> Iterator[int]:
    """A lock on a file; it is given back also where a child process has a copy of it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, how)
        yield file
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)
