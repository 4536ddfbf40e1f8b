"""`kit proxy`: a network that misbehaves by rule, between any Kafka client and the kit's broker, or your own cluster."""

from __future__ import annotations

import dataclasses
import json
import select
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kitlib.cli import app
from kitlib.lab.proxy.rules import ACTIONS, APIS_WITH_ERRORS
from kitlib.text import plain_text

if TYPE_CHECKING:
    from kitlib.lab.proxy.chaos_proxy import ChaosProxy, ProxyEvent

LOOK_EVERY_S = 0.1
RULES = "A rule, as in 'cut:percent=9,count=5'; may be given more than once. Settings: api, percent, skip, \
count, client_id, ms, error. Actions: " + "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
RULES += f". An error can be given for: {', '.join(APIS_WITH_ERRORS)}."


@app.command()
def proxy(
    rule: Annotated[list[str] | None, typer.Option(help=RULES)] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen for the first broker's clients; 0: at any free port.")] = 0,
    seed: Annotated[int, typer.Option(help="Random seed for rules with a percentage.")] = 1,
    watch: Annotated[list[str] | None, typer.Option(help="Also print each request and answer of this API; 'any': of all.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds; without it, at Ctrl-C.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Run a proxy in front of the brokers that applies the rules to its clients; prints the address to give to a client.

    They are the kit's, or those that KIT_KAFKA_BOOTSTRAP names: then the proxy speaks TLS with them, and its clients speak none;
    their passwords are the cluster's. Every event is one line; the last line has the counts. It ends at Ctrl-C, or when the
    reader of its output exits.
    """
    from kitlib.lab import kafka_server
    from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule

    rules = [Rule.parse(text) for text in rule or []]
    with ChaosProxy.before(kafka_server.ensure(), rules, seed, watch or (), port) as running:
        typer.echo(json.dumps({"bootstrap": running.bootstrap}) if as_json else running.bootstrap)
        ends = None if seconds is None else time.monotonic() + seconds
        printed = 0
        try:
            while ends is None or time.monotonic() < ends:
                if _reader_has_gone(LOOK_EVERY_S):
                    break
                printed = _print_new(running, printed, as_json)
        finally:
            _print_new(running, printed, as_json)
            counts = running.counts()
            typer.echo(json.dumps({"counts": counts}) if as_json else _listed(counts))


def _reader_has_gone(seconds: float) -> bool:
    """Wait so long, or until nobody reads stdout any more, as after `kit proxy | head -1`."""
    look = select.poll()
    try:
        look.register(sys.stdout, 0)  # that it is broken off is told unasked
    except (OSError, ValueError):  # stdout has no descriptor
        time.sleep(seconds)
        return False
    return any(what & (select.POLLERR | select.POLLHUP) for _, what in look.poll(seconds * 1000))


def _print_new(running: ChaosProxy, printed: int, as_json: bool) -> int:
    """Print the events after the first `printed` ones; how many there are now."""
    events, number = running.events_after(printed)
    for event in events:
        typer.echo(json.dumps(dataclasses.asdict(event)) if as_json else _line(event))
    return number


def _line(event: ProxyEvent) -> str:
    parts = [f"{event.at_ms / 1000:9.3f} s", f"connection {event.connection}", event.what]
    if event.api:
        client = plain_text(event.client_id, 40) or "nobody"
        parts.append(f"{event.api} {event.correlation_id} of {client}, {event.size} bytes")
    if event.rule is not None:
        parts.append(f"rule {event.rule}")
    return ": ".join(parts[:2]) + ": " + ", ".join(parts[2:])


def _listed(counts: dict[str, int]) -> str:
    return "counted: " + ", ".join(f"{what} {number}" for what, number in sorted(counts.items()))
