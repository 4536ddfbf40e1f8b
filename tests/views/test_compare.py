"""Two runs compared: where they part, what is said of it, and what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import get, run
from kitlib.trace import Trace
from kitlib.views import Player
from kitlib.views.browser.compared import Compared, compare
from kitlib.views.browser.outcome import parting

SMALL = "small_max_offset_behind"


@pytest.fixture
def close() -> Iterator[list[Any]]:
    """Widgets that a test has opened."""
    opened: list[Any] = []
    yield opened
    for each in opened:
        each.close()


def changed(trace: Trace, number: int, **fields: Any) -> Trace:
    """A copy of a trace with one step's fields replaced."""
    copy = Trace(trace.run, trace.experiment, trace.backend, trace.seed, trace.settings, domain=trace.domain)
    for step in trace:
        own = fields if step.number == number else {}
        copy.append(
            own.get("at_ms", step.at_ms), own.get("actor", step.actor), own.get("what", step.what),
            deepcopy(step.data) | own.get("data", {}), deepcopy(step.state) | own.get("state", {}),
        )  # fmt: skip
    return copy


@pytest.mark.parametrize(
    ("fields", "differs", "field", "told"),
    [
        ({"actor": "bolt"}, "actor", "", "In A it is spout, in B bolt: "),
        ({"data": {"offset": 99}}, "data", "offset", "In A, at 29 ms: Offset 7 is acked. In B, at 29 ms: Offset 99 is acked."),
        ({"state": {"retries": 5}}, "state", "retries", "but the state after it differs: retries is 0 in A, 5 in B."),
        ({"state": {"more": None}}, "state", "more", "but the state after it differs: more is None in A, None in B."),
        ({"at_ms": 30}, "time", "", "Both runs do the same, at other times. Step 11 is the first: A at 29 ms, B at 30 ms (Offset 7"),
    ],
)
def test_one_changed_field_is_where_two_runs_part(fields: dict[str, Any], differs: str, field: str, told: str) -> None:
    """Actor, data, state or time: the step is found, and the sentence says what differs there."""
    trace = run(SMALL, max_offset_behind=20)
    assert trace.at(11).what == "ack"
    other = changed(trace, 11, **fields) if fields != {"at_ms": 30} else later(trace, 11)
    found = parting(trace, other)
    assert found and (found.number, found.differs, found.field) == (11, differs, field)
    compared = Compared(trace, other)
    compared.close()
    assert told in compared.sentence


def later(trace: Trace, number: int) -> Trace:
    copy = Trace(trace.run, trace.experiment, domain=trace.domain)
    for step in trace:
        copy.append(step.at_ms + (step.number >= number), step.actor, step.what, step.data, step.state)
    return copy


def test_a_run_that_ends_earlier_parts_where_it_is_over() -> None:
    """The sentence says what the other one does there."""
    trace = run("happy_path")
    compared = Compared(replace(trace, steps=trace.steps[:101]), trace)
    compared.close()
    assert compared.sentence == f"The runs part at step 101. A is over; in B, at {trace.at(101).at_ms} ms: {trace.sentence(trace.at(101))}"


def test_a_fork_parts_behind_its_fork(close: list[Any]) -> None:
    """Its past is the base's, step by step; the change is told as the knob's two values."""
    base = run(SMALL)
    fork = get(SMALL).fork(base, 40, max_offset_behind=100)
    found = compare(base, fork)
    close.append(found)
    assert found.parting and found.parting.number > 40
    assert found.labels == ("A: the run without the fork, max_offset_behind=5", "B: the fork at step 40, max_offset_behind=100")
    assert found.changes[0] == "46 lost → 0 lost"


def test_two_bounds_part_where_an_ack_clears_what_is_too_far_behind(close: list[Any]) -> None:
    """A sentence for a learner, and what became of it in the end."""
    found = compare(run(SMALL), run(SMALL, max_offset_behind=10))
    close.append(found)
    assert found.sentence == (
        "The runs part at step 11. In A, at 29 ms: That ack clears offsets 0 to 1 from pending: too far behind, "
        "so the spout stops waiting. In B, at 29 ms: Offset 7 is acked."
    )
    assert [player.step for player in found.players] == [11, 11]
    assert repr(found).endswith("2 lost; 9 reordered → 31 reordered; 2 stalled → 1 stalled; last record done after 696 ms → 911 ms")


def test_both_pictures_are_in_the_still_one_at_the_parting_step(close: list[Any]) -> None:
    """Where there are no widgets an SVG shows both runs after that step, and text says it."""
    found = compare(run(SMALL), run(SMALL, max_offset_behind=10))
    close.append(found)
    data, _ = found._repr_mimebundle_()
    assert data["text/plain"] == repr(found)
    assert data["image/svg+xml"].count("after step 11 of") == 2
    assert "B: max_offset_behind=10" in data["image/svg+xml"]


def test_players_can_be_compared_and_other_things_cannot(close: list[Any]) -> None:
    """A player stands for its run; what is no run, has no steps or is told in other words is refused in a sentence."""
    player = Player("happy_path")
    close += [player, compare(player, run("happy_path", seed=2))]
    with pytest.raises(TraceError, match="compare: B is 'no run', expected a trace or a player"):
        compare(player, "no run")  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=r"compare: the trace of A \(mine\) has no steps"):
        compare(Trace("mine", "mine"), player)
    with pytest.raises(TraceError, match=r"told in different words, idempotence \(answers_lost\) and spout \(happy_path\)"):
        compare(run("answers_lost"), player)
