"""Which process is which, and how to end it without harming a stranger.

A process id is a number that the system hands out again: a file that says "the broker is process
4711" may be read when 4711 is somebody's editor. So the kit knows a process by three things that
agree only for the right one: its id, the moment it began, and a random token that stands in its
command line or environment. Whoever does not agree in all three is left alone.
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import psutil

from kitlib.errors import LabError, LateError

Answer = TypeVar("Answer")

# A token shorter than this could stand in the command line of a stranger by chance.
SHORTEST_TOKEN = 12
# Two readings of one process's birth differ by the rounding of the system's boot time.
BIRTH_TOLERANCE_S = 2.0
# A program that may open fewer files than this may need more.
MANY_FILES = 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, for as long as it lives: no other process ever has the same three values."""

    pid: int
    # Seconds from the system's boot to the process's start: a stepped wall clock does not move it.
    born_s: float
    # Stands in the process's command line or environment.
    token: str

    def process(self) -> psutil.Process | None:
        """The process itself, or None when it is gone, is a zombie, or its id belongs to another now."""
        if self.pid <= 0 or len(self.token) < SHORTEST_TOKEN:
            return None
        try:
            process = psutil.Process(self.pid)
            same = abs(_born_s(process) - self.born_s) <= BIRTH_TOLERANCE_S and carries(process, self.token)
        except psutil.Error:
            return None
        return process if same and is_alive(process) else None

    def is_alive(self) -> bool:
        return self.process() is not None


def identify(pid: int, token: str) -> Identity:
    """The identity of a living process; LabError when there is none with this id."""
    try:
        return Identity(pid, _born_s(psutil.Process(pid)), token)
    except psutil.Error as error:
        raise LabError(f"Process {pid} ended before it could be looked at. Start it again.") from error


def _born_s(process: psutil.Process) -> float:
    return round(float(process.create_time()) - float(psutil.boot_time()), 2)


def is_alive(process: psutil.Process) -> bool:
    """Whether the process still runs: a zombie (ended, not yet collected by its parent) does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def carries(process: psutil.Process, token: str) -> bool:
    """Whether `token` is part of the process's command line, or a value of its environment at its start."""
    try:
        if any(token in argument for argument in process.cmdline()):
            return True
        return token in process.environ().values()
    except (psutil.Error, OSError):
        return False


def limits() -> str:
    """A sentence for a program that did not start, about the limits that it has from this process; "" when they are wide."""
    address, files = (resource.getrlimit(which)[1] for which in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE))
    told = [f"`ulimit -v` allows {address // 1024:,} kB of memory"] if address != resource.RLIM_INFINITY else []
    if files != resource.RLIM_INFINITY and files < MANY_FILES:
        told.append(f"`ulimit -n` allows {files} open files")
    return f"{' and '.join(told)}, which may be too little: raise that first. " if told else ""


def adopt_orphans() -> None:
    """Where the system has such a thing (Linux), make this process the foster parent of every orphan below it."""
    if psutil.LINUX:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def find_by_token(token: str) -> list[psutil.Process]:
    """All living processes of this machine that carry `token`, without the one that asks.

    The processes of other users cannot be read and are not found. LabError when the token has fewer
    than `SHORTEST_TOKEN` characters: it could stand anywhere.
    """
    if len(token) < SHORTEST_TOKEN:
        raise LabError(
            f"Token {token!r} has {len(token)} characters, at least {SHORTEST_TOKEN} are needed to tell processes "
            "apart. Use a UUID."
        )
    return [
        process for process in psutil.process_iter()
        if process.pid != os.getpid() and carries(process, token) and is_alive(process)
    ]


def find_by_argument(argument: str) -> list[psutil.Process]:
    """All living processes which have exactly this argument in their command line."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if argument in process.cmdline() and is_alive(process):
                found.append(process)
    return found


def with_children(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The processes and all their descendants, each once."""
    tree: dict[int, psutil.Process] = {}
    for process in processes:
        tree[process.pid] = process
        with suppress(psutil.Error):
            tree.update({child.pid: child for child in process.children(recursive=True)})
    return list(tree.values())


def end_trees(processes: Iterable[psutil.Process], grace_s: float = 5.0) -> list[psutil.Process]:
    """End the processes and their descendants: ask, wait `grace_s`, then kill. Returns those that were killed."""
    tree = with_children(processes)
    _ask_to_end(tree)
    _wait_gone(tree, grace_s)
    # What was born during the grace time is a descendant of somebody in the tree.
    rest = [process for process in with_children(tree) if is_alive(process)]
    _send(psutil.Process.kill, rest)
    _wait_gone(rest, 5.0)
    return rest


def end_warden(argument: str, orphans: str, seconds: float, say: Callable[[], object] = lambda: None) -> bool:
    """End the warden with this argument in its command line, which ends what it looks after, and what one that was killed left behind.

    By command lines, not by a state file: one that has just been started has not written it yet. Whether there was anything to end.
    """
    if wardens := find_by_argument(argument):
        say()
        _ask_to_end(wardens)
        _wait_gone(wardens, seconds * 2 + 5)
        end_trees(filter(is_alive, wardens), 0.5)
    left = find_by_argument(orphans)
    end_trees(left, seconds)
    return bool(wardens or left)


def sweep(find: Callable[[], list[psutil.Process]], seconds: float = 3.0) -> int:
    """Kill what `find` finds until it finds nothing; the number of processes that had to be killed.

    Each round stops processes until it finds no other one, and kills them then: one that is stopped starts no more.
    """
    killed: set[psutil.Process] = set()
    deadline = time.monotonic() + seconds
    while found := set(find()):
        new = found
        while new:
            _send(psutil.Process.suspend, new)
            new = set(find()) - found if time.monotonic() < deadline else set()
            found |= new
        _send(psutil.Process.kill, found)
        killed |= found
        psutil.wait_procs(found, timeout=0.2)
        if time.monotonic() > deadline:
            break
    return len(killed)


def _ask_to_end(processes: Iterable[psutil.Process]) -> None:
    """Each is continued as well, so that one that was stopped (SIGSTOP) can end as it was asked to."""
    for signal in (psutil.Process.terminate, psutil.Process.resume):
        _send(signal, processes)


def _send(signal: Callable[[psutil.Process], None], processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            signal(process)


def _wait_gone(processes: list[psutil.Process], timeout_s: float) -> None:
    with suppress(LabError):
        wait_until(lambda: not any(map(is_alive, processes)), timeout_s, "the processes have ended")


def wait_until(predicate: Callable[[], Answer], timeout_s: float, what: str, step_s: float = 0.02) -> Answer:
    """Ask `predicate` again and again until its answer is true, and return that answer.

    `what` is the sentence that is hoped for, as in "the broker answers". LateError when it has not come
    true after `timeout_s` seconds. The pauses grow from `step_s` to a quarter of a second.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if answer := predicate():
            return answer
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise LateError(f"Waited {timeout_s:g} s in vain until {what}. Look at `kit status` and `kit logs`.")
        time.sleep(min(step_s, left_s))
        step_s = min(step_s * 1.3, 0.25)
