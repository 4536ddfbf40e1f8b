"""`kit desk`: a producer, a spout and a bolt on the real broker, with Spark counting along."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kitlib.cli import app
from kitlib.cli.experiments import with_knobs
from kitlib.desk.settings import DEEDS, KNOBS, settled
from kitlib.errors import KnobError
from kitlib.views.browser.saved_page import check_page, save

if TYPE_CHECKING:
    from kitlib.desk.lamps import Drained
    from kitlib.desk.run import DeskRun

LONGEST_S = 86_400


def desk(
    *,
    seconds: Annotated[
        float | None, typer.Option(min=1, max=LONGEST_S, help="Drain and compare after this many seconds; without it, run until Ctrl-C.")
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECOND=WHAT",
            help="Do this in that second: database-away, kill-broker, kill-spout, or a knob, as in 5=lost_answers=10. May be repeated.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each second, and one for the comparison.")] = False,
    page: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Keep the spout's last steps as a page to play.")] = None,
    **given: str | None,
) -> None:
    """Run a producer, a spout and a bolt on the real broker, with Spark counting along.

    Each second shows how it goes. After --seconds everything comes to rest, and three counts are compared: the desk's ledgers,
    the broker's log and Spark. Exit code 0 when they agree, otherwise 1. Ctrl-C ends it at once. Nothing is left behind either way.
    """
    settings = settled({name: value for name, value in given.items() if value is not None})
    planned = sorted((_planned(text) for text in at or ()), key=lambda deed: deed[0])
    if page is not None:
        check_page(Path(page), "--html")
    from kitlib.desk.run import DeskRun  # here, because Spark takes a while to load
    from kitlib.lab import kafka_server
    from kitlib.lab.clients import must_be_own
    from kitlib.spark import sessions

    typer.echo("kit: starting Kafka, Spark and the desk", err=True)
    if any(deed == "kill broker" for _, deed, _ in planned):
        must_be_own(kafka_server.ensure(), "--at kill-broker")
    running = DeskRun(**settings)
    try:
        with sessions.lent(), running:
            _follow(running, seconds, planned, as_json)
            if not as_json:
                typer.echo("kit: draining", err=True)
            drained = running.drain()
            trace = running.trace()
        _print_drained(drained, as_json)
        if page is not None:
            save(trace, Path(page), overwrite=True, who="--html")
    finally:
        for problem in running.problems:
            typer.echo(f"kit: {problem}", err=True)
    raise typer.Exit(0 if drained.agree else 1)


with_knobs(desk, KNOBS)
app.command()(desk)

Planned = tuple[float, str, str | None]  # (second, a deed or a knob, the knob's value)


def _planned(text: str) -> Planned:
    """One --at. KnobError for what is no second, deed or knob."""
    second, _, what = text.partition("=")
    name, equals, value = what.partition("=")
    try:
        at_s = float(second)
    except ValueError:
        at_s = -1.0
    deed, knob = name.replace("-", " ").replace("_", " "), name.replace("-", "_")
    if 0 <= at_s <= LONGEST_S and not equals and deed in DEEDS:
        return at_s, deed, None
    if 0 <= at_s <= LONGEST_S and equals and knob in {each.name for each in KNOBS}:
        return at_s, knob, value
    told = f"expected a second and one of {', '.join(each.replace(' ', '-') for each in DEEDS)} or a knob, such as 5=lost_answers=10"
    raise KnobError(f"--at {text[:60]!r}: {told}.")


def _follow(running: DeskRun, seconds: float | None, planned: list[Planned], as_json: bool) -> None:
    """Show a look each second and what has happened since the last one, until the time is over; do what is planned."""
    began_s, left = time.monotonic(), list(planned)
    number, told = 0, list[tuple[float, str]]()
    while seconds is None or time.monotonic() < began_s + seconds:
        number += 1
        time.sleep(max(0.0, began_s + number - time.monotonic()))
        while left and left[0][0] <= number:
            _, what, value = left.pop(0)
            running.do(what) if value is None else running.set(**{what: value})
        if as_json:
            typer.echo(json.dumps(running.snapshot()))
            continue
        before, told = told, list(running.events)  # as they are now: the desk's threads go on adding to them
        for at_s, said in [event for event in told if event not in before]:
            typer.echo(f"{at_s:7.1f} s  {said}")
        typer.echo(line(running.snapshot()))


def line(look: dict[str, Any]) -> str:
    """A look as one line."""
    spark, rate = look["spark"], look["rate"]
    latency = "not yet" if spark["latency_s"] is None else f"{spark['latency_s']:.1f} s"
    return (
        f"{look['at_s']:7.1f} s  {rate['stored']:6.0f}/s stored  {rate['written']:6.0f}/s processed  lag {look['lag']:,}  "
        f"lost {spark['lost']:,}  duplicated {spark['duplicated_topic'] + spark['duplicated_results']:,}  "
        f"out of order {spark['reordered_topic'] + spark['reordered_results']:,}  Spark after {latency}"
    )


def _print_drained(drained: Drained, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"drained": drained.to_json()}))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False, highlight=False)
    told = drained.to_json()["counts"]
    compared = Table("", *told)
    for place in ("topic", "results"):
        for kind in next(iter(told.values()))[place]:
            compared.add_row(f"{place}: {kind}", *(f"{counts[place][kind]:,}" for counts in told.values()))
    console.print(compared)
    typer.echo(drained.sentence)
