"""`kit course instructor`: a notebook for whoever teaches it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.text import plain_text

course_app = typer.Typer(help="The course for those who teach it.", no_args_is_help=True)
app.add_typer(course_app, name="course")


@course_app.command()
def instructor(
    notebook: Annotated[str, typer.Argument(help="A notebook, by its number, or a chapter, by its two digits.")],
    out: Annotated[Path | None, typer.Option(help="Write it to this file; a page if it ends in .html, else Markdown.")] = None,
) -> None:
    """A notebook's aims, minutes, predictions with their answers, and exercises with solutions and what else would be right."""
    from kitlib.exercises import exercises
    from kitlib.exercises import instructor as views
    from kitlib.exercises.course import number_of
    from kitlib.lab import jupyter, notebooks, workspace

    if out is not None:
        workspace.check_writable(out, "--out")
    number = number_of(notebook)
    found = [path for path in notebooks.find(jupyter.project_dir()) if number and path.stem.startswith(number)]
    if not found:
        raise KnobError(f"there is no notebook {plain_text(notebook, 40)}. Name one by its number, such as 02a.")
    told = "\n".join(views.view(path, exercises()) for path in found)
    _give(told, out)


@course_app.command()
def plan(
    name: Annotated[str, typer.Argument(help="90 (minutes), half, day or two.")],
    out: Annotated[Path | None, typer.Option(help="Write it to this file; a page if it ends in .html, else Markdown.")] = None,
) -> None:
    """One page for a workshop's leader: times, questions, right answers, and wrong ones with what to say to them."""
    from kitlib.exercises.plans import page_of_plan
    from kitlib.lab import workspace

    if out is not None:
        workspace.check_writable(out, "--out")
    _give(page_of_plan(name), out)


def _give(told: str, out: Path | None) -> None:
    from kitlib.exercises.instructor import page_of
    from kitlib.lab import workspace

    if out is None:
        typer.echo(told, nl=False)
        return
    workspace.write_atomic(out, page_of(told) if out.suffix == ".html" else told)
    typer.echo(out)
