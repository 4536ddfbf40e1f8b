"""`kit run`: an experiment from the terminal, its options made from its knobs."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kitlib import experiments
from kitlib.cli import app
from kitlib.experiments.experiment import BACKENDS, Experiment
from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.lab import workspace
from kitlib.monitor.delivery import judge


def _parameter(knob: Knob) -> inspect.Parameter:
    default = "unlimited" if knob.default == UNLIMITED else str(knob.default).lower()
    option = typer.Option(
        f"--{knob.name.replace('_', '-')}",
        metavar="|".join(knob.choices) or knob.kind.upper(),
        help=f"{knob.help} {knob.range[0].upper()}{knob.range[1:]}; default: {default}.",
    )
    return inspect.Parameter(
        knob.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[str | None, option], default=None
    )


def _run(experiment: Experiment, backend: str, seed: int, as_json: bool, trace_file: str | None, **given: Any) -> None:
    knobs = {name: value for name, value in given.items() if value is not None}
    trace = experiment.run(backend=backend, seed=seed, **knobs)
    if trace_file:
        workspace.write_atomic(Path(trace_file), "".join(line + "\n" for line in trace.to_json_lines()))
    verdict = judge(trace)
    figure = experiment.figure.measure(trace, verdict) if experiment.figure else None
    if as_json:
        told = {"run": trace.run, "experiment": trace.experiment, "backend": backend, "seed": seed}
        judged = {"verdict": verdict.to_json(), "figure": figure and figure.to_json()}
        typer.echo(json.dumps({**told, "knobs": trace.knobs, "steps": len(trace), **judged}))
        return
    typer.echo(f"{experiment.title}\n{experiment.question}\n")
    typer.echo(repr(trace))
    typer.echo(verdict.sentence)
    if figure:
        typer.echo(f"{figure.sentence}.")
    if backend == "kafka":
        typer.echo(f"The trace is in topic kit.trace.{trace.run}; `kit audit {trace.run}` judges it on Spark.")


def _add(experiment: Experiment) -> None:
    """Add the experiment as a subcommand whose options are its knobs, which check their values themselves."""

    def call(
        *,
        backend: Annotated[str, typer.Option(help=f"Where to run it: {' or '.join(BACKENDS)}.")] = "model",
        seed: Annotated[int, typer.Option(help="Random seed of the run.")] = 1,
        as_json: Annotated[bool, typer.Option("--json", help="Print knobs and verdict as JSON.")] = False,
        trace_file: Annotated[
            str | None, typer.Option("--trace", metavar="FILE", help="Keep the trace as JSON lines.")
        ] = None,
        **given: str | None,
    ) -> None:
        _run(experiment, backend, seed, as_json, trace_file, **given)

    own = list(inspect.signature(call, eval_str=True).parameters.values())[:-1]
    parameters = [*own, *(_parameter(knob) for knob in experiment.knobs)]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.command(experiment.name, help=f"{experiment.title}. {experiment.question}")(call)


run = typer.Typer(name="run", help="Run an experiment and judge it.", no_args_is_help=True)
for _name in experiments.names():
    _add(experiments.get(_name))
app.add_typer(run)
