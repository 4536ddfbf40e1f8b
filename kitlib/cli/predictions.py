"""`kit predictions`: what was predicted in the course so far, and how much of it was right."""

from __future__ import annotations

from typing import Annotated

import typer

from kitlib.cli import app


@app.command("predictions")
def predictions_command(
    reset: Annotated[bool, typer.Option("--reset", help="Forget all answers, so that each question counts again.")] = False,
) -> None:
    """Your predictions, each with its first answer and what the run did, and the score."""
    from kitlib.lab import predictions
    from kitlib.text import plain_text

    if reset:
        count = predictions.reset()
        typer.echo(f"{count} prediction{'' if count == 1 else 's'} forgotten.")
        return
    found = predictions.load()
    for each in found.values():
        typer.echo(f"{'right' if each.is_right else 'wrong'}  {plain_text(each.experiment, 60)}: {plain_text(each.question, 300)}")
        typer.echo(f"       you said {plain_text(each.answer, 200)}; the run: {plain_text(each.truth, 200)}")
    typer.echo(f"{predictions.score(found)}." if found else "No prediction has been answered yet. The first one is in notebook 00.")
