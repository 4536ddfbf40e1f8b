"""A learner's code runs in a process of its own, with a deadline, a memory cap and an output cap; its answers come back as JSON.

    outcome = run_steps(driver, make, scripts)    # driver(make, script) yields one answer for each step
    outcome = call(function, [[trace], [trace]])  # a function that is called once for each list of arguments

It guards a notebook's kernel from a loop, not a computer from an enemy: the cell beside it may do anything anyway. The code is sent by
value (cloudpickle) and loaded in the other process (`kitlib.exercises.sandbox_child`) alone; what is right stays here. Nothing stands
between the two: this process looks at clock, memory and output itself, and ends the other one with all that it has started.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import FunctionType
from typing import Any

import cloudpickle
import psutil

from kitlib.exercises.sandbox_child import EXIT_CLOSED, told
from kitlib.exercises.sandbox_values import unpack
from kitlib.lab.processes import find_by_token, is_alive, sweep
from kitlib.lab.supervisor import with_kitlib
from kitlib.text import plain_text
from kitlib.trace import Trace

Driver = Callable[[Any, Any], Iterable[Any]]

CHANGED = "ArgumentChangedError"  # the kind of what is raised when a call has changed an argument
DEADLINE_S = 10.0
TOKEN_NAME = "KIT_SANDBOX"
LOOK_S = 0.05  # between two looks at what has been started, and at its memory
GROWS = "Look for something that grows and never shrinks."
RETURN = "Return instead, or raise an exception that says what is wrong."
OWN = "Touch only what your code opened or started itself."


@dataclass(frozen=True, slots=True)
class Limits:
    """What a learner's code may use, all its scripts together."""

    deadline_s: float = DEADLINE_S  # of wall-clock time, from the moment the code is loaded
    memory_bytes: int = 1_000_000_000  # resident, of the process and all that it started
    processes: int = 16
    printed_bytes: int = 64_000
    answers_bytes: int = 64_000_000
    startup_s: float = 60.0  # for a fresh Python on a computer that is busy with Spark; it takes 0.3 s


@dataclass(frozen=True, slots=True)
class Breach:
    """Why a learner's process was ended, or how it ended by itself: two sentences for the learner."""

    kind: str  # "time", "memory", "printed", "exit", ...: see `_breach`
    said: str  # "your code did not finish in 10 s, at step 7 of script 'fan_out'."
    look: str  # what to do about it


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception of the learner's code that ended one script; the scripts after it have run all the same."""

    kind: str  # "KeyError"
    what: str  # "KeyError: 3, in line 4 of ack", printable and on one line


@dataclass(slots=True)
class Outcome:
    """What a learner's code answered to each script, as far as it came."""

    answers: list[list[Any]]  # for each script the answers to its steps, in order
    raised: list[Raised | None]  # for each script the exception that ended it; it came from step len(answers[i])
    breach: Breach | None = None  # None when every script was run, to its end or to its exception
    printed: str = ""  # the beginning of what the code wrote to stdout and stderr
    is_slow: bool = False  # it was answering still when its time was over, so it was no loop
    phase: str = "start"  # the last line that was neither an answer nor the end of a script: "ready", "loaded", "done", ...
    said: tuple[str, ...] = ()  # what that line said
    at: int = 0  # the script that is being run

    def take(self, line: bytes | bytearray) -> None:
        """One line from the learner's process."""
        what, *rest = json.loads(line)
        if what == "answer":
            self.answers[self.at] += rest
        elif what in ("raised", "end"):
            self.raised[self.at] = Raised(*rest) if rest else None
            self.at += 1
        elif what in ("ready", "loaded", "unloaded", "exit", "done"):
            self.phase, self.said = what, tuple(rest)
        else:
            raise ValueError(what)


heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)  # what the learner's code printed during one check


def run_steps(driver: Driver, make: Any, scripts: Sequence[Mapping[str, Any]], *, limits: Limits | None = None) -> Outcome:
    """Run each script on the learner's `make`; never raises for what the code does.

    `driver` is a function of the kit, at the top of a module: `driver(make, script)` yields the answer to each step, in JSON values. A
    script is a dict of JSON values that holds operations and no expected answers; its "name" stands in the sentence of a breach.
    """
    places = [f"of script '{plain_text(str(script['name']), 60)}'" if "name" in script else "" for script in scripts]
    return _run(f"{driver.__module__}:{driver.__qualname__}", make, scripts, places, limits or Limits(DEADLINE_S))


def call(function: Any, argument_lists: Sequence[Sequence[Any]], *, limits: Limits | None = None) -> Outcome:
    """Call the learner's function once for each list of arguments; the value of call i is `outcome.answers[i][0]`.

    Arguments are JSON values or Traces. Of a value come over: None, numbers, texts, ranges, and lists, tuples,
    sets and dicts of these; anything else is a `Foreign`. A call that leaves an argument other than it was is `raised`, as CHANGED.
    """
    count = len(argument_lists)
    scripts = [{"arguments": [_argument(each) for each in arguments]} for arguments in argument_lists]
    places = [f"in call {number} of {count}" if count > 1 else "" for number in range(1, count + 1)]
    outcome = _run("kitlib.exercises.sandbox_child:called", function, scripts, places, limits or Limits(DEADLINE_S))
    outcome.answers = [[unpack(value) for value in answers] for answers in outcome.answers]
    return outcome


def _argument(value: Any) -> dict[str, Any]:
    return {"trace": list(value.to_json_lines())} if isinstance(value, Trace) else {"json": json.dumps(value)}


def _run(driver: str, make: Any, scripts: Sequence[Mapping[str, Any]], places: Sequence[str], limits: Limits) -> Outcome:
    outcome = Outcome([[] for _ in scripts], [None for _ in scripts])
    try:
        parcel = _parcel(make)
    except Exception as error:  # noqa: BLE001 - pickling it runs the learner's code
        used = _culprit(make) or f"something ({told(error)[1]})"
        said = f"your code uses {used}, which cannot be sent to the process that checks it."
        outcome.breach = Breach("unsent", said, "Pass it as an argument, or create it inside your code.")
        return outcome
    cpu_s = math.ceil(limits.deadline_s) * (os.cpu_count() or 1) + 2
    asked = {"path": [os.path.abspath(entry) for entry in sys.path], "driver": driver, "scripts": scripts, "cpu_s": cpu_s}
    with tempfile.TemporaryDirectory(prefix="kit-sandbox-", ignore_cleanup_errors=True) as room:
        Path(room, "asked.json").write_text(json.dumps(asked))
        Path(room, "parcel").write_bytes(parcel)
        token, (reading, writing) = uuid.uuid4().hex, os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", "-u", "-m", "kitlib.exercises.sandbox_child", str(writing)], start_new_session=True,
            cwd=room, env=with_kitlib({**os.environ, "TMPDIR": room, TOKEN_NAME: token}), pass_fds=[writing],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        os.close(writing)
        learner, below = psutil.Process(process.pid), set[psutil.Process]()
        try:
            kind = _watched(process, reading, outcome, limits, learner, below)  # why it has to end; None when all is done
            status = process.returncode or 0
        finally:
            _end(process, learner, below, token)
            os.close(reading)
    if (listening := heard.get()) is not None and outcome.printed:
        listening.append(outcome.printed)
    outcome.breach = None if kind is None else _breach(kind, outcome, status, places, limits)
    return outcome


def _watched(
    process: subprocess.Popen[bytes], reading: int, outcome: Outcome, limits: Limits, learner: psutil.Process, below: set[psutil.Process]
) -> str | None:
    """Read until all is done (None) or has to end (why); `below` becomes what the learner's process has started."""
    assert process.stdout
    printing, rest, printed, received = process.stdout.fileno(), bytearray(), 0, 0
    pipes, began, answered = [reading, printing], time.monotonic(), time.monotonic()
    looked = began
    while True:
        has_ended = process.poll() is not None  # asked before reading: what it wrote before its end is in the pipes
        ready: list[Any] = wait(pipes, 0 if has_ended else LOOK_S)
        now = time.monotonic()
        for pipe in ready:
            block = os.read(pipe, 1 << 20)
            if not block:
                pipes.remove(pipe)
            elif pipe == printing:
                printed += len(block)
                outcome.printed = (outcome.printed + block.decode("utf-8", "replace"))[:2_000]
            else:
                received, answered = received + len(block), now
                began = now if outcome.phase == "start" else began
                *lines, block = block.split(b"\n")
                try:
                    for line in lines:
                        outcome.take(rest + line)
                        rest.clear()
                except (ValueError, TypeError, IndexError):
                    return "garbled"
                rest += block
        if printed > limits.printed_bytes or received > limits.answers_bytes:
            return "printed" if printed > limits.printed_bytes else "answers"
        if outcome.phase in ("done", "exit", "unloaded"):
            return None if outcome.phase == "done" else outcome.phase
        if has_ended and not ready:
            return "ended"
        if now - began > (limits.startup_s if outcome.phase == "start" else limits.deadline_s):
            outcome.is_slow = now - answered < limits.deadline_s / 4
            return "start" if outcome.phase == "start" else "time"
        if now - looked > LOOK_S and not has_ended:
            looked = now
            with suppress(psutil.Error):
                below.update(learner.children(recursive=True))
            below.intersection_update(set(filter(is_alive, below)))
            if len(below) - 1 > limits.processes:  # the code's own process is one of them
                return "processes"
            if sum(map(_resident, {learner, *below})) > limits.memory_bytes:
                return "memory"


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _end(process: subprocess.Popen[bytes], learner: psutil.Process, below: set[psutil.Process], token: str) -> None:
    """Kill what the learner's process has started, then the process itself, which is their parent on Linux."""

    def others() -> list[psutil.Process]:
        with suppress(psutil.Error):
            below.update(learner.children(recursive=True))
        if process.returncode is not None or sys.platform != "linux":  # nobody's children now: known by their token
            below.update(find_by_token(token))
        return [each for each in below if each != learner and is_alive(each)]

    with suppress(psutil.Error):
        learner.suspend()
    sweep(others, seconds=10.0)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe
        pipe.close()


def _parcel(code: Any) -> bytes:
    """`code` by value, with the learner's own module that holds it; the kit's and installed packages go by name."""
    module = sys.modules.get(str(getattr(code, "__module__", "")))
    is_known = module is None or module.__name__.split(".")[0] in {"__main__", "kitlib", *sys.stdlib_module_names}
    if module is None or is_known or {"site-packages", "dist-packages"} & set(Path(getattr(module, "__file__", "") or "").parts):
        return bytes(cloudpickle.dumps(code))
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(code))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _culprit(code: Any) -> str | None:
    """The first global name in the code whose value cannot be sent, and what it is."""
    for function in (each for each in (code, *getattr(code, "__dict__", {}).values()) if isinstance(each, FunctionType)):
        for name, value in inspect.getclosurevars(function).globals.items():
            try:
                cloudpickle.dumps(value)
            except Exception:  # noqa: BLE001 - see above
                return f"`{plain_text(name, 40)}` (a {plain_text(type(value).__name__, 40)})"
    return None


def _breach(kind: str, outcome: Outcome, status: int, places: Sequence[str], limits: Limits) -> Breach:
    """The sentences for one kind of end, and where it was."""
    if kind == "start" or (kind == "ended" and outcome.phase == "start"):
        words = plain_text(outcome.printed.strip().rpartition("\n")[2], 160)
        said = f"the process that checks your code did not start{f' ({words})' if words else ''}."
        return Breach("start", said, "Run this cell again; if that does not help, run `kit doctor`.")
    if kind == "unloaded":
        said = f"your code cannot be loaded in the process that checks it: {outcome.said[1]}."
        return Breach(kind, said, "Define everything it needs in cells, or import it inside.")
    if kind == "ended" and status < 0:
        kind = "time" if status == -signal.SIGXCPU else "crashed"
    kind = "closed" if kind == "ended" and status == EXIT_CLOSED else kind
    said, look = {
        "time": (f"did not finish in {limits.deadline_s:g} s", "Look for a loop that never ends."),
        "memory": (f"used more than {limits.memory_bytes / 1e6:,.0f} MB of memory", GROWS),
        "processes": (f"started more than {limits.processes} processes", "It should not start any."),
        "printed": (f"printed more than {limits.printed_bytes / 1e3:,.0f} kB", "Remove the prints: they run at every step."),
        "answers": (f"returned more than {limits.answers_bytes / 1e6:,.0f} MB", GROWS),
        "exit": ("called sys.exit", RETURN),
        "ended": ("ended the Python process (os._exit)", RETURN),
        "closed": ("closed the file that carries its answers", OWN),
        "garbled": ("wrote to the file that carries its answers", OWN),
        "crashed": (f"crashed the Python process (signal {-status})", "Look for anything in it that is not plain Python."),
    }[kind]  # fmt: skip
    place = places[outcome.at] if outcome.at < len(places) else ""
    step = f"at step {len(outcome.answers[outcome.at])} " if place.startswith("of ") else ""
    where = ", while it was loaded" if outcome.phase == "ready" else f", {step}{place}" if place else ""
    return Breach(kind, f"your code {said}{where}.", look)
