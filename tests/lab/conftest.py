"""A workspace for each test of the broker, and the check that the test left no process in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kitlib.lab import kafka_server
from tests.conftest import describe, format_home, make_home, mentions, wait_for


@pytest.fixture
def bare_home(tmp_path: Path, kit_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A KIT_HOME for this test alone, with the shared jars; at the end nothing may run that carries its name."""
    home = make_home(tmp_path / "a home with ümlauts", (kit_home / "jars").resolve())
    monkeypatch.setenv("KIT_HOME", str(home))
    monkeypatch.delenv("KIT_RUN", raising=False)
    yield home
    kafka_server.down()
    left = [] if all_gone(home, 10) else processes_of(home)
    for process in left:
        process.kill()
    assert not left, f"still running: {[describe(process) for process in left]}"


@pytest.fixture
def own_home(bare_home: Path, formatted: Path) -> Path:
    """The same, with a formatted data folder: what is tested begins when the broker is started."""
    format_home(bare_home, formatted)
    return bare_home


def processes_of(home: Path) -> list[psutil.Process]:
    """All processes that have this home in their command line or environment."""
    return [process for process in psutil.process_iter() if mentions(process, str(home))]


def all_gone(home: Path, seconds: float) -> bool:
    """Whether everything that carries this home has ended within the time."""
    return bool(wait_for(lambda: not processes_of(home), seconds))
