"""`kit notebooks` and `kit reset`: run all notebooks without a browser, and start one over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kitlib.cli import app
from kitlib.cli.asking import confirm
from kitlib.errors import KnobError, LabError

if TYPE_CHECKING:
    from kitlib.lab.notebooks import Result
    from kitlib.lab.session import Printer


@app.command()
def notebooks(
    check: Annotated[bool, typer.Option("--check", help="Save nothing; exit 1 if something would change.")] = False,
    only: Annotated[list[str] | None, typer.Argument(help="Notebooks to run, by name or path; by default, all.")] = None,
) -> None:
    """Run all notebooks again and save their outputs, without anything that differs from run to run."""
    from kitlib.lab import jupyter, notebook_trust
    from kitlib.lab import notebooks as runner
    from kitlib.lab.session import Printer

    printer, bad = Printer(), 0
    for result in run_all(printer, only or []):
        if result.problem:
            bad += 1
            continue
        before = runner.load(result.path)
        tidied = runner.tidy(result.notebook, before)
        if check:
            if runner.text_of(tidied) != runner.text_of(before):
                bad += 1
                printer.line(f"          {result.path.name} would change; save it with `kit notebooks`")
        elif runner.save(tidied, result.path):
            printer.line("          saved")
    if not check:
        root = jupyter.project_dir()
        notebook_trust.write_sums(root, runner.find(root))
    raise typer.Exit(1 if bad else 0)


@app.command()
def reset(
    notebook: Annotated[str | None, typer.Argument(help="A notebook's name, its beginning, or its path.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete what all notebooks have made.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the topics, groups, offsets and checkpoints that a notebook has made, and nothing else."""
    from kitlib.lab import created_resources, kafka_server
    from kitlib.lab import notebooks as runner

    if notebook is not None and everything:
        raise KnobError("Say either a notebook or --all, not both.")
    if notebook is None and not everything:
        for name in created_resources.notebooks():
            print(f"{name}: {created_resources.summary(created_resources.read(name))}")
        raise KnobError("Nothing was deleted. Name a notebook of this list, or use --all.")
    names = created_resources.notebooks() if everything else created_resources.chosen(notebook or "")
    things = {name: created_resources.read(name) for name in names}
    if not any(things.values()):
        print(f"Nothing is left that {notebook or 'a notebook'} has made.", file=sys.stderr)
        return
    for name, its in things.items():
        print(f"{name}: {created_resources.summary(its)}", file=sys.stderr)
    confirm(yes, "Delete this?", "This deletes what is listed above. Nothing was deleted; add --yes to continue.")
    problems: list[str] = []
    with runner.broker(say) as cluster:
        client = kafka_server.client_config(cluster)
        for name, its in things.items():
            gone, its_problems = created_resources.take_back(its, client)
            created_resources.forget(name, gone)
            problems += its_problems
            print(f"{name}: {len(gone)} of {len(its)} deleted", file=sys.stderr)
    if problems:
        raise LabError(f"{'. '.join(problems)}. The rest was deleted.")


def say(text: str) -> None:
    print(text, file=sys.stderr)


@contextmanager
def cells_of(name: str) -> Iterator[Callable[[int, int], None]]:
    """What draws a notebook's progress where a bar can be drawn: called with the number of cells done and of all cells."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def run_all(printer: Printer, only: list[str]) -> Iterator[Result]:
    """Run the notebooks one after the other with the broker up; a line for each, and a bar where one can be drawn."""
    from kitlib.lab import jupyter
    from kitlib.lab import notebooks as runner
    from kitlib.lab.jars import ensure_jars

    paths = runner.choose(runner.find(jupyter.project_dir()), only)
    ensure_jars("spark", progress=printer.step)  # a kernel that fetched them would say so in the notebook
    with runner.broker(printer.step):
        for path in paths:
            with cells_of(path.stem) as draw:
                result = runner.run(path, draw)
            printer.step(f"{path.stem}: {result.problem or 'every cell ran'} ({result.seconds:.1f} s)")
            yield result
