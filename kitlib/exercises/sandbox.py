"""A learner's code runs in a process of its own, and only its answers come back.

What a learner writes in a notebook may loop for ever, fill the memory, print a gigabyte or end the
process; in the notebook's own process that would be the end of the lesson. So the function or class
is sent by value (cloudpickle) to a process that is watched by a second one, the warden
(`kitlib.exercises.sandbox_warden`): it has limits for time, memory, processes and output, and ends
the whole tree, runaways included, at the first breach and at the end. Answers come back as JSON lines,
never as pickles. The truth stays here: over there go operations alone, and what the learner's object
answered is compared on this side. So nothing that the code does to its own process makes a wrong
answer right, and a process that died has answered nothing.

    outcome = run_steps(driver, make, scripts)    # driver(make, script) yields one answer for each step
    values = call(function, [[trace], [trace]])   # a function that is called once for each list of arguments
    value = read(answer)                          # an answer that a check may look at, whatever it is made of

Left out: protection from someone who means harm. This is the learner's own code on the learner's own
machine, and the limits are for accidents; to judge the code of others, use a container as well.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

from kitlib.exercises.sandbox_child import EXIT_CLOSED, one_line
from kitlib.exercises.sandbox_parcel import Code, CopyEndedError, NotSendableError, in_a_copy, parcel, plain
from kitlib.exercises.sandbox_values import parse, unpack
from kitlib.lab import supervisor
from kitlib.lab.processes import find_by_token, sweep
from kitlib.lab.reaper import TOKEN_NAME as LAB_TOKEN_NAME
from kitlib.text import plain_text
from kitlib.trace import Trace

Driver = Callable[[Any, Any], Iterable[Any]]

CHANGED = "ArgumentChangedError"  # the kind of what is raised when a call has changed an argument
DEADLINE_S = 10.0
TOKEN_NAME = "KIT_SANDBOX"
# All that the learner's process gets to know of our environment: no passwords, no tokens of a server.
ENVIRONMENT = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "KIT_TEST_SESSION", LAB_TOKEN_NAME,
)  # fmt: skip
GROWS = "Look for something that grows and never shrinks."
RETURN = "Return instead, or raise an exception that says what is wrong."
ONLY_ITS_OWN = "Touch only what your code opened or started itself."
ENDING_S = 15.0  # what the warden may take to end everything; after that it is ended itself


@dataclass(frozen=True, slots=True)
class Limits:
    """What a learner's code may use, all its scripts together."""

    deadline_s: float = DEADLINE_S  # of wall-clock time, from the moment the code is loaded
    memory_bytes: int = 1_000_000_000  # resident, of the whole tree
    processes: int = 16
    printed_bytes: int = 64_000
    answers_bytes: int = 64_000_000
    file_bytes: int = 100_000_000  # of one file
    startup_s: float = 60.0  # for a fresh Python on a computer that is busy with Spark; it takes 0.2 s


@dataclass(frozen=True, slots=True)
class Breach:
    """Why a learner's process was ended, or how it ended by itself: two sentences for the learner."""

    kind: str  # "time", "memory", "printed", "exit", ...: see `_breach`
    said: str  # "your code did not finish in 10 s, at step 7 of script 'fan_out'."
    look: str  # what to do about it


class UnreadableError(Exception):
    """The answer could not be read within the limits."""

    def __init__(self, breach: Breach) -> None:
        super().__init__(breach.said)
        self.breach = breach


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception of the learner's code that ended one script; the scripts after it have run all the same."""

    kind: str  # "KeyError"
    message: str
    where: str  # "in line 4 of ack", or "" where no line is the learner's

    @property
    def what(self) -> str:
        """`KeyError: 3, in line 4 of ack`, printable and on one line."""
        return one_line(self.kind, self.message, self.where)


@dataclass(slots=True)
class Outcome:
    """What a learner's code answered to each script, as far as it came."""

    answers: list[list[Any]]  # for each script the answers to its steps, in order
    raised: list[Raised | None]  # for each script the exception that ended it; it came from step len(answers[i])
    breach: Breach | None = None  # None when every script was run, to its end or to its exception
    printed: str = ""  # the beginning of what the code wrote to stdout and stderr


# What the learner's code printed during one check, for the one who shows its finding.
heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)


def run_steps(
    driver: Driver, make: Any, scripts: Sequence[Mapping[str, Any]], *, limits: Limits | None = None
) -> Outcome:
    """Run each script on the learner's `make` in a process of its own; never raises for what the code does.

    `driver` is a function of the kit, at the top of a module: `driver(make, script)` yields the answer to
    each step, in JSON values, and lets exceptions of the learner's code through. It is found by its name on
    the other side; `make` is sent by value. A script is a dict of JSON values that holds operations and no
    expected answers. Where it has a list of "steps", as many answers must come; where it has a "name", that
    stands in the sentence of a breach.
    """
    places = [f"of script '{plain_text(str(script['name']), 60)}'" if "name" in script else "" for script in scripts]
    counts = [len(script["steps"]) if "steps" in script else None for script in scripts]
    name = f"{driver.__module__}:{driver.__qualname__}"
    return _run(name, make, scripts, _Answers(places, counts), limits or Limits(DEADLINE_S))


def call(function: Any, argument_lists: Sequence[Sequence[Any]], *, limits: Limits | None = None) -> Outcome:
    """Call the learner's function once for each list of arguments; the value of call i is `outcome.answers[i][0]`.

    Arguments are JSON values or Traces. Of a value come over: None, numbers, texts, ranges, and lists, tuples,
    sets and dicts of these; anything else is a `Foreign`. A call that leaves an argument other than it was is `raised`, as CHANGED.
    """
    scripts = [{"arguments": [_argument(each) for each in arguments]} for arguments in argument_lists]
    places = [f"in call {number} of {len(scripts)}" if len(scripts) > 1 else "" for number in range(1, len(scripts) + 1)]
    answers = _Answers(places, [1] * len(scripts))
    return _run("kitlib.exercises.sandbox_child:called", function, scripts, answers, limits or Limits(DEADLINE_S))


def read(answer: Any, limits: Limits | None = None) -> Any:
    """`answer` in values that have no code of the learner's; one that can be called stays as it is, for `call`.

    A mapping comes as a dict; what has no plain form is a `Foreign`, which shows it. UnreadableError says why not.
    """
    limits = limits or Limits(DEADLINE_S)
    try:
        return plain(answer, asdict(limits))
    except NotSendableError as error:
        raise UnreadableError(Breach("unread", f"your answer cannot be read: {error}.", "Answer with plain values.")) from error
    except CopyEndedError as error:
        breach = _breach(error.kind, error.status, ", while your answer was read", limits)
        raise UnreadableError(breach) from error


def _argument(value: Any) -> dict[str, Any]:
    return {"trace": list(value.to_json_lines())} if isinstance(value, Trace) else {"json": value}


def _run(driver: str, make: Any, scripts: Sequence[Mapping[str, Any]], answers: _Answers, limits: Limits) -> Outcome:
    made = make.made if type(make) is Code else make
    try:
        sent = in_a_copy(lambda: parcel(made), asdict(limits))
    except NotSendableError as error:
        said = f"your code uses {error}, which cannot be sent to the process that checks it."
        return answers.outcome(Breach("unsent", said, "Pass it as an argument, or create it inside your code."), "")
    except CopyEndedError as error:
        return answers.outcome(_breach(error.kind, error.status, ", while it was pickled", limits), "")
    lines = b"".join(json.dumps(script, separators=(",", ":")).encode() + b"\n" for script in scripts)
    request = {
        "token": uuid.uuid4().hex,
        "nonce": answers.nonce,
        "path": [os.path.abspath(entry) for entry in sys.path],
        "driver": driver,
        "room": tempfile.mkdtemp(prefix="kit-sandbox-"),
        "limits": asdict(limits),
        "parcel": len(sent),
        "scripts": len(lines),
    }
    report = _watched(request, sent + lines, answers)
    printed = str(report.get("printed", ""))
    if (listening := heard.get()) is not None and printed:
        listening.append(printed)
    return answers.outcome(_whole_breach(report, answers, limits), printed)


def _watched(request: dict[str, Any], content: bytes, answers: _Answers) -> dict[str, Any]:
    """Start the warden, read the answers as they come, and return its report; {} when it gave none."""
    known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    home = dict.fromkeys(("HOME", "TMPDIR"), request["room"])
    if (users := site.getusersitepackages()) in sys.path:  # found by way of HOME, which is another one over there
        known["PYTHONPATH"] = os.pathsep.join(filter(None, (known.get("PYTHONPATH"), users)))
    limits = request["limits"]
    environment = {**known, **home, TOKEN_NAME: request["token"]}
    process = supervisor.start("kitlib.exercises.sandbox_warden", environment=environment, cwd=request["room"])
    assert process.stdin and process.stdout and process.stderr
    # Only for a warden that was stopped or killed: one that is well ends everything in time by itself.
    alarm = threading.Timer(limits["startup_s"] + limits["deadline_s"] + ENDING_S, process.kill)
    alarm.daemon = True
    alarm.start()
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode() + b"\n" + content)
            process.stdin.flush()
        for line in process.stdout:
            answers.read(line)
        report = _object(process.stderr.read())
    finally:
        alarm.cancel()
        with suppress(BrokenPipeError):
            process.stdin.close()  # an interrupted check: this is the order to end everything
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()
        process.stderr.close()
        if process.wait() != 0:
            sweep(lambda: find_by_token(request["token"]))
        shutil.rmtree(request["room"], ignore_errors=True)
    return report if process.returncode >= 0 else {"breach": "warden"}


def _object(said: bytes) -> dict[str, Any]:
    try:
        report = parse(said.decode())
    except (ValueError, RecursionError):
        report = None
    return report if isinstance(report, dict) else {"words": said[-500:].decode("utf-8", "replace")}


class _Answers:
    """Reads the lines that come back, and believes none that is not the next one expected."""

    def __init__(self, places: list[str], counts: Sequence[int | None]) -> None:
        self.nonce = secrets.token_hex(8)
        self.beginning = f'["{self.nonce}",'.encode()
        self.places, self.counts = places, counts  # of each script: where it is in a sentence, and how many answers it has
        self.answers: list[list[Any]] = [[] for _ in places]
        self.raised: list[Raised | None] = [None for _ in places]
        self.at = 0  # the script that is being run
        self.phase = "start"  # then "load", "run", "exit" or "unloaded", "done"
        self.unloaded: Raised | None = None
        self.is_garbled = False

    def read(self, line: bytes) -> None:
        if self.is_garbled or not line.endswith(b"\n"):  # a half line was being written when the process died
            return
        try:
            if not line.startswith(self.beginning):
                raise ValueError("the line does not begin as an answer does")
            _, what, *rest = parse(line.decode())
            if self.phase == "run":
                self._take(what, rest)
            else:
                self._take_before_the_scripts(what, rest)
        except (ValueError, TypeError, IndexError, RecursionError):
            self.is_garbled = True

    def _take_before_the_scripts(self, what: Any, rest: list[Any]) -> None:
        after = {("start", "ready"): "load", ("load", "loaded"): "run", ("load", "unloaded"): "unloaded"}.get((self.phase, what))
        if after is None:
            raise ValueError(f"{what} in phase {self.phase}")
        if after == "unloaded":
            self.unloaded = _raised(rest)
        self.phase = after

    def _take(self, what: Any, rest: list[Any]) -> None:
        if what == "done" and self.at == len(self.answers):
            self.phase = "done"
            return
        script, *content = rest
        if type(script) is not int or script != self.at:
            raise ValueError(f"script {script}, expected {self.at}")
        got = self.answers[script]
        if what in ("answer", "packed"):
            step, value = content
            if type(step) is not int or step != len(got):
                raise ValueError(f"step {step}, expected {len(got)}")
            got.append(unpack(value) if what == "packed" else value)
        elif what == "raised":
            self.raised[script] = _raised(content)
            self.at += 1
        elif what == "end":
            if self.counts[script] not in (None, len(got)):
                raise ValueError(f"{len(got)} answers, expected {self.counts[script]}")
            self.at += 1
        elif what == "exit":
            self.phase = "exit"
        else:
            raise ValueError(f"{what} is no answer")

    def outcome(self, breach: Breach | None, printed: str) -> Outcome:
        return Outcome(self.answers, self.raised, breach, printed)

    def place(self) -> str:
        """`, at step 7 of script 'fan_out'`: what was being done when the answers stopped."""
        if self.phase == "load":
            return ", while it was loaded"
        if self.phase not in ("run", "exit") or self.at >= len(self.places) or not self.places[self.at]:
            return ""
        step = f"at step {len(self.answers[self.at])} " if self.places[self.at].startswith("of ") else ""
        return f", {step}{self.places[self.at]}"


def _raised(content: list[Any]) -> Raised:
    kind, message, where = content
    if not all(isinstance(part, str) for part in (kind, message, where)):
        raise ValueError("an exception is told in three texts")
    return Raised(kind, message, where)


def _whole_breach(report: dict[str, Any], answers: _Answers, limits: Limits) -> Breach | None:
    """What the warden's report and the answers together say about the end; None after a whole run."""
    kind = report.get("breach") or _ending(report.get("status"), answers)
    if kind is None:
        return None
    if kind == "start":
        words = plain_text(str(report.get("words") or report.get("printed") or "").strip().rpartition("\n")[2], 160)
        said = f"the process that checks your code did not start{f' ({words})' if words else ''}."
        return Breach(kind, said, "Run this cell again; if that does not help, run `kit doctor`.")
    if kind == "unloaded" and answers.unloaded is not None:
        said = f"your code cannot be loaded in the process that checks it: {answers.unloaded.what}."
        return Breach(kind, said, "Define everything it needs in cells, or import it inside.")
    return _breach(kind, report.get("status"), answers.place(), limits)


def _breach(kind: str, status: Any, place: str, limits: Limits) -> Breach:
    """The sentences for one kind of breach, and where it was."""
    said, look = {
        "time": (f"did not finish in {limits.deadline_s:g} s", "Look for a loop that never ends."),
        "memory": (f"used more than {_size(limits.memory_bytes)} of memory", GROWS),
        "processes": (f"started more than {limits.processes} processes", "It should not start any."),
        "printed": (f"printed more than {_size(limits.printed_bytes)}", "Remove the prints: they run at every step of every script."),
        "answers": (f"returned more than {_size(limits.answers_bytes)}", GROWS),
        "exit": ("called sys.exit", RETURN),
        "ended": ("ended the Python process (os._exit)", RETURN),
        "closed": ("closed the file that carries its answers", ONLY_ITS_OWN),
        "garbled": ("wrote to the file that carries its answers", ONLY_ITS_OWN),
        "crashed": (f"crashed the Python process ({_signal_name(status)})", "Look for anything in it that is not plain Python."),
    }.get(kind, ("ended the process that watches it", ONLY_ITS_OWN))
    return Breach(kind, f"your code {said}{place}.", look)


def _ending(status: Any, answers: _Answers) -> str | None:
    """How a process ended that no limit was in the way of; None when it had done all."""
    if status is None:
        return "start" if answers.phase == "start" else "warden"
    if status < 0:
        return "time" if status == -signal.SIGXCPU else "crashed"
    if answers.is_garbled:
        return "garbled"
    if answers.phase in ("exit", "unloaded", "start"):
        return answers.phase
    if status == EXIT_CLOSED:
        return "closed"
    return None if answers.phase == "done" and status == 0 else "ended"


def _signal_name(status: Any) -> str:
    return signal.Signals(-status).name if isinstance(status, int) and -status in set(signal.Signals) else "unknown"


def _size(count: int) -> str:
    return next(f"{count / unit:g} {name}" for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= unit)
