"""`kit doctor`: one line for each thing that can be wrong, and what to do about a red one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kitlib.lab import doctor, jars, workspace

COMMAND = [sys.executable, "-m", "kitlib", "doctor"]
CHECKS = {
    "Python", "platform", "workspace", "Java", "disk", "memory", "loopback", "broker", "Spark", "environment",
}  # fmt: skip


def ask(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env={**os.environ, "KIT_OFFLINE": "1", **environment},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(kit_home: Path) -> None:
    """A workspace in which all jars are."""
    jars.ensure_jars("kafka")
    jars.ensure_jars("spark")


def test_doctor_on_a_sound_machine_is_all_good(whole: None) -> None:
    """On a machine where everything is there, each check has a line, none is red, and the exit code is 0."""
    answer = ask("--json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    findings = json.loads(answer.stdout)
    assert findings["good"] is True
    seen = {line["check"] for line in findings["findings"]}
    assert seen == CHECKS | {f"jars of Kafka {jars.KAFKA_VERSION}", f"jars of Spark connector {jars.CONNECTOR_VERSION}"}
    assert all(bool(line["do"]) == (line["level"] != "good") for line in findings["findings"])


def test_doctor_a_red_line_says_what_to_do_and_the_exit_code_is_1(tmp_path: Path) -> None:
    """What is missing is red with a next action, and scripts see it by the exit code."""
    answer = ask(KIT_HOME=str(tmp_path / "new"), KIT_JAVA_HOME=str(tmp_path / "no java"))
    assert answer.returncode == 1
    text = " ".join(answer.stdout.split())
    assert "46 of 46 are missing Run `kit fetch` with a network." in text
    assert "no java/bin/java is not there" in text
    assert "Traceback" not in answer.stdout + answer.stderr


def test_doctor_an_unusable_workspace_is_red_not_a_crash(tmp_path: Path) -> None:
    """A workspace that cannot be is one red line; the other checks go on."""
    answer = ask("--json", KIT_HOME=str(tmp_path / "a:b"))
    findings = {line["check"]: line for line in json.loads(answer.stdout)["findings"]}
    assert answer.returncode == 1
    assert findings["workspace"]["level"] == "bad"
    assert "KIT_HOME" in findings["workspace"]["do"]
    assert findings["loopback"]["level"] == "good"


def test_examine_a_workspace_of_another_user_is_red(monkeypatch: pytest.MonkeyPatch, whole: None) -> None:
    """Where the folder of state files belongs to somebody else and is open, one is told to take another workspace."""
    monkeypatch.setattr(workspace, "ensure", lambda: workspace.home())  # as it cannot close that folder
    workspace.run_dir().chmod(0o777)
    try:
        [line] = [line for line in doctor.examine() if line.check == "workspace"]
    finally:
        workspace.run_dir().chmod(0o700)
    assert line.level == "bad"
    assert f"the user with the number {os.geteuid()}: set KIT_HOME" in line.do


def test_doctor_suspicious_settings_are_named_without_their_values(whole: None) -> None:
    """Variables that redirect Java, Python or downloads are named; what they hold may be a secret and is not shown."""
    answer = ask(JAVA_TOOL_OPTIONS="-Dsecret=1234", HTTPS_PROXY="http://user:1234@127.0.0.1:9", PYTHONSTARTUP="/1234")
    assert answer.returncode == 0, answer.stdout
    assert all(name in answer.stdout for name in ("JAVA_TOOL_OPTIONS", "HTTPS_PROXY", "PYTHONSTARTUP"))
    assert "1234" not in answer.stdout


def test_examine_a_check_that_fails_itself_is_a_red_line(monkeypatch: pytest.MonkeyPatch, whole: None) -> None:
    """A check that dies of what it finds becomes a red line that names the error."""
    monkeypatch.setenv("KIT_OFFLINE", "1")
    monkeypatch.setattr("psutil.virtual_memory", lambda: 1 / 0)
    [line] = [line for line in doctor.examine() if line.check == "memory"]
    assert line.level == "bad"
    assert "ZeroDivisionError" in line.found
