"""The three crashes of the source, each with its promise: a bolt's task, an acker, the spout.

A bolt's task dies: the trees it worked on time out and come again. An acker dies: so do the trees that
it followed, though every bolt has done its work. The spout dies: what it had handed out is given back
by where it came from, a queue that sees the connection break or a log read from the stored offset.
"""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.knobs import AckerRelease, Depth, FailPercent, IdBits, Records, TopologyAckers, TreeKnobs
from kitlib.experiments.storm.topology_story import SPOUT, TopologyStory
from kitlib.experiments.storm.trees import STORE, begin, drain, planted
from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.monitor.figures import IN_FLIGHT, PROCESSED_AGAIN
from kitlib.more.topology import Fault

Source = Annotated[
    Literal["kafka", "kestrel"],
    Knob("Where the records come from: a topic with a stored offset, or a queue that redelivers open messages."),
]
CrashAtMs = Annotated[int, Knob("When the task dies.", "ms", 1, 600_000)]
RestartMs = Annotated[int, Knob("How long until a new one has started.", "ms", 1, 600_000)]


class CrashKnobs(TreeKnobs):
    """What the three have in common."""

    records: Records = 20
    crash_at_ms: CrashAtMs = 60
    restart_ms: RestartMs = 1_000
    source: Source = "kafka"
    depth: Depth
    fail_percent: FailPercent
    topology_ackers: TopologyAckers
    id_bits: IdBits
    acker_release: AckerRelease


@experiment(
    "A bolt's task dies", TopologyStory, shared=(CrashKnobs,),
    figure=IN_FLIGHT, front=("crash_at_ms", "restart_ms", "topology_message_timeout_secs", "max_spout_pending", "source"),
)
def bolt_crash(story: TopologyStory) -> None:
    """A task dies with tuples in flight. No one acks or fails them. Who notices, and when?"""
    _crash(story, STORE)


@experiment(
    "An acker dies", TopologyStory, shared=(CrashKnobs,),
    figure=IN_FLIGHT, front=("topology_ackers", "crash_at_ms", "restart_ms", "topology_message_timeout_secs", "max_spout_pending"),
)
def acker_crash(
    story: TopologyStory,
    topology_ackers: Annotated[
        int, Knob("Number of acker tasks; 0: a tuple counts as acked when it is emitted.", "ackers", 1, 50)
    ] = 2,
) -> None:
    """The bolts have done their work, but the task that kept count is gone. What happens to those trees?"""
    _crash(story, ACKER_COMPONENT_ID)


@experiment(
    "The spout dies", TopologyStory, shared=(CrashKnobs,),
    figure=PROCESSED_AGAIN, front=("source", "crash_at_ms", "restart_ms", "topology_message_timeout_secs", "max_spout_pending"),
)
def spout_crash(story: TopologyStory, source: Source = "kestrel") -> None:
    """The spout dies, and with it the list of pending tuples. Where do those records come from again?"""
    _crash(story, SPOUT)


def _crash(story: TopologyStory, component: str) -> None:
    """The first task of this component dies, also when everything is done by then."""
    settings = story.settings
    crash = Fault("crash", component, at_ms=settings.crash_at_ms)
    begin(story, lambda: [crash, *planted(settings)], settings.source, restart_ms=settings.restart_ms)
    drain(story, settings.crash_at_ms)
