"""The exercises of the notebooks: `check(name, answer)` says in one line what is right or wrong.

    from kitlib.exercises import check, explain, hint, solution
    check("smallest_bound", 12)      # Not yet: ...
    hint("smallest_bound")           # the next hint; hint("smallest_bound", 2) is the second one
    solution("smallest_bound")       # after a right answer or three different tries
    explain("two_rulers", "...")     # a model answer, once you have written yours

The exercises of notebook 04 are declared in `nb_04`, in its order: the kind of the answer and its near misses
(`kitlib.exercises.frame`). Questions are in the notebook; sentences, hints, a right answer and what else would do in
`notebooks/answers`. `course` says when they are shown, and `kit exercises` how far a learner has come.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the process that runs a learner's code begins in this package too, and needs none of the experiments
    from kitlib.exercises.course import Solution
    from kitlib.exercises.frame import Exercise, Finding
    from kitlib.exercises.told import Told

__all__ = ["check", "exercises", "explain", "hint", "solution"]


@cache
def exercises() -> dict[str, Exercise]:
    """Every exercise by its name, in the order of the notebooks. KitError when two have one name."""
    from kitlib.exercises.frame import DECLARED

    for module in sorted(module.name for module in iter_modules(__path__) if module.name.startswith("nb_")):
        import_module(f"{__name__}.{module}")
    return dict(sorted(DECLARED.items(), key=lambda named: named[1].told.notebook))


def check(name: str, answer: Any) -> Finding:
    """Judge one answer. A name that no exercise has is a finding too: a slip in a cell is no traceback."""
    from kitlib.exercises.course import noted
    from kitlib.exercises.frame import Finding, find, unknown

    asked = exercises().get(str(name))
    return Finding(str(name), False, unknown(str(name), exercises())) if asked is None else noted(find(asked, answer))


def hint(name: str, number: int | None = None) -> Told:
    """The next hint, or the one of this number; later ones say more. A sentence when there is no such exercise or hint."""
    from kitlib.exercises.course import hint_number, next_hint, no_such

    asked = exercises().get(str(name))
    if asked is None:
        return no_such(name, exercises())
    return next_hint(asked) if number is None else hint_number(asked, number)


def solution(name: str) -> Solution | Told:
    """A right answer and a discussion of others, after a right answer or three different tries; before that a sentence."""
    from kitlib.exercises.course import explanation_of, no_such, solution_of
    from kitlib.exercises.prose import to_explain

    if str(name) in to_explain():
        return explanation_of(to_explain()[str(name)])
    asked = exercises().get(str(name))
    return no_such(name, [*exercises(), *to_explain()]) if asked is None else solution_of(asked)


def explain(name: str, text: str | None = None) -> Told:
    """A model answer to compare your own text with; it is shown when there is one."""
    from kitlib.exercises.course import explained, no_such
    from kitlib.exercises.prose import to_explain

    asked = to_explain().get(str(name))
    return no_such(name, to_explain()) if asked is None else explained(asked, text)
