"""The exercises of the notebooks: `check(name, answer)` says in one line what is right or wrong.

    from kitlib.exercises import check, hint
    check("smallest_bound", 12)  # Not yet: ...
    hint("smallest_bound", 2)    # the second hint

The exercises of one notebook live in one module beside this one (`nb_00`, `nb_01`, ...), each with a
tuple `EXERCISES`. Their questions are those that the notebook prints; solutions are in the tests alone.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from kitlib.errors import KitError

if TYPE_CHECKING:  # the process that runs a learner's code begins in this package too, and needs none of the experiments
    from kitlib.exercises.frame import Exercise, Finding

__all__ = ["Exercise", "Finding", "check", "exercises", "hint"]


@cache
def exercises() -> dict[str, Exercise]:
    """Every exercise by its name, in the order of the notebooks. KitError when two have one name."""
    found: dict[str, Exercise] = {}
    for module in sorted(module.name for module in iter_modules(__path__) if module.name.startswith("nb_")):
        for exercise in import_module(f"{__name__}.{module}").EXERCISES:
            if exercise.name in found:
                raise KitError(f"two exercises are called {exercise.name}. Rename the one in {module}.py.")
            found[exercise.name] = exercise
    return found


def check(name: str, answer: Any) -> Finding:
    """Judge one answer. KitError when there is no such exercise."""
    from kitlib.exercises.frame import find

    return find(_get(name), answer)


def hint(name: str, number: int = 1) -> str:
    """A hint; later ones say more. KitError when there is no such exercise or hint."""
    hints = _get(name).hints
    if not 1 <= number <= len(hints):
        raise KitError(f"exercise {name} has {len(hints)} hints, there is no hint {number}. Ask for 1 to {len(hints)}.")
    return hints[number - 1]


def _get(name: str) -> Exercise:
    from kitlib.exercises.frame import unknown

    known = exercises()
    if name not in known:
        raise unknown(name, known)
    return known[name]


def __getattr__(name: str) -> Any:
    """`Exercise` and `Finding`, imported when they are first asked for."""
    if name in ("Exercise", "Finding"):
        return getattr(import_module(f"{__name__}.frame"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
