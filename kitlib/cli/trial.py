"""`kit trial`: a program of your own, in any language, under faults; a verdict for people, scripts and CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.text import plain_text


@app.command(context_settings={"ignore_unknown_options": True})
def trial(
    side: Annotated[str, typer.Argument(metavar="producer|consumer", help="What the program is.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD ...", help="The program and its arguments.")],
    fault: Annotated[list[str] | None, typer.Option(help="A rule of `kit proxy --help`, such as cut:count=2; again for more.")] = None,
    seed: Annotated[int | None, typer.Option(help="Without --fault, draw two faults that end; else, of its percentages.")] = None,
    kill: Annotated[list[int] | None, typer.Option(help="Kill it (SIGKILL) after so many records, and start it again.")] = None,
    restart: Annotated[list[int] | None, typer.Option(help="The same with SIGTERM.")] = None,
    records: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many records.")] = 300,
    value: Annotated[str, typer.Option(help="Their values, which are their ids: braces stand for the number.")] = "{}",
    partitions: Annotated[int, typer.Option(min=1, max=50, help="Of the topic.")] = 1,
    allow: Annotated[list[str] | None, typer.Option(help="What is no failure; again for more. A name that is none lists all.")] = None,
    forbid: Annotated[list[str] | None, typer.Option(help="What is one after all, such as a consumer's `repeated` or `reordered`.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="When the program is stopped at the latest.")] = 300,
    patience: Annotated[float | None, typer.Option(min=1, help="When a consumer without progress is stopped.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write it to this file too, as JUnit XML.")] = None,
) -> None:
    """Run a program of your own against Kafka through a faulty network, and compare what was sent, stored, told and finished.

    It gets KIT_BOOTSTRAP, KIT_TOPIC, KIT_GROUP, KIT_OUT and KIT_OUT_TOPIC in its environment. A producer sends the ids that it reads
    from its input, one a line, as values; it may print `ack ID` and `fail ID`. A consumer appends the value of each record that it has
    finished to the file KIT_OUT, or writes it to the topic KIT_OUT_TOPIC, before it commits. Exit code 1: something is wrong.
    """
    from kitlib.lab import notebook_tests, notebooks
    from kitlib.lab.proxy.chaos_proxy import Rule
    from kitlib.lab.session import Printer
    from kitlib.trial.programs import CONSUMER_KINDS, PATIENCE_S, PRODUCER_KINDS, Trial, drawn

    kinds = {"producer": PRODUCER_KINDS, "consumer": CONSUMER_KINDS}.get(side)
    if kinds is None:
        raise KnobError(f"a program is a producer or a consumer, not '{plain_text(side, 40)}'. Write `kit trial producer -- CMD`.")
    if unknown := sorted({*(allow or ()), *(forbid or ())} - kinds.keys()):
        raise KnobError(f"a {side} has no '{plain_text(unknown[0], 40)}'. Choose among {', '.join(kinds)}.")
    rules = [Rule.parse(text) for text in fault or ()] or (drawn(side, seed) if seed is not None else [])
    printer = Printer()
    with notebooks.broker(printer.step), Trial.open(*rules, seed=seed or 1, partitions=partitions) as opened:
        for rule in rules:
            printer.step(f"fault {rule.text}")
        ends = kill or (), restart or (), seconds
        if side == "producer":
            found = opened.producer(command, records, value, *ends)
        else:
            found = opened.consumer(command, records, value, *ends, patience or PATIENCE_S)
        done = {action: count for action, count in opened.proxy.counts().items() if action in {rule.action for rule in rules}}
    verdict = found.judged((found.allowed | set(allow or ())) - set(forbid or ()))
    printer.step(f"faults done: {', '.join(f'{name} {count}' for name, count in done.items()) or 'none'}")
    if as_json:
        first = {kind: ids[:20] for kind, ids in verdict.found.items() if ids}
        told = {"side": side, "passed": verdict.passed, "sent": verdict.sent, "counts": verdict.counts, "problems": verdict.problems}
        printer.line(json.dumps(told | {"first": first, "faults": [rule.text for rule in rules], "done": done}), data=True)
    else:
        printer.line(f"{'right' if verdict.passed else 'wrong'}: {verdict}", data=True)
    if junit is not None:
        case = notebook_tests.Case(plain_text(" ".join(command)), "" if verdict.passed else str(verdict))
        notebook_tests.write_junit({f"kit trial {side}": [case]}, "trials", junit)
    raise typer.Exit(0 if verdict.passed else 1)
