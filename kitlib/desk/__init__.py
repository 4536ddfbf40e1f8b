"""The desk: a producer, a spout and a bolt that run on the real broker while one turns their knobs, and Spark counts along.

from kitlib.desk import Desk
desk = Desk(rate=500, lost_answers=2, idempotence=False)   # sliders, buttons, charts and three lamps
desk.drain()               # lets everything come to rest, and compares the three counts
desk.player()              # the spout's last steps, in a player
desk.stop()                # nothing is left behind
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kitlib.desk.run import DeskRun
    from kitlib.desk.widget import Desk

__all__ = ["Desk", "DeskRun"]

_MODULES = {"Desk": "widget", "DeskRun": "run"}


def __getattr__(name: str) -> Any:
    """Each is imported when it is first asked for: the widget libraries and Spark take a while to load."""
    if name in _MODULES:
        return getattr(import_module(f"kitlib.desk.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
