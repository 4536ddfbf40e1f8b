"""The borrowed set of three ends with its block, and with its owner. Real sets: tests/experiments/test_real_leaders.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kitlib.errors import LabError
from kitlib.lab import kafka_server, workspace
from kitlib.lab import three_brokers as three
from tests.conftest import wait_for

OWNER = """
import os
from kitlib.lab import kafka_server, three_brokers
kafka_server.ensure = lambda *_: os.kill(os.getpid(), 9)
with three_brokers.three_brokers():
    pass
"""


@pytest.fixture
def user(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIT_HOME", str(new_home))
    return new_home


def test_workspace_is_removed_when_its_owner_is_killed(user: Path) -> None:
    """However the owner dies: here while it waits for its brokers."""
    assert subprocess.run([sys.executable, "-c", OWNER], timeout=60).returncode == -9
    assert wait_for(lambda: not list((user / "run").glob("three-*")), 30)


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
