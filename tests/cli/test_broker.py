"""`kit up`, `status`, `logs` and `down` as a script uses them: data on stdout, words on stderr, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import wait_for

pytestmark = pytest.mark.kafka


def kit(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kitlib", *arguments], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "KIT_HOME": str(home)},
    )  # fmt: skip


def test_up_status_logs_down_tell_a_script_what_it_needs(new_home: Path) -> None:
    """The address is all of `up`'s stdout; `status` ends with 0 while Kafka answers and with 3 when it does not."""
    stopped = kit(new_home, "status")
    assert (stopped.returncode, stopped.stderr) == (3, "") and "`kit up` starts one" in stopped.stdout
    up = kit(new_home, "up")
    assert up.returncode == 0, up.stderr
    assert up.stdout.startswith("127.0.0.1:") and len(up.stdout.splitlines()) == 1
    assert "starting Kafka" in up.stderr
    again = kit(new_home, "up")
    assert (again.stdout, again.stderr) == (up.stdout, "")
    status = kit(new_home, "status", "--json")
    found = json.loads(status.stdout)
    assert status.returncode == 0 and found["running"] and found["bootstrap"] == up.stdout.strip()
    assert found["nodes"][0]["phase"] == "running"
    log = new_home / "run" / "node-1.log"

    def last_two() -> str:
        with log.open("a") as file:
            file.write("one\ntwo \x1b]0;evil\x07\n")
        return kit(new_home, "logs", "--lines", "2").stdout

    # The broker writes into its log as well, and at any moment.
    assert wait_for(lambda: last_two() == "node-1: one\nnode-1: two \\x1b]0;evil\\x07\n", 20)
    assert kit(new_home, "logs", "--lines", "-1").returncode == 2
    down = kit(new_home, "down")
    assert (down.returncode, down.stdout) == (0, "")
    assert "no broker was running" in kit(new_home, "down").stderr
    assert kit(new_home, "status").returncode == 3
