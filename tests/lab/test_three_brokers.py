"""The borrowed set of three: its watcher ends it, whatever becomes of its owner. Real sets: tests/experiments/test_real_leaders.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kitlib.errors import LabError
from kitlib.lab import kafka_server, workspace
from kitlib.lab import three_brokers as three
from tests.conftest import wait_for

OWNER = """
import os, sys
from kitlib.lab import three_brokers as three
home = three._new_home()
three._watcher(home)
print(home, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def user(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIT_HOME", str(new_home))
    return new_home


def test_watcher_removes_the_workspace_when_its_owner_is_killed(user: Path) -> None:
    """The pipe closes with its owner, however that dies."""
    owner = subprocess.run([sys.executable, "-c", OWNER], capture_output=True, text=True, timeout=60)
    home = Path(owner.stdout.strip())
    assert owner.returncode == -9 and home.parent == user / "run"
    assert wait_for(lambda: not home.exists(), 30)


def test_watcher_that_was_stopped_still_ends_its_set(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner's code may stop it (SIGSTOP); who waits for its end wakes it."""
    monkeypatch.setattr(three, "END_S", 10.0)
    home = three._new_home()
    watcher = three._watcher(home)
    watcher.send_signal(signal.SIGSTOP)
    three._end(watcher, home)
    assert not home.exists()


def test_set_that_cannot_be_started_leaves_nothing(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace goes, the environment is as before, and the reason is told."""

    def refuse(brokers: int, _: object) -> None:
        assert os.environ["KIT_HOME"] != str(user) and "KIT_KAFKA_BOOTSTRAP" not in os.environ
        raise LabError(f"no {brokers} today")

    monkeypatch.setattr(kafka_server, "ensure", refuse)
    monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    with pytest.raises(LabError, match="no 3 today"), three.three_brokers():
        pass
    assert os.environ["KIT_HOME"] == str(user) and os.environ["KIT_KAFKA_BOOTSTRAP"] == "127.0.0.1:1"
    assert not list(workspace.run_dir().glob("three-*"))


def test_watcher_touches_no_other_folder(user: Path) -> None:
    """A workspace that was not borrowed is refused."""
    asked = subprocess.run(
        [sys.executable, "-m", "kitlib.lab.three_brokers", str(user)], input="", capture_output=True, text=True, timeout=60
    )
    assert asked.returncode == 1 and "is no borrowed workspace" in asked.stderr and user.is_dir()
