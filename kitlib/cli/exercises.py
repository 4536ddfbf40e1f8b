"""`kit exercises`: what there is to solve, what is done, what comes next; and a notebook from the beginning again."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kitlib.cli import app
from kitlib.cli.asking import confirm
from kitlib.errors import KnobError
from kitlib.text import plain_text

if TYPE_CHECKING:
    from kitlib.exercises.course import Item

SIGNS = {True: "[x]", False: "[ ]"}
exercises_app = typer.Typer(help="The exercises of the course: list, next, and a notebook from the beginning again.")
app.add_typer(exercises_app, name="exercises")

OfNotebook = Annotated[str | None, typer.Argument(help="A notebook, by its number, or a chapter; by default, all.")]


def _items(notebook: str | None = None) -> list[Item]:
    from kitlib.exercises import course, exercises

    found = course.items(exercises())
    return found if notebook is None else course.of_notebook(found, notebook)


@exercises_app.callback(invoke_without_command=True)
def overview(context: typer.Context) -> None:
    """How many exercises of each notebook are done, and which one comes next."""
    if context.invoked_subcommand is not None:
        return
    found = _items()
    for notebook in dict.fromkeys(item.notebook for item in found):
        its = [item for item in found if item.notebook == notebook]
        done = sum(item.progress.passed for item in its)
        typer.echo(f"{SIGNS[done == len(its)]} {notebook:3}  {done:2} of {len(its):2}  {'#' * done}{'-' * (len(its) - done)}")
    typer.echo(f"{sum(item.progress.passed for item in found)} of {len(found)} done. {_next(found)}")


@exercises_app.command("list")
def list_command(notebook: OfNotebook = None) -> None:
    """Every exercise and every question to explain, with its state."""
    for name, its in groupby(_items(notebook), lambda item: item.notebook):
        found = list(its)
        typer.echo(f"{name}  {sum(each.progress.passed for each in found)} of {len(found)} done")
        for item in found:
            typer.echo(f"    {SIGNS[item.progress.passed]} {item.name:24} {item.kind:9} {item.state}")


@exercises_app.command("next")
def next_command(notebook: OfNotebook = None) -> None:
    """The first one that is not done, with its question."""
    typer.echo(_next(_items(notebook), with_question=True))


@exercises_app.command("reset")
def reset_command(
    notebook: Annotated[str, typer.Argument(help="A notebook, by its number or its whole name, or a chapter, by its two digits.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Start a notebook over: a new copy in `work`, yours kept beside it, and its exercises open again."""
    from kitlib.exercises.course import number_of
    from kitlib.lab import copies, jupyter, notebooks, progress

    root = jupyter.project_dir()
    by_number = {number_of(path.stem): path for path in notebooks.find(root)}
    asked, found = Path(notebook).name.removesuffix(".ipynb"), [item for item in _items() if item.notebook in by_number]
    its = [item for item in found if asked in (item.notebook, item.notebook[:2], by_number[item.notebook].stem)]
    if not its:
        known = ", ".join(dict.fromkeys(item.notebook for item in found))
        raise KnobError(f"{plain_text(asked, 60)!r} is no notebook with exercises. Give its number or its whole name: {known}.")
    desk = copies.desk(root)
    originals = [by_number[number] for number in dict.fromkeys(item.notebook for item in its)]
    named = ", ".join(path.stem for path in originals)
    confirm(
        yes, f"Make a new copy of {named} and forget the exercises? Your copy is kept beside it.",
        f"This makes a new copy of {named} and forgets the exercises. Nothing was changed; add --yes.",
    )  # fmt: skip
    for original in originals:
        kept = copies.renew(desk, original)
        count = progress.forget({item.name for item in its if by_number[item.notebook] == original})
        typer.echo(f"{desk.copy_of(original)} is new{f'; yours is {kept.name} now' if kept else ''}. {count} of its exercises forgotten.")


def _next(found: list[Item], with_question: bool = False) -> str:
    item = next((each for each in found if not each.progress.passed), None)
    if item is None:
        return "All of them are done."
    call = "explain" if item.kind == "explain" else "check"
    told = f'Next: {call}("{item.name}", ...) in notebook {item.notebook}.'
    return f"{told}\n\n{item.question}" if with_question else told
