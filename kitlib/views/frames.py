"""A trace, made ready to be drawn: what its pictures show after any step, read once from its first step to its last.

Left out: the colours and the drawing; how what each kind of picture shows is read (the `*_reader` modules).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.monitor.verdict import cut_sentence
from kitlib.trace import Step, Trace
from kitlib.views.partition.reader import Lane, LaneReader, LaneView, lanes_of
from kitlib.views.play_clock import PlayClock, events, pauses, play_clock
from kitlib.views.scene import SCENES, Scene, kind_of, scene_of
from kitlib.views.trees.forest import Forest
from kitlib.views.trees.reader import to_forest


@dataclass(slots=True)
class Frames:
    """Everything a picture of one trace needs; the lists but `lanes` and `samples` have one item a step."""

    trace: Trace  # the one they were read from
    clock: PlayClock = field(default_factory=PlayClock)  # where its steps lie in time
    lanes: list[Lane] = field(default_factory=list)
    lag: list[int] = field(default_factory=list)  # log end - committed_to, summed over the lanes
    in_flight: list[int] = field(default_factory=list)  # emitted, no ack yet, summed over the lanes
    retries: list[int] = field(default_factory=list)
    forked_at: int = -1  # the last step shared with the parent, or -1
    cut: str = ""  # that the run was cut, as a sentence for below the picture; "" when its story came to its end
    forest: Forest | None = None  # the trees of a topology's trace
    samples: list[Step] = field(default_factory=list)  # which hold what a long run of a topology counted
    scene: Scene | None = None  # a trace whose whole run is one picture (kitlib.views.scene)

    def __len__(self) -> int:
        return len(self.trace)

    def sentence(self, number: int) -> str:
        """What a step says to a learner, with what is known of it from the steps before."""
        return self.trace.sentence((self.scene.steps if self.scene and self.scene.steps else self.trace.steps)[number])

    @property
    def said(self) -> list[str]:
        """The sentences of all steps."""
        return [self.sentence(number) for number in range(len(self))]

    @property
    def has_records(self) -> bool:
        """Whether a partition has room for records."""
        return any(lane.end > lane.base for lane in self.lanes)

    @property
    def is_long(self) -> bool:
        """Whether it takes time to draw all steps."""
        return (self.scene is None or self.scene.window is not None) and len(self) > 100

    def lanes_after(self, number: int) -> list[LaneView]:
        """All lanes after a step."""
        return [lane.after(number) for lane in self.lanes]


def to_frames(trace: Trace, part: str = "all") -> Frames:
    """The frames of a trace. Steps without a topic and a partition belong to no lane and change no strip.

    `part` is the part of its scene, where it has one (`kitlib.views.scene`).
    TraceError when a step's data are not what its word promises (an offset that is no number).
    """
    frames = Frames(trace)
    with trace.following("be drawn"):
        _read(frames, trace, part)
    return frames


def _read(frames: Frames, trace: Trace, part: str) -> None:
    frames.clock = play_clock([step.at_ms for step in trace.steps], pauses(events(trace)))
    kind = kind_of(trace)
    if kind is not None:
        frames.scene = scene_of(kind, trace, part)
    else:
        frames.forest = to_forest(trace) if trace.domain == "topology" else None
        frames.samples = [step for step in trace if step.what == "sample"]
    frames.forked_at = int(trace.parent["at"]) if trace.parent else -1
    frames.cut = "" if trace.cut_at is None else f"{cut_sentence(trace.cut_at)}."
    has_records = kind is None or (trace.domain in SCENES and "append" in trace.vocabulary.words)
    readers = {key: LaneReader(lane) for key, lane in lanes_of(trace).items()} if has_records else {}
    frames.lanes = [reader.lane for reader in readers.values()]
    lag = in_flight = retries = 0
    for step in trace.steps:
        if reader := readers.get((step.data.get("topic"), step.data.get("partition"))):
            lag, in_flight, retries = lag - reader.lag, in_flight - reader.in_flight, retries - reader.retries
            reader.take(step)
            lag, in_flight, retries = lag + reader.lag, in_flight + reader.in_flight, retries + reader.retries
        frames.lag.append(lag)
        frames.in_flight.append(in_flight)
        frames.retries.append(retries)
