"""A driver for the sandbox's own tests: one call of the learner's `do` for each step of a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def each_step(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """What `make().do(step)` returns for each step."""
    made = make()
    for step in script["steps"]:
        yield made.do(step)
