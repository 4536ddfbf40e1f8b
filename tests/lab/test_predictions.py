"""What was predicted is kept in one file: once, whole, and whatever has happened to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitlib.errors import DiskError
from kitlib.lab import predictions
from kitlib.lab.predictions import Answered

RIGHT = Answered("happy_path", "How many?", "40", "40", True)
WRONG = Answered("happy_path", "How many?", "41", "40", False)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_first_answer_counts() -> None:
    """A second answer to the same question changes neither the file nor the score."""
    assert predictions.load() == {}
    predictions.keep("a", WRONG)
    assert predictions.keep("a", RIGHT) == {"a": WRONG} == predictions.load()
    assert predictions.score(predictions.keep("b", RIGHT)) == "1 of 2 right so far"
    assert (predictions.reset(), predictions.load(), predictions.reset()) == (2, {}, 0)


def test_a_damaged_file_is_put_aside(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence says where it is kept, and the next answer begins anew."""
    place = predictions.path()
    place.parent.mkdir(parents=True)
    place.write_text('{"answers": {"a": {}}}')
    assert predictions.keep("a", RIGHT) == predictions.load() == {"a": RIGHT}
    assert "predictions.json makes no sense (" in capsys.readouterr().err and place.with_name("predictions.json.broken").exists()


def test_what_cannot_be_written_is_a_disk_error(home: Path) -> None:
    """A workspace that is a file has no room for answers; the sentence names the place."""
    home.write_text("not a folder")
    assert predictions.load() == {}
    with pytest.raises(DiskError, match=r"predictions\.json could not be written"):
        predictions.keep("a", RIGHT)
