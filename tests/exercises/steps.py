"""Drivers for the sandbox's own tests: a call of the learner's `do` for each step of a script, or for one only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def each_step(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """What `make().do(step)` returns for each step."""
    made = make()
    for step in script["steps"]:
        yield made.do(step)


def first_step_only(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """A driver that does not do what it should."""
    yield make().do(script["steps"][0])
