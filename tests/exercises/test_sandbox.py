"""The sandbox: whatever a learner's code does ends in a sentence, within seconds, and nothing of it stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from kitlib.exercises import check, sandbox
from kitlib.exercises.sandbox import Outcome, call, run_steps
from kitlib.experiments import run
from kitlib.mechanisms.partition_manager import PartitionManager
from tests.conftest import REPOSITORY, describe, our_processes, wait_for
from tests.exercises import solutions
from tests.exercises.steps import each_step

LOCK = threading.Lock()


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    """After each test no process is left that was not there before, and no folder either."""
    yield
    assert not sandboxed() and not list(Path(tempfile.gettempdir()).glob("kit-sandbox-*"))


def sandboxed() -> list[str]:
    """What runs in a sandbox of this session."""
    found = []
    for process in our_processes():
        with contextlib.suppress(psutil.Error):
            if f"from {sandbox.__name__} import main; main()" in process.cmdline():
                found.append(describe(process))
    return found


def only(outcome: Outcome) -> Any:
    """The one value of one call."""
    assert outcome.breach is None and outcome.raised == [None], outcome
    return outcome.answers[0][0]


# What a learner's code may do, and the sentence that it gets.


def loops_in_c(_: int) -> int:
    return max(range(10**12))


def leaves(_: int) -> None:
    os._exit(0)


def kills_itself(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class BrokenLoad:
    def __reduce__(self) -> Any:
        return (int, ("no number",))


class EvilLoad:
    def __reduce__(self) -> Any:
        return (loops_in_c, (0,))


def locks(_: int) -> bool:
    return LOCK.acquire()


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (loops_in_c, "time", "your code did not finish in 2 s."),
        (EvilLoad(), "time", "your code did not finish in 2 s."),
        (leaves, "ended", "your code ended the Python process (os._exit)."),
        (kills_itself, "ended", "your code ended the Python process (signal 9)."),
        (BrokenLoad(), "loaded", "cannot be loaded in the process that checks it (ValueError: inv"),
        (locks, "unsent", "cannot be sent to the process that checks it: TypeError: cannot pickle '_thread.lock' object."),
    ],
    ids=["loop", "loop as it is loaded", "exit", "kill", "broken", "not sent"],
)
def test_call_breach_ends_in_a_sentence(code: Any, kind: str, said: str) -> None:
    """A breach of a limit ends the process in time, and is told; it is never an answer."""
    outcome = call(code, [[1]], deadline_s=2)
    assert outcome.breach is not None, outcome
    assert outcome.breach.kind == kind and said in outcome.breach.said and outcome.breach.look


def fills_the_memory(_: int) -> None:
    kept: list[Any] = []
    while True:
        kept = [kept, bytearray(500_000_000)]  # of which nothing is ever touched


def prints_for_ever(_: int) -> None:
    while True:
        os.write(2, b"x" * 1_000_000)


@pytest.mark.parametrize(("grows", "told"), [(fills_the_memory, "MemoryError, in line "), (prints_for_ever, "OSError: [Errno 27]")])
def test_call_that_takes_too_much_is_refused_at_its_line(grows: Callable[[int], None], told: str) -> None:
    """Memory and output have an end, which is an exception in the learner's own line."""
    outcome = call(grows, [[1]])
    assert outcome.breach is None and outcome.raised[0] is not None
    assert outcome.raised[0].what.startswith(told) and outcome.raised[0].what.endswith(f" of {grows.__name__}")


class Dawdles:
    def do(self, step: Any) -> int:
        if step == "dawdle":
            threading.Event().wait()
        if step == "leave":
            os._exit(0)
        if step == "raise":
            raise LookupError("lost my way")
        return len(step)


def test_run_steps_breach_names_script_and_step() -> None:
    """The sentence of a breach says where it was, and the answers before it are there."""
    scripts = [{"name": "happy_path", "steps": ["one", "three"]}, {"name": "fan_out", "steps": ["four", "dawdle", "five"]}]
    outcome = run_steps(each_step, Dawdles, scripts, deadline_s=4)
    assert outcome.breach is not None
    assert outcome.breach.said == "your code did not finish in 4 s, at step 1 of script 'fan_out'."
    assert outcome.answers == [[3, 5], [4]]
    scripts[1]["steps"] = ["leave"]
    outcome = run_steps(each_step, Dawdles, scripts)
    assert outcome.breach is not None
    assert outcome.breach.said == "your code ended the Python process (os._exit), at step 0 of script 'fan_out'."


def test_run_steps_exception_ends_its_script_alone() -> None:
    """After an exception the next script is run on a new object; the exception is told with its line."""
    outcome = run_steps(each_step, Dawdles, [{"steps": ["one", "raise", "two"]}, {"steps": ["three"]}])
    assert outcome.breach is None
    assert outcome.answers == [[3], [5]]
    raised, none = outcome.raised
    line = Dawdles.do.__code__.co_firstlineno + 6
    assert raised is not None and raised.what == f"LookupError: lost my way, in line {line} of do" and none is None


def test_run_steps_process_that_does_not_start_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kit's own side breaks, that is said, and nobody's code is blamed."""
    module = ModuleType("nowhere")
    exec("def drive(make, script): yield 1", vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, "nowhere", module)
    outcome = run_steps(module.drive, Dawdles, [{"steps": []}])
    assert outcome.breach is not None and outcome.breach.kind == "start"
    assert "did not start (ModuleNotFoundError: No module named 'nowhere')." in outcome.breach.said


# Exceptions.


class LoudError(Exception):
    def __str__(self) -> str:
        return "x" * 10**8


class ShyError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raiser(error: BaseException) -> Callable[[int], None]:
    def raises(_: int) -> None:
        raise error

    return raises


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(), "SystemExit, in line"),
        (KeyboardInterrupt(), "KeyboardInterrupt, in line"),
        (LoudError(), "LoudError: xxx"),
        (ShyError(), "ShyError, in line"),
        (ValueError("a\0b\x1b[31m\n\ud800"), r"ValueError: a\x00b\x1b[31m\n\ud800, in line"),
        (StopIteration(3), "StopIteration: 3, in line"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_call_exception_is_told_in_one_short_line(error: BaseException, told: str) -> None:
    """Whatever is raised is one short printable line, and no answer."""
    outcome = call(raiser(error), [[1]])
    [raised] = outcome.raised
    assert outcome.breach is None and outcome.answers == [[]]
    assert raised is not None and raised.what.startswith(told)
    assert len(raised.what) < 250 and raised.what.isprintable()


# Values.


class Index:
    def __index__(self) -> int:
        return 7


def test_call_odd_values_arrive_or_are_shown() -> None:
    """Plain values come over as they are; what has no plain form comes as what it looks like."""

    def returns(which: str) -> Any:
        return {
            "nan": float("nan"), "huge": 10**5_000, "text": "a\0b\ud800", "bytes": b"\0", "index": Index(),
            "set": {1, (2, frozenset({3}))}, "range": range(10**30), "keys": {1: 2, "~": 3},
        }[which]  # fmt: skip

    names = ["nan", "huge", "text", "bytes", "index", "set", "range", "keys"]
    outcome = call(returns, [[name] for name in names])
    assert outcome.breach is None
    found = {name: value for name, [value] in zip(names, outcome.answers, strict=True)}
    assert found["nan"] != found["nan"]
    assert found["huge"] == 10**5_000
    assert found["text"] == "a\0b\ud800"
    assert repr(found["bytes"]) == r"b'\x00'"
    assert found["index"] == 7
    assert found["set"] == {1, (2, frozenset({3}))}
    assert found["range"] == range(10**30)
    assert found["keys"] == {1: 2, "~": 3}


class Odd:
    """An answer that raises when it is looked at."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error("no")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Odd(LookupError), "the answer should be a number; got something whose repr raises LookupError."),
        (Odd(SystemExit), "your answer cannot be read: SystemExit: no, in line"),
        ([3, {"a": 10**5_000}], "the answer should be a number; got something whose repr raises ValueError."),
    ],
)
def test_check_answer_that_cannot_be_read_is_told(answer: Any, said: str) -> None:
    """An answer that raises when it is looked at ends in a sentence."""
    finding = check("done_but_not_saved", answer)
    assert not finding.passed and finding.said.startswith(said), finding


def test_check_dead_process_is_never_a_pass() -> None:
    """An ack that ends the process in the middle, after right answers, does not pass."""

    class EndsLater(PartitionManager):
        def ack(self, offset: int) -> Any:
            if self.number_acked > 3:
                leaves(0)
            return solutions.own_ack(self, offset)

    finding = check("own_ack", EndsLater)
    assert not finding.passed
    assert finding.said.startswith("your code ") and "of script '" in finding.said


def test_call_trace_arrives_whole_and_is_a_copy() -> None:
    """What the code does to a trace is done to its own copy."""

    def empties(trace: Any) -> list[str]:
        words = [f"{step.number} {step.what} {sorted(step.data)}" for step in trace]
        trace.steps.clear()
        return [*words, str(sorted(trace.settings))]

    trace = run("happy_path")
    told = only(call(empties, [[trace]]))
    assert told == [*(f"{step.number} {step.what} {sorted(step.data)}" for step in trace), str(sorted(trace.settings))]


NOTEBOOK = """
import math
from kitlib.exercises.sandbox import call
from kitlib.mechanisms.partition_manager import PartitionManager

LIMIT = 40

def helper(number):
    return math.sqrt(number) + LIMIT

class Mine(PartitionManager):
    bound = LIMIT

def answer(number):
    return [helper(number), Mine.bound, Mine.__mro__[1].__name__]

if __name__ == "__main__":
    print(call({code}, [[4]], deadline_s=5).answers, flush=True)
"""


def notebook(code: str, where: Path) -> subprocess.Popen[str]:
    """A program as a notebook's kernel has it: everything in `__main__`, the folder not the kit's."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(where)}
    return subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK.replace("{code}", code)], cwd=where, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


def test_call_code_of_a_notebook_in_another_folder(tmp_path: Path) -> None:
    """Globals, imports and base classes that the code of a notebook mentions go with it, wherever the notebook lies."""
    with notebook("answer", tmp_path) as process:
        said, errors = process.communicate(timeout=60)
    assert said.strip() == "[[[42.0, 40, 'PartitionManager']]]", errors


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_call_notebooks_process_gone_ends_the_learners(number: signal.Signals, tmp_path: Path) -> None:
    """When the cell is interrupted, the learner's process ends with it; when the kernel is killed, it ends at its deadline."""
    with notebook("lambda number: max(range(10**12))", tmp_path) as process:
        assert wait_for(sandboxed, 60)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert wait_for(lambda: not sandboxed(), 20)


def test_call_module_of_the_learners_own_is_sent_as_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function from a file beside the notebook is the one that is loaded, whatever the file says by now."""
    file = tmp_path / "my_answers.py"
    file.write_text("FACTOR = 2\n\ndef times(number):\n    return number * FACTOR\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_answers  # type: ignore[import-not-found]

    file.write_text("raise RuntimeError\n")
    assert only(call(my_answers.times, [[21]])) == 42
