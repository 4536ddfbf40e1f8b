"""`kit compare`: the first step at which two runs part, from the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kitlib import experiments
from kitlib.cli import app
from kitlib.errors import KnobError, TraceError
from kitlib.lab import workspace
from kitlib.text import plain_text
from kitlib.trace import Trace

MOST_BYTES = 50_000_000  # of a file; the longest run of ours is a tenth of it


@app.command("compare")
def compare_command(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="Two traces kept with `kit run --trace`, or an experiment and the settings of one or two runs of it.",
        ),
    ],
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Keep the picture of both runs, at the step where they part.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Where do two runs part? `kit compare answers_lost max_in_flight=1,seed=2 max_in_flight=5`, or two files.

    The settings of a run are joined by commas; where only one is given, the other run has the defaults.
    """
    from kitlib.views.browser.compared import compare

    a, b = _runs(what) if what[0] in experiments.names() else _files(what)
    found = compare(a, b)
    if svg:
        workspace.write_atomic(Path(svg), found.svg)
    if as_json:
        step = found.parting.number if found.parting else None
        typer.echo(json.dumps({"step": step, "sentence": found.sentence, "runs": list(found.labels), "changes": found.changes}))
        return
    typer.echo("\n".join([found.sentence, *found.labels, *found.changes]))


def _runs(what: list[str]) -> tuple[Trace, Trace]:
    name, *settings = what
    if not 1 <= len(settings) <= 2:
        raise KnobError(f"compare: {name} has {len(settings)} settings, expected one or two, such as max_in_flight=1 max_in_flight=5.")
    first, second = ["", *settings] if len(settings) == 1 else settings
    return _run(name, first), _run(name, second)


def _run(name: str, setting: str) -> Trace:
    given: dict[str, Any] = {}
    for each in filter(None, setting.split(",")):
        knob, equals, value = each.partition("=")
        if not equals:
            raise KnobError(f"compare: {plain_text(each, 60)!r} is no setting of {name}, expected knob=value, such as seed=2.")
        given[knob.strip()] = value.strip()
    seed = given.pop("seed", "1")
    if not (seed.isascii() and seed.isdigit()):
        raise KnobError(f"{name}: seed is {plain_text(seed, 40)!r}, expected a whole number from 0 on.")
    return experiments.get(name).run(seed=int(seed), **given)


def _files(what: list[str]) -> tuple[Trace, Trace]:
    if len(what) != 2:
        raise TraceError(
            f"compare: {plain_text(what[0], 60)!r} is no experiment, and two files of traces are expected, not {len(what)}. "
            "Give two of them, or an experiment and its settings (`kit run --help` lists the experiments)."
        )
    first, second = map(_read, what)
    return first, second


def _read(path: str) -> Trace:
    try:
        lines = workspace.read_regular(Path(path), MOST_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TraceError(
            f"compare: the trace {plain_text(path, 200)!r} cannot be read ({why}). "
            "Keep one with `kit run NAME --trace FILE`, or name an experiment."
        ) from error
    return Trace.from_json_lines(lines, where=plain_text(path, 200))
