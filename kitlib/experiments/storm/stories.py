"""The PartitionManager's experiments: each one a short story with a question.

Every story begins with a topic that holds `records` records and a spout that is forced to begin at
the earliest one, unless the story is about exactly that.
"""

from __future__ import annotations

from dataclasses import replace

from kitlib.experiments import knobs as k
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.spout_run import FROM_THE_EARLIEST, SpoutRun

PATIENCE_MS = 60_000  # virtual time after which a story that should drain is ended

_COMMON = (k.MAX_SPOUT_PENDING, k.PROCESS_MS, k.FAIL_PERCENT, k.COMMIT_EVERY_MS, k.RELEASE, MAX_STEPS)


def _tell_happy_path(run: SpoutRun) -> None:
    topic = run.stage.create_topic("events", run.knobs["fetch_records"])
    run.append(topic, run.knobs["records"])
    run.start(topic)
    run.run_for(PATIENCE_MS, until=run.is_settled)
    run.stop()


happy_path = Experiment(
    "happy_path",
    "Every record once",
    "Many records are on their way at once and finish in any order. What may the spout write down as done?",
    (k.RECORDS, k.FETCH_RECORDS, k.MAX_OFFSET_BEHIND, *_COMMON),
    _tell_happy_path,
    SpoutRun,
)


def _tell_small_max_offset_behind(run: SpoutRun) -> None:
    knobs = run.knobs
    topic = run.stage.create_topic("events", knobs["fetch_records"])
    run.append(topic, knobs["records"])

    def is_out(offset: int, attempt: int, part: int) -> bool:
        begin: int = knobs["outage_from_ms"]
        return begin <= run.now_ms < begin + int(knobs["outage_ms"])

    run.fails = is_out
    run.start(topic)
    run.run_for(PATIENCE_MS, until=run.is_settled)
    run.stop()


OUTAGE_FROM_MS = Knob("outage_from_ms", "int", 50, "When the bolt's database goes away.", "ms", 0, 10_000)
OUTAGE_MS = Knob("outage_ms", "int", 600, "How long it is away; every tuple that finishes then fails.", "ms", 0, 10_000)

small_max_offset_behind = Experiment(
    "small_max_offset_behind",
    "A bound smaller than a fetch",
    "The bolt fails everything for a while. The spout retries failures, so will every record be processed in the end?",
    (
        replace(k.RECORDS, default=60),
        replace(k.FETCH_RECORDS, default=20),
        replace(k.MAX_OFFSET_BEHIND, default=5),
        OUTAGE_FROM_MS,
        OUTAGE_MS,
        replace(k.MAX_SPOUT_PENDING, default=8),
        *_COMMON[1:],
    ),
    _tell_small_max_offset_behind,
    SpoutRun,
)


def _tell_poison_record(run: SpoutRun) -> None:
    knobs = run.knobs
    topic = run.stage.create_topic("events", knobs["fetch_records"])
    run.append(topic, knobs["records"])
    run.fails = lambda offset, attempt, part: offset == knobs["poison_offset"]
    run.start(topic)
    run.run_for(knobs["duration_ms"], until=run.is_settled)
    run.stop()


POISON_OFFSET = Knob("poison_offset", "int", 13, "The record whose tuple always fails; -1 for none.", "", -1, 5_000)
DURATION_MS = Knob("duration_ms", "int", 1_500, "How long the story is watched, in virtual time.", "ms", 100, 60_000)
_POISON = (k.RECORDS, k.FETCH_RECORDS, k.MAX_OFFSET_BEHIND, POISON_OFFSET, DURATION_MS, *_COMMON)

poison_record = Experiment(
    "poison_record",
    "One record that never succeeds",
    "With max_offset_behind unlimited nothing is ever given up. One record always fails. What happens to the others?",
    _POISON,
    _tell_poison_record,
    SpoutRun,
)

retry_with_backoff = Experiment(
    "retry_with_backoff",
    "The later retry manager",
    "The same poison record, but retries wait longer each time and end at a limit. What is better now, and what is worse?",
    (
        *(knob for knob in _POISON if knob is not k.RELEASE),
        Knob("retry_initial_delay_ms", "int", 50, "How long the first retry waits.", "ms", 0, 60_000),
        Knob("retry_delay_multiplier", "float", 2.0, "By how much each further retry waits longer.", "times", 1, 10),
        Knob("retry_delay_max_ms", "int", 1_000, "The longest that a retry waits.", "ms", 0, 600_000),
        Knob(
            "retry_limit",
            "int",
            3,
            "How many retries before a record is given up; -1 for no limit.",
            "retries",
            -1,
            100,
        ),
    ),
    _tell_poison_record,
    SpoutRun,
)


def _tell_out_of_range(run: SpoutRun) -> None:
    knobs = run.knobs
    topic = run.stage.create_topic("events", knobs["fetch_records"])
    run.append(topic, knobs["records"])
    run.start(topic, **FROM_THE_EARLIEST)
    seen = knobs["records"] // 3
    run.run_for(PATIENCE_MS, until=lambda: _committed(run) >= seen)
    run.crash()
    run.append(topic, knobs["records_while_down"])
    run.delete_before(topic, min(knobs["delete_before"], topic.end))
    run.start(topic)
    run.run_for(1_500, until=run.is_settled)
    if not run.is_dead:
        run.append(topic, knobs["fetch_records"])
        run.run_for(1_500, until=run.is_settled)
    run.stop()


RECORDS_WHILE_DOWN = Knob(
    "records_while_down", "int", 20, "How many records arrive while the spout is down.", "records", 0, 5_000, live=False
)

out_of_range = Experiment(
    "out_of_range",
    "Retention was faster",
    "The spout was down, and the records it wants next were deleted meanwhile. Where does it go on?",
    (
        k.RECORDS,
        k.FETCH_RECORDS,
        Knob(
            "delete_before",
            "int",
            35,
            "Retention removes every record below this offset.",
            "offset",
            0,
            10_000,
            live=False,
        ),
        RECORDS_WHILE_DOWN,
        k.USE_START_OFFSET_TIME,
        k.FORCE_FROM_START,
        k.START_OFFSET_TIME,
        k.MAX_OFFSET_BEHIND,
        *_COMMON,
    ),
    _tell_out_of_range,
    SpoutRun,
)


def _committed(run: SpoutRun) -> int:
    return run.manager.committed_to if run.manager else 0


def _tell_restart(run: SpoutRun) -> None:
    knobs = run.knobs
    topic = run.stage.create_topic("events", knobs["fetch_records"])
    run.append(topic, knobs["records"])
    run.never_finishes = frozenset({knobs["stuck_offset"]})
    run.start(topic, **FROM_THE_EARLIEST)
    run.run_for(knobs["crash_at_ms"], until=run.is_settled)
    run.now_ms = knobs["crash_at_ms"]  # once it has settled there would be idle commits only
    run.crash()
    run.never_finishes = frozenset()
    run.append(topic, knobs["records_while_down"])
    run.start(topic, topology_id="topology-1" if knobs["same_topology_id"] else "topology-2")
    run.run_for(PATIENCE_MS, until=run.is_settled)
    run.stop()


restart = Experiment(
    "restart",
    "A crash, and a start after it",
    "The worker dies with tuples on their way. Which records come again, and which settings decide where it begins?",
    (
        k.RECORDS,
        k.FETCH_RECORDS,
        Knob("crash_at_ms", "int", 100, "When the worker dies.", "ms", 1, 60_000, live=False),
        RECORDS_WHILE_DOWN,
        Knob(
            "same_topology_id",
            "bool",
            True,
            "A restart of the same topology (true), or a new submission (false).",
            live=False,
        ),
        k.FORCE_FROM_START,
        k.START_OFFSET_TIME,
        Knob(
            "stuck_offset",
            "int",
            -1,
            "A record that neither succeeds nor fails before the crash; -1 for none.",
            "",
            -1,
            5_000,
            live=False,
        ),
        k.MAX_OFFSET_BEHIND,
        *_COMMON,
    ),
    _tell_restart,
    SpoutRun,
)


def _tell_same_id_other_topic(run: SpoutRun) -> None:
    knobs = run.knobs
    orders = run.stage.create_topic("orders", knobs["fetch_records"])
    payments = run.stage.create_topic("payments", knobs["fetch_records"])
    run.append(orders, knobs["records"])
    run.append(payments, knobs["records_of_other"])
    run.start(orders, **FROM_THE_EARLIEST)
    run.run_for(PATIENCE_MS, until=run.is_settled)
    run.stop()
    spout_id = "spout" if knobs["same_id"] else "spout-of-payments"
    run.start(payments, spout_id=spout_id, topology_id="topology-2")
    run.run_for(PATIENCE_MS, until=run.is_settled)
    run.stop()


same_id_other_topic = Experiment(
    "same_id_other_topic",
    "The same spout id on another topic",
    "A second topology reads another topic with the spout id of the first one. Where does it begin?",
    (
        k.RECORDS,
        Knob("records_of_other", "int", 60, "How many records the other topic holds.", "records", 0, 5_000, live=False),
        Knob("same_id", "bool", True, "Whether the second spout has the first one's id.", live=False),
        k.FETCH_RECORDS,
        replace(k.FORCE_FROM_START, help="Whether the second spout is forced to begin at start_offset_time."),
        k.START_OFFSET_TIME,
        k.MAX_OFFSET_BEHIND,
        *_COMMON,
    ),
    _tell_same_id_other_topic,
    SpoutRun,
)


def _tell_several_tuples(run: SpoutRun) -> None:
    knobs = run.knobs
    topic = run.stage.create_topic("lines", knobs["fetch_records"])
    line = b" ".join(b"word%d" % part for part in range(knobs["parts"]))
    run.append(topic, knobs["records"], lambda offset: line, parts=knobs["parts"])
    run.fails = lambda offset, attempt, part: (
        attempt <= knobs["failures"] and (offset, part) == (knobs["fail_offset"], knobs["parts"] - 1)
    )
    run.start(topic, scheme=lambda record: record.value.split() if record.value is not None else None)
    run.run_for(PATIENCE_MS, until=run.is_settled)
    run.stop()


several_tuples = Experiment(
    "several_tuples",
    "A record that becomes several tuples",
    "Each record becomes several tuples. One tuple of one record fails once. What is done again?",
    (
        replace(k.RECORDS, default=20),
        Knob("parts", "int", 3, "How many tuples a record becomes.", "tuples", 1, 50, live=False),
        Knob("fail_offset", "int", 5, "The record whose last tuple fails.", "offset", -1, 5_000),
        Knob("failures", "int", 1, "How many times it fails.", "times", 0, 100),
        k.FETCH_RECORDS,
        k.MAX_OFFSET_BEHIND,
        *_COMMON,
    ),
    _tell_several_tuples,
    SpoutRun,
)
