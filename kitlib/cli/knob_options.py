"""A knob as an option of a command."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer

from kitlib.experiments.knobs import UNLIMITED, Knob


def knob_option(knob: Knob) -> inspect.Parameter:
    """The parameter of a command's function for a knob; the knob itself checks its value."""
    default = "unlimited" if knob.default == UNLIMITED else str(knob.default).lower()
    option = typer.Option(
        f"--{knob.name.replace('_', '-')}",
        metavar="|".join(knob.choices) or knob.kind.upper(),
        help=f"{knob.help} {knob.range[0].upper()}{knob.range[1:]}; default: {default}.",
    )
    return inspect.Parameter(
        knob.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[str | None, option], default=None
    )
