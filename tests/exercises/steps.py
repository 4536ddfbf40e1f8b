"""Drivers for the sandbox's own tests, which call the learner's `do`, and recordings that are played without a sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kitlib.exercises.door import (
    RAISED,
    Recording,
    Script,
    compared,
    differing,
    history_of,
    operations,
    played,
    shrink,
    told_of,
)
from kitlib.exercises.sandbox import Outcome, Raised
from kitlib.trace import Trace

MOST_STEPS = 9  # no counterexample is longer


def each_step(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """What `make().do(step)` returns for each step."""
    made = make()
    for step in script["steps"]:
        yield made.do(step)


def judged_here(recording: Recording, make: Any, scripts: Sequence[Script] = ()) -> tuple[str, str, Script] | None:
    """As `first_difference`, without a process of its own: what is told, where to look, and what `shrink` is asked."""
    chosen = scripts or recording.scripts()
    outcome = Outcome([], [])
    for script in chosen:
        answers = played(recording, make, operations(script))
        raised = answers.pop()[RAISED] if RAISED in (answers or [{}])[-1] else ""
        outcome.answers.append(answers)
        outcome.raised.append(Raised(raised.partition(":")[0], raised) if raised else None)
    _, partings = compared(recording, chosen, outcome)
    return told_of(recording, partings) if partings else None


def shrunk(recording: Recording, make: Any, asked: Script) -> tuple[Script, Trace]:
    """The shortest script on which the two part, and its history."""
    [answer] = shrink(make, asked)
    script, got = answer["script"], answer["got"]
    right = played(recording, recording.right, script)
    kind, said = differing(right[-1], got[-1])
    assert kind == asked["kind"] and not any(differing(*both)[0] for both in zip(right[:-1], got[:-1], strict=True))
    return script, history_of(recording, script, right, got, said)


def is_full(said: str) -> bool:
    """Whether a sentence has what was expected and what came instead."""
    wanted = ("should", "expected", "there is no")
    came = ("your", "got ", "is ", "are ", "it ", "goes ", "stay", "was ", "has ", "after ", "returns ")
    return any(word in said for word in wanted) and any(word in said for word in came)
