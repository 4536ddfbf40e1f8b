"""The three crashes of the source, each with its promise: a bolt's task, an acker, the spout.

A bolt's task dies: the trees it worked on time out and come again. An acker dies: so do the trees that
it followed, though every bolt has done its work. The spout dies: what it had handed out is given back
by where it came from, a queue that sees the connection break or a log read from the stored offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kitlib.experiments import knobs as k
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.topology_story import SPOUT, TopologyStory
from kitlib.experiments.storm.tree_stories import COMMIT_EVERY_MS, PARALLELISM
from kitlib.experiments.storm.trees import STORE, begin, drain, planted
from kitlib.storm.acker import ACKER_COMPONENT_ID
from kitlib.storm.topology import Fault

SOURCE = Knob(
    "source",
    "choice",
    "kafka",
    "Where the records come from: a topic and a stored offset, or a queue that gives open messages back.",
    choices=("kafka", "kestrel"),
    live=False,
)
CRASH_AT_MS = Knob("crash_at_ms", "int", 60, "When the task dies.", "ms", 1, 600_000, live=False)
RESTART_MS = Knob("restart_ms", "int", 1_000, "After how long a new one is there.", "ms", 1, 600_000, live=False)

_KNOBS = (
    replace(k.RECORDS, default=20),
    CRASH_AT_MS,
    RESTART_MS,
    SOURCE,
    k.FAN_OUT,
    k.DEPTH,
    k.FAIL_PERCENT,
    k.MESSAGE_TIMEOUT_SECS,
    k.TOPOLOGY_ACKERS,
    k.MAX_SPOUT_PENDING,
    k.EXECUTE_MS,
    PARALLELISM,
    replace(k.ID_BITS, default=64),
    k.ACKER_RELEASE,
    k.FETCH_RECORDS,
    COMMIT_EVERY_MS,
    MAX_STEPS,
)


def _crash_of(component: str) -> Callable[[TopologyStory], None]:
    """The story in which the first task of this component dies."""

    def tell(story: TopologyStory) -> None:
        knobs = story.knobs
        crash = Fault("crash", component, at_ms=knobs["crash_at_ms"])
        begin(story, lambda: [crash, *planted(knobs)], knobs["source"], restart_ms=knobs["restart_ms"])
        drain(story)

    return tell


bolt_crash = Experiment(
    "bolt_crash",
    "A bolt's task dies",
    "A task dies with tuples in its hands. Nobody acks or fails them. Who notices, and when?",
    _KNOBS,
    _crash_of(STORE),
    kind=TopologyStory,
)

acker_crash = Experiment(
    "acker_crash",
    "An acker dies",
    "The bolts have done their work, but who kept count of it is gone. What happens to those trees?",
    tuple(replace(knob, default=2, low=1) if knob is k.TOPOLOGY_ACKERS else knob for knob in _KNOBS),
    _crash_of(ACKER_COMPONENT_ID),
    kind=TopologyStory,
)

spout_crash = Experiment(
    "spout_crash",
    "The spout dies",
    "The spout dies, and with it the list of what it had handed out. Where do those records come from again?",
    tuple(replace(knob, default="kestrel") if knob is SOURCE else knob for knob in _KNOBS),
    _crash_of(SPOUT),
    kind=TopologyStory,
)
