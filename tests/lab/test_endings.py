"""However a lab ends, nothing of it is left: not a broker, not a kernel, not what a kernel started and lost."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import HEEDING, describe, has_ended, wait_for, within
from tests.lab.labs import KIT, Lab, project_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

# A child of a kernel that leaves its parents, its session and its environment behind, and one that only moves away.
RUNAWAYS = """
import os, subprocess, sys
lost = 'import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(1000)'
subprocess.run([sys.executable, '-c', lost], env={})
subprocess.Popen(['sleep', '1000'], start_new_session=True)
"""


def runaways() -> list[psutil.Process]:
    """The lost children of the kernels, known by their command lines alone."""
    def is_one(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            return process.status() != psutil.STATUS_ZOMBIE and any("time.sleep(1000)" in word for word in words)
        return False

    return [process for process in psutil.process_iter() if is_one(process)]


def assert_all_gone(lab: Lab, seconds: float) -> float:
    """Within `seconds`, if nothing else runs, no process of the lab is left; returns how long it took."""
    began = time.monotonic()
    gone = wait_for(lambda: not lab.processes() and not runaways(), within(seconds))
    assert gone, [describe(process) for process in lab.processes() + runaways()]
    return time.monotonic() - began


def test_lab_killed_leaves_nothing_and_opens_again_at_once(new_home: Path) -> None:
    """kill -9 of the lab: broker, JupyterLab, kernels and their lost children are gone within 5 s (row 5)."""
    lab = Lab(new_home).open()
    kernel = lab.kernel()
    kernel.run(RUNAWAYS)
    assert runaways()
    kernel.start("while True: pass")
    lab.process.kill()
    lab.wait()
    seconds = assert_all_gone(lab, 5)
    print(f"all processes gone {seconds:.1f} s after kill -9 of the lab")
    again = Lab(new_home).open()
    assert again.kernel().run("print('again')") == "again"
    assert again.end() == 130
    assert_all_gone(again, 0)


def test_parent_killed_ends_the_lab(new_home: Path) -> None:
    """kill -9 of what started the lab (make, a shell script) ends the lab as well."""
    lab = Lab(new_home, command=["sh", "-c", f'"{sys.executable}" -m kitlib lab --no-browser; exit $?']).open()
    lab.process.kill()
    assert_all_gone(lab, 5)
    lab.wait()


def test_jupyterlab_crashed_ends_the_lab_with_a_sentence(new_home: Path) -> None:
    """When JupyterLab dies by itself the lab says so, ends Kafka, and exits with 3; also when its watcher was stopped."""
    lab = Lab(new_home).open()
    (server,), (watcher,) = lab.find("-m jupyterlab"), lab.find("-m kitlib.lab.session")
    watcher.suspend()
    server.kill()
    assert lab.wait() == 3
    assert "JupyterLab exited unexpectedly (exit code -9)" in lab.said and "Traceback" not in lab.said
    assert_all_gone(lab, 0)


def test_watcher_killed_ends_the_lab_and_leaves_nothing(new_home: Path) -> None:
    """When the watcher is killed the lab does its work and says so (row 6)."""
    lab = Lab(new_home).open()
    lab.kernel().run("import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
    (watcher,) = lab.find("-m kitlib.lab.session")
    watcher.kill()
    assert lab.wait() == 3
    assert "watcher was ended" in lab.said
    assert_all_gone(lab, 0)


def test_lab_killed_with_its_watcher_or_while_that_was_stopped_is_cleared_by_the_next_lab(new_home: Path) -> None:
    """The next lab wakes a watcher that was stopped, which then ends what it had to; else it ends what is left itself (row 6)."""
    lab = Lab(new_home).open()
    (watcher,) = lab.find("-m kitlib.lab.session")
    watcher.suspend()
    lab.process.kill()
    lab.wait()
    again = Lab(new_home).open()
    assert has_ended(watcher.pid) and len(again.find("-m jupyterlab")) == 1
    child = int(again.kernel().run("import subprocess; print(subprocess.Popen(['sleep', '1000']).pid)"))
    (watcher,) = again.find("-m kitlib.lab.session")
    for process in (watcher, psutil.Process(again.process.pid)):
        process.kill()
    again.wait()
    last = Lab(new_home).open()
    assert "earlier lab had left behind" in last.said
    assert has_ended(child) and len(last.find("-m jupyterlab")) == 1
    assert last.end() == 130
    assert_all_gone(last, 0)


def test_second_ctrl_c_ends_by_force(new_home: Path) -> None:
    """The first Ctrl-C asks with a line that says so; the second does not wait for a kernel that does not listen."""
    lab = Lab(new_home).open()
    kernel = lab.kernel()
    kernel.run("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    kernel.start("import time\nwhile True:\n    try: time.sleep(1000)\n    except KeyboardInterrupt: pass")
    lab.process.send_signal(signal.SIGINT)
    lab.wait_for_words("once more ends it by force")
    lab.process.send_signal(signal.SIGINT)
    lab.wait_for_words("by force.\nEnding it by force")
    assert lab.wait(10) == 130
    assert_all_gone(lab, 0)


@pytest.mark.parametrize("stage", ["jars checked", "Starting Kafka"])
def test_ctrl_c_at_each_stage_ends_with_130_and_leaves_nothing(stage: str, new_home: Path) -> None:
    """Ctrl-C at any moment of the start: exit code 130, no process, and the next lab opens (row 7)."""
    lab = Lab(new_home)
    lab.wait_for_words(stage)
    assert lab.end() == 130
    assert "Traceback" not in lab.said, lab.said
    assert_all_gone(lab, 0)
    if stage == "Starting Kafka":  # the one stage that leaves something half done on the disk
        assert Lab(new_home).open().end() == 130


def test_terminal_closed_ends_the_lab(new_home: Path) -> None:
    """Closing the terminal window: no process is left after 5 s, though nobody can read its last words (row 8)."""
    with in_terminal(new_home) as (pid, close, lab):
        assert wait_for(lambda: (new_home / "run" / "lab.json").exists() and lab.note()["address"], 40)
        close()
        assert wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 40)
        assert_all_gone(lab, 5)


@contextlib.contextmanager
def in_terminal(home: Path):  # type: ignore[no-untyped-def]
    """A lab in a terminal of its own: (its process id, what closes the terminal, a Lab that only looks)."""
    project = project_of(home)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["KIT_HOME"] = str(home)
        os.chdir(project)
        os.execv(HEEDING[0], [*HEEDING, *KIT, "lab", "--no-browser"])
    onlooker = object.__new__(Lab)
    onlooker.home = home
    closed = False

    def close() -> None:
        nonlocal closed
        if not closed:
            os.close(terminal)
        closed = True

    try:
        yield pid, close, onlooker
    finally:
        close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
