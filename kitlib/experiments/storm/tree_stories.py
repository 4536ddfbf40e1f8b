"""The stories about tuple trees: how they end, how they end too early, and how they never end."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.knobs import (
    AckerRelease,
    Anchored,
    CommitEveryMs,
    Depth,
    ExecuteMs,
    FailPercent,
    FanOut,
    FetchRecords,
    IdBits,
    MaxSpoutPending,
    MessageIds,
    MessageTimeouts,
    Parallelism,
    Records,
    TopologyAckers,
    TransferJitterMs,
    TreeKnobs,
)
from kitlib.experiments.storm.topology_story import TopologyStory
from kitlib.experiments.storm.trees import STORE, begin, drain, planted
from kitlib.monitor.figures import ACKER_MESSAGES, FALSE_ACKS, LOST, WASTED
from kitlib.more.topology import Fault

LANE_WORDS = frozenset({"append", "start", "emit", "process", "ack", "fail", "commit", "late", "sample"})


PlantedFault = Annotated[
    Literal["none", "fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose"],
    Knob("What goes wrong once at the last bolt; with unanchored, at the last one that sends."),
]
FaultNth = Annotated[int, Knob("Which tuple hits the fault, counted as they reach the bolt.", "", 1, 10_000, live=True)]


@experiment(
    "A tree of tuples, tracked by a single number", TopologyStory, shared=(TreeKnobs,),
    figure=ACKER_MESSAGES, front=("fan_out", "depth", "fault", "join", "max_spout_pending"),
)
def tuple_tree(
    story: TopologyStory,
    records: Records = 6,
    depth: Depth = 2,
    join: Annotated[bool, Knob("Whether a bolt joins the children of one parent, so that the tree becomes a DAG.")] = False,
    fail_percent: FailPercent = 0,
    fault: PlantedFault = "none",
    fault_nth: FaultNth = 5,
    topology_ackers: TopologyAckers = 1,
    id_bits: IdBits = 16,
    max_spout_pending: MaxSpoutPending = 3,
    anchored: Anchored = True,
    acker_release: AckerRelease = "0.9.3",
    transfer_jitter_ms: TransferJitterMs = 0,
) -> None:
    """The acker keeps one number for a whole tree. How does it know that the last tuple is done?"""
    begin(story, lambda: planted(story.settings))
    drain(story)


@experiment(
    "Zero by chance", TopologyStory, shared=(TreeKnobs,), max_steps=20_000,
    figure=FALSE_ACKS, front=("id_bits", "drop_percent", "fan_out", "records", "max_spout_pending"),
)
def false_completion(
    story: TopologyStory,
    records: Records = 400,
    id_bits: IdBits = 8,
    fan_out: FanOut = 4,
    drop_percent: Annotated[int, Knob("Share of tuples that the last bolt silently drops.", "%", 0, 100, live=True)] = 5,
    max_spout_pending: MaxSpoutPending = 50,
    execute_ms: ExecuteMs = 1,
    fetch_records: FetchRecords = 100,
) -> None:
    """The ids have few bits, so the ack value may be zero while tuples are open. How often, and what does it cost?"""
    on_the_way = [0]  # messages after which a tree was not finished, so that zero would be chance

    def count(what: str, data: dict[str, Any]) -> None:
        run = story.run
        if run is None or what not in ("acker_init", "acker_ack"):
            return
        is_claimed = what == "acker_init" or data["before"] is not None
        on_the_way[0] += is_claimed and run.open_tuples.get(data["root"], 0) > 0

    story.on_note, story.words = count, frozenset({*LANE_WORDS, "fault", "odds"})
    begin(story, lambda: [Fault("drop", STORE, percent=story.settings.drop_percent)])
    drain(story)
    false = sum(step.what == "ack" and step.data["outstanding"] > 0 for step in story.trace)
    predicted = on_the_way[0] / 2 ** id_bits
    story.record("acker", "odds", messages=on_the_way[0], false_completions=false, predicted=round(predicted, 3))


@experiment(
    "Three ways to switch reliability off", TopologyStory, shared=(TreeKnobs,), max_steps=20_000,
    figure=LOST, front=("topology_ackers", "message_ids", "lose_percent", "topology_message_timeout_secs"),
)
def reliability_off(
    story: TopologyStory,
    records: Records = 40,
    topology_ackers: TopologyAckers = 0,
    message_ids: MessageIds = True,
    anchored: Anchored = True,
    lose_percent: Annotated[int, Knob("Share of messages to the last bolt that are lost.", "%", 0, 100, live=True)] = 10,
    depth: Depth = 1,
    topology_enable_message_timeouts: MessageTimeouts = True,
) -> None:
    """Some messages between the bolts are lost. Which records are lost with them, without ackers, message ids or anchors?"""
    begin(story, lambda: [Fault("lose", STORE, percent=story.settings.lose_percent)])
    drain(story)


@experiment(
    "Busy forever, with nothing to show for it", TopologyStory, shared=(TreeKnobs,), max_steps=20_000,
    figure=WASTED, front=("max_spout_pending", "execute_ms", "topology_message_timeout_secs", "fetch_records", "duration_s"),
)
def livelock(
    story: TopologyStory,
    records: Annotated[int, Knob("How many records the topic holds.", "records", 1, 5_000)] = 3_000,
    max_spout_pending: MaxSpoutPending = 600,
    execute_ms: ExecuteMs = 100,
    duration_s: Annotated[int, Knob("How long the story runs, in virtual time.", "s", 10, 2_000, live=True)] = 240,
    sample_s: Annotated[int, Knob("How often the counts are recorded.", "s", 1, 100, live=True)] = 5,
    parallelism: Parallelism = 1,
    depth: Depth = 0,
    fan_out: FanOut = 1,
    topology_ackers: TopologyAckers = 1,
    acker_release: AckerRelease = "0.9.3",
    fetch_records: FetchRecords = 500,
    commit_every_ms: CommitEveryMs = 10_000,
) -> None:
    """One bolt takes 100 ms per tuple and the timeout is 30 s. How many tuples may be in flight at once?"""
    totals = dict.fromkeys(("ack", "fail", "late", "process"), 0)

    def count(what: str, data: dict[str, Any]) -> None:
        if what in totals:
            totals[what] += 1

    story.on_note, story.words = count, LANE_WORDS
    run = begin(story)
    for _ in range(story.settings.duration_s // story.settings.sample_s):
        if story.is_done():
            break
        story.run_for(1_000 * story.settings.sample_s)
        story.record(
            "topology",
            "sample",
            acked=totals["ack"],
            failed=totals["fail"],
            late=totals["late"],
            executed=totals["process"],
            wasted=max(0, totals["process"] - totals["ack"]),
            pending=run.pending,
            queue=run.queued,
        )
    story.stop()
