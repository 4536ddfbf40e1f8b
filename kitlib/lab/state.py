"""What the kit remembers about its running parts: small JSON files, written whole or not at all.

A state file is a note of a process about itself; it may be old, cut short, or about a process that
is long gone. So it is replaced in one step, and a reader that cannot make sense of it puts it aside and goes on.
Whether the process it names still lives is not the file's to say: `kitlib.lab.processes.find` asks the system.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import psutil

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import workspace
from kitlib.lab.processes import find

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
    controller_port: int | None = None  # None at nodes which are brokers only
    pid: int | None = None  # None while no java runs for this node
    phase: str = "starting"  # starting, running, held (stays dead); whoever looks also finds it silent, or dead
    restarts: int = 0  # after deaths nobody asked for, since the warden began
    last_death: str | None = None  # why the last of these deaths happened


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the warden writes about itself and its nodes, and everybody else reads."""

    pid: int
    token: str  # in the command lines of the warden and of its javas
    brokers: int  # 1 or 3
    phase: str  # starting, running, stopping, failed
    since: float  # Unix time at which the warden began
    cluster_id: str | None = None  # None until the data folder is formatted
    nodes: tuple[NodeState, ...] = ()
    message: str = ""  # why the phase is what it is, for people
    failure: str = ""  # the name of the KitError that ended it; empty unless the phase is failed
    notes: tuple[str, ...] = ()  # what a learner should know about this start: data put aside, ports that moved

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ClusterState:
        """As `asdict` gives it, believed only as far as its form. KeyError and TypeError when it has none."""
        return cls(**{**content, "nodes": tuple(NodeState(**node) for node in content["nodes"]), "notes": tuple(content["notes"])})

    @property
    def warden(self) -> psutil.Process | None:
        """The process that wrote this, if it lives."""
        return find(self.pid, f"--run={self.token}")

    def java(self, node: NodeState) -> psutil.Process | None:
        """The process that runs a node, if there is one."""
        return find(node.pid, f"-Dkit.run={self.token}")

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def error(self) -> KitError:
        """The error with which the warden gave up, as the caller should raise it."""
        return (DiskError if self.failure == DiskError.__name__ else LabError)(self.message)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace the file by `content` in one step; only its owner can read it. DiskError when there is no room."""
    workspace.write_atomic(path, json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The content of a state file, as `read_as` gives it."""
    return read_as(dict, path)


def read_as(made: Callable[[dict[str, Any]], Made], path: Path, say: Say = say_on_stderr) -> Made | None:
    """What `made` makes of a state file's content, or None when there is none or it makes no sense.

    A file that makes no sense is renamed to `*.broken`, and `say` hears about it.
    """
    try:
        return made(json.loads(path.read_bytes()))
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

