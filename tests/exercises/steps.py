"""Drivers for the sandbox's own tests, which call the learner's `do`, and recordings that are played without a sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kitlib.exercises.recorded import FEWEST, FirstDifference, Recording, Script, difference_in
from kitlib.exercises.sandbox import Outcome, Raised
from kitlib.exercises.shrinking import played

MOST_STEPS = 9  # no counterexample is longer


def each_step(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """What `make().do(step)` returns for each step."""
    made = make()
    for step in script["steps"]:
        yield made.do(step)


def first_step_only(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """A driver that does not do what it should."""
    yield make().do(script["steps"][0])


def judged_here(recording: Recording, make: Any, scripts: Sequence[Script] = ()) -> FirstDifference | None:
    """As `first_difference`, without a process of its own."""
    played = scripts or recording.scripts()
    answers: list[list[Any]] = [[] for _ in played]
    raised: list[Raised | None] = [None for _ in played]
    for number, script in enumerate(played):
        try:
            for answer in recording.driver(make, recording.operations(script)):
                answers[number].append(answer)
        except Exception as error:  # noqa: BLE001 - as the sandbox does
            raised[number] = Raised(type(error).__name__, str(error), "")
    return difference_in(recording, played, Outcome(answers, raised))


def histories_in(recording: Recording, make: Any, scripts: Sequence[Script]) -> list[list[dict[str, Any]]]:
    """The shortest recorded histories that differ, as a check finds them."""

    def first(steps: list[dict[str, Any]]) -> int | None:
        pairs = zip(played(recording.driver, recording.right, steps), played(recording.driver, make, steps), strict=False)
        return next((at for at, (right, got) in enumerate(pairs) if recording.differ(right, got)), None)

    histories = (recording.operations(script)["steps"] for script in scripts)
    ends = [(steps, at) for steps in histories if (at := first(steps)) is not None]
    return [steps[: at + 1] for steps, at in sorted(ends, key=lambda end: end[1])[:FEWEST]]


def is_full(said: str) -> bool:
    """Whether a sentence has what was expected and what came instead."""
    wanted = ("should", "expected", "so the broker says")
    came = ("your", "got ", "is ", "are ", "it ", "goes ", "stay", "was ", "has ", "after ", "returns ")
    return any(word in said for word in wanted) and any(word in said for word in came)
