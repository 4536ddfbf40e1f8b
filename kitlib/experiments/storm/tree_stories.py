"""The stories about tuple trees: how they end, how they end too early, and how they never end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kitlib.experiments import knobs as k
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.topology_story import TopologyStory
from kitlib.experiments.storm.trees import STORE, begin, drain, planted
from kitlib.storm.topology import Fault

LANE_WORDS = frozenset({"append", "start", "emit", "process", "ack", "fail", "commit", "late", "sample"})

COMMIT_EVERY_MS = replace(k.COMMIT_EVERY_MS, default=2_000)
PARALLELISM = Knob("parallelism", "int", 2, "How many tasks each bolt has.", "tasks", 1, 20, live=False)
FAULT = Knob(
    "fault",
    "choice",
    "none",
    "What goes wrong at the last bolt, once; with unanchored, at the last one that sends.",
    choices=("none", "fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose"),
    live=False,
)
FAULT_NTH = Knob("fault_nth", "int", 5, "The manieth tuple that reaches the bolt meets the fault.", "", 1, 10_000)


def _tell_tuple_tree(story: TopologyStory) -> None:
    begin(story, lambda: planted(story.knobs))
    drain(story)


tuple_tree = Experiment(
    "tuple_tree",
    "A tree of tuples, and the one number that follows it",
    "The acker keeps one number for a whole tree. How does it know that the last tuple is done?",
    (
        replace(k.RECORDS, default=6),
        k.FAN_OUT,
        replace(k.DEPTH, default=2),
        Knob("join", "bool", False, "Whether a bolt joins what came of one parent: the tree becomes a DAG.", live=False),
        k.FAIL_PERCENT,
        FAULT,
        FAULT_NTH,
        k.MESSAGE_TIMEOUT_SECS,
        k.TOPOLOGY_ACKERS,
        replace(k.ID_BITS, default=16),
        replace(k.MAX_SPOUT_PENDING, default=3),
        k.EXECUTE_MS,
        PARALLELISM,
        k.ANCHORED,
        k.ACKER_RELEASE,
        k.TRANSFER_JITTER_MS,
        k.FETCH_RECORDS,
        COMMIT_EVERY_MS,
        MAX_STEPS,
    ),
    _tell_tuple_tree,
    kind=TopologyStory,
)


def _tell_false_completion(story: TopologyStory) -> None:
    knobs = story.knobs
    on_the_way = [0]  # messages after which a tree was not finished, so that zero would be chance

    def count(what: str, data: dict[str, Any]) -> None:
        run = story.run
        if run is None or what not in ("acker_init", "acker_ack"):
            return
        is_claimed = what == "acker_init" or data["before"] is not None
        on_the_way[0] += is_claimed and run.open_tuples.get(data["root"], 0) > 0

    story.on_note, story.words = count, frozenset({*LANE_WORDS, "fault", "odds"})
    begin(story, lambda: [Fault("drop", STORE, percent=knobs["drop_percent"])])
    drain(story)
    false = sum(step.what == "ack" and step.data["outstanding"] > 0 for step in story.trace)
    predicted = on_the_way[0] / 2 ** knobs["id_bits"]
    story.note("acker", "odds", messages=on_the_way[0], false_completions=false, predicted=round(predicted, 3))


false_completion = Experiment(
    "false_completion",
    "Zero by chance",
    "The ids have few bits, so the acker's number may be zero while tuples are open. How often, and what does it cost?",
    (
        replace(k.RECORDS, default=400),
        replace(k.ID_BITS, default=8),
        replace(k.FAN_OUT, default=4),
        Knob("drop_percent", "int", 5, "How many of a hundred tuples the last bolt drops without a word.", "%", 0, 100),
        k.MESSAGE_TIMEOUT_SECS,
        replace(k.MAX_SPOUT_PENDING, default=50),
        replace(k.EXECUTE_MS, default=1),
        PARALLELISM,
        replace(k.FETCH_RECORDS, default=100),
        COMMIT_EVERY_MS,
        replace(MAX_STEPS, default=20_000),
    ),
    _tell_false_completion,
    kind=TopologyStory,
)


def _tell_reliability_off(story: TopologyStory) -> None:
    begin(story, lambda: [Fault("lose", STORE, percent=story.knobs["lose_percent"])])
    drain(story)


reliability_off = Experiment(
    "reliability_off",
    "Three ways to switch reliability off",
    "Some messages between the bolts are lost. Which records are lost with them, without ackers, message ids or anchors?",
    (
        replace(k.RECORDS, default=40),
        replace(k.TOPOLOGY_ACKERS, default=0),
        k.MESSAGE_IDS,
        k.ANCHORED,
        Knob("lose_percent", "int", 10, "How many of a hundred messages to the last bolt are lost.", "%", 0, 100),
        k.FAN_OUT,
        k.DEPTH,
        k.MESSAGE_TIMEOUT_SECS,
        k.MESSAGE_TIMEOUTS,
        k.MAX_SPOUT_PENDING,
        k.EXECUTE_MS,
        PARALLELISM,
        k.FETCH_RECORDS,
        COMMIT_EVERY_MS,
        replace(MAX_STEPS, default=20_000),
    ),
    _tell_reliability_off,
    kind=TopologyStory,
)


def _tell_livelock(story: TopologyStory) -> None:
    knobs = story.knobs
    totals = dict.fromkeys(("ack", "fail", "late", "process"), 0)

    def count(what: str, data: dict[str, Any]) -> None:
        if what in totals:
            totals[what] += 1

    story.on_note, story.words = count, LANE_WORDS
    run = begin(story)
    for _ in range(knobs["duration_s"] // knobs["sample_s"]):
        if story.is_done():
            break
        story.run_for(1_000 * knobs["sample_s"])
        story.note(
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


livelock = Experiment(
    "livelock",
    "Busy for ever, with nothing to show for it",
    "One bolt needs 100 ms a tuple and the time-out is 30 s. How many tuples may be on their way at once?",
    (
        replace(k.RECORDS, default=3_000, help="How many records the topic holds."),
        replace(k.MAX_SPOUT_PENDING, default=600),
        replace(k.EXECUTE_MS, default=100),
        k.MESSAGE_TIMEOUT_SECS,
        Knob("duration_s", "int", 240, "How long the story is watched, in virtual time.", "s", 10, 2_000),
        Knob("sample_s", "int", 5, "How often the counts are written down.", "s", 1, 100),
        replace(PARALLELISM, default=1),
        replace(k.DEPTH, default=0),
        replace(k.FAN_OUT, default=1),
        k.TOPOLOGY_ACKERS,
        k.ACKER_RELEASE,
        replace(k.FETCH_RECORDS, default=500),
        replace(COMMIT_EVERY_MS, default=10_000),
        replace(MAX_STEPS, default=20_000),
    ),
    _tell_livelock,
    kind=TopologyStory,
)
