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
    """Judge one answer. The finding also tells of a name that no exercise has: a slip in a cell is no traceback."""
    from kitlib.exercises.frame import Finding, find, unknown

    exercise = exercises().get(str(name))
    return Finding(str(name), False, unknown(str(name), exercises())) if exercise is None else find(exercise, answer)


def hint(name: str, number: int = 1) -> str:
    """A hint; later ones say more. When there is no such exercise or hint, a sentence that says which there are."""
    from kitlib.exercises.frame import told, unknown

    exercise = exercises().get(str(name))
    if exercise is None:
        return unknown(str(name), exercises())
    hints = exercise.hints
    if number not in range(1, len(hints) + 1):
        return f"{name} has no hint {told(number)}, only hints 1 to {len(hints)}."
    return hints[number - 1]


def __getattr__(name: str) -> Any:
    """`Exercise` and `Finding`, imported when they are first asked for."""
    if name in ("Exercise", "Finding"):
        return getattr(import_module(f"{__name__}.frame"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
