"""`kit soak`: experiments by chance on model and broker, with the broker killed in between."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import Annotated

import typer

from kitlib.cli import app


@app.command("soak")
def soak_command(
    only: Annotated[list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Draw from these alone.")] = None,
    minutes: Annotated[float, typer.Option(min=0, help="For how long; the round that is under way is finished.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed draws the same rounds.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print each round as a line of JSON.")] = False,
) -> None:
    """Run experiments drawn by chance on the model and the real broker, kill the broker in between, and compare.

    Exit code 1 if a verdict differs, a run does not come to its end, or an acknowledged record is gone.
    """
    from kitlib.experiments.soak import Round, growth, soak

    rounds: list[Round] = []
    try:
        for each in soak(minutes, seed, tuple(only or ())):
            rounds.append(each)
            if as_json:
                typer.echo(json.dumps(dataclasses.asdict(each)))
            else:
                typer.echo(f"{each.number:4}  {each.seconds:5.1f} s  {each.outcome:9}  {each.script}\n      {each.sentence}")
    finally:  # also after Ctrl-C
        told = Counter(each.outcome for each in rounds)
        typer.echo(f"kit: {len(rounds)} rounds: {', '.join(f'{count} {what}' for what, count in told.items()) or 'none'}.", err=True)
        if more := growth(rounds):
            typer.echo(
                f"kit: the last third held {more['memory_mb']:+} MB, {more['files']:+g} files and {more['processes']:+g} processes "
                "compared with the second.", err=True,
            )  # fmt: skip
    raise typer.Exit(1 if any(each.is_bad for each in rounds) else 0)
