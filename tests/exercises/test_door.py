"""One door for a learner's code: right answers repeat every recorded step, planted slips are told in full and become a few calls."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.exercises import check, door
from kitlib.exercises.answers import HalfRight, NotYet
from kitlib.exercises.door import RAISED, Recording, Script, ddmin, first_difference, operations, played, tell
from kitlib.exercises.frame import Exercise, Finding, Function, Unlike
from kitlib.exercises.your_acker import ACKER
from kitlib.exercises.your_log import CHECK, STATE
from kitlib.exercises.your_sender import SENDER
from kitlib.exercises.your_spout import MANAGER, SPOUT
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.views import show
from tests.exercises import planted, solutions
from tests.exercises.steps import MOST_STEPS, is_full, judged_here, shrunk

STEPS = {ACKER.name: 11_555, CHECK.name: 9_630, STATE.name: 9_630, SENDER.name: 9_267, SPOUT.name: 16_114, MANAGER.name: 16_086}
RECORDINGS = [ACKER, CHECK, STATE, SENDER, SPOUT, MANAGER]
RIGHT: list[tuple[Recording, Any]] = [(each, each.right) for each in RECORDINGS] + [(ACKER, each) for each in planted.ACKERS]


def name_of(value: Any) -> str:
    return getattr(value, "name", "").rpartition(":")[2] or getattr(value, "__name__", "")


def named(recording: Recording) -> Sequence[Script]:
    """The scripts that were written by hand, which are the shorter ones."""
    return [script for script in recording.scripts() if not script["name"].startswith(("pm-rnd", "acker-rnd", "public_"))]


@pytest.mark.parametrize(("recording", "make"), [*RIGHT, (SPOUT, PartitionManager)], ids=name_of)
def test_a_right_answer_repeats_every_recorded_step(recording: Recording, make: Any) -> None:
    """Whatever its form, an answer that does as the original passes; so does the one beside which others are made smaller."""
    assert sum(len(script["steps"]) for script in recording.scripts()) == STEPS[recording.name]
    assert judged_here(recording, make) is None


@pytest.mark.parametrize(("name", "make", "says"), planted.SLIPS, ids=name_of)
def test_a_planted_slip_is_told_in_full_and_becomes_a_few_calls(name: str, make: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has script, step, call, what should be and what is; of the calls none can be left out, and the last one shows it."""
    monkeypatch.setattr(door, "SECONDS", 60)
    [recording] = [each for each in RECORDINGS if each.exercise == name]
    found = judged_here(recording, make, named(recording)) or judged_here(recording, make)
    assert found
    said, look, asked = found
    assert said.startswith("The first that does not: script '") and look
    assert is_full(said) or asked["kind"] == RAISED
    assert says in said
    script, history = shrunk(recording, make, asked)
    assert 0 < len(history) <= MOST_STEPS
    assert [step.what for step in history] == ["call"] * (len(history) - 1) + ["part"]
    for step in history:
        assert any(wanted != got for _, wanted, got in step.state["rows"]) is (step.what == "part")
    shorter = [{**script, "steps": script["steps"][:at] + script["steps"][at + 1 :]} for at in range(len(script["steps"]))]
    for each in shorter if len(shorter) > 1 else ():
        answer = next(iter(door.shrink(make, {**asked, "scripts": [each]})))
        assert len(answer["script"]["steps"]) == len(each["steps"])


def test_the_picture_is_a_table_of_both_sides_and_the_player_opens_where_they_part() -> None:
    """A finding has the calls in its sentence, a table with a frame around what differs, and a player at the last call."""
    finding = check("own_acker", solutions.slip("own_acker", *planted.ENDS_WITHOUT_SPOUT))
    assert "recorded steps agree. The shortest run that differs: fail(1): tree 1 should now be value 0x0000000000000000" in finding.said
    assert finding.player.step == len(finding.history or ()) - 1
    assert "Storm 0.9.3" in finding.picture.svg and finding.picture.svg.count("#D55E00") > 1
    assert finding.history and show(finding.history, at=0).sentence.startswith("After step 0")


def test_what_is_slow_and_right_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that answers rightly still when its time is over is right, and slow; code that never ends is told where it was."""

    class Scans(solutions.OwnAcker):
        def ack(self, root: int, val: int) -> Any:
            sum(range(200_000))
            return super().ack(root, val)

    class NeverEnds(solutions.OwnAcker):
        def ack(self, root: int, val: int) -> Any:
            while True:
                pass

    monkeypatch.setattr(door.sandbox, "DEADLINE_S", 4.0)
    found = first_difference(ACKER, Scans)
    assert isinstance(found, HalfRight) and found.said.startswith("right, and slow: the first ") and "of 11,555 recorded" in found.said
    with pytest.raises(NotYet, match=r"your code did not finish in 4 s, at step 1 of script 'one_tuple'"):
        first_difference(ACKER, NeverEnds)


def test_a_right_function_that_is_too_slow_for_all_cases_is_told_how_many_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers still when its time is over: that is no loop, and what it answered is judged."""

    def slow(entry: Any, epoch: int) -> bool:
        threading.Event().wait(0.7)
        return True

    monkeypatch.setattr(door.sandbox, "DEADLINE_S", 3.0)
    kind = Function(lambda: [(None, number) for number in range(9)])
    asked = Exercise("committable", kind, lambda got, *case: iter([got is not True and Unlike(True)]))
    found = next(row for row in kind.rows(slow, asked) if row)
    assert isinstance(found, HalfRight) and re.match(r"right, and slow: the first [1-4] of 9 cases are right, and then 3 s", found.said)


@pytest.mark.parametrize("recording", RECORDINGS, ids=name_of)
def test_operations_hold_nothing_that_the_original_did(recording: Recording) -> None:
    """The learner's process gets names, settings, operations and arguments, and none of the answers to be repeated."""
    for script in map(operations, recording.scripts()):
        assert all(step.keys() == {"op", "args"} for step in script["steps"])


@given(st.lists(st.integers(0, 9), max_size=30), st.sets(st.integers(0, 9), min_size=1, max_size=3))
def test_nothing_can_be_left_out_of_what_is_left(values: list[int], needed: set[int]) -> None:
    """Of steps of which some are needed together, these are left, each once, and nothing else."""

    def differs(script: Script) -> int | None:
        seen: set[int] = set()
        for at, step in enumerate(script["steps"]):
            seen.add(step)
            if needed <= seen:
                return at
        return None

    left = ddmin({"steps": values}, differs)["steps"]
    assert sorted(left) == sorted(needed) if needed <= set(values) else left == values


def test_finding_without_a_history_says_so() -> None:
    """Where there is nothing to play there is a sentence, and in a terminal the calls stand in the finding's own."""
    assert Finding("own", True, "").player == "There is nothing to play: the answer is right."
    assert Finding("own", False, "").player == "There is no history to play for this answer."


def test_hostile_words_stay_text() -> None:
    """A stream's name that is markup, or turns the reading direction, is shown as text."""

    class Hostile(solutions.OwnAcker):
        def init(self, root: int, val: int, spout_task: int) -> Any:
            return spout_task, "</text><script>alert(1)</script>\u202e", root

    finding = check("own_acker", Hostile)
    assert "\u202e" not in finding.said + finding.picture.svg and "<script>" not in finding.picture.svg
    assert tell([1, 2, 3, 7]) == "{1..3, 7}" and tell({"a": []}) == "a nothing"
    assert played(ACKER, Hostile, operations(named(ACKER)[0]))
