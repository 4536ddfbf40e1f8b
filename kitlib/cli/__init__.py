"""The `kit` command: every mechanism and every part of the lab from a terminal.

Data goes to stdout, progress and messages to stderr. A `KitError` becomes one line and the error's
exit code; `--debug` shows the traceback instead.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Annotated, Any

import click
import typer

from kitlib import __version__
from kitlib.errors import KitError

COMMAND_MODULES = tuple(
    name for name in ("setup", "lab", "broker", "experiments", "conform")
    if importlib.util.find_spec(f"kitlib.cli.{name}")
)

app = typer.Typer(
    name="kit",
    help="Delivery Lab: learn what at least once and exactly once mean, on a real Kafka and Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"kit {__version__} (Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if debug:
        os.environ["KIT_DEBUG"] = "1"


for _name in COMMAND_MODULES:
    importlib.import_module(f"kitlib.cli.{_name}")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; errors become one line on stderr."""
    try:
        result: Any = app(arguments, standalone_mode=False)
    except KitError as error:
        if os.environ.get("KIT_DEBUG"):
            raise
        print(f"kit: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort):
        print("kit: stopped.", file=sys.stderr)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(result if isinstance(result, int) else 0)
