"""The shortest history: nothing in it can be left out, its numbers are small, and what it says comes from both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.exercises import check, shrinking, solutions
from kitlib.exercises.frame import Finding
from kitlib.exercises.recorded import Recording, history_of
from kitlib.exercises.recorded_acker import ACKER
from kitlib.exercises.recorded_producer import CHECK, STATE
from kitlib.exercises.recorded_sender import SENDER
from kitlib.exercises.recorded_spout import MANAGER, SPOUT
from kitlib.exercises.shrinking import ddmin, played, shrink
from kitlib.views import show
from kitlib.views.scenes.difference import draw, rows_of
from tests.exercises import test_checks_04_05 as of_05
from tests.exercises import test_checks_07_08 as of_08
from tests.exercises import test_recorded_acker as of_acker
from tests.exercises import test_recorded_manager as of_manager
from tests.exercises import test_recorded_sender as of_sender
from tests.exercises.steps import MOST_STEPS, histories_in


@given(st.lists(st.integers(0, 9), max_size=30), st.sets(st.integers(0, 9), min_size=1, max_size=3))
def test_nothing_can_be_left_out_of_what_is_left(values: list[int], needed: set[int]) -> None:
    """Of steps of which some are needed together, these are left, each once, and nothing else."""

    def differs(steps: list[dict[str, Any]]) -> int | None:
        seen: set[int] = set()
        for at, step in enumerate(steps):
            seen.add(step["value"])
            if needed <= seen:
                return at
        return None

    steps = [{"value": value} for value in values]
    left = [step["value"] for step in ddmin(steps, differs)]
    assert sorted(left) == sorted(needed) if needed <= set(values) else left == values


@pytest.mark.parametrize(
    ("recording", "make"),
    [
        (ACKER, of_05.EndsWithoutSpout), (ACKER, of_05.TaskZeroIsNone), (ACKER, of_acker.DropsAtEachTick), (STATE, of_08.OneForAll),
        (STATE, of_08.NeverForgets), (STATE, of_08.RemembersSix), (CHECK, of_08.forgets_the_epoch),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_recorded_difference_becomes_a_few_calls(recording: Recording, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few calls of a recorded history are left, the last one shows the difference, and none can be left out."""
    monkeypatch.setattr(shrinking, "SECONDS", 60)
    [answer] = shrink(make, {"recording": recording.name, "kits": [], "histories": histories_in(recording, make, recording.scripts())})
    steps, got = answer["steps"], answer["got"]
    assert 0 < len(steps) <= MOST_STEPS

    def differing(steps: list[dict[str, Any]]) -> list[bool]:
        both = zip(played(recording.driver, recording.right, steps), played(recording.driver, make, steps), strict=False)
        return [bool(recording.differ(*pair)) for pair in both]

    assert differing(steps) == [False] * (len(steps) - 1) + [True] and got == played(recording.driver, make, steps)
    assert not any(any(differing(steps[:at] + steps[at + 1 :])) for at in range(len(steps)))


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("own_acker", of_05.EndsWithoutSpout, "In short: fail(1): tree 1 should still be in the ledger; yours does not have it."),
        ("own_broker_state", of_08.OneForAll, "append(1, 0, 0, 1, 0); append(2, 0, 0, 1, 1): it should return 1; yours returns 0."),
    ],
)
def test_a_finding_ends_with_the_shortest_history(name: str, answer: Any, says: str) -> None:
    """The calls are in the sentence, with small numbers, and what was expected stands beside what came."""
    assert check(name, answer).said.endswith(says)


@pytest.mark.parametrize(
    ("recording", "right"), [(ACKER, solutions.OwnAcker), (STATE, solutions.BrokerState), (CHECK, solutions.check_sequence)],
    ids=["acker", "state", "check"],
)  # fmt: skip
def test_the_answer_beside_which_it_is_made_smaller_is_the_exercises_own(recording: Recording, right: Callable[..., Any]) -> None:
    """One source: what tests, learners and the shortest history are shown is one solution."""
    assert recording.right is right


@pytest.mark.parametrize(
    ("recording", "make"),
    [(ACKER, of_05.TaskZeroIsNone), (STATE, of_08.OneForAll), (SENDER, of_sender.ToTheFront), (MANAGER, of_manager.CommitsWhatIsEmitted)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_player_opens_at_the_call_at_which_they_part(recording: Recording, make: Any) -> None:
    """Every call is a step with both sides after it; the last one, where the player opens, has the frame of what differs."""
    histories = histories_in(recording, make, recording.scripts())
    [answer] = shrink(make, {"recording": recording.name, "kits": [], "histories": histories})
    right = played(recording.driver, recording.right, answer["steps"])
    said = recording.differ(right[-1], answer["got"][-1])
    calls = [recording.call(step) for step in answer["steps"]]
    history = history_of(recording, calls, right, answer["got"], said)
    assert [step.what for step in history] == ["call"] * (len(calls) - 1) + ["part"]
    for step in history:
        assert any(wanted != got for _, wanted, got in step.state["rows"]) is (step.what == "part")
    finding = Finding("own", False, said, history=history)
    assert finding.player.step == len(calls) - 1 and said in finding.player.sentence
    assert show(history).svg.count("#D55E00") > 1 and show(history, at=0).sentence.startswith("After step 0")


def test_finding_without_a_history_says_so() -> None:
    """Where there is nothing to play there is a sentence, and in a terminal the calls stand in the finding's own."""
    assert Finding("own", True, "").player == "There is nothing to play: the answer is right."
    assert Finding("own", False, "").player == "There is no history to play for this answer."


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["epoch", "told", "requests", "queues", "state", "result", "emits", "ledger", "x"]), inner), max_leaves=8))
def test_whatever_a_process_sends_becomes_rows_of_text(answer: Any) -> None:
    """The learner's process may send anything: each recording words it, and the scene draws it."""
    for recording in (ACKER, STATE, CHECK, SENDER, SPOUT, MANAGER):
        rows = recording.rows(answer)
        assert all(isinstance(part, str) for row in rows.items() for part in row)
        draw(["a", "b"], rows_of({"rows": [[name, told, "<b>"] for name, told in rows.items()]}))
