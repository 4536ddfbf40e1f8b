"""The learner's side: opens the parcel, runs the scripts on it, and writes each answer as a line of JSON.

Everything in this process belongs to the learner's code from the moment the parcel is opened, this
module included. It may patch what it likes: the lines are checked where they are read, and the truth
is not here.

    [nonce, "ready"]                                  the deadline begins to count
    [nonce, "loaded"]                                 or ["unloaded", kind, message, where]
    [nonce, "answer" | "packed", script, step, value]
    [nonce, "raised", script, kind, message, where]   the exception that ended a script
    [nonce, "end", script]                            a script was run to its end
    [nonce, "exit", script]                           sys.exit was called
    [nonce, "done"]
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle
import psutil

from kitlib.exercises.sandbox_values import pack, shown
from kitlib.text import plain_text
from kitlib.trace import Trace

KIT = str(Path(__file__).resolve().parent.parent) + os.sep  # the frames of a traceback in here are not the learner's
MAX_MESSAGE = 500  # characters of an exception's message
EXIT_CLOSED = 81  # the answers cannot be written any more
SPARE_THREADS = 100  # that a user may have beyond the processes allowed before fork is refused: room for the threads of libraries
USERS = range(60_100, 60_500)  # user ids that Linux distributions leave alone: one of them runs the code where the kit is root
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 47, 2
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE, CAP_KILL = 1, 5  # they reach root's files and processes, as the notebook's own code could

# Taken before the learner's code can put others in their place.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode
_write, _exit, _getpid = os.write, os._exit, os.getpid


@dataclass(frozen=True, slots=True)
class Packed:
    """An answer that has been packed already."""

    value: Any


def confine(limits: Mapping[str, Any]) -> None:
    """Set limits for this process and all that comes of it, which none of them can lift; its life ends with its parent's.

    The system lets root start any number of processes. So where the kit is root, this process becomes a user
    of its own that has root's files but not root's freedom from limits.
    """
    # Of every core as long as the clock may run: for a process that outlives even the one that watches it.
    limit(resource.RLIMIT_CPU, math.ceil(limits["deadline_s"]) * (os.cpu_count() or 1) + 2, room=1)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
    user = os.getuid() or USERS[os.getpid() % len(USERS)]
    limit(resource.RLIMIT_NPROC, _threads_of(user) + limits["processes"] + SPARE_THREADS if limits["processes"] else 0)
    if sys.platform == "linux":
        system = ctypes.CDLL(None)
        if os.getuid() == 0:
            _become(user, system)
        system.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # last: a change of the user forgets it


def _become(user: int, system: ctypes.CDLL) -> None:
    """Change root into `user`, with the capabilities of root for its files and processes alone."""
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    system.capget(header, sets)
    system.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    with contextlib.suppress(OSError):  # a container's root may not be allowed to be anybody else
        os.setresuid(user, user, user)
    kept = sets[1] & (1 << CAP_DAC_OVERRIDE | 1 << CAP_KILL)
    sets[:] = [kept, kept, kept, 0, 0, 0]  # effective, permitted, inheritable; then the same for capabilities above 31
    system.capset(header, sets)
    for capability in (CAP_DAC_OVERRIDE, CAP_KILL):  # for the programs that it starts, too
        system.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0)


def _threads_of(user: int) -> int:
    """How many threads the user has now: the system's limit on processes counts them all."""
    found = psutil.process_iter(["uids", "num_threads"])
    return sum(p.info["num_threads"] or 0 for p in found if p.info["uids"] and p.info["uids"].real == user)


def limit(what: int, value: int, room: int = 0) -> None:
    """Lower a limit of this process, `room` below the hard one; one that is lower already stays."""
    _, hard = resource.getrlimit(what)
    ends = [end if hard == resource.RLIM_INFINITY else min(end, hard) for end in (value, value + room)]
    resource.setrlimit(what, (ends[0], ends[1]))


def run(answers: int, nonce: str, path: list[str], driver: str, parcel: bytes, scripts: list[bytes]) -> NoReturn:
    """Run every script, write the answers to the file descriptor `answers`, and end the process."""
    sys.path[:] = path
    module, _, name = driver.partition(":")
    drive = getattr(import_module(module), name)
    line = Line(answers, nonce)
    line.send("ready")
    try:
        make = cloudpickle.loads(parcel)
        line.send("loaded")
    except BaseException as error:  # noqa: BLE001 - opening a parcel runs the learner's code
        line.send("unloaded", *told(error))
        leave()
    for number, script in enumerate(scripts):
        try:
            for step, answer in enumerate(drive(make, _decode(script.decode()))):
                line.answer(number, step, answer)
            line.send("end", number)
        except SystemExit:
            line.send("exit", number)
            leave()
        except BaseException as error:  # noqa: BLE001 - the learner's code may raise anything
            line.send("raised", number, *told(error))
    line.send("done")
    leave()


class Line:
    """The way back: one whole line a message, written at once, so that none is lost when the process dies."""

    def __init__(self, answers: int, nonce: str) -> None:
        self.answers, self.start, self.pid = answers, f'["{nonce}",', _getpid()

    def answer(self, script: int, step: int, value: Any) -> None:
        if not isinstance(value, Packed):
            try:
                self._send(f'"answer",{script},{step},{_encode(value)}')
                return
            except (TypeError, ValueError, RecursionError):
                value = Packed(pack(value))
        self.send("packed", script, step, value.value)

    def send(self, *parts: Any) -> None:
        self._send(_encode(parts)[1:-1])

    def _send(self, text: str) -> None:
        if _getpid() != self.pid:
            _exit(0)  # a copy that the learner's code forked: only the first one answers
        left = memoryview(f"{self.start}{text}]\n".encode())
        try:
            while left:
                left = left[_write(self.answers, left) :]
        except OSError:
            _exit(EXIT_CLOSED)


class ArgumentChangedError(Exception):
    """A function has changed what it was given; the message says which argument, and from what to what."""


def called(function: Any, script: dict[str, Any]) -> Iterator[Packed]:
    """The driver of `sandbox.call`: one call, one answer. ArgumentChangedError when the call leaves an argument other than it was."""
    given = _encode(script["arguments"])
    arguments = [Trace.from_json_lines(each["trace"]) if "trace" in each else each["json"] for each in script["arguments"]]
    answer = Packed(pack(function(*arguments)))
    for number, (before, now) in enumerate(zip(_decode(given), arguments, strict=True), 1):
        if "trace" in before:
            if list(now.to_json_lines()) != before["trace"]:
                raise ArgumentChangedError(f"argument {number}, a Trace")
        elif now != before["json"]:
            raise ArgumentChangedError(f"argument {number} from {shown(before['json'])} to {shown(now)}")
    yield answer


def told(error: BaseException) -> tuple[str, str, str]:
    """The kind of an exception, its message, and the last line that is not the kit's own: `in line 4 of ack`."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # a driver is a generator, which lets no StopIteration through as it is
    try:
        message = str(error)[:MAX_MESSAGE]
    except Exception:  # noqa: BLE001 - the learner's own __str__ may raise anything
        message = ""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    learners = [(code.co_name, line) for code, line in frames if not code.co_filename.startswith(KIT)]
    where = f"in line {learners[-1][1]} of {learners[-1][0]}" if learners else ""
    return str(type(error).__name__)[:MAX_MESSAGE], message, where


def one_line(kind: str, message: str, where: str) -> str:
    """`KeyError: 3, in line 4 of ack`, printable and short."""
    what = f"{kind}: {message}" if message else kind
    return plain_text(what, 120) + (f", {plain_text(where, 80)}" if where else "")


def leave() -> NoReturn:
    """End this process without waiting for threads and exit handlers of the learner's."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    _exit(0)
