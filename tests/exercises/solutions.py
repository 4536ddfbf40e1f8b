"""The right answers that are code, each by its own name: what stands in `notebooks/answers`; and slips, which are these with a change."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.prose import answers, made_by

globals().update({each.solution.__name__: each.solution for each in answers().values() if "\n" in each.code})


def slip(name: str, *changes: str) -> Any:
    """The right answer to an exercise with parts of its code, each of which is there once, changed: old, new, old, new."""
    code = answers()[name].code
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert code.count(old) == 1, f"{name} has this {code.count(old)} times: {old}"
        code = code.replace(old, new)
    return made_by(code)


def slips(name: str, *rows: tuple[str, ...]) -> list[tuple[str, Any, str]]:
    """Rows of a table of wrong answers: the changes of each slip, and last what is told of it."""
    return [(name, slip(name, *changes), says) for *changes, says in rows]
