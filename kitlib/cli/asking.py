"""Asking before something is deleted or replaced."""

from __future__ import annotations

import sys

import typer

from kitlib.errors import KnobError


def confirm(yes: bool, question: str, otherwise: str) -> None:
    """Go on if `yes` was given or is answered. KitError with `otherwise` where nobody can answer; Abort for a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise KnobError(otherwise)
    typer.confirm(question, abort=True, err=True)
