"""What the kit remembers about its running parts: small JSON files, written whole or not at all.

A state file is a note of a process about itself; it may be old, cut short, or about a process that
is long gone. So it has a schema version, it is replaced in one step, and a reader that cannot make
sense of it puts it aside and goes on. Whether the process it names still lives is not the file's to
say: `Identity.is_alive` asks the system.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import workspace
from kitlib.lab.processes import Identity

SCHEMA = 1
Say = Callable[[str], None]
Made = TypeVar("Made")


def say_on_stderr(text: str) -> None:
    """Where progress goes when the caller has no better place."""
    print(f"kit: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class NodeState:
    """One Kafka node as the warden sees it."""

    node: int
    port: int
    # None at nodes which are brokers only.
    controller_port: int | None = None
    # None while no java runs for this node.
    pid: int | None = None
    born_s: float | None = None
    # starting, running, silent (lives, does not answer), dead (will be restarted), held (stays dead).
    phase: str = "starting"
    # The monotonic clock, which all processes share, at the last answer; set only while the phase is silent.
    silent_since: float | None = None
    # Restarts after deaths nobody asked for, since the warden began.
    restarts: int = 0
    # Why the last of these deaths happened.
    last_death: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the warden writes about itself and its nodes, and everybody else reads."""

    pid: int
    born_s: float
    token: str
    # Number of brokers in this set: 1 or 3.
    brokers: int
    # starting, running, stopping, failed.
    phase: str
    # Unix time at which the warden began.
    since: float
    # None until the data folder is formatted.
    cluster_id: str | None = None
    nodes: tuple[NodeState, ...] = ()
    # Why the phase is what it is, for people.
    message: str = ""
    # The name of the KitError that ended it; empty unless the phase is failed.
    failure: str = ""
    # What a learner should know about this start: data put aside, ports that moved.
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ClusterState:
        """As `asdict` gives it, believed only as far as its form. KeyError and TypeError when it has none."""
        return cls(**{**content, "nodes": tuple(NodeState(**node) for node in content["nodes"]), "notes": tuple(content["notes"])})

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.born_s, self.token)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)


def failure_of(state: ClusterState) -> KitError:
    """The error with which the warden gave up, as the caller should raise it."""
    return (DiskError if state.failure == DiskError.__name__ else LabError)(state.message)


def node_identity(state: ClusterState, node: NodeState) -> Identity | None:
    """The identity of the java that runs a node, or None while there is none."""
    if node.pid is None or node.born_s is None:
        return None
    return Identity(node.pid, node.born_s, state.token)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace the file by `content` in one step; only its owner can read it. DiskError when there is no room."""
    workspace.write_atomic(path, json.dumps({"schema": SCHEMA, **content}, indent=1) + "\n")


def read_json(path: Path, say: Say) -> dict[str, Any] | None:
    """The content of a state file, as `read_as` gives it."""
    return read_as(dict, path, say)


def read_as(made: Callable[[dict[str, Any]], Made], path: Path, say: Say) -> Made | None:
    """What `made` makes of a state file's content, or None when there is none or it makes no sense.

    A file that makes no sense is renamed to `*.broken`, and `say` hears about it. LabError when a newer
    kit wrote it: that kit may be running.
    """
    try:
        content = json.loads(path.read_bytes())
        if (schema := content.pop("schema")) > SCHEMA:
            told = f"{path} was written by a newer kit (schema {schema}; this kit reads {SCHEMA})"
            raise LabError(f"{told}. Use that one, or set KIT_HOME to another folder.")
        if schema < SCHEMA:
            raise ValueError(f"schema {schema}")
        return made(content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DiskError(f"{path} cannot be read: {error.strerror}. Make it readable or set KIT_HOME.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        with suppress(FileNotFoundError):  # another process has just done it
            aside = put_aside(path)
            say(f"{path.name} makes no sense ({type(error).__name__}: {error}). It is kept as {aside.name}; the kit goes on without it.")
        return None


def put_aside(path: Path) -> Path:
    """Rename a file or folder that cannot be used to the first free `*.broken` name, and return that name."""
    names = (f"{path.name}.broken{f'-{number}' if number > 1 else ''}" for number in count(1))
    aside = next(place for place in map(path.with_name, names) if not os.path.lexists(place))
    path.rename(aside)
    return aside

