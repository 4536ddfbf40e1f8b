"""The learner's side of `kitlib.exercises.sandbox`: loads the code, runs the scripts on it, and writes each answer as a line of JSON.

    ["ready"]                the deadline begins to count
    ["loaded"]               or ["unloaded", kind, words]
    ["answer", value]
    ["raised", kind, words]  the exception that ended a script
    ["end"]                  a script was run to its end
    ["done"]                 or ["exit"]: sys.exit was called

After the last line it waits to be ended: what it has started is still below it then, and is found.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import cloudpickle
import psutil

from kitlib.exercises.sandbox_values import pack, shown
from kitlib.lab.processes import adopt_orphans, sweep
from kitlib.text import plain_text
from kitlib.trace import Trace

KIT = str(Path(__file__).resolve().parent.parent) + os.sep  # the frames of a traceback in here are not the learner's
MAX_MESSAGE = 160  # characters of an exception's message
MAX_FILE_BYTES = 100_000_000
EXIT_CLOSED = 81  # the answers cannot be written any more
_write, _exit = os.write, os._exit  # before the learner's code can put others in their place


def main(answers: int) -> None:
    """Run what the files of this folder ask for."""
    asked = json.loads(Path("asked.json").read_bytes())
    sys.path[:] = asked["path"]
    owner, room = os.dup(0), os.getcwd()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    ending = threading.Event()
    threading.Thread(target=_end_with, args=(owner, room, ending), daemon=True).start()
    warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # of a fork beside that thread
    # Every core as long as the clock may run: for what outlives even the process that watches this one.
    for what, most in ((resource.RLIMIT_CPU, asked["cpu_s"]), (resource.RLIMIT_FSIZE, MAX_FILE_BYTES), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    adopt_orphans()  # what runs away from its parents comes below this process
    if child := os.fork():  # this process stands between the code and the kernel: what stops its parent stops no kernel
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        while ending.is_set():  # the thread ends whatever else there is, and this process last
            signal.pause()
        if status < 0:
            os.kill(os.getpid(), -status)
        _exit(status)
    run(answers, asked["driver"], asked["scripts"])
    while True:
        signal.pause()


def _end_with(owner: int, room: str, ending: threading.Event) -> None:
    """When the owner's end of the pipe is closed, end everything below this process, and this process."""
    os.read(owner, 1)
    ending.set()
    shutil.rmtree(room, ignore_errors=True)
    sweep(lambda: psutil.Process().children(recursive=True))
    _exit(1)


def run(answers: int, driver: str, scripts: list[Any]) -> None:
    """Run every script, and write the answers to the file descriptor `answers`."""
    own = os.getpid()
    module, _, name = driver.partition(":")
    drive = getattr(import_module(module), name)

    def send(*parts: Any) -> None:
        if os.getpid() != own:
            _exit(0)  # a copy that the learner's code forked: only the first one answers
        try:
            text = json.dumps(parts)
        except (TypeError, ValueError, RecursionError):
            text = json.dumps([*parts[:-1], shown(parts[-1])])
        left = memoryview(text.encode() + b"\n")
        try:
            while left:
                left = left[_write(answers, left) :]
        except OSError:
            _exit(EXIT_CLOSED)

    send("ready")
    try:
        make = cloudpickle.loads(Path("parcel").read_bytes())
        send("loaded")
    except BaseException as error:  # noqa: BLE001 - loading it runs the learner's code
        send("unloaded", *told(error))
        return
    for script in scripts:
        try:
            for answer in drive(make, script):
                send("answer", answer)
            send("end")
        except SystemExit:
            send("exit")
            return
        except BaseException as error:  # noqa: BLE001 - the learner's code may raise anything
            send("raised", *told(error))
    send("done")


class ArgumentChangedError(Exception):
    """A function has changed what it was given; the message says which argument, and from what to what."""


def called(function: Any, script: dict[str, Any]) -> Iterator[Any]:
    """The driver of `sandbox.call`: one call, one answer. ArgumentChangedError when the call leaves an argument other than it was."""
    given = script["arguments"]
    arguments = [Trace.from_json_lines(each["trace"]) if "trace" in each else json.loads(each["json"]) for each in given]
    answer = pack(function(*arguments))
    for number, (before, now) in enumerate(zip(given, arguments, strict=True), 1):
        if "trace" in before:
            if list(now.to_json_lines()) != before["trace"]:
                raise ArgumentChangedError(f"argument {number}, a Trace")
        elif now != json.loads(before["json"]):
            raise ArgumentChangedError(f"argument {number} from {shown(json.loads(before['json']))} to {shown(now)}")
    yield answer


def told(error: BaseException) -> tuple[str, str]:
    """The kind of an exception, and the whole on one line: `KeyError: 3, in line 4 of ack`, the last line that is not the kit's own."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # a driver is a generator, which lets no StopIteration through as it is
    kind = type(error).__name__
    try:
        words = str(error)[:MAX_MESSAGE]
    except Exception:  # noqa: BLE001 - the learner's own __str__ may raise anything
        words = ""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    learners = [f", in line {line} of {plain_text(code.co_name, 60)}" for code, line in frames if not code.co_filename.startswith(KIT)]
    return kind, plain_text(f"{kind}: {words}" if words else kind, MAX_MESSAGE) + "".join(learners[-1:])


if __name__ == "__main__":
    main(int(sys.argv[1]))
