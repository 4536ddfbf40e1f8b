"""`kit settings`: what each library says that its own defaults are."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError


@app.command("settings")
def settings_command(
    names: Annotated[list[str], typer.Argument(help="Settings, such as linger.ms acks.")],
    of: Annotated[
        list[str] | None,
        typer.Option("--of", help="Whose defaults: java.producer, librdkafka, broker, ...; repeatable. Default: all that have it."),
    ] = None,
    doc: Annotated[bool, typer.Option("--doc", help="Print the sources' own sentences as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """The defaults of settings, read from Java's classes, librdkafka, kafka-python and (--of broker) a running broker."""
    from kitlib.lab import client_defaults
    from kitlib.text import plain_text

    asked = list(dict.fromkeys(of or _with_any(names)))
    table = client_defaults.settings_table(names, asked)  # refuses what there is not
    known = {each: client_defaults.settings_of(each) for each in asked if each not in client_defaults.NOT_READ}
    found = [settings[name] for name in names for settings in known.values() if name in settings]
    if as_json:
        rows = [{"source": each.source, "name": each.name, "default": each.default, "here": each.here, "doc": each.doc} for each in found]
        typer.echo(json.dumps(rows, indent=1))
        return
    typer.echo(table)
    for each in found if doc else ():
        typer.echo(f"\n{each.name} ({each.source})\n  {plain_text(each.doc or 'It says nothing of it.', 4_000)}")


def _with_any(names: list[str]) -> list[str]:
    """The sources that have one of these settings; a running broker is asked only when it is named."""
    from kitlib.lab import client_defaults

    sources = [each for each in client_defaults.SOURCES if each not in ("broker", *client_defaults.NOT_READ)]
    found = [each for each in sources if any(name in client_defaults.settings_of(each) for name in names)]
    if not found:
        raise KnobError(
            f"no library here has the setting {', '.join(repr(name[:60]) for name in names)}. Check the spelling: settings are "
            "written with dots, such as linger.ms."
        )
    return found
