"""Processes: known by id, birth and token; ended with their children; strangers left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from kitlib.errors import LabError
from kitlib.lab.processes import end_trees, find_by_argument, find_by_token, identify, is_alive, wait_until
from kitlib.lab.workspace import home

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


@pytest.mark.parametrize("change", [{}, {"born_s": 1.0}, {"token": "another-token-of-a-run"}, {"token": ""}, {"pid": 1},
                                    {"pid": 0}, {"pid": -1}, {"pid": 2**22 + 5}], ids=str)  # fmt: skip
def test_identity_finds_the_process_with_which_it_agrees_in_all(
    sleeper: subprocess.Popen[bytes], token: str, change: dict[str, int]
) -> None:
    """A process id alone, or with one other thing that agrees, is not enough."""
    found = replace(identify(sleeper.pid, token), **change).process()  # type: ignore[arg-type]
    assert found is None if change else found is not None and found.pid == sleeper.pid


def test_identity_of_a_process_that_has_ended_finds_nobody(sleeper: subprocess.Popen[bytes], token: str) -> None:
    """A zombie, which its parent has not collected, does not live; who asks for the identity of one that is gone hears that."""
    identity = identify(sleeper.pid, token)
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_until(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_ZOMBIE, 20, "it is a zombie")
    assert not identity.is_alive()
    process = psutil.Process(sleeper.pid)
    sleeper.wait()
    with pytest.raises(LabError, match="ended before"):
        identify(sleeper.pid, token)
    assert end_trees([process]) == []


def test_find_by_token_sees_command_lines_and_environments(sleeper: subprocess.Popen[bytes], token: str) -> None:
    """A token is found in a command line as well as in an environment."""
    environment = {**os.environ, "KIT_RUN": token}
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None and other.stdout.readline() == b"up\n"
        assert {process.pid for process in find_by_token(token)} == {sleeper.pid, other.pid}
        other.kill()
        other.wait()
        assert [process.pid for process in find_by_token(token)] == [sleeper.pid]


def test_find_by_token_refuses_a_short_token() -> None:
    """A token that could stand in any command line finds nothing but an error."""
    with pytest.raises(LabError, match="at least 12"):
        find_by_token("a")


def test_find_by_argument_wants_the_whole_argument(sleeper: subprocess.Popen[bytes], token: str) -> None:
    """One workspace whose path begins like another's does not find the other's processes."""
    assert [process.pid for process in find_by_argument(f"-Dkit.run={token}")] == [sleeper.pid]
    assert find_by_argument(f"-Dkit.run={token[:-1]}") == []
    assert home()  # the search never takes an empty home for one


def test_end_trees_kills_what_does_not_listen_and_its_children(token: str) -> None:
    """A process that ignores SIGTERM is killed after the grace time, and its child in another session is ended too."""
    with subprocess.Popen([sys.executable, "-c", STUBBORN, SLEEPER, token], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        killed = end_trees([psutil.Process(parent.pid)], grace_s=1.5)
        assert [process.pid for process in killed] == [parent.pid]
        assert not is_alive(child)
        assert parent.wait(5) == -signal.SIGKILL


def test_end_trees_lets_a_paused_process_end_as_asked(sleeper: subprocess.Popen[bytes]) -> None:
    """A paused process is continued, so that SIGTERM reaches it; nothing is killed."""
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert end_trees([psutil.Process(sleeper.pid)], grace_s=5) == []
    assert sleeper.wait(5) == -signal.SIGTERM


def test_wait_until_returns_the_answer_and_names_what_never_came() -> None:
    """The first true answer is returned; a wait in vain ends with the sentence that was hoped for."""
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers), 5, "it is seven") == 7
    with pytest.raises(LabError, match=r"0\.05 s in vain until the cat comes home"):
        wait_until(lambda: False, 0.05, "the cat comes home")
