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


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": 2, "answers": {}}', b'{"schema": 1}', b'{"schema": 1, "answers": [1]}',
        b'{"schema": 1, "answers": {"a": {"experiment": 1, "question": "", "answer": "", "truth": "", "is_right": true}}}',
        b'{"schema": 1, "answers": {"a": {"experiment": "", "question": "", "answer": "", "truth": "", "is_right": 1}}}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_file_is_put_aside(damage: bytes) -> None:
    """It is kept beside the new one, and the next answer begins anew."""
    place = predictions.path()
    place.parent.mkdir(parents=True)
    place.write_bytes(damage)
    assert predictions.load() == {}
    assert place.with_name("predictions.json.damaged").read_bytes() == damage
    assert predictions.keep("a", RIGHT) == predictions.load() == {"a": RIGHT}


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
