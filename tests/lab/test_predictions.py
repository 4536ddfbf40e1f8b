"""What was predicted is kept in one file: once, whole, and whatever has happened to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitlib.errors import DiskError, LabError
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


@pytest.mark.parametrize("damage", [b"", b'{"schema": 1}', b'{"schema": 1, "answers": [1]}', b'{"schema": 1, "answers": {"a": {}}}'])
def test_a_damaged_file_is_put_aside(damage: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """It is kept beside the new one, one sentence says so, and the next answer begins anew."""
    place = predictions.path()
    place.parent.mkdir(parents=True)
    place.write_bytes(damage)
    assert predictions.load() == predictions.load() == {}
    assert place.with_name("predictions.json.broken").read_bytes() == damage
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("kit: predictions.json makes no sense (") and "predictions.json.broken" in said
    assert predictions.keep("a", RIGHT) == predictions.load() == {"a": RIGHT}


def test_what_a_newer_kit_wrote_is_left_alone() -> None:
    """A learner who goes back one release loses nothing: neither a look nor an answer nor a reset changes the file."""
    place = predictions.path()
    place.parent.mkdir(parents=True)
    place.write_text('{"schema": 99, "answers": {"a": 1}}')
    for use in (predictions.load, predictions.reset, lambda: predictions.keep("a", RIGHT)):
        with pytest.raises(LabError, match=r"predictions\.json was written by a newer kit \(schema 99; this kit reads 1\)"):
            use()
    assert [each.name for each in place.parent.iterdir()] == [place.name]


def test_what_cannot_be_written_is_a_disk_error(home: Path) -> None:
    """A workspace that is a file has no room for answers; the sentence names the place."""
    home.write_text("not a folder")
    assert predictions.load() == {}
    with pytest.raises(DiskError, match=r"predictions\.json could not be written"):
        predictions.keep("a", RIGHT)


def test_a_long_answer_is_cut() -> None:
    """A record's bytes in an answer cannot make the file large."""
    found = predictions.keep("a", Answered("x" * 9_000, "q", "a", "t", True))
    assert len(found["a"].experiment) == predictions.MOST_KEPT
