"""`kit purge`: what the kit keeps goes, what is the user's stays."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kitlib.lab import workspace
from tests.conftest import REPOSITORY


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with jars behind a link, Kafka's data, a damaged score, a learner's notebook and a file of somebody else."""
    home = tmp_path / "home"
    for name in ("data/kafka", "run", "work"):
        (home / name).mkdir(parents=True)
    (home / "data" / "kafka" / "log").write_bytes(b"x" * 3_000_000)
    (home / "work" / "00.ipynb").write_text("{}")
    jars = tmp_path / "jars of all"
    jars.mkdir()
    (jars / "kafka.jar").write_text("a jar")
    (home / "predictions.json.broken-2").touch()
    (home / "jars").symlink_to(jars, target_is_directory=True)
    monkeypatch.setenv("KIT_HOME", str(home))
    monkeypatch.delenv("KIT_KAFKA_BOOTSTRAP", raising=False)
    return home


def purge(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kitlib", "purge", *options], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def test_purge_deletes_what_is_the_kits_and_nothing_else(home: Path) -> None:
    """Asked first: without --yes it lists what there is with its size. A learner's notebooks stay, and so does what a link leads to."""
    asked = purge()
    assert asked.returncode != 0 and "add --yes" in asked.stderr and "Traceback" not in asked.stderr
    assert f"{home / 'data'}  3 MB" in asked.stderr and (home / "data" / "kafka" / "log").exists()
    done = purge("--yes")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in home.iterdir()] == ["work"] and "it is yours: work" in done.stderr
    assert (home.parent / "jars of all" / "kafka.jar").exists()
    assert "nothing is kept" in purge("--yes").stderr


def test_purge_knows_all_that_the_kit_keeps() -> None:
    """Every name that the library puts directly into the workspace is in the list, apart from the learner's copies."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "kitlib").rglob("*.py"))
    named = set(re.findall(r"(?:home\(\) / |KeptRows\()\"([^\"]+)\"", sources))
    assert named == set(workspace.KEPT)
