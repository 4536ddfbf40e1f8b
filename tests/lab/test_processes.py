"""Processes: known by id, birth and token; ended with their children; strangers left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psutil
import pytest

from kitlib.errors import LabError
from kitlib.lab.processes import end_trees, find, find_all, is_alive, wait_until

SLEEPER = "import time; print('up', flush=True); time.sleep(300)"
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print(child.pid, flush=True); time.sleep(300)"
)


@pytest.fixture
def token() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def sleeper(token: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process which carries the token in its command line."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER, f"-Dkit.run={token}"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        yield process
        process.kill()


@pytest.mark.parametrize(("pid", "mark"), [(0, "-Dkit.run={}"), (-1, "-Dkit.run={}"), (2**22 + 5, "-Dkit.run={}"), (None, "-Dkit.run={}"),
                                           (1, "-Dkit.run={}"), ("its", "-Dkit.run=another"), ("its", "")], ids=str)  # fmt: skip
def test_find_wants_the_process_id_and_the_mark(sleeper: subprocess.Popen[bytes], token: str, pid: int | str | None, mark: str) -> None:
    """A process id alone, or a mark alone, is not enough; nor is a part of an argument."""
    assert find(sleeper.pid, f"-Dkit.run={token}") is not None
    assert find(sleeper.pid if pid == "its" else pid, mark.format(token)) is None  # type: ignore[arg-type]
    assert find(sleeper.pid, f"-Dkit.run={token[:-1]}") is None


def test_find_does_not_find_what_has_ended(sleeper: subprocess.Popen[bytes], token: str) -> None:
    """A zombie, which its parent has not collected, does not live."""
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_until(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_ZOMBIE, 20, "it is a zombie")
    assert find(sleeper.pid, f"-Dkit.run={token}") is None and find_all(f"-Dkit.run={token}") == []


def test_find_all_sees_whole_arguments_and_values_of_the_environment(sleeper: subprocess.Popen[bytes], token: str) -> None:
    """One workspace whose path begins like another's does not find the other's processes; a mark that any process may have finds none."""
    environment = {**os.environ, "KIT_RUN": f"-Dkit.run={token}"}
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None and other.stdout.readline() == b"up\n"
        assert {process.pid for process in find_all(f"-Dkit.run={token}")} == {sleeper.pid, other.pid}
        assert find_all(f"-Dkit.run={token[:-1]}") == find_all("") == find_all("1") == []
        other.kill()


def test_end_trees_kills_what_does_not_listen_and_its_children(token: str) -> None:
    """A process that ignores SIGTERM is killed after the grace time, and its child in another session is ended too."""
    with subprocess.Popen([sys.executable, "-c", STUBBORN, SLEEPER, token], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        end_trees([psutil.Process(parent.pid)], grace_s=1.5)
        assert not is_alive(child)
        assert parent.wait(5) == -signal.SIGKILL


def test_end_trees_lets_a_paused_process_end_as_asked(sleeper: subprocess.Popen[bytes]) -> None:
    """A paused process is continued, so that SIGTERM reaches it; nothing is killed."""
    os.kill(sleeper.pid, signal.SIGSTOP)
    end_trees([psutil.Process(sleeper.pid)], grace_s=5)
    assert sleeper.wait(5) == -signal.SIGTERM


def test_wait_until_returns_the_answer_and_names_what_never_came() -> None:
    """The first true answer is returned; a wait in vain ends with the sentence that was hoped for."""
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers), 5, "it is seven") == 7
    with pytest.raises(LabError, match=r"0\.05 s in vain until the cat comes home"):
        wait_until(lambda: False, 0.05, "the cat comes home")
