"""The `kit` command: every mechanism and every part of the lab from a terminal.

Data goes to stdout, progress and messages to stderr. A `KitError` becomes one line and the error's
exit code; `--debug` shows the traceback instead.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO, cast

import typer
from typer.core import TyperGroup

from kitlib import __version__
from kitlib.errors import KitError
from kitlib.text import VISIBLE_IN_LINES, plain_text

# The commands of each module, in the order of `kit --help`. Only the module of the command that is asked for is imported:
# the experiments and the pictures take a second to load, and `kit up` needs neither.
COMMANDS = {
    "setup": ("doctor", "fetch", "purge"),
    "notebooks": ("notebooks", "reset"),
    "notebook_tests": ("test-notebooks",),
    "lab": ("lab",),
    "broker": ("up", "down", "status", "logs"),
    "proxy": ("proxy",),
    "trial": ("trial",),
    "experiments": ("run",),
    "page": ("page",),
    "predictions": ("predictions",),
    "exercises": ("exercises",),
    "course": ("course",),
    "incident": ("incident",),
    "sweep": ("sweep",),
    "audit": ("audit",),
    "desk": ("desk",),
    "guarantees": ("guarantees",),
    "conform": ("conform",),
    "bench": ("bench",),
    "offsets": ("offsets", "watch"),
}

LONGEST_ERROR = 2_000  # characters


class _StoppedError(Exception):
    """Ctrl-C, or an answer that was not given."""


class _UnreadError(Exception):
    """Nobody reads stdout any more."""


class _Group(TyperGroup):
    """Lets a Ctrl-C and a closed pipe come to `main`; typer would end the process without a word, or with 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort):
            raise _StoppedError from None
        except BrokenPipeError:
            raise _UnreadError from None


app = typer.Typer(
    name="kit",
    cls=_Group,
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


def load(words: list[str]) -> None:
    """Import the module of the command that `words` ask for; all of them for help, and for what is no command."""
    asked = next((word for word in words if not word.startswith("-")), "")
    if not asked and "--version" in words:
        return
    for module in [module for module, commands in COMMANDS.items() if asked in commands] or COMMANDS:
        importlib.import_module(f"kitlib.cli.{module}")


class _Shown:
    """A stream for people, through which all goes that is printed: what others have named is shown, not obeyed.

    Only rich writes past it, whose colours and bars are terminal escapes of the kit's own.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # the name by which rich finds what is behind

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(text.translate(VISIBLE_IN_LINES))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; errors become one line on stderr."""
    with redirect_stdout(cast(TextIO, _Shown(sys.stdout))), redirect_stderr(cast(TextIO, _Shown(sys.stderr))):
        _main(arguments)


def _main(arguments: list[str] | None) -> NoReturn:
    try:
        try:
            words = [dashed(word) for word in (sys.argv[1:] if arguments is None else arguments)]
            load(words)
            app(words, prog_name="kit")
        finally:
            sys.stdout.flush()
    except KitError as error:
        if os.environ.get("KIT_DEBUG"):
            raise
        _end(str(error), error.exit_code)
    except (KeyboardInterrupt, _StoppedError):
        _end("stopped.", 130)
    except (BrokenPipeError, _UnreadError):
        _give_up_stdout()
        sys.exit(141)
    except OSError as error:
        if os.environ.get("KIT_DEBUG"):
            raise
        _give_up_stdout()
        if error.filename is None:
            _end(f"the output could not be written: {error.strerror or error}. Make room or choose another place.", 74)
        from kitlib.lab.workspace import disk_error

        _end(str(disk_error(str(error.filename), error, Path(str(error.filename)))), 74)
    sys.exit(0)


def dashed(word: str) -> str:
    """`--max_offset_behind=5` as `--max-offset-behind=5`: knobs may be written as notebooks write them."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def _end(sentence: str, exit_code: int) -> NoReturn:
    """Errors name what other people have named: control characters are shown, not obeyed."""
    print(f"kit: {plain_text(sentence, LONGEST_ERROR)}", file=sys.stderr)
    sys.exit(exit_code)


def _give_up_stdout() -> None:
    """Nobody reads it or there is no room: what is still buffered must not raise again at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
