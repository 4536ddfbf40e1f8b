"""What the kit remembers about its running parts: small JSON files, written whole or not at all.

A state file is a note of a process about itself; it may be old, cut short, or about a process that
is long gone. So it has a schema version, it is replaced in one step, and a reader that cannot make
sense of it puts it aside and goes on. Whether the process it names still lives is not the file's to
say: `Identity.is_alive` asks the system.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import workspace
from kitlib.lab.processes import Identity

SCHEMA = 1
Say = Callable[[str], None]


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
    """The content of a state file, or None when there is none or it makes no sense.

    A file that makes no sense is renamed to `*.broken`, and `say` hears about it. LabError when a newer
    kit wrote it: that kit may be running.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DiskError(f"{path} cannot be read: {error.strerror}. Make it readable or set KIT_HOME.") from error
    except (ValueError, RecursionError) as error:
        _put_aside(path, f"it is not JSON ({error})", say)
        return None
    schema = content.get("schema") if isinstance(content, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise LabError(
            f"{path} was written by a newer kit (schema {schema}; this kit reads {SCHEMA}). End the lab with that "
            "kit's `kit down`, or set KIT_HOME to another folder."
        )
    if schema != SCHEMA:
        _put_aside(path, f"it has no schema {SCHEMA}", say)
        return None
    return dict(content)


def write_cluster_state(path: Path, state: ClusterState) -> None:
    """Replace the state file by `state`."""
    write_json(path, asdict(state))


def read_cluster_state(path: Path, say: Say) -> ClusterState | None:
    """The state file's content, believed only as far as its form; put aside when it has none."""
    content = read_json(path, say)
    if content is None:
        return None
    del content["schema"]
    try:
        nodes = tuple(NodeState(**node) for node in content.pop("nodes"))
        state = ClusterState(**{**content, "nodes": nodes, "notes": tuple(content.pop("notes"))})
        _check_types(state)
    except (KeyError, TypeError, AttributeError) as error:
        _put_aside(path, f"it does not describe a cluster ({error})", say)
        return None
    return state


def _check_types(state: ClusterState) -> None:
    numbers = [state.pid, state.born_s, state.since, state.brokers, *(node.port for node in state.nodes)]
    numbers += [number for node in state.nodes for number in (node.pid, node.born_s) if number is not None]
    texts = [state.token, state.phase, state.message, state.failure, *(node.phase for node in state.nodes)]
    texts += state.notes
    if not all(isinstance(number, int | float) for number in numbers) or not all(isinstance(t, str) for t in texts):
        raise TypeError("a value has the wrong type")


def put_aside(path: Path) -> Path:
    """Rename a file or folder that cannot be used to the first free `*.broken` name, and return that name."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.broken" if number == 1 else f"{path.name}.broken-{number}")
        if not os.path.lexists(aside):
            path.rename(aside)
            return aside
        number += 1


def _put_aside(path: Path, why: str, say: Say) -> None:
    try:
        aside = put_aside(path)
    except FileNotFoundError:
        return
    say(f"{path.name} cannot be used: {why}. It is kept as {aside.name}; the kit goes on without it.")
