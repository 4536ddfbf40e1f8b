"""Delivery Lab: the mechanisms by which streaming systems keep their promises, run, shown and judged.

from kitlib import Player, check, explain, hint, judge, predict, run, show, solution
trace = run("small_max_offset_behind", max_offset_behind=5)
judge(trace)                           # what was lost, and which setting explains it
show(trace)                            # where every record is
Player("small_max_offset_behind")      # the same with sliders

from kitlib import Acker, IdempotentProducer, KafkaLog, PartitionManager, SpoutConfig
# the three mechanisms alone, on a topic of any Kafka: docs/three_parts.md
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"
# Told as text: this package lies below all rooms, which import it.
_ROOMS = {
    "Acker": "mechanisms.acker", "IdempotentProducer": "experiments.idempotence.protocol_producer", "KafkaLog": "experiments.parts",
    "Leader": "mechanisms.broker.leader", "PartitionManager": "mechanisms.partition_manager", "SpoutConfig": "mechanisms.partition_manager",
    "Player": "views", "check": "exercises", "every_fault": "views", "explain": "exercises", "hint": "exercises",
    "judge": "monitor.delivery", "predict": "views", "run": "experiments", "show": "views", "solution": "exercises",
}  # fmt: skip
__all__ = [*_ROOMS]


def __getattr__(name: str) -> Any:
    """Each is imported when it is first asked for."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
