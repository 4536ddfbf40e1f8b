"""Which traces are drawn as a scene, and by whom: the one list of the kit's scenes.

A line names a domain and its scene's module, which is imported when a trace of that domain is to be drawn
for the first time. It offers

    PARTS: dict[str, str]                       # what `show(trace, part=...)` takes -> the question answered; "all" first
    HAS_RECORDS: bool                           # whether the strips of records ("log", "plot") can be drawn too
    to_scene(trace, part) -> kitlib.views.scene.Scene
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from kitlib.errors import TraceError
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.scene import Scene


@dataclass(frozen=True, slots=True)
class SceneKind:
    """One kind of scene."""

    module: str

    @property
    def drawer(self) -> ModuleType:
        """The scene's module."""
        return import_module(self.module)

    @property
    def parts(self) -> dict[str, str]:
        """The parts that can be asked for, each with its question."""
        parts: dict[str, str] = self.drawer.PARTS
        return parts

    @property
    def has_records(self) -> bool:
        """Whether its traces have the delivery words, so that strips of records can be drawn."""
        return bool(self.drawer.HAS_RECORDS)

    def to_scene(self, trace: Trace, part: str = "all") -> Scene:
        """The scene of a trace. TraceError when it lays out another number of steps than the trace has."""
        scene: Scene = self.drawer.to_scene(trace, part if part in self.parts else "all")
        laid = len(scene.x_of_step), len(scene.said), len(scene.panels)
        if laid != (len(trace),) * 3:
            raise TraceError(
                f"{self.module}: the scene of {plain_text(trace.experiment, 60)} has {laid[0]} places, {laid[1]} "
                f"sentences and {laid[2]} panels, expected {len(trace)} of each. Call add_step once for every step."
            )
        return scene


SCENES: dict[str, SceneKind] = {
    domain: SceneKind(f"kitlib.views.{module}")
    for domain, module in {
        "connect": "connect_scene",
        "streams": "streams_scene",
        "source": "source_scene",
        "partitions": "partition_scene",
        "send_path": "send_scene",
        "replication": "unclean_scene",
        "offsets": "offsets_scene",
        "incidents": "offsets_scene",
        "compaction": "compaction_scene",
        "lag": "lag_scene",
        "groups": "group_scene",
        "transactions": "transaction_scene",
        "checkpoint": "checkpoint_scene",
        "difference": "difference_scene",
    }.items()
}  # domain -> the scene of its traces


def kind_of(trace: Trace) -> SceneKind | None:
    """The kind of scene that a trace is drawn as, or None where records, trees or batches are followed."""
    return SCENES.get(trace.domain)
