"""A learner's code runs in a process of its own, with a deadline and a memory cap; its answers come back as plain values.

    outcome = run_steps(driver, make, scripts)    # driver(make, script) yields one answer for each step
    outcome = call(function, [[trace], [trace]])  # a function that is called once for each list of arguments

It guards a notebook's kernel from a loop, not a computer from an enemy: the cell beside it may do anything anyway. The code is sent by
value (cloudpickle) and loaded in the other process alone; what is right stays here. Over there `main` adds each answer to a file,
which is read here when the process has ended. That process keeps its limits by itself: an alarm ends it when its time is over, even
when the kernel is gone by then, and the operating system gives it no more memory.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

import cloudpickle

from kitlib.text import plain_text

Driver = Callable[[Any, Any], Iterable[Any]]

DEADLINE_S, STARTUP_S = 10.0, 60.0  # a fresh Python takes 0.3 s, and longer on a computer that is busy with Spark
MOST_MEMORY, MOST_BYTES = 2_000_000_000, 64_000_000  # bytes of data in memory, and of what is answered or printed
MAX_MESSAGE = 160  # characters of an exception's message
KIT = str(Path(__file__).resolve().parents[1]) + os.sep  # the frames of a traceback in here are not the learner's


@dataclass(frozen=True, slots=True)
class Breach:
    """Why a learner's process came to no proper end: two sentences for the learner."""

    kind: str  # "time", "ended", "loaded", "start" or "unsent"
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
    is_slow: bool = False  # it was answering still when its time was over, so it was no loop


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that stayed in the learner's process: only what it looked like came over."""

    shown: str

    def __repr__(self) -> str:
        return self.shown


heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)  # what the learner's code printed during one check


def run_steps(driver: Driver, make: Any, scripts: Sequence[Mapping[str, Any]], *, deadline_s: float | None = None) -> Outcome:
    """Run each script on the learner's `make`; never raises for what the code does.

    `driver` is a function of the kit: `driver(make, script)` yields the answer to each step. A script holds operations and no expected
    answers; its "name" stands in the sentence of a breach. The deadline is for all scripts together, in seconds.
    """
    places = [f", at step {{}} of script '{plain_text(str(script['name']), 60)}'" if "name" in script else "" for script in scripts]
    return _run(driver, make, scripts, places, deadline_s or DEADLINE_S)


def call(function: Any, argument_lists: Sequence[Sequence[Any]], *, deadline_s: float | None = None) -> Outcome:
    """Call the learner's function once for each list of arguments; the value of call i is `outcome.answers[i][0]`.

    Arguments are plain values or Traces, of which the function gets copies. Of a value comes over what `plain` makes of it.
    """
    count = len(argument_lists)
    places = [f", in call {number} of {count}" if count > 1 else "" for number in range(1, count + 1)]
    return _run(called, function, argument_lists, places, deadline_s or DEADLINE_S)


def _run(driver: Driver, make: Any, scripts: Sequence[Any], places: Sequence[str], deadline_s: float) -> Outcome:
    outcome = Outcome([[] for _ in scripts], [None for _ in scripts])
    with tempfile.TemporaryDirectory(prefix="kit-sandbox-", ignore_cleanup_errors=True) as room:
        answers, printed = Path(room, "answers"), Path(room, "printed")
        try:
            Path(room, "parcel").write_bytes(pickle.dumps((driver, deadline_s)) + _parcel(make, scripts))
        except Exception as error:  # noqa: BLE001 - pickling it runs the learner's code
            said = f"your code uses something that cannot be sent to the process that checks it: {told(error.with_traceback(None))[1]}."
            outcome.breach = Breach("unsent", said, "Pass it as an argument, or create it inside your code.")
            return outcome
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "TMPDIR": room}
        with printed.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-X", "utf8", "-u", "-c", f"from {__name__} import main; main()"], env=environment,
                cwd=tempfile.mkdtemp(dir=room), start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(STARTUP_S + deadline_s)
        finally:
            with suppress(OSError):  # nothing of its group is left
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        at, last = _take(outcome, answers)
        words = printed.read_bytes()[:2_000].decode("utf-8", "replace")
        if at < len(scripts):
            kind = "time" if status == -signal.SIGALRM else last
            outcome.breach = _breach(kind, status, places[at].format(len(outcome.answers[at])), words, deadline_s)
            outcome.is_slow = kind == "time" and time.time() - answers.stat().st_mtime < deadline_s / 4
    if (listening := heard.get()) is not None and words:
        listening.append(words)
    return outcome


def _parcel(make: Any, scripts: Sequence[Any]) -> bytes:
    """Both by value, with the learner's own module that holds the code; the kit's and installed packages go by name."""
    module = sys.modules.get(str(getattr(make, "__module__", "")))
    file = getattr(module, "__file__", None)
    if not file or module is sys.modules["__main__"] or file.startswith((KIT, sys.prefix, sys.base_prefix)):
        return bytes(cloudpickle.dumps((make, scripts)))
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps((make, scripts)))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _take(outcome: Outcome, answers: Path) -> tuple[int, str]:
    """What the process has written; the number of the script that it was at, and in a word how far it came."""
    at, last = 0, "start"
    with suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), answers.open("rb") as file:
        while True:
            what, *rest = pickle.load(file)  # noqa: S301 - `main` has written it, of plain values
            last = "loaded" if what == "ready" else "ended"
            if what == "answer":
                outcome.answers[at] += rest
            elif what in ("end", "raised"):
                outcome.raised[at] = Raised(*rest) if rest else None
                at += 1
    return at, last


def _breach(kind: str, status: int, where: str, words: str, deadline_s: float) -> Breach:
    """The sentences for one kind of end, and where it was."""
    error = plain_text(words.strip().rpartition("\n")[2], MAX_MESSAGE)
    if kind == "start":
        said = f"the process that checks your code did not start ({error})."
        return Breach(kind, said, "Run this cell again; if that does not help, run `kit doctor`.")
    end = f"signal {-status}" if status < 0 else "os._exit"
    said, look = {
        "time": (f"did not finish in {deadline_s:g} s", "Look for a loop that never ends."),
        "loaded": (f"cannot be loaded in the process that checks it ({error})", "Define all that it needs in cells, or import it inside."),
        "ended": (f"ended the Python process ({end})", "Return instead, or raise an exception that says what is wrong."),
    }[kind]  # fmt: skip
    return Breach(kind, f"your code {said}{where}.", look)


def main() -> None:
    """In the learner's process: run what the parcel asks for, and add each answer to the file."""
    answers, parcel = Path("../answers").open("wb", 0), Path("../parcel").open("rb")  # noqa: SIM115
    driver, deadline_s = pickle.load(parcel)  # noqa: S301 - the kit's own

    def send(*parts: Any) -> None:
        answers.write(pickle.dumps(parts))

    for what, most in ((resource.RLIMIT_DATA, MOST_MEMORY), (resource.RLIMIT_FSIZE, MOST_BYTES), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    send("ready")
    signal.setitimer(signal.ITIMER_REAL, deadline_s)
    make, scripts = cloudpickle.load(parcel)
    send("loaded")
    for script in scripts:
        try:
            for answer in driver(make, script):
                send("answer", plain(answer))
            send("end")
        except BaseException as error:  # noqa: BLE001 - the learner's code may raise anything
            traceback.clear_frames(error.__traceback__)  # they may hold all the memory that there is
            send("raised", *told(error))
    os._exit(0)


def called(function: Any, arguments: Sequence[Any]) -> Iterator[Any]:
    """The driver of `call`: one call, one answer."""
    yield function(*arguments)


def plain(value: Any) -> Any:
    """A value in Python's own types; what has no such form as a `Foreign`."""
    if value is None or type(value) in (int, str, float, bool, range):
        return value
    if isinstance(value, str | float):
        return str.__str__(value) if isinstance(value, str) else float(value)
    if isinstance(value, Mapping):
        return {plain(name): plain(each) for name, each in value.items()}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return kind(map(plain, value))
    with suppress(TypeError):
        return index(value)  # the whole numbers of NumPy, too
    return Foreign(shown(value))


def shown(value: Any) -> str:
    """What `repr` says of a value, shortened; of what cannot be shown, why not."""
    try:
        return repr(value)[:200]
    except Exception as error:  # noqa: BLE001 - a __repr__ of the learner's may raise anything
        return f"something whose repr raises {type(error).__name__}"


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
