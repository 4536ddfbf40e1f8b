"""Which traces are drawn as a scene, and by whom: the one list of the kit's scenes.

A line names the scene's module and the verbs that only its traces have. The module is imported when a
trace with one of the verbs is to be drawn for the first time. It offers

    PARTS: dict[str, str]                       # what `show(trace, part=...)` takes -> the question answered; "all" first
    HAS_RECORDS: bool                           # whether the strips of records ("log", "plot") can be drawn too
    claims(trace) -> bool                       # whether the trace is of this kind; asked only if it has one of the verbs
    to_scene(trace, part) -> kitlib.views.scene.Scene
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from kitlib.errors import TraceError
from kitlib.trace import Trace
from kitlib.views.scene import Scene
from kitlib.views.text import plain_text


@dataclass(frozen=True, slots=True)
class SceneKind:
    """One kind of scene: its module, and the verbs that tell its traces."""

    module: str
    words: frozenset[str]  # at least one of them is in every trace of this kind

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
        laid = len(scene.x_of_step), len(scene.said), len(scene.panel_of_step)
        if laid != (len(trace),) * 3:
            raise TraceError(
                f"{self.module}: the scene of {plain_text(trace.experiment, 60)} has {laid[0]} places, {laid[1]} "
                f"sentences and {laid[2]} panels, expected {len(trace)} of each. Call add_step once for every step."
            )
        return scene


SCENES: tuple[SceneKind, ...] = (
    SceneKind("kitlib.views.connect_scene", frozenset({"configure"})),
    SceneKind("kitlib.views.streams_scene", frozenset({"topology"})),
    SceneKind("kitlib.views.source_scene", frozenset({"send"})),
    SceneKind("kitlib.views.partition_scene", frozenset({"partitions"})),
    SceneKind(
        "kitlib.views.send_scene",
        frozenset({"call", "request_update", "metadata_request", "connect", "blocked", "new_batch", "exit"}),
    ),
    SceneKind("kitlib.views.unclean_scene", frozenset({"elect", "isr", "none"})),
    SceneKind("kitlib.views.offsets_scene", frozenset({"write", "load_begin", "load_failed", "answer"})),
    SceneKind("kitlib.views.compaction_scene", frozenset({"roll", "pass", "purge"})),
    SceneKind("kitlib.views.lag_scene", frozenset({"lag", "judge"})),
    SceneKind("kitlib.views.group_scene", frozenset({"prepare", "sync", "stable", "assigned"})),
    SceneKind("kitlib.views.transaction_scene", frozenset({"transition", "marker", "begin", "commit_tx", "open"})),
)


def kind_of(trace: Trace) -> SceneKind | None:
    """The kind of scene that a trace is, or None: the first that claims it."""
    words = {step.what for step in trace.steps}
    for kind in SCENES:
        if not words.isdisjoint(kind.words) and kind.drawer.claims(trace):
            return kind
    return None
