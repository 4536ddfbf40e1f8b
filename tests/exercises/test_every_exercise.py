"""What holds for every exercise of every notebook: its solution passes, its stub and its wrong answers do not."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import KitError
from kitlib.exercises import check, exercises, hint, nb_03, nb_06, nb_08, nb_09, nb_15
from kitlib.exercises.answers import a_function
from kitlib.exercises.frame import Each, Exercise, Given, exercise
from kitlib.experiments.cluster_audit.broken_cluster import FAULTS
from kitlib.monitor.delivery import ANOMALIES
from tests.exercises.steps import is_full
from tests.exercises.test_checks_02_03 import SKIPPED
from tests.exercises.test_checks_09 import TIMES

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
TABLES = [import_module(f"{__package__}.{path.stem}") for path in sorted(Path(__file__).parent.glob("test_checks_*.py"))]
SOLUTIONS = [row for table in TABLES for row in table.SOLUTIONS]
WRONG = [row for table in TABLES for row in table.WRONG]
ALL = list(exercises().values())
KINDS_OWN = {"right", "wrong", "more", "often"}  # what a kind of answer says, and wrong answers for a workshop's leader
NONSENSE = [None, ..., b"\x1b[31m", -1, {}]
OTHERWISE = ("the kit's own", "your class has no ", "your code raised ")  # what else a sentence may say of code: it has no answer then
SOONER = {"dead bootstrap": 1_000, "missing topic": 1_000, "wrong advertised address": 2_500, "buffer full": 2_500}
# What stands in a question and is changed -> the exercise, what is right then, and what was right before.
MOVED: list[tuple[str, dict[str, Any], str, Any, Any]] = [
    ("00", {"STUCK": {"stuck_offset": 0}}, "name_the_anomalies", {"lost", "reordered", "skipped"}, {"duplicated", "reordered"}),
    ("01", {"LIMIT": 5}, "forgotten_too_much", range(32, 37), range(29, 37)),
    ("01", {"ACKED": (1, 2)}, "what_is_committed", 0, 3),
    ("02", {"FETCH": 100}, "smallest_bound", 100, 250),
    ("03", {"LOG_END": nb_03.STORED + 200_000}, "silent_jump", 200_000, SKIPPED),
    ("03", {"BUG_BOUND": 35}, "second_bug", [38], [30]),
    ("04", {"YEARS": 1}, "bits_for_ten_years", 39, 42),
    ("04", {"EMITTED_S": 61}, "when_it_fails", 100, 80),
    ("05", {"EXECUTE_MS": 200}, "largest_pending", 150, 300),
    ("06", {"CRASH_BATCH": 1}, "doubled_words", 27, 29),
    ("06", {"TREES": nb_06.TREES | {"A": [("init", 5), ("fail", None), ("ack", 5)]}}, "sum_differs", {"A", "B", "D"}, {"B", "D"}),
    ("07", {"BATCHES": (3, 1, 4)}, "sixth_batch", 0, 6),
    ("08", {"RETRIED": nb_08.RETRIED | {"max_in_flight": 2}}, "order_in_log", [0, 2, 1, 3, 4, 5], [0, 2, 3, 1, 4, 5]),
    ("08", {"AT_ONCE": 7}, "enough_memory", 7, 10),
    ("08", {"DELAY_MS": 10}, "in_flight_needed", 3, 6),
    ("09", {"FAULTED": nb_09.FAULTED | {"max_block_ms": 1_000, "delivery_timeout_ms": 2_500}}, "told_after", SOONER, TIMES),
    ("09", {"LINE": nb_09.LINE | {"round_trip_ms": 10}}, "batch_of_a_round_trip", 20, 60),
    ("15", {"SEEN": nb_15.SEEN | {"abort_every": 2}}, "what_each_sees", [15, 6, 10], [15, 8, 10]),
    ("15", {"ZOMBIES": tuple(reversed(nb_15.ZOMBIES))}, "four_zombies", [3, 0, 3, 0], [0, 3, 0, 3]),
]
# Of each notebook, what its learners should find.
TO_FIND = {"03": (f"{SKIPPED:,}", str(SKIPPED)), "04": ("42", "second 80"), "05": ("ack_twice", " 300 "), "06": ("29",)}


def name_of(value: Any) -> str:
    """The same in every process: a set in order, an object without its address."""
    text = str(sorted(value)) if isinstance(value, set) else getattr(value, "__name__", str(value))
    return text.partition(" at 0x")[0][:40]


@pytest.mark.parametrize(("name", "answer", "says"), SOLUTIONS, ids=name_of)
def test_check_solution_passes(name: str, answer: Any, says: str) -> None:
    """A right answer, the declared one (`...`) among them, is told to be right, with the reason."""
    finding = check(name, exercises()[name].told.solution if answer is ... else answer)
    assert finding.passed and not finding.look and not finding.picture, finding
    assert repr(finding).startswith("Right: ")
    assert says in finding.said


@pytest.mark.parametrize(("name", "answer", "says"), WRONG, ids=name_of)
def test_check_wrong_answer_fails_with_a_sentence_of_its_own(name: str, answer: Any, says: str) -> None:
    """A plausible wrong answer is told what is wrong with it, and whether a part of it is right."""
    finding = check(name, answer)
    assert not finding.passed
    assert repr(finding).startswith("Half right: " if finding.half else "Not yet: ")
    assert says in repr(finding), finding
    assert "Traceback" not in repr(finding) and "\n" not in repr(finding)
    if callable(answer):
        assert is_full(finding.said) or any(words in finding.said for words in OTHERWISE), finding


@pytest.mark.parametrize("exercise", ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("answer", NONSENSE, ids=name_of)
def test_check_stub_or_nonsense_fails(exercise: Exercise, answer: Any) -> None:
    """No exercise accepts an answer that nobody has worked on."""
    finding = check(exercise.name, answer)
    assert not finding.passed
    assert "\x1b" not in repr(finding)


@pytest.mark.parametrize("exercise", ALL, ids=lambda each: each.name)
def test_exercise_has_a_solution_wrong_answers_and_hints(exercise: Exercise) -> None:
    """Each exercise is in both tables, its declared solution too, and its hints can be asked for."""
    assert any(name == exercise.name and answer is ... for name, answer, _ in SOLUTIONS)
    assert sum(name == exercise.name for name, _, _ in WRONG) >= 2
    assert [hint(exercise.name, number) for number in range(1, len(exercise.told.hints) + 1)] == list(exercise.told.hints)
    assert len(exercise.told.hints) >= 2


@pytest.mark.parametrize("module", sorted({each.rule.__module__ for each in ALL}))
def test_every_sentence_is_said_by_a_check_and_every_miss_has_one(module: str) -> None:
    """What stands under a name in `notebooks/answers` is what a check of that notebook says; the kinds' own names are in `KINDS_OWN`."""
    source = inspect.getsource(sys.modules[module])
    asked = [each for each in ALL if each.rule.__module__ == module]
    told = {name for each in asked for name in {**each.told.says, **each.told.looks}}
    misses = set(re.findall(r'(?:Miss|Half)\)?\("([^"]+)"', source))
    assert misses <= told and all("right" in each.told.says for each in asked)
    places = {str(place) for each in asked if isinstance(each.kind, Each) for place in range(1, len(each.kind.situations) + 1)}
    named = {name for each in asked if isinstance(each.kind, Each) for name in each.kind.situations}
    assert [name for name in told - misses - KINDS_OWN - places - named - {*ANOMALIES, *FAULTS} if f'"{name}"' not in source] == []


@pytest.mark.parametrize(("notebook", "changed", "name", "right", "before"), MOVED, ids=name_of)
def test_truth_moves_with_the_question(
    notebook: str, changed: dict[str, Any], name: str, right: Any, before: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer is typed in: with other numbers in the question, another answer is the right one."""
    assert check(name, before).passed
    for constant, value in changed.items():
        monkeypatch.setattr(f"kitlib.exercises.nb_{notebook}.{constant}", value)
    assert check(name, right).passed and not check(name, before).passed


@pytest.mark.parametrize("notebook", TO_FIND)
def test_no_question_or_hint_tells_the_answer(notebook: str) -> None:
    """What a learner should find is not printed in the question or in a hint."""
    texts = [text for each in ALL if each.told.notebook.startswith(notebook) for text in (each.told.question, *each.told.hints)]
    assert texts and not any(answer in text for text in texts for answer in TO_FIND[notebook])


def test_second_exercise_of_a_name_is_refused() -> None:
    """A name is one exercise's in the whole kit: the declaration of another one says where it is."""

    def mend_the_crash(given: Any) -> Any: ...

    with pytest.raises(KitError, match=f"two exercises are called mend_the_crash. Rename the one in {__name__}"):
        exercise(Given(a_function))(mend_the_crash)
    assert exercises()["mend_the_crash"].told.notebook == "00"
