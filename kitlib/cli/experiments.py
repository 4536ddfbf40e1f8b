"""`kit run`: an experiment from the terminal, its options made from its knobs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kitlib import experiments
from kitlib.cli import app, dashed
from kitlib.experiments.experiment import BACKENDS
from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.experiments.script import MOST_CHARS, Script, ScriptError
from kitlib.experiments.stored import compare_logs
from kitlib.lab import workspace
from kitlib.monitor.delivery import Verdict, judge
from kitlib.text import plain_text
from kitlib.trace import Trace

Backend = Annotated[str, typer.Option(help=f"Where to run it: {' or '.join(BACKENDS)}.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print knobs and verdict as JSON.")]
TraceFile = Annotated[str | None, typer.Option("--trace", metavar="FILE", help="Keep the trace as JSON lines.")]
Page = Annotated[str | None, typer.Option("--html", metavar="FILE", help="Keep the run as a page that can be scrubbed and played.")]
PrintScript = Annotated[bool, typer.Option("--print-script", help="Print the run as a script, and do not run it.")]


def _read_script(file: str) -> Script:
    """The script in a file. ScriptError when the file cannot be read, or holds none."""
    try:
        return Script.parse(workspace.read_regular(Path(file), 4 * MOST_CHARS))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        name = plain_text(file)
        raise ScriptError(f"the script {name} cannot be read: {why}. Give a file that `kit run --print-script` wrote.") from None


def _run(script: Script, backend: str, as_json: bool, trace_file: str | None, page: str | None, print_script: bool) -> None:
    if print_script:
        typer.echo(str(script))
        return
    experiment = experiments.get(script.experiment)
    for file in filter(None, (trace_file, page)):
        workspace.check_replaceable(Path(file))
    trace = experiment.run(backend=backend, script=script)
    if trace_file:
        workspace.write_atomic(Path(trace_file), "".join(line + "\n" for line in trace.to_json_lines()))
    if page:
        from kitlib.views.browser.saved_page import save  # here, because the pictures take a while to load

        save(trace, Path(page), overwrite=True, who="--html")
    verdict = judge(trace)
    figure = experiment.figure.measure(trace, verdict) if experiment.figure else None
    if as_json:
        told = {"run": trace.run, "experiment": trace.experiment, "backend": backend, "seed": trace.seed}
        told |= {"script": trace.script} if trace.script else {}
        judged = {"verdict": verdict.to_json(), "figure": figure and figure.to_json()}
        typer.echo(json.dumps({**told, "knobs": trace.settings, "steps": len(trace), **judged}))
        return
    typer.echo(f"{experiment.title}\n{experiment.question}\n")
    typer.echo(repr(trace))
    typer.echo(verdict)
    if figure:
        typer.echo(f"{figure.sentence}.")
    if backend == "kafka" and script.interventions:
        _compare_with_model(trace, verdict, experiment.run(script=script))
    if backend == "kafka":
        typer.echo(f"The trace is in topic kit.trace.{trace.run}; `kit audit {trace.run}` judges it on Spark.")


def _compare_with_model(trace: Trace, verdict: Verdict, model: Trace) -> None:
    """Say whether the broker's run is what the model makes of the same script."""
    typer.echo(judge(model).parts_from(verdict) or "The model's verdict on this script is the same.")
    if any(step.what == "read" for step in trace):
        typer.echo(compare_logs(model, trace))


def knob_option(knob: Knob) -> inspect.Parameter:
    """The parameter of a command's function for a knob; the knob itself checks its value."""
    default = "unlimited" if knob.default == UNLIMITED else str(knob.default).lower()
    told = f"{knob.help} {knob.range[0].upper()}{knob.range[1:]}; default: {default}."
    option = typer.Option(f"--{knob.name.replace('_', '-')}", metavar="|".join(knob.choices) or knob.kind.upper(), help=told)
    return inspect.Parameter(knob.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[str | None, option], default=None)


def with_knobs(call: Callable[..., None], knobs: Iterable[Knob], **annotations: Any) -> None:
    """Give a command's function an option for each knob in place of its `given`, and these annotations to parameters of its own."""
    own = inspect.signature(call, eval_str=True).parameters
    parameters = [each.replace(annotation=annotations.get(name, each.annotation)) for name, each in own.items() if name != "given"]
    parameters += map(knob_option, knobs)
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


@cache
def _command(name: str) -> TyperCommand:
    """The experiment as a command whose options are its knobs, which check their values themselves."""
    experiment = experiments.get(name)

    def call(
        *,
        backend: Backend = "model",
        seed: Annotated[int, typer.Option(help="Random seed of the run.")] = 1,
        as_json: AsJson = False,
        trace_file: TraceFile = None,
        page: Page = None,
        do: list[str] | None = None,
        print_script: PrintScript = False,
        **given: str | None,
    ) -> None:
        script = Script.made(experiment.name, seed, {name: value for name, value in given.items() if value is not None})
        for line in do or ():
            script = script.having(line)
        _run(script, backend, as_json, trace_file, page, print_script)

    takes = f"It takes: {'; '.join(experiment.takes)}." if experiment.takes else "This experiment takes none."
    told = typer.Option("--do", metavar="LINE", help=f"A line of a script: do this to the run. May be repeated. {takes}")
    with_knobs(call, experiment.knobs, do=Annotated[list[str] | None, told])
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=_TakesKnobs, help=f"{experiment.title}. {experiment.question}")(call)
    made = typer.main.get_command(alone)
    assert isinstance(made, TyperCommand)
    return made


class _TakesKnobs(TyperCommand):
    """Knobs may also be written as scripts write them, `records=60`; what stands behind an option is its value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        pairs = [(before, word, word.partition("=")) for before, word in zip(["", *args], args, strict=False)]
        are = [name.isidentifier() and equals and before[:2] != "--" for before, _, (name, equals, _) in pairs]
        return super().parse_args(ctx, [dashed(f"--{word}") if is_knob else word for is_knob, word in zip(are, args, strict=True)])


class _Commands(Mapping[str, TyperCommand]):
    """A command for each experiment, made when it is asked for: to make all of them takes longer than a run."""

    def __getitem__(self, name: str) -> TyperCommand:
        if name not in experiments.names():
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(experiments.names())

    def __len__(self) -> int:
        return len(experiments.names())


class _Experiments(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]  # nothing is added to it


run = typer.Typer(name="run", cls=_Experiments, help="Run an experiment and judge it.", invoke_without_command=True)


@run.callback()
def run_script(
    context: typer.Context,
    script: Annotated[
        str | None, typer.Option(metavar="FILE", help="Run the script in this file: an experiment, its seed and knobs, what is done to it.")
    ] = None,
    backend: Backend = "model",
    as_json: AsJson = False,
    trace_file: TraceFile = None,
    page: Page = None,
    print_script: PrintScript = False,
) -> None:
    """Run an experiment and judge it."""
    if context.invoked_subcommand is None:
        if script is None:
            typer.echo(context.get_help())
            raise typer.Exit(2)
        _run(_read_script(script), backend, as_json, trace_file, page, print_script)
    elif script is not None or backend != "model" or as_json or trace_file or page or print_script:
        raise ScriptError(
            f"options before {context.invoked_subcommand} are those of a script, which names its experiment itself. "
            "Put them behind the experiment, or leave it out."
        )


app.add_typer(run)
