"""Takes back what a notebook has made: its topics, groups, stored offsets and checkpoints, and nothing else.

Two things must both say that something may go: the notebook's own list (`kitlib.lab.made`), and the
thing itself, by its name (`kit.*` topics) or by a marker file (folders). Links are never followed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError
from kitlib.lab import made, workspace
from kitlib.lab.made import Made

SECONDS = 15.0
GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)


def chosen(asked: str) -> str:
    """The remembered notebook that `asked` means: a path, a name, or the beginning of just one name."""
    name, known = made.slug(Path(asked).name.removesuffix(".ipynb")), made.notebooks()
    matching = [name] if name in known else [each for each in known if each.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    problem = f"could be {', '.join(matching)}" if matching else "has made nothing that is remembered"
    raise LabError(f"{asked} {problem}. Notebooks that have: {', '.join(known) or 'none'}.")


def summary(things: list[Made]) -> str:
    """`2 topics (kit.a.b, kit.c.d), 1 group (g)`, or `nothing`."""
    parts = []
    for kind in ("topic", "group", "offset", "checkpoint"):
        if names := [thing.name for thing in things if thing.kind == kind]:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            parts.append(f"{len(names)} {kind}{'s' if len(names) > 1 else ''} ({shown})")
    return ", ".join(parts) or "nothing"


def take_back(things: Iterable[Made], client: dict[str, Any]) -> tuple[list[Made], list[str]]:
    """Delete `things`; returns what is gone now (or was gone before) and a sentence for each that is not."""
    by_kind: dict[str, list[Made]] = {}
    for thing in things:
        by_kind.setdefault(thing.kind, []).append(thing)
    gone: list[Made] = []
    problems: list[str] = []
    for kind, take in (("offset", take_offsets), ("group", take_groups), ("topic", take_topics)):
        if kind in by_kind:
            take(by_kind[kind], client, gone, problems)
    for thing in by_kind.get("checkpoint", []):
        problem = delete_folder(Path(thing.name), workspace.spark_dir())
        if problem:
            problems.append(problem)
        else:
            gone.append(thing)
    return gone, problems


def take_topics(things: list[Made], client: dict[str, Any], gone: list[Made], problems: list[str]) -> None:
    ours = [thing for thing in things if thing.name.startswith(made.TOPIC_PREFIX)]
    problems += [f"Topic {thing.name} does not begin with {made.TOPIC_PREFIX}" for thing in things if thing not in ours]
    if ours:
        admin = AdminClient(client)  # must outlive its answers
        futures = admin.delete_topics([thing.name for thing in ours], operation_timeout=SECONDS)
        settle(ours, lambda thing: futures[thing.name], gone, problems)


def take_groups(things: list[Made], client: dict[str, Any], gone: list[Made], problems: list[str]) -> None:
    admin = AdminClient(client)  # must outlive its answers
    futures = admin.delete_consumer_groups([thing.name for thing in things])
    settle(things, lambda thing: futures[thing.name], gone, problems)


def settle(
    things: list[Made], future: Callable[[Made], Future[Any]], gone: list[Made], problems: list[str]
) -> None:
    """Wait for the broker's answer about each thing; what it does not know is gone as well."""
    for thing in things:
        try:
            future(thing).result(timeout=SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in GONE:
                problems.append(f"{thing.kind.capitalize()} {thing.name}: {error.args[0].str()}")
                continue
        gone.append(thing)


def take_offsets(things: list[Made], client: dict[str, Any], gone: list[Made], problems: list[str]) -> None:
    """Write a tombstone for each key into its compacted topic, which then forgets the key."""
    producer = Producer({**client, "enable.idempotence": True, "message.timeout.ms": int(SECONDS * 1000)})

    def note(thing: Made) -> Callable[[KafkaError | None, Any], None]:
        def answered(error: KafkaError | None, _: Any) -> None:
            if error is None or error.code() in GONE:
                gone.append(thing)
            else:
                problems.append(f"Stored offset {thing.name} in {thing.store}: {error.str()}")

        return answered

    for thing in things:
        producer.produce(thing.store, key=thing.name.encode(), value=None, on_delivery=note(thing))
    producer.flush(SECONDS + 5)


def delete_folder(folder: Path, below: Path) -> str | None:
    """Delete a folder of ours below `below`; a sentence if it is not ours, None if it is gone."""
    if not folder.exists() and not folder.is_symlink():
        return None
    root = below.resolve()
    if folder.is_symlink() or not folder.is_dir():
        return f"{folder} is not a folder but a link or a file; it was left alone"
    if folder.resolve() == root or not folder.resolve().is_relative_to(root):
        return f"{folder} is outside of {root}; it was left alone"
    if (folder / made.MARKER).is_symlink() or not (folder / made.MARKER).is_file():
        return f"{folder} has no {made.MARKER} file in it, so the kit did not make it; it was left alone"
    try:
        shutil.rmtree(folder)  # links inside are removed, not followed
    except OSError as error:
        return f"{folder} could not be deleted ({error.strerror})"
    return None
