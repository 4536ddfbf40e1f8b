"""The way through the exercises: tries, half-right answers, hints, solutions, explanations, and how each is shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kitlib.exercises import check, exercises, explain, hint, solution
from kitlib.exercises.course import TRIES, Solution, number_of
from kitlib.exercises.frame import Finding, mark_of
from kitlib.exercises.prose import answers, questions, to_explain
from kitlib.lab import notebooks, progress
from kitlib.lab.progress import Progress
from tests.conftest import REPOSITORY

NAME = "what_is_committed"
HINTS = exercises()[NAME].told.hints


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_tries_different_wrong_answers_open_the_solution() -> None:
    """The same answer again, an answer of another shape and an empty one are no tries; until then a sentence counts them."""
    for answer in (9, 9, "9", None, ...):
        assert not check(NAME, answer).passed
    assert progress.load()[NAME].tries == 1
    assert solution(NAME) == f"The solution of {NAME} is shown after a right answer or 3 different tries; 2 tries are left."
    check(NAME, 8)
    assert str(solution(NAME)).endswith("1 try is left.")
    assert "is open now" in repr(check(NAME, 7))
    shown = solution(NAME)
    assert isinstance(shown, Solution) and shown.code == "3" and answers()[NAME].text in repr(shown)
    assert progress.load()[NAME] == Progress(False, TRIES, 0, True, progress.load()[NAME].marks)


def test_right_answer_opens_the_solution_and_stays_right() -> None:
    """A wrong answer after it takes nothing away, and is no try."""
    assert f'solution("{NAME}")' in repr(check(NAME, 3))
    check(NAME, 9)
    assert progress.load() == {NAME: Progress(passed=True)}
    assert isinstance(solution(NAME), Solution)


def test_progress_that_cannot_be_kept_costs_no_finding(home: Path) -> None:
    """The check's sentence is told, and that the progress is not kept; hints and solutions speak on."""
    home.write_text("not a folder")
    finding = check(NAME, 3)
    assert finding.passed and "could not be kept" in finding.beside
    assert hint(NAME) == f"Hint 1 of 2: {HINTS[0]}" and "3 tries are left" in str(solution(NAME))


def test_hints_follow_one_another() -> None:
    """Without a number the next one comes; a number is remembered; after the last one all of them, and what is left to do."""
    assert hint(NAME) == f"Hint 1 of 2: {HINTS[0]}"
    assert hint(NAME) == f"Hint 2 of 2: {HINTS[1]}"
    last = hint(NAME)
    assert all(each in last for each in HINTS) and "3 tries are left" in last
    assert hint("cheap_restart", 2) == exercises()["cheap_restart"].told.hints[1]
    assert hint("cheap_restart").startswith("Hint 3 of 3")


@pytest.mark.parametrize("ask", [hint, solution, explain])
def test_name_that_does_not_exist_is_a_sentence_with_the_nearest(ask: object) -> None:
    """No traceback and no quotes, and the name that was meant."""
    name = "promise_of_a_comit" if ask is explain else "what_is_comitted"
    told = ask(name)  # type: ignore[operator]
    assert repr(told).startswith(f"There is no exercise '{name}'. Did you mean '{name.replace('comit', 'commit')}'?")


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("which_clock", ["poll", "nobody", "session", "poll"], "3 of 4 are right; the first that is not: situation 4, the process"),
        ("name_the_anomalies", {"duplicated"}, "what you name does occur"),
        ("cheap_restart", {"max_offset_behind": 5}, "which is few enough, but 1 will never be processed"),
        ("commit_goes_back", "next, ack 0, commit, fail 0, next, next", "right so far, but one call is missing"),
        ("what_each_sees", [15, 8, 9], "2 of 3 are right; the first that is not: number 3 is not 9"),
        ("safe_follower", {"replicas": 3, "min_insync_replicas": 3}, "nothing is lost, but 10 records are refused"),
    ],
)
def test_half_right_answer_is_told_as_such(name: str, answer: object, says: str) -> None:
    """What is right is said before what is not, and the exercise is not passed."""
    finding = check(name, answer)
    assert finding.half and not finding.passed and repr(finding).startswith("Half right: ") and says in finding.said
    assert not progress.load()[name].passed


def test_hint_beside_a_finding_differs_by_what_is_wrong() -> None:
    """Two situations that are wrong for different reasons point to different places."""
    right = ["poll", "nobody", "session", "session"]
    looks = [check("which_clock", [*right[:at], "poll" if at else "session", *right[at + 1 :]]).look for at in range(4)]
    assert len(set(looks)) == 4


@pytest.mark.parametrize(
    ("finding", "sign"),
    [
        (Finding("x", True, "a"), "\u2713 Right:"),
        (Finding("x", False, "a", half=True), "\u00bd Half right:"),
        (Finding("x", False, "a"), "\u2717 Not yet:"),
    ],
)
def test_finding_in_a_notebook_has_a_sign_a_word_and_a_colour(finding: Finding, sign: str) -> None:
    """Colour is never alone."""
    assert sign in finding._repr_html_() and re.search(r"border-left: 6px solid #[0-9A-F]{6}", finding._repr_html_())


def test_what_an_answer_holds_is_shown_as_text() -> None:
    """Markup in an answer is escaped in the box, whatever part of the sentence it came to."""
    for told in (check(NAME, "<img src=x onerror=alert(1)>"), check("<script>", 1), hint("<b>x</b>"), explain("<i>", "<i>")):
        page = told._repr_html_()
        assert not re.search(r"<(img|script|i)\b|<b>x", page) and "&lt;" in page


def test_mark_of_code_is_that_of_its_code() -> None:
    """Two functions with one body share a mark, in whichever kernel; another body has another; nothing of it is run."""

    def marked(value: int, file: str = "/tmp/ipykernel_1/1.py") -> str:
        space: dict[str, object] = {}
        source = f"def answer(given):\n    return [given + {value} for _ in given]\nclass Answer:\n    def ack(self): return {value}"
        exec(compile(source, file, "exec"), space)  # noqa: S102 - as a cell does
        return mark_of(space["answer"]) + mark_of(space["Answer"])

    assert marked(1) == marked(1) == marked(1, "/tmp/ipykernel_2/1.py") != marked(2)


def test_every_exercise_has_a_discussion_and_a_right_answer(tmp_path: Path) -> None:
    """The right answer that a learner reads is what the tests check; as a cell of its own it runs, and neither ruff nor mypy complains."""
    assert sorted(answers().keys() - to_explain().keys()) == sorted(exercises())
    assert all(len(each.text) > 60 for each in answers().values())
    for name in exercises():
        code = answers()[name].code
        assert answers()[name].solution is not None
        (tmp_path / f"{name}.py").write_text(f"{code}\n" if "\n" in code else f"answer = {code}\n")
    for tool in (["ruff", "check", "--config", "pyproject.toml"], ["mypy"]):
        command = [Path(sys.executable).parent / tool[0], *tool[1:], *tmp_path.glob("*.py")]
        found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout + found.stderr


def test_explanation_is_shown_when_there_is_one_to_compare_it_with() -> None:
    """A few words are not enough; then the model answer comes, and is kept open."""
    assert explain("promise_of_a_commit").startswith("There is no text here.")
    assert explain("promise_of_a_commit", "no idea").startswith("Yours has 2 words.")
    assert solution("promise_of_a_commit").startswith("Write your own first")
    answer = answers()["promise_of_a_commit"].text
    assert answer in explain("promise_of_a_commit", "everything below it is done and what is above may be done too")
    assert answer in solution("promise_of_a_commit") and progress.load()["promise_of_a_commit"].passed


@pytest.mark.parametrize("path", notebooks.shipped_in(REPOSITORY), ids=lambda path: path.stem)
def test_a_notebook_asks_what_has_an_answer_and_nothing_else(path: Path) -> None:
    """Each cell that checks or explains has an answer beside its notebook, and stands below its question."""
    number = number_of(path.stem)
    asked = questions(number)
    assert set(asked) == {each.name for each in answers().values() if each.notebook == number}
    assert not set(to_explain()) & set(exercises())
    for name, question in asked.items():
        assert len(question) > 40 and not question.startswith("#")
        assert "**Explain" in question or name not in to_explain()
