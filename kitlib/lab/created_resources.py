"""Which notebook made which topic, group and checkpoint, so that `kit reset` takes back exactly that.

A learner who starts over wants the leftovers of one notebook gone and those of the others untouched,
and nobody else's topics even looked at. So whoever makes something says so here: one line for each
thing, appended to a file of the notebook's own. A line is written before the thing is made: a name
too many does no harm, a thing that nobody remembers stays for ever. Two things must both say that something
may go: this list, and the thing itself, by its name (`kit.*` topics) or by a marker file (folders). Links are never followed.

Names: a notebook's topics are `kit.<experiment>.<run>`, a run's trace is `kit.trace.<run>`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError
from kitlib.lab import workspace

Kind = Literal["topic", "group", "offset", "checkpoint"]
KINDS = get_args(Kind)
MARKER = ".made-by-kit"  # a folder without it is never deleted
TOPIC_PREFIX = "kit."  # a topic without it is never deleted


@dataclass(frozen=True, slots=True)
class Made:
    """One thing that a notebook has made on the broker or on the disk."""

    kind: Kind
    name: str  # a topic, a consumer group, a folder (absolute), or the key of a stored offset
    store: str = ""  # for a stored offset: the compacted topic that holds the key


def remember(kind: Kind, name: str | Path, store: str = "") -> None:
    """Note that the running notebook is about to make this; for a checkpoint the folder is made and marked too.

    Call it before the topic is created, the group joined, the query started or the offset written.
    """
    made = Made(kind, str(name), store)
    if kind == "checkpoint":
        made = Made(kind, str(mark(Path(name))))
    if made in read(notebook()):
        return
    path = path_of(notebook())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(made)) + "\n")  # one write: two kernels never mix their lines
    except OSError as error:
        raise workspace.disk_error(f"{path} could not be written", error, path) from error


def mark(folder: Path) -> Path:
    """Make a folder and put the marker into it without which the kit deletes nothing; its real path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch(mode=0o600)
    except OSError as error:
        raise workspace.disk_error(f"{folder} could not be made", error, folder) from error
    return folder.resolve()


def notebook() -> str:
    """The name of the running notebook without folder and ending; `terminal` outside of notebooks.

    JupyterLab tells a kernel its notebook's path as JPY_SESSION_NAME; `kit notebooks` and the tests set KIT_NOTEBOOK.
    """
    path = os.environ.get("KIT_NOTEBOOK") or os.environ.get("JPY_SESSION_NAME") or "terminal"
    return slug(Path(path).name.removesuffix(".ipynb"))


def slug(name: str) -> str:
    """`name` as a file name: letters, digits, `_`, `-` and inner dots, 100 at most."""
    return re.sub(r"[^\w.-]", "_", name).strip(".")[:100] or "terminal"


def folder() -> Path:
    return workspace.run_dir() / "made"


def path_of(name: str) -> Path:
    return folder() / f"{slug(name)}.jsonl"


def notebooks() -> list[str]:
    """The notebooks that have made something which is still remembered."""
    return sorted(path.stem for path in folder().glob("*.jsonl"))


def read(name: str) -> list[Made]:
    """What a notebook has made, each thing once. A line that was cut short names nothing and is left out."""
    try:
        lines = path_of(name).read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    found: dict[Made, None] = {}
    for line in lines:
        with suppress(ValueError, TypeError):
            found[Made(**json.loads(line))] = None
    return [made for made in found if made.kind in KINDS and isinstance(made.name, str)]


def forget(name: str, gone: list[Made]) -> None:
    """Strike out what no longer exists, and lines that cannot be read. What a kernel adds at this very moment may be struck out too."""
    rest = [made for made in read(name) if made not in gone]
    if not rest:
        path_of(name).unlink(missing_ok=True)
        return
    lines = [json.dumps(asdict(made)) for made in rest]
    workspace.write_atomic(path_of(name), "\n".join(lines) + "\n")


SECONDS = 15.0
GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)


def chosen(asked: str) -> list[str]:
    """The remembered notebook that `asked` means: a path, a name, or the beginning of just one name; [] when it has made nothing."""
    name, known = slug(Path(asked).name.removesuffix(".ipynb")), notebooks()
    matching = [name] if name in known else [each for each in known if each.startswith(name)]
    if len(matching) > 1:
        raise KnobError(f"{asked} could be {', '.join(matching)}. Say which.")
    return matching


def summary(things: list[Made]) -> str:
    """`2 topics (kit.a.b, kit.c.d), 1 group (g)`, or `nothing`."""
    parts = []
    for kind in KINDS:
        if names := [thing.name for thing in things if thing.kind == kind]:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            parts.append(f"{len(names)} {kind}{'s' if len(names) > 1 else ''} ({shown})")
    return ", ".join(parts) or "nothing"


def take_back(things: Iterable[Made], client: dict[str, Any]) -> tuple[list[Made], list[str]]:
    """Delete `things`; returns what is gone now (or was gone before) and a sentence for each that is not."""
    things = list(things)
    by_kind = {kind: [thing for thing in things if thing.kind == kind] for kind in KINDS}
    gone: list[Made] = []
    problems = [f"Topic {thing.name} does not begin with {TOPIC_PREFIX}" for thing in by_kind["topic"] if not is_ours(thing)]
    if by_kind["offset"]:
        take_offsets(by_kind["offset"], client, gone, problems)
    admin = AdminClient(client)  # must outlive its answers
    for wanted, delete in (
        (by_kind["group"], admin.delete_consumer_groups),
        (list(filter(is_ours, by_kind["topic"])), partial(admin.delete_topics, operation_timeout=SECONDS)),
    ):
        futures = delete([thing.name for thing in wanted], request_timeout=SECONDS) if wanted else {}
        for thing in wanted:
            try:
                futures[thing.name].result()  # the client itself gives up after SECONDS
            except KafkaException as error:
                if error.args[0].code() not in GONE:  # what the broker does not know is gone as well
                    problems.append(f"{thing.kind.capitalize()} {thing.name}: {error.args[0].str()}")
                    continue
            gone.append(thing)
    for thing in by_kind["checkpoint"]:
        if problem := delete_folder(Path(thing.name), workspace.spark_dir()):
            problems.append(problem)
        else:
            gone.append(thing)
    return gone, problems


def is_ours(topic: Made) -> bool:
    return topic.name.startswith(TOPIC_PREFIX)


def take_offsets(things: list[Made], client: dict[str, Any], gone: list[Made], problems: list[str]) -> None:
    """Write a tombstone for each key into its compacted topic, which then forgets the key."""
    producer = Producer({**client, "enable.idempotence": True, "message.timeout.ms": int(SECONDS * 1000)})

    def told_of(thing: Made) -> Callable[[KafkaError | None, Any], None]:
        def answered(error: KafkaError | None, _: Any) -> None:
            if error is None or error.code() in GONE:
                gone.append(thing)
            else:
                problems.append(f"Stored offset {thing.name} in {thing.store}: {error.str()}")

        return answered

    for thing in things:
        producer.produce(thing.store, key=thing.name.encode(), value=None, on_delivery=told_of(thing))
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
    if (folder / MARKER).is_symlink() or not (folder / MARKER).is_file():
        return f"{folder} has no {MARKER} file in it, so the kit did not make it; it was left alone"
    try:
        shutil.rmtree(folder)  # links inside are removed, not followed
    except OSError as error:
        return f"{folder} could not be deleted ({error.strerror})"
    return None
