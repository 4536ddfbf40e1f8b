"""Reads recorded traces and tells how far a model agrees with them.

A recorded trace is one JSON object a line: a name, its meaning, a configuration and steps. A replay
gives, for each step, what the model did instead; the first field that differs is the first
difference. Files may be plain or gzipped and lie in any folder.

Of a pure function one answer is recorded, not a run: a row with an `input` and an `output` is read as a
trace of one step, whose arguments are the input and whose result is the output. So is each step that has
these two; what else the trace has is then its configuration. Of a script, a row may have all operations in
`input.ops` and what each of them led to in `output`; of a serializer, the bytes of one record in `key_hex`
and `value_hex`, and beside them what was read from these.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from traceback import walk_tb
from typing import Any, BinaryIO

from kitlib.errors import KitError, TraceError
from kitlib.lab import workspace

MAX_LINE_BYTES = 64 * 1024 * 1024  # one recorded trace is one line; longer is no trace of ours
MAX_FILE_BYTES = 4 * MAX_LINE_BYTES  # packed or unpacked; ours have a twentieth of it

Replay = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]  # a trace -> what the model did, step by step


@dataclass(frozen=True, slots=True)
class Difference:
    """The first step of a trace at which the model and the recording part ways."""

    trace: str
    meaning: str
    step: int  # from 0
    op: str
    field: str  # a path such as "state.pending"; RECORDING: it has a value that no recorder writes
    expected: Any  # what was recorded
    got: Any  # what the model did

    def __str__(self) -> str:
        where = f"{self.trace}, step {self.step} ({self.op})"
        if self.field == RECORDING:
            return f"{where}: the recording is wrong, not the model: {self.got}"
        return f"{where}: {self.field} should be {_short(self.expected)}, the model has {_short(self.got)}."


@dataclass(slots=True)
class Conformance:
    """How many recorded steps of how many traces a model repeated, and where it first did not."""

    matched: int = 0
    total: int = 0
    traces: int = 0
    differences: list[Difference] = field(default_factory=list)  # the first one of each trace that differs

    @property
    def agrees(self) -> bool:
        """True when every step of every trace was repeated."""
        return self.matched == self.total and not self.differences

    def __str__(self) -> str:
        told = f"{self.matched}/{self.total} steps of {self.traces} traces matched"
        return told if self.agrees else f"{told}; first difference: {self.differences[0]}"


def conform(replay: Replay, traces: Iterator[dict[str, Any]]) -> Conformance:
    """Replay each trace until its first difference; steps after one do not count as matched."""
    found = Conformance()
    for trace in traces:
        steps = trace["steps"]
        found.traces += 1
        found.total += len(steps)
        difference = _first_difference(replay, trace)
        found.matched += len(steps) if difference is None else difference.step
        if difference:
            found.differences.append(difference)
    return found


def _first_difference(replay: Replay, trace: dict[str, Any]) -> Difference | None:
    done = replay(trace)
    for number, step in enumerate(trace["steps"]):
        told = trace.get("name", "?"), trace.get("meaning", ""), number, step.get("op", "?")
        try:
            got = next(done)
        except TraceError as error:
            return Difference(*told, RECORDING, "what a recorder writes", str(error))
        except Exception as crash:  # noqa: BLE001 - a model that breaks has differed, whatever it broke of
            words = f"{type(crash).__name__}: {crash}"
            if is_of_the_recording(crash):
                return Difference(*told, RECORDING, "what a recorder writes", f"no recorder writes such a step ({words[:200]}).")
            got = {"crash": words}
        expected = {key: value for key, value in step.items() if key not in ("op", "args")}
        if differing := first_field(expected, got, ""):
            return Difference(*told, *differing)
    return None


def is_of_the_recording(crash: Exception) -> bool:
    """Whether it is the recording that a replay broke of: of Python's own errors, in lines that are all the kit's and the library's.

    The kit's replays and models do not look at what a recording holds before they use it, and none breaks of what was recorded.
    """
    known = {"kitlib", *sys.stdlib_module_names}
    modules = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(crash.__traceback__))
    return not isinstance(crash, KitError | StopIteration) and all(name.partition(".")[0] in known for name in modules)


ABSENT, RECORDING = "nothing", "the recording"


def first_field(expected: Any, got: Any, path: str) -> tuple[str, Any, Any] | None:
    """The path of the first field that differs, with both values."""
    if isinstance(expected, dict) and isinstance(got, dict):
        if "crash" in got and "crash" not in expected:
            return (path + "crash", ABSENT, got["crash"])
        for key in (*expected, *(key for key in got if key not in expected)):
            wanted, had = expected.get(key, ABSENT), got.get(key, ABSENT)
            found = first_field(wanted, had, f"{path}{key}.")
            if found:
                return found
        return None
    return None if _same(expected, got) else (path.rstrip("."), expected, got)


def _same(expected: Any, got: Any) -> bool:
    """Equal, and of the same types all through: 1, 1.0 and True are three values."""
    if expected != got or type(expected) is not type(got):
        return False
    if isinstance(expected, list):
        return all(map(_same, expected, got))
    return not isinstance(expected, dict) or all(_same(value, got[key]) for key, value in expected.items())


def read_traces(path: Path | str) -> Iterator[dict[str, Any]]:
    """The recorded traces of one file, plain or gzipped. TraceError names the file and the line."""
    where = Path(path)
    number = size = 0
    try:
        with _opened(where) as lines:
            for number, line in enumerate(iter(lambda: lines.readline(MAX_LINE_BYTES + 1), b""), start=1):
                size += len(line)
                if size > MAX_FILE_BYTES >= len(line):
                    raise TraceError(f"{where}: it has more than {MAX_FILE_BYTES:,} bytes. Split it into smaller files.")
                if line.strip():
                    yield _trace(line, f"{where.name}, line {number}")
    except FileNotFoundError:
        raise TraceError(
            f"{where}: there is no such file. Give the path of a recorded trace (.jsonl or .jsonl.gz)."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TraceError(
            f"{where}, line {number + 1}: it cannot be read ({reason}). Give a whole .jsonl or .jsonl.gz file."
        ) from None


def count_in(args: dict[str, Any], name: str, most: int) -> int:
    """Of how many things a replay makes one each; TraceError unless it is 1 to `most`."""
    if not 1 <= args[name] <= most:
        raise TraceError(f"{name} is {args[name]}, expected a whole number from 1 to {most:,}.")
    return int(args[name])


def fields_of(it: Any, names: str) -> dict[str, Any]:
    """What an object has that the recording calls by the same names."""
    return {name: getattr(it, name) for name in names.split()}


def unknown(op: Any) -> TraceError:
    """What to raise for an operation that the recorder of a replay never writes."""
    return TraceError(f"the recording has an operation {op!r:.60}, which this replay does not know. Update the kit.")


def bundled(*parts: str) -> Path:
    """The path of a trace file that comes with the kit, such as bundled("storm", "pm_scenarios.jsonl.gz")."""
    return Path(str(resources.files("kitlib.conformance") / "data")).joinpath(*parts)


@contextmanager
def _opened(path: Path) -> Iterator[gzip.GzipFile | BinaryIO]:
    with workspace.open_regular(path, MAX_FILE_BYTES) as raw:
        gzipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield gzip.GzipFile(fileobj=raw) if gzipped else raw


def _trace(line: bytes, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise TraceError(f"{where}: it is longer than {MAX_LINE_BYTES:,} bytes. Expected one trace a line.")
    try:
        trace = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: it is not JSON ({str(error)[:80]}). Expected one trace a line.") from None
    if isinstance(trace, dict):
        trace = _of_record(trace) or _of_script(trace) or _with_steps(trace)
    if not isinstance(trace, dict) or not isinstance(trace.get("steps"), list) or not trace["steps"]:
        raise TraceError(f"{where}: it is no recorded trace. Expected an object with a list of steps.")
    if not isinstance(trace.get("config"), dict):
        raise TraceError(f"{where}: it has no config. Expected an object with the settings of the recorded class.")
    for number, step in enumerate(trace["steps"]):
        if (
            not isinstance(step, dict)
            or not isinstance(step.get("op"), str)
            or not isinstance(step.get("args", {}), dict)
        ):
            raise TraceError(f"{where}: step {number} is no recorded step. Expected {{op, args, result, state}}.")
    return trace


def _with_steps(trace: dict[str, Any]) -> dict[str, Any]:
    """A trace whose steps, or which itself as the only one, are told as input and output, in steps with op and args."""
    steps = trace.get("steps", [{"input": trace["input"], "output": trace["output"]}] if _is_answer(trace) else None)
    if not isinstance(steps, list) or "config" in trace or not steps or not all(map(_is_answer, steps)):
        return trace
    op = str(trace.get("kind", "decide"))
    told = [{"op": op, "args": step["input"], "result": step["output"]} for step in steps]
    config = {key: value for key, value in trace.items() if key not in ("steps", "input", "output")}
    return trace | {"config": config, "steps": told}


def _of_script(trace: dict[str, Any]) -> dict[str, Any] | None:
    """A row with a list of operations and a list of what they led to, in steps; None for any other row."""
    given, output = trace.get("input"), trace.get("output")
    if "steps" in trace or not isinstance(given, dict) or not isinstance(output, list):
        return None
    ops, config = given.get("ops"), given.get("config")
    if not isinstance(ops, list) or not isinstance(config, dict) or not ops or len(ops) != len(output):
        return None
    if not all(isinstance(op, dict) and isinstance(op.get("op"), str) for op in ops):
        return None
    steps = [{"op": op["op"], "args": op, "result": result} for op, result in zip(ops, output, strict=True)]
    rest = {key: value for key, value in trace.items() if key not in ("input", "output")}
    return rest | {"config": config, "steps": steps}


def _of_record(trace: dict[str, Any]) -> dict[str, Any] | None:
    """A row with a record's bytes and what was read from them, as one step; None for any other row."""
    if "steps" in trace or not all(name in trace for name in ("key_hex", "value_hex", "decoded")):
        return None
    bytes_of_it = {name: trace[name] for name in ("key_hex", "value_hex")}
    told = {name: trace[name] for name in ("decoded", "error", "reencodes_identically") if name in trace}
    rest = {key: value for key, value in trace.items() if key not in bytes_of_it and key not in told}
    return rest | {"config": rest, "steps": [{"op": "decode", "args": bytes_of_it, "result": told}]}


def _is_answer(step: Any) -> bool:
    return isinstance(step, dict) and isinstance(step.get("input"), dict) and isinstance(step.get("output"), dict)


def _short(value: Any) -> str:
    text = value if value is ABSENT else json.dumps(value, default=str)
    return text if len(text) <= 160 else text[:157] + "..."
