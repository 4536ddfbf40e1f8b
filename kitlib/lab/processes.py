"""Which process is which, and how to end it without harming a stranger.

A process id is a number that the system hands out again: a file that says "the broker is process
4711" may be read when 4711 is somebody's editor. So the kit also knows a process by a mark that nobody else has: a random
token, alone or in an argument such as `-Dkit.run=TOKEN`, in its command line or its environment. Whoever has not both is left alone.
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import psutil

from kitlib.errors import LateError

Answer = TypeVar("Answer")

TOKEN_NAME = "KIT_RUN"  # the variable with the token of a lab, a notebook's run or a trial, which all that it starts inherits
SHORTEST_MARK = 8  # a shorter one could be a stranger's by chance
MANY_FILES = 1024  # a program that may open fewer files than this may need more

SPARK = "kitlib.spark.server"  # by its name: that room is above this one
# What stands in the command lines of the broker, of Spark, and of what looks after each.
SERVERS = frozenset({
    "kitlib.lab.brokers.warden", "kafka.Kafka", "kitlib.spark.warden", "org.apache.spark.sql.connect.service.SparkConnectServer",
})  # fmt: skip


def is_alive(process: psutil.Process) -> bool:
    """Whether the process still runs: a zombie (ended, not yet collected by its parent) does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def carries(process: psutil.Process, mark: str) -> bool:
    """Whether `mark` is an argument of the process, or the value of a variable with which it was started."""
    with suppress(psutil.Error, OSError):
        return len(mark) >= SHORTEST_MARK and (mark in process.cmdline() or mark in process.environ().values())
    return False


def find(pid: int | None, mark: str) -> psutil.Process | None:
    """The living process with this id and mark; None when it is gone, is a zombie, or its id belongs to another now."""
    try:
        process = psutil.Process(pid or -1)
    except (psutil.Error, ValueError, OverflowError):
        return None
    return process if carries(process, mark) and is_alive(process) else None


def find_all(mark: str) -> list[psutil.Process]:
    """All living processes with this mark, without the one that asks; those of other users cannot be read and are not found."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and carries(process, mark) and is_alive(process)]


def is_server(process: psutil.Process) -> bool:
    """Whether this is a part of the broker or of Spark, which are asked to end in their own way before anything is killed."""
    with suppress(psutil.Error):
        return not SERVERS.isdisjoint(process.cmdline())
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


def with_children(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The processes and all their descendants, each once."""
    tree = dict.fromkeys(processes)
    for process in [*tree]:
        with suppress(psutil.Error):
            tree |= dict.fromkeys(process.children(recursive=True))
    return [*tree]


def end_trees(processes: Iterable[psutil.Process], grace_s: float = 5.0) -> None:
    """End the processes and their descendants: ask, wait `grace_s`, then kill."""
    tree = with_children(processes)
    _ask_to_end(tree)
    _wait_gone(tree, grace_s)
    # What was born during the grace time is a descendant of somebody in the tree.
    rest = [process for process in with_children(tree) if is_alive(process)]
    _send(psutil.Process.kill, rest)
    _wait_gone(rest, 5.0)


def end_warden(mark: str, orphans: str, seconds: float, say: Callable[[], object] = lambda: None) -> bool:
    """End the warden with this mark, which ends what it looks after, and what one that was killed left behind.

    By command lines, not by a state file: one that has just been started has not written it yet. Whether there was anything to end.
    """
    if wardens := find_all(mark):
        say()
        _ask_to_end(wardens)
        _wait_gone(wardens, seconds * 2 + 5)
        end_trees(filter(is_alive, wardens), 0.5)
    left = find_all(orphans)
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
    with suppress(LateError):
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
