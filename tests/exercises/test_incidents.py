"""The incident room: each kind can be found out from its folder, the folder does not give it away, and a report is judged by its parts."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import KitError, KnobError
from kitlib.exercises import incident_room
from kitlib.exercises.incident_room import HALF, OPEN, RIGHT, WRONG, check, form, make, solved
from kitlib.exercises.incidents import CAUSES, EXPLAINS, KINDS, incident

SEEDS = {"unclean_election": 0, "retry_overtaken": 1, "old_offset_loaded": 3, "offset_forgotten": 9, "polls_too_late": 11}
each_kind = pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)


def grades(folder: Path, **answers: Any) -> dict[str, tuple[str, str]]:
    """What the check says of a report with these answers."""
    (folder / incident_room.REPORT).write_text(form(answers))
    return {answer.name: (answer.grade, answer.said) for answer in check(folder)[0]}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for each kind, named by its seed."""
    folder = tmp_path_factory.mktemp("room")
    for seed in SEEDS.values():
        make(seed, folder / str(seed))
    return folder


def test_the_seeds_of_this_file_draw_every_kind() -> None:
    """Each kind is drawn by some seed, with the cause that this file says."""
    assert {cause: incident(seed).kind.cause for cause, seed in SEEDS.items()} == {kind.cause: kind.cause for kind in KINDS}


@each_kind
def test_right_report_is_right_in_every_line(seed: int, room: Path) -> None:
    """The printed answers pass: counts of the verdict, the line of the proof, and a change that leaves no damage when run."""
    found = grades(room / str(seed), **solved(incident(seed)))
    assert {name: grade for name, (grade, _) in found.items()} == dict.fromkeys(found, RIGHT), found
    assert found["change"][1] == "run again with it: nothing is lost, duplicated or reordered."


@each_kind
def test_report_as_it_comes_is_not_answered(seed: int, room: Path) -> None:
    """An empty report is neither right nor wrong."""
    assert {grade for grade, _ in grades(room / str(seed)).values()} == {OPEN}


@each_kind
def test_folder_does_not_hold_the_answers(seed: int, room: Path) -> None:
    """No file says what a step means or what the verdict is; the note holds the seed, and the report's form is that of every incident."""
    folder, found = room / str(seed), incident(seed)
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert set(json.loads(files.pop(incident_room.NOTE))) == {"seed", "began_utc"}
    lines = {"cause", "began", "evidence", "lost", "duplicated", "reordered", "change"}
    assert set(tomllib.loads(files.pop(incident_room.REPORT))) == lines
    explained = [found.trace.sentence(step).partition(EXPLAINS[step.what])[2] for step in found.trace if step.what in EXPLAINS]
    told = {"not in sync", "no one is alerted", "its leader", "the effect happens", "of its own accord", "starts there"}
    told |= {text for text in explained if text} | {found.verdict.sentence, found.kind.cause, found.kind.story}
    assert CAUSES[found.kind.cause].said not in "".join(files.values())
    assert not [(name, text) for name, content in files.items() for text in told if text in content]


@each_kind
def test_line_of_the_proof_is_in_the_log_it_names(seed: int, room: Path) -> None:
    """What the check takes for the proof stands there, in the line of that number."""
    name, _, number = solved(incident(seed))["evidence"].partition(":")
    line = (room / str(seed) / "logs" / name).read_text().splitlines()[int(number) - 1]
    found = incident(seed).line(f"{name}:{number}")
    assert found is not None and found[1] == line and incident(seed).kind.proof(found[0])


def test_same_seed_gives_the_same_incident(room: Path, tmp_path: Path) -> None:
    """Two folders of a seed are the same, byte for byte, apart from when they were made; another process makes them too."""
    command = [sys.executable, "-m", "kitlib", "incident"]
    again = subprocess.run([*command, "--seed", "3", "--out", str(tmp_path / "3")], capture_output=True, text=True, check=False)
    assert again.returncode == 0 and again.stdout == f"{tmp_path / '3'}\n", again.stderr
    checked = subprocess.run([*command, "--check", str(tmp_path / "3")], capture_output=True, text=True, check=False)
    assert checked.returncode == 1 and "0 of 7 right, 0 minutes" in checked.stdout
    make(3, tmp_path / "other")
    here, there = (
        {path.relative_to(top): path.read_bytes() for path in top.rglob("*.*") if path.is_file() and path.name != incident_room.NOTE}
        for top in (tmp_path / "other", tmp_path / "3")
    )
    assert here == there and len(here) > 6
    printed = subprocess.run([*command, "--seed", "3", "--answers"], capture_output=True, text=True, check=False).stdout
    assert tomllib.loads(printed) == solved(incident(3))


def test_twenty_seeds_can_all_be_prevented() -> None:
    """Whatever the seed draws, one of the changes leaves no damage, and no two seeds of a kind are the same run."""
    seeds = range(100, 120)
    assert all(solved(incident(seed))["change"] for seed in seeds)
    traces = [incident(seed).trace for seed in seeds]
    assert len({json.dumps([trace.knobs, trace.seed], default=str, sort_keys=True) for trace in traces}) == len(traces)


GRADED = [
    # (seed, line of the report, answer, grade, words)
    (0, "cause", "replica_corrupted", HALF, "must explain"),
    (0, "cause", "polls_too_late", WRONG, "must explain"),
    (1, "cause", "answer_lost", HALF, "broker.log:7: 2026-01-28 12:23:00.341 INFO  Batch 2"),
    (3, "cause", "poison_record", WRONG, "a.log:"),
    (0, "cause", "a comet", WRONG, "none of the list"),
    (3, "cause", "offset_expired", HALF, "the right part of the system"),
    (0, "began", "2026-02-14 14:02:05.900", RIGHT, "it began at"),
    (0, "began", "2026-02-14 14:02:05.300", HALF, "near; it began after that"),
    (0, "began", "2026-02-14 14:02:08.290", WRONG, "it began before that"),
    (0, "began", "at lunch", WRONG, "no moment"),
    (0, "evidence", "controller.log:5", RIGHT, "elected leader"),
    (0, "evidence", "logs/broker-2.log:6", HALF, "truncates"),
    (0, "evidence", "b.log:3", WRONG, "would stand there without the incident"),
    (0, "evidence", "b.log:300", WRONG, "there is no line"),
    (0, "evidence", "../../etc/passwd:1", WRONG, "there is no line"),
    (0, "lost", 4, RIGHT, ""),
    (0, "duplicated", 30, HALF, "nearly"),
    (0, "duplicated", 10, WRONG, "there are more"),
    (0, "reordered", 2, WRONG, "there are none"),
    (0, "lost", 10, HALF, "10 left the log; 6 of them had been processed before"),
    (0, "lost", 44, WRONG, "there are fewer"),
    (0, "lost", "four", WRONG, "expected a number"),
    (0, "lost", True, WRONG, "expected a number"),
    (0, "cause", 7, WRONG, "expected a text"),
    (0, "change", "min.insync.replicas=2", RIGHT, "nothing is lost"),
    (0, "change", "auto.offset.reset=latest", HALF, "instead of 4 lost, 35 duplicated"),
    (0, "change", "enable.idempotence=true", WRONG, "knows no such setting"),
    (9, "change", "max.poll.records=5", WRONG, "and without it 32 duplicated"),
    (9, "change", "an alarm when the log cleaner stops", RIGHT, "nothing is lost"),
    (0, "change", "more brokers", WRONG, "none of the list"),
]


@pytest.mark.parametrize(("seed", "name", "given", "grade", "words"), GRADED, ids=lambda value: str(value)[:30])
def test_line_of_a_report_is_right_half_right_or_wrong_with_evidence(
    seed: int, name: str, given: Any, grade: str, words: str, room: Path
) -> None:
    """Each line is judged by itself, and what is not right is told with something from the run."""
    found = grades(room / str(seed), **{name: given})
    assert found[name][0] == grade and words in found[name][1], found[name]
    assert {other for key, (other, _) in found.items() if key != name} == {OPEN}


def test_folder_that_is_there_is_left_alone(room: Path, tmp_path: Path) -> None:
    """A report that somebody writes is never overwritten, and a folder that cannot be made is a sentence."""
    with pytest.raises(KitError, match="is there already, perhaps with a report in it"):
        make(0, room / "0")
    (tmp_path / "file").write_text("")
    with pytest.raises(KitError, match="could not be written"):
        make(0, tmp_path / "file" / "0")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("report.toml", "cause = unclean", "cannot be understood"),
        ("report.toml", "x = 1\n" * 20_000, "at most 100,000 are read"),
        ("report.toml", None, "could not be read"),
        ("incident.json", "{}", "names no seed"),
        ("incident.json", "[" * 50_000, "cannot be understood"),
        ("incident.json", '{"seed": true}', "names no seed"),
        ("incident.json", '{"seed": -1}', "expected a number from 0"),
        ("incident.json", None, "could not be read"),
    ],
)
def test_folder_that_is_broken_is_told_in_a_sentence(name: str, text: str | None, words: str, tmp_path: Path) -> None:
    """A report or a note that is missing, too large, no TOML or without a seed is a KitError that names the file or the seed."""
    folder = tmp_path / "i"
    make(0, folder)
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(KitError, match=words):
        check(folder)


def test_seed_that_is_none_is_refused() -> None:
    """Seeds are whole numbers from 0 to 2^32 - 1."""
    for seed in (-1, 2**32):
        with pytest.raises(KnobError, match="expected a number from 0"):
            incident(seed)
