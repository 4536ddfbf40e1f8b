"""A learner's function or class as bytes that another process can make it from again.

What a notebook defines has no file from which another process could import it, so it is sent by value,
together with the globals that it mentions. The kit's own classes and installed packages go by name.
Parcels are opened in the learner's process alone: opening one can run any code.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle

from kitlib.text import plain_text

MAX_BYTES = 64_000_000
_REGISTRY = threading.Lock()  # cloudpickle's list of modules to be sent by value is one for the whole process


class NotSendableError(Exception):
    """What of the learner's code keeps it from being sent, as a part of a sentence."""


def parcel(code: Any) -> bytes:
    """`code` by value. NotSendableError names what it uses that cannot leave this process."""
    with _REGISTRY:
        kept = set(cloudpickle.list_registry_pickle_by_value())
        by_value = [module for module in _modules_of(code) if module.__name__ not in kept]
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            sent = bytes(cloudpickle.dumps(code))
        except Exception as error:
            culprit = None
            with suppress(Exception):  # looking at an object of the learner's may raise anything, too
                culprit = _culprit(code)
            raise NotSendableError(culprit or f"something ({plain_text(f'{type(error).__name__}: {error}', 120)})") from error
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
