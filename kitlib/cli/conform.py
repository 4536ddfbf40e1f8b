"""`kit conform`: recorded traces of the real classes, replayed on the kit's models."""

from __future__ import annotations

from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.conformance import (
    acker,
    assignors,
    client,
    commits,
    compaction,
    connect,
    hashes,
    lag,
    offsets_topic,
    partition_manager,
    producer_state,
    sender,
)
from kitlib.conformance.golden import Replay, bundled, conform, read_traces
from kitlib.errors import KnobError, TraceError
from kitlib.text import plain_text

MODELS: dict[str, tuple[Replay, tuple[str, ...]]] = {
    "partition_manager": (partition_manager.replay, ("storm/pm_scenarios.jsonl.gz", "storm/pm_random_public.jsonl.gz")),
    "producer_state": (
        producer_state.replay,
        ("producer/producer_state_named.jsonl.gz", "producer/producer_state_public.jsonl.gz"),
    ),
    "sender": (
        sender.replay,
        tuple(f"producer/{name}.jsonl.gz" for name in ("sender_named", "sender_public", "sender_named_2_0_0")),
    ),
    "acker": (acker.replay, ("storm/acker_scenarios.jsonl.gz", "storm/acker_random_public.jsonl.gz")),
    "connect": (connect.replay, ("groups/connect_named.jsonl.gz", "groups/connect_public.jsonl.gz")),
    "assignors": (
        assignors.replay,
        tuple(f"groups/assignors_{name}.jsonl.gz" for name in ("named", "public", "asked")),
    ),
    "client": (client.replay, tuple(f"client/{name}.jsonl.gz" for name in ("metadata", "pool"))),
    "hashes": (hashes.replay, ("groups/hashes.jsonl.gz",)),
    "offsets_topic": (offsets_topic.replay, ("groups/offsets_topic_public.jsonl.gz",)),
    "compaction": (compaction.replay, ("groups/compaction_named.jsonl.gz", "groups/compaction_public.jsonl.gz")),
    "lag": (lag.replay, ("burrow/windows_named.jsonl.gz", "burrow/windows_public.jsonl.gz")),
    "commits": (commits.replay, ("burrow/commits_named.jsonl.gz", "burrow/commits_public.jsonl.gz")),
}


@app.command("conform")
def conform_command(
    model: Annotated[str | None, typer.Argument(help=f"One of: {', '.join(MODELS)}; by default, all of them.")] = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Trace files, plain or gzipped; by default, those that come with the kit."),
    ] = None,
) -> None:
    """Replay recorded traces against the kit's own models; exit code 1 if a step differs."""
    if model is not None and model not in MODELS:
        raise KnobError(f"there is no model '{model}' to conform. The models are {', '.join(MODELS)}.")
    matched = total = 0
    differs = False
    paths = [
        (replay, path)
        for replay, own_files in (MODELS.values() if model is None else [MODELS[model]])
        for path in files or [str(bundled(*name.split("/"))) for name in own_files]
    ]
    for replay, path in paths:
        found = conform(replay, read_traces(path))
        if not found.traces:
            raise TraceError(f"{path}: it holds no trace. Give a file of recorded traces.")
        matched, total = matched + found.matched, total + found.total
        typer.echo(f"{found.matched}/{found.total} steps matched, {found.traces} traces, {plain_text(path, 1_000)}")
        if not found.agrees:
            differs, first = True, found.differences[0]
            typer.echo(f"  first difference: {plain_text(first, 1_000)}\n  meaning: {plain_text(first.meaning, 1_000)}")
    if len(paths) > 1:
        typer.echo(f"{matched}/{total} steps matched in all")
    raise typer.Exit(1 if differs else 0)
