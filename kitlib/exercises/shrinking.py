"""The shortest history on which a learner's code and a right answer part: a recorded one, made smaller while it still shows it.

Delta debugging (ddmin, Zeller and Hildebrandt 2002) on the calls alone: leave out a part of them, and keep what is left if the two
still differ. It runs in the learner's process, where a trial takes no time, beside a solution of the kit; what it finds is
played once more on this side before it is told (`kitlib.exercises.recorded`), so nothing is judged there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kitlib.exercises.own import close, named
from kitlib.exercises.sandbox_child import one_line, told
from kitlib.text import plain_text

Step = dict[str, Any]  # an operation as a recording's driver plays it
Differs = Callable[[list[Step]], int | None]  # the first step at which the two part
SECONDS = 1.0  # for all trials together
RAISED = "raised"
MOST_ROUNDS = 20  # in which the numbers of a history become simpler


# In the learner's process.


def shrink(make: Any, script: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The shortest history found, and what the learner's code answered to it."""
    recording = named(script["recording"])
    close(script["kits"])
    until = time.monotonic() + SECONDS

    def differs(steps: list[Step]) -> int | None:
        if time.monotonic() > until:
            return None
        pairs = zip(played(recording.driver, recording.right, steps), played(recording.driver, make, steps), strict=False)
        return next((at for at, (right, got) in enumerate(pairs) if recording.differ(right, got)), None)

    small = min((ddmin(history, differs) for history in script["histories"]), key=len)
    for _ in range(MOST_ROUNDS):
        better = next((each for each in recording.simpler(small) if each != small and differs(each) is not None), None)
        if better is None:
            break
        small = ddmin(better, differs)
    yield {"steps": small, "got": played(recording.driver, make, small)}


def ddmin(steps: list[Step], differs: Differs) -> list[Step]:
    """A part of the steps on which the two still differ, at its last step; leaving out any one more of them, they agree."""
    at, parts = differs(steps), 2
    steps = steps[: at + 1] if at is not None else steps
    while len(steps) > 1:
        size = -(-len(steps) // parts)
        for start in range(0, len(steps), size):
            rest = steps[:start] + steps[start + size :]
            at = differs(rest)
            if at is not None:
                steps, parts = rest[: at + 1], max(parts - 1, 2)
                break
        else:
            if parts >= len(steps):
                break
            parts = min(2 * parts, len(steps))
    return steps


def played(driver: Callable[[Any, Any], Iterator[Any]], make: Any, steps: list[Step]) -> list[Any]:
    """The answers to the steps; the last one is `{"raised": ...}` where the code raised."""
    answers: list[Any] = []
    try:
        for answer in driver(make, {"steps": steps}):
            answers.append(answer)
    except Exception as error:  # noqa: BLE001 - the learner's code may raise anything
        answers.append({RAISED: one_line(*told(error))})
    return answers


def raised(got: Any) -> str:
    """`your code raised KeyError: 3`, where it did; else ""."""
    return f"your code raised {plain_text(got[RAISED], 120)}" if isinstance(got, dict) and RAISED in got else ""


def numbered(values: Sequence[Any]) -> dict[Any, int]:
    """1, 2, 3, ... for each value in the order in which they first come."""
    return {value: number for number, value in enumerate(dict.fromkeys(values), 1)}
