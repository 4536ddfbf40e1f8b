"""What a learner wrote as bytes: an answer as JSON values, a function or class so that another process can make it again.

What a notebook defines has no file from which another process could import it, so it is sent by value,
together with the globals that it mentions. The kit's own classes and installed packages go by name.
Parcels are opened in the learner's process alone: opening one can run any code. So can making one, and so
can reading an answer that is not plain (`__reduce__`, `__repr__`, `keys`, ...): both are done in a copy of
this process, which is under limits and hands back bytes.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import cloudpickle
import psutil

from kitlib.exercises.sandbox_child import confine, limit, one_line, told
from kitlib.exercises.sandbox_values import pack, parse, unpack
from kitlib.text import plain_text

MAX_BYTES = 64_000_000
ATOMS = frozenset(map(id, (type(None), type(...), bool, int, float, str, range)))
CONTAINERS = frozenset(map(id, (list, tuple, set, frozenset, dict)))
_REGISTRY = threading.Lock()  # cloudpickle's list of modules to be sent by value is one for the whole process


class NotSendableError(Exception):
    """What of the learner's code keeps it from being sent, as a part of a sentence."""


class CopyEndedError(Exception):
    """The copy of this process was ended, or ended by itself, before it gave back anything."""

    def __init__(self, kind: str, status: int | None = None) -> None:
        super().__init__(kind)
        self.kind, self.status = kind, status  # kind is "time", "crashed" or "ended"; status where it ended by itself


@dataclass(frozen=True, slots=True)
class Code:
    """An object of the learner's that can be called: here it is only held, and shown as it looks over there."""

    made: Any
    shown: str

    def __call__(self) -> NoReturn:
        raise TypeError("a learner's code is called in the sandbox alone")

    def __repr__(self) -> str:
        return self.shown


def in_a_copy(work: Callable[[], bytes], limits: Mapping[str, Any]) -> bytes:
    """What `work` returns in a copy of this process, which may start no other one; its NotSendableError is raised here.

    CopyEndedError when the copy does not come to an end in time, or comes to another one.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: the copy waits for none of them
        pid = os.fork()
    if pid == 0:
        _work_in_the_copy(work, writing, limits)
    os.close(writing)
    got, deadline = bytearray(), time.monotonic() + limits["deadline_s"]
    kind = "time"
    try:
        while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            block = os.read(reading, 1 << 20)
            if not block:
                kind = "ended"
                break
            got += block
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            if kind == "time":
                os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if kind == "ended" and status < 0:
        kind = "time" if status == -signal.SIGXCPU else "crashed"
    if kind != "ended" or status or not got:
        raise CopyEndedError(kind, status)
    if got[:1] == b"-":
        raise NotSendableError(got[1:].decode())
    return bytes(memoryview(got)[1:])


def _work_in_the_copy(work: Callable[[], bytes], writing: int, limits: Mapping[str, Any]) -> NoReturn:
    status = 1
    try:
        gc.disable()  # an object of the notebook's that is finalized here would wait for threads which are not here
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - a notebook's streams belong to threads, too
        confine({**limits, "processes": 0})
        if sys.platform == "linux":
            limit(resource.RLIMIT_AS, psutil.Process().memory_info().vms + limits["memory_bytes"])
        try:
            said = b"+" + work()
        except NotSendableError as error:
            said = b"-" + str(error).encode("utf-8", "replace")
        left = memoryview(said)
        while left:
            left = left[os.write(writing, left) :]
        status = 0
    finally:
        os._exit(status)


def plain(answer: Any, limits: Mapping[str, Any]) -> Any:
    """The answer as values that have no code of the learner's, so that a check may look at them.

    A function or a class is left as it is, another object that can be called becomes a `Code`. NotSendableError
    and CopyEndedError when it cannot be read.
    """
    if _is_plain(answer) or type(answer) in (FunctionType, BuiltinFunctionType) or issubclass(type(answer), type):
        return answer
    packed = in_a_copy(lambda: _packed(answer), limits)
    try:
        read = unpack(parse(packed.decode()))
    except ValueError as error:  # a key or a member that has a hash over there and none as a plain value
        raise NotSendableError(str(error)) from error
    return Code(answer, repr(read)) if callable(answer) else read


def _packed(answer: Any) -> bytes:
    try:
        return json.dumps(pack(answer), separators=(",", ":")).encode()
    except BaseException as error:
        raise NotSendableError(one_line(*told(error))) from error


def _is_plain(answer: Any) -> bool:
    """Whether every part of the answer is of a type of Python's own, so that looking at it runs no other code."""
    left, seen = [answer], set()
    while left:
        part = left.pop()
        kind = id(type(part))  # a type may have its own idea of equality and hash
        if kind in ATOMS or id(part) in seen:
            continue
        if kind not in CONTAINERS:
            return False
        seen.add(id(part))
        left += part
        if type(part) is dict:
            left += part.values()
    return True


def parcel(code: Any) -> bytes:
    """`code` by value. NotSendableError names what it uses that cannot leave this process."""
    with _REGISTRY:
        kept = set(cloudpickle.list_registry_pickle_by_value())
        by_value = [module for module in _modules_of(code) if module.__name__ not in kept]
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            sent = bytes(cloudpickle.dumps(code))
        except BaseException as error:
            culprit = None
            with suppress(Exception):  # looking at an object of the learner's may raise anything, too
                culprit = _culprit(code)
            raise NotSendableError(culprit or f"something ({one_line(*told(error))})") from error
        finally:
            for module in by_value:
                cloudpickle.unregister_pickle_by_value(module)
    if len(sent) > MAX_BYTES:
        raise NotSendableError(f"{len(sent) / 1e6:,.0f} MB of data, at most {MAX_BYTES / 1e6:,.0f} MB")
    return sent


def _modules_of(code: Any) -> list[ModuleType]:
    """The modules in the learner's own files that hold the code, its class and its base classes."""
    kinds = code.__mro__ if isinstance(code, type) else (code, *type(code).__mro__)
    names = {getattr(kind, "__module__", None) for kind in kinds}
    found = [sys.modules[name] for name in names if isinstance(name, str) and name in sys.modules]
    return [module for module in found if _is_learners(module)]


def _is_learners(module: ModuleType) -> bool:
    """Whether the module is a file of the learner's: not a notebook, the kit, Python itself or an installed package."""
    root, file = module.__name__.split(".")[0], getattr(module, "__file__", None)
    if root in {"__main__", "kitlib"} | sys.stdlib_module_names or not isinstance(file, str):
        return False
    return not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _culprit(code: Any) -> str | None:
    """The first global name in the code whose value cannot be sent, and what it is."""
    for function in _functions_of(code):
        for name in _names_in(function.__code__):
            if name in function.__globals__:
                value = function.__globals__[name]
                try:
                    cloudpickle.dumps(value)
                except Exception:  # noqa: BLE001 - see above
                    return f"`{plain_text(name, 40)}` (a {plain_text(type(value).__name__, 40)})"
    return None


def _functions_of(code: Any) -> Iterator[FunctionType]:
    parts = [code, *(part for kind in (code if isinstance(code, type) else type(code)).__mro__ for part in vars(kind).values())]
    for part in parts:
        function = getattr(part, "__func__", getattr(part, "fget", part))
        if isinstance(function, FunctionType) and not (function.__module__ or "").startswith("kitlib."):
            yield function


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
