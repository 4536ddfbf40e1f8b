"""`kit test-notebooks`: run notebooks and compare their outputs with the saved ones, for a terminal and for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.text import plain_text

LONGEST_LINE = 2_000  # characters of a line of a report


@app.command("test-notebooks")
def test_notebooks(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Notebooks, or folders of notebooks.")],
    junit: Annotated[Path | None, typer.Option(help="Write the results to this file too, as JUnit XML for a CI server.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long the cells of one notebook may take together.")] = 300,
    rules: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="nbval's rules for what differs from run to run, beside the kit's own.")
    ] = None,
) -> None:
    """Run each notebook in a new kernel and compare what would be saved with what is saved; exit 1 if anything differs.

    Kafka runs meanwhile. Addresses, durations, times and process ids may differ. Nothing is saved; all that a notebook started is
    ended, apart from a Kafka that ran before.
    """
    from kitlib.cli.notebooks import cells_of
    from kitlib.lab import notebook_tests
    from kitlib.lab import notebooks as runner
    from kitlib.lab.jars import ensure_jars
    from kitlib.lab.session import Printer

    printer, chosen, done = Printer(), notebook_tests.chosen(paths), []
    ensure_jars("spark", progress=printer.step)  # a kernel that fetched them would say so in the notebook
    with runner.broker(printer.step):
        for path in chosen:
            with cells_of(path.stem) as draw:
                found = notebook_tests.compare(path, seconds, rules=rules, progress=draw)
            done.append(found)
            shown, count = notebook_tests.shown_path(path), len(found.problems)
            told = f"{count} problem{'s' * (count > 1)}" if count else f"{found.cells} cells, no difference"
            told += f"; {found.pictures} picture{'s' * (found.pictures > 1)} not compared" if found.pictures else ""
            printer.step(f"notebook {shown}: {told} ({found.seconds:.1f} s)")
            if not found.passed:
                printer.line(f"{shown}\n\n{readable(found.report)}\n", data=True)
    if junit is not None:
        notebook_tests.write_junit({notebook_tests.shown_path(each.path): each.cases for each in done}, "notebooks", junit)
    printer.step(f"{sum(each.passed for each in done)} of {len(done)} notebooks give their saved outputs")
    raise typer.Exit(0 if all(each.passed for each in done) else 1)


def readable(report: str) -> str:
    """A report for a terminal, whose lines are not too long."""
    return "\n".join(plain_text(line, LONGEST_LINE) for line in report.splitlines())
