"""The exercises of the notebooks: `check(name, answer)` says in one line what is right or wrong.

    from kitlib.exercises import check, hint
    check("smallest_bound", 12)  # Not yet: ...
    hint("smallest_bound", 2)    # the second hint

The exercises of notebook 04 are declared in `nb_04`, in its order, each in one place: the question that the
notebook prints, the near misses with the sentences that explain them, hints, and a right answer for tests and
instructors (`kitlib.exercises.frame`). Right answers that are code are in `kitlib.exercises.solutions`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the process that runs a learner's code begins in this package too, and needs none of the experiments
    from kitlib.exercises.frame import Exercise, Finding

__all__ = ["Exercise", "Finding", "check", "exercises", "hint"]


@cache
def exercises() -> dict[str, Exercise]:
    """Every exercise by its name, in the order of the notebooks. KitError when two have one name."""
    from kitlib.exercises.frame import DECLARED

    for module in sorted(module.name for module in iter_modules(__path__) if module.name.startswith("nb_")):
        import_module(f"{__name__}.{module}")
    return dict(sorted(DECLARED.items(), key=lambda named: named[1].notebook))


def check(name: str, answer: Any) -> Finding:
    """Judge one answer. A name that no exercise has is a finding too: a slip in a cell is no traceback."""
    from kitlib.exercises.frame import Finding, find, unknown

    asked = exercises().get(str(name))
    return Finding(str(name), False, unknown(str(name), exercises())) if asked is None else find(asked, answer)


def hint(name: str, number: int = 1) -> str:
    """A hint; later ones say more. When there is no such exercise or hint, a sentence that says which there are."""
    from kitlib.exercises.answers import as_text
    from kitlib.exercises.frame import unknown

    asked = exercises().get(str(name))
    if asked is None:
        return unknown(str(name), exercises())
    hints = asked.hints
    if number not in range(1, len(hints) + 1):
        return f"{name} has no hint {as_text(number)}, only hints 1 to {len(hints)}."
    return hints[number - 1]


def __getattr__(name: str) -> Any:
    """`Exercise` and `Finding`, imported when they are first asked for."""
    if name in ("Exercise", "Finding"):
        return getattr(import_module(f"{__name__}.frame"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
