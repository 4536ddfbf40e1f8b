"""The incident room: each kind can be found out from its folder, the folder does not give it away, and a report is judged by its parts."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import KitError, KnobError
from kitlib.exercises import incident_room
from kitlib.exercises.incident_room import HALF, OPEN, RIGHT, WRONG, check, form, make, solved
from kitlib.exercises.incidents import CAUSES, EXPLAINS, KINDS, SAMPLES, incident

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
    assert set(json.loads(files.pop(incident_room.NOTE))) == {"seed"}
    lines = {"cause", "began", "evidence", "lost", "duplicated", "reordered", "change"}
    assert set(tomllib.loads(files.pop(incident_room.REPORT))) == lines
    explained = [found.trace.sentence(step).partition(EXPLAINS[step.what])[2] for step in found.trace if step.what in EXPLAINS]
    told = {"not in sync", "no one is alerted", "its leader", "the effect happens", "of its own accord", "starts there"}
    told |= {text for text in explained if text} | {found.verdict.sentence, found.kind.cause, found.kind.story}
    assert CAUSES[found.kind.cause].said not in "".join(files.values())
    assert not [(name, text) for name, content in files.items() for text in told if text in content]


def test_same_seed_gives_the_same_incident(room: Path, tmp_path: Path) -> None:
    """Two folders of a seed are the same, byte for byte, apart from when they were made; another process makes them too."""
    command = [sys.executable, "-m", "kitlib", "incident"]
    again = subprocess.run([*command, "--seed", "3", "--out", str(tmp_path / "3")], capture_output=True, text=True, check=False)
    assert again.returncode == 0 and again.stdout == f"{tmp_path / '3'}\n", again.stderr
    checked = subprocess.run([*command, "--check", str(tmp_path / "3")], capture_output=True, text=True, check=False)
    assert checked.returncode == 1 and "0 of 7 right, hints: 0" in checked.stdout
    make(3, tmp_path / "other")
    here, there = (
        {path.relative_to(top): path.read_bytes() for path in top.rglob("*.*") if path.is_file() and path.name != incident_room.NOTE}
        for top in (tmp_path / "other", tmp_path / "3")
    )
    assert here == there and len(here) > 6
    printed = subprocess.run([*command, "--seed", "3", "--answers"], capture_output=True, text=True, check=False).stdout
    assert tomllib.loads(printed) == solved(incident(3))


def test_no_two_seeds_are_the_same_run() -> None:
    """Not even those of a kind."""
    traces = [incident(seed).trace for seed in range(100, 120)]
    assert len({json.dumps([trace.settings, trace.seed], default=str, sort_keys=True) for trace in traces}) == len(traces)


GRADED = [
    # (seed, line of the report, answer, grade, words)
    (0, "cause", "replica_corrupted", HALF, "is it there?"),
    (0, "cause", "polls_too_late", WRONG, "no line of the logs shows it"),
    (0, "cause", "a comet", WRONG, "none of the list"),
    (3, "cause", "offset_expired", HALF, "the right part of the system"),
    (0, "began", "2026-02-14 14:02:05.900", RIGHT, "it began at"),
    (0, "began", "2026-02-14 14:02:05.300", HALF, "near; it began after that"),
    (0, "began", "2026-02-14 14:02:08.290", WRONG, "it began before that"),
    (0, "began", "at lunch", WRONG, "no moment"),
    (0, "evidence", "controller.log:23", RIGHT, "elected leader"),
    (0, "evidence", "logs/broker-2.log:20", HALF, "truncates"),
    (0, "evidence", "b.log:3", WRONG, "would stand there without the incident"),
    (0, "evidence", "broker-2.log:2", WRONG, "Writing the index"),
    (0, "evidence", "b.log:300", WRONG, "there is no line"),
    (0, "evidence", "../../etc/passwd:1", WRONG, "there is no line"),
    (0, "lost", 4, RIGHT, ""),
    (0, "duplicated", 30, HALF, "nearly"),
    (0, "duplicated", 10, WRONG, "there are more"),
    (0, "reordered", 2, WRONG, "there are none"),
    (0, "lost", 44, WRONG, "there are fewer"),
    (0, "lost", "four", WRONG, "expected a number"),
    (0, "lost", True, WRONG, "expected a number"),
    (0, "cause", 7, WRONG, "expected a text"),
    (0, "change", "min.insync.replicas=2", RIGHT, "nothing is lost"),
    (0, "change", "auto.offset.reset=latest", HALF, "some of the harm remains"),
    (0, "change", "enable.idempotence=true", WRONG, "knows no such setting"),
    (9, "change", "max.poll.records=5", WRONG, "as much harm is done"),
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


# The cause and its first line, in the order in which a reader of the logs alone would try them; the change that each asks for.
SIGNATURES = (
    ("old_offset_loaded", r"load ends early", "the coordinators of release 4.3.1"),
    ("offset_forgotten", r"The cleaner dies", "an alarm when the log cleaner stops"),
    ("unclean_election", r"is elected leader", "unclean.leader.election.enable=false"),
    ("polls_too_late", r"has not polled within max.poll.interval.ms", "max.poll.interval.ms=10000"),
    ("retry_overtaken", r"The answer to batch \d+ arrives: (?!stored)", "enable.idempotence=true"),
)
Said = tuple[str, str, str]  # moment, text, FILE:LINE


def told_by(folder: Path, pattern: str, until: str = "9") -> list[tuple[Said, re.Match[str]]]:
    """The lines of all logs in which this is said up to a moment, in the order of their moments."""
    rows = [
        (line[:23], line[30:], f"{path.name}:{number}")
        for path in sorted(folder.glob("logs/*")) for number, line in enumerate(path.read_text().splitlines(), 1)
    ]  # fmt: skip
    return sorted(((row, found) for row in rows if row[0] <= until and (found := re.search(pattern, row[1]))), key=lambda each: each[0][0])


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def records_told(folder: Path, until: str = "9") -> dict[str, int]:
    """How many records came into each partition up to a moment, by the logs."""
    came: dict[str, int] = {}
    arrived, written = r"arrives? in partition (\d+): offsets? (\d+)(?: to (\d+))?", r"\(records (\d+)-(\d+).*is written"
    for _, found in told_by(folder, rf"{arrived}|appends (\d+) records|{written}", until):
        partition, first, last, appended, low, high = found.groups()
        came[partition or "0"] = came.get(partition or "0", 0) + int(
            appended or (int(high) - int(low) + 1 if low else int(last or first) - int(first) + 1)
        )
    return came


def derived(folder: Path) -> dict[str, Any]:
    """A report by somebody who has this folder and nothing else."""
    cause, pattern, change = next(row for row in SIGNATURES if told_by(folder, row[1]))
    began, _, evidence = told_by(folder, pattern)[0][0]
    topic = {int(row["offset"]): int(row["record"]) for row in table(folder / "topic.csv")}
    seen = [
        (found[2], topic[int(found[1])] if cause == "unclean_election" and line[0] >= began else int(found[1]))
        for line, found in told_by(folder, r"processes offset (\d+) of partition (\d+)")
    ]
    committed = {row["topic_partition"].rpartition("-")[2]: row["committed_offset"] for row in table(folder / "metrics.csv")}
    seen = seen or [("0", record) for record in topic.values()]
    passed = {("0", record) for offset, record in topic.items() if offset < int(committed["0"] or 0)}
    new = [(at, each) for at, each in enumerate(seen) if each not in seen[:at]]
    late = [each for at, each in new if any(other[0] == each[0] and other > each for other in seen[:at])]
    gone = {
        (partition, record) for partition, count in records_told(folder).items() for record in range(count)
        if (record not in topic.values() if topic else record < int(committed[partition])) or (partition, record) in passed
    }  # fmt: skip
    counts = {"lost": len(gone - set(seen)), "duplicated": len(seen) - len(set(seen)), "reordered": len(late)}
    return {"cause": cause, "began": began, "evidence": evidence, **counts, "change": change}


def contradictions(folder: Path, cause: str) -> list[str]:
    """What a file of the folder says and another one does not."""
    wrong, rows = [], table(folder / "metrics.csv")
    cut = [int(found[1]) for _, found in told_by(folder, r"back to offset (\d+)")]
    elected, gone = (told_by(folder, pattern)[0][0][0] if cut else "9" for pattern in (SIGNATURES[2][1], "No replica is in"))
    before = records_told(folder, gone).get("0", 0)
    for row in rows:
        at, partition = row["time"], row["topic_partition"].rpartition("-")[2]
        came = records_told(folder, at).get(partition, 0)
        end = came if at < elected else cut[0] + came - before
        commits = [found[1] for _, found in told_by(folder, rf"commits offset (\d+) of partition {partition}$", at)]
        done = len(told_by(folder, rf"processes offset \d+ of partition {partition}$", at))
        told = [end, commits[-1] if commits else 0, came, done]
        has = [row["log_end_offset"], row["committed_offset"] or 0, row["records_in_total"], row["processed_total"]]
        wrong += [f"{row} and the logs {told}"] if list(map(int, told)) != list(map(int, has)) else []
        wrong += [f"lag in {row}"] if row["lag"] and int(row["lag"]) != int(row["log_end_offset"]) - int(row["committed_offset"]) else []
    lags = [int(row["lag"]) for row in rows if row["lag"] and int(row["records_in_total"])]
    wrong += ["the lag falls"] if cause == "polls_too_late" and lags != sorted(lags) else []
    killed, back = (told_by(folder, pattern)[0][0][0] if cut else "9" for pattern in ("Broker 2 is killed", "Broker 2 comes back"))
    down = [row for row, _ in told_by(folder, "") if row[2].startswith("broker-2") and killed < row[0] < back]
    return wrong + [f"{row} of a broker that is down" for row in down]


@pytest.mark.parametrize("seed", range(30))  # each cause, at each difficulty that is drawn for it
def test_truth_of_a_seed_follows_from_its_files_alone_and_no_file_contradicts_another(seed: int, tmp_path: Path) -> None:
    """Whoever reads logs, metrics and topic is right in every line of the report; metrics, logs, symptom and settings agree."""
    found = make(seed, tmp_path / "i")
    report = derived(tmp_path / "i")
    answers = grades(tmp_path / "i", **report)
    assert {grade for grade, _ in answers.values()} == {RIGHT}, (report, answers)
    assert contradictions(tmp_path / "i", found.kind.cause) == []
    shown = {"unclean_election": "lost", "retry_overtaken": "reordered"}
    assert report[shown.get(found.kind.cause, "duplicated")] > 0, "what people were told of is there"
    lines = sum(len(rows) for rows in found.lines.values())
    assert lines >= 150 and (found.difficulty != "hard" or lines >= 300)
    assert len(table(tmp_path / "i" / "metrics.csv")) > SAMPLES // 2
    moments = [[line[:23] for _, line in rows] for rows in found.lines.values()]
    assert all(rows == sorted(rows) for rows in moments)


@each_kind
def test_hints_come_one_at_a_time_and_are_counted(seed: int, room: Path, tmp_path: Path) -> None:
    """From the moment of the harm to the lines around the proof; the last one says where the proof is, within twenty lines."""
    make(seed, tmp_path / "i")
    told = [incident_room.hint(tmp_path / "i") for _ in range(4)]
    assert told[2] == told[3] and len(set(told)) == 3 and check(tmp_path / "i")[1] == 3 and check(room / str(seed))[1] == 0
    found = re.search(r"lines (\d+) to (\d+) of logs/(\S+)\.$", told[2])
    assert found is not None
    name, _, number = solved(incident(seed))["evidence"].partition(":")
    assert found[3] == name and int(found[1]) <= int(number) <= int(found[2])


def test_folder_is_written_whole_or_not_at_all(room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is never overwritten; a folder that cannot be made, or not to its end, is told in a sentence and leaves nothing."""
    with pytest.raises(KitError, match="is there already, perhaps with a report in it"):
        make(0, room / "0")
    (tmp_path / "file").write_text("")
    with pytest.raises(KitError, match="could not be written"):
        make(0, tmp_path / "file" / "0")
    text, broken = Path.write_text, {"topic.csv": OSError(28, "No space left on device"), "README.md": KeyboardInterrupt()}
    for name, error in broken.items():

        def breaks(path: Path, *given: Any, name: str = name, error: BaseException = error, **kinds: Any) -> int:
            if path.name == name:
                raise error
            return text(path, *given, **kinds)

        monkeypatch.setattr(Path, "write_text", breaks)
        with pytest.raises((KitError, KeyboardInterrupt)):
            make(0, tmp_path / "new")
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
