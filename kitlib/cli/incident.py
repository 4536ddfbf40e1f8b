"""`kit incident`: a broken cluster for a team, and the check of its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError


@app.command()
def incident(
    seed: Annotated[int | None, typer.Option(help="Which incident; the same seed gives the same one.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to make; by default incident-N in the folder of your notebooks.")] = None,
    check: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Say what is right in this folder's report.")] = None,
    hint: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Give one more hint about this folder's incident.")] = None,
    answers: Annotated[bool, typer.Option("--answers", help="Print a right report, for whoever leads the team.")] = False,
) -> None:
    """Make the folder of an incident: logs, metrics, and a report to fill in; or check such a report (exit 1 until all is right)."""
    from kitlib.exercises import incident_room
    from kitlib.exercises.incidents import incident as incident_of

    if [seed, check, hint].count(None) != 2:
        raise KnobError("Say one of --seed N, to make an incident, --check FOLDER, to check its report, and --hint FOLDER, for a hint.")
    if hint is not None:
        typer.echo(incident_room.hint(hint))
        return
    if check is not None:
        found, hints = incident_room.check(check)
        for answer in found:
            typer.echo(str(answer))
        right = sum(answer.grade == incident_room.RIGHT for answer in found)
        typer.echo(f"{right} of {len(found)} right, hints: {hints}")
        raise typer.Exit(0 if right == len(found) else 1)
    assert seed is not None
    if answers:
        typer.echo(incident_room.form(incident_room.solved(incident_of(seed))), nl=False)
        return
    folder = out or default_folder(seed)
    incident_room.make(seed, folder)
    typer.echo(folder)
    typer.echo(f"Read {folder / 'README.md'} first; then: kit incident --check {folder}", err=True)


def default_folder(seed: int) -> Path:
    """Beside the learner's notebooks, where JupyterLab shows it."""
    from kitlib.lab import copies, jupyter

    return copies.desk(jupyter.project_dir()).folder / f"incident-{seed}"
