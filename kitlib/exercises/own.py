"""Whether an answer is the learner's own: not the kit's class, not built on it, and not around it.

A subclass is seen from here. What calls the kit's class in its own methods is seen in the learner's process: there the class is
closed before the learner's code runs, and says so when it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NoReturn

from kitlib.exercises.sandbox import Outcome

KITS = "this is the kit's own, or built on it.", "Write each method yourself."


class ItIsTheKitsError(Exception):
    """The learner's code has made the kit's own, or called it."""


def named(where: str) -> Any:
    """What stands at module:name or module:name.attribute."""
    module, _, path = where.partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def built_on(answer: Any, kits: Sequence[str]) -> bool:
    """Whether the answer is one of these, or a subclass of one."""
    own = [named(each) for each in kits]
    return any(answer is each or (isinstance(answer, type) and isinstance(each, type) and issubclass(answer, each)) for each in own)


def kits_own(outcome: Outcome) -> tuple[str, str] | None:
    """What to say, if the code has used the kit's own in any script."""
    return KITS if any(raised and raised.kind == ItIsTheKitsError.__name__ for raised in outcome.raised) else None


# In the learner's process.


def close(kits: Sequence[str]) -> None:
    """From now on these raise when they are made or called."""

    def refuse(*given: Any, **named: Any) -> NoReturn:
        raise ItIsTheKitsError

    for where in kits:
        found = named(where)
        if isinstance(found, type):
            found.__init__ = refuse  # type: ignore[misc]
        else:
            holder, _, name = where.rpartition(".")
            setattr(named(holder), name, refuse)


def played_here(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """The driver of all recordings: what the recording's own yields, with the kit's class closed."""
    recording = named(script["recording"])
    close(script["kits"])
    yield from recording.driver(make, script)
