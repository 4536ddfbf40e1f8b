"""Experiments around the PartitionManager: a lost failed record, the spout that came after, and groups.

They answer questions that people who met the same traps under other names have asked.
"""

from __future__ import annotations

from dataclasses import replace

from kitlib.errors import KitError
from kitlib.experiments import knobs as k
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.stage import Topic
from kitlib.experiments.storm.spout_run import FROM_THE_EARLIEST, SpoutRun, Times
from kitlib.experiments.storm.stories import PATIENCE_MS, RECORDS_WHILE_DOWN


def _tell_failed_offset_deleted(run: SpoutRun) -> None:
    knobs = run.knobs
    topic = run.stage.create_topic("events", knobs["fetch_records"])
    run.append(topic, knobs["records"])
    run.fails = lambda offset, attempt, part: offset == knobs["fail_offset"]
    run.start(topic, **FROM_THE_EARLIEST)
    assert run.config
    run.run_for(100, until=run.is_settled)
    run.config.force_from_start = knobs["force_from_start"]
    run.config.start_offset_time = Times[knobs["start_offset_time"]]
    run.delete_before(topic, min(knobs["delete_before"], topic.end))
    run.append(topic, knobs["records_after"])
    run.run_for(1_000, until=run.is_settled)
    run.stop()


failed_offset_deleted = Experiment(
    "failed_offset_deleted",
    "A failed record that retention took",
    "A record fails, and while it waits for its retry it is deleted. New records keep arriving. What does the spout do?",
    (
        k.RECORDS,
        k.FETCH_RECORDS,
        Knob("fail_offset", "int", 5, "The record whose tuple always fails.", "", -1, 5_000, live=False),
        Knob(
            "delete_before",
            "int",
            20,
            "Retention removes every record below this offset.",
            "offset",
            0,
            10_000,
            live=False,
        ),
        Knob("records_after", "int", 20, "How many records arrive after that.", "records", 0, 5_000, live=False),
        k.USE_START_OFFSET_TIME,
        k.FORCE_FROM_START,
        k.START_OFFSET_TIME,
        k.RELEASE,
        k.MAX_OFFSET_BEHIND,
        k.MAX_SPOUT_PENDING,
        k.PROCESS_MS,
        k.COMMIT_EVERY_MS,
        MAX_STEPS,
    ),
    _tell_failed_offset_deleted,
    SpoutRun,
)


def _tell_uncommitted_cap(run: SpoutRun) -> None:
    knobs = run.knobs
    topic = run.stage.create_topic("events", knobs["fetch_records"])
    run.append(topic, knobs["records"])
    run.slow_ms = {knobs["fail_offset"]: knobs["fail_after_ms"]}
    run.fails = lambda offset, attempt, part: offset == knobs["fail_offset"] and attempt == 1
    run.start(topic)
    run.run_for(PATIENCE_MS, until=run.is_settled)
    run.stop()


uncommitted_cap = Experiment(
    "uncommitted_cap",
    "A cap on uncommitted offsets",
    "At most so many offsets may be emitted and not committed. One record fails late, once. Does the spout ever retry it?",
    (
        replace(k.RECORDS, default=60),
        replace(k.FETCH_RECORDS, default=10),
        Knob(
            "max_uncommitted_offsets",
            "int",
            20,
            "How many offsets may be emitted and not yet committed.",
            "offsets",
            1,
            100_000,
            live=False,
        ),
        Knob(
            "retries_may_poll",
            "bool",
            False,
            "Whether a retry may be fetched although the cap is reached (1.2.2) or not (1.1.0).",
            live=False,
        ),
        Knob("fail_offset", "int", 5, "The record that fails once.", "", -1, 5_000),
        Knob("fail_after_ms", "int", 300, "How long it works before it fails.", "ms", 0, 10_000),
        k.MAX_SPOUT_PENDING,
        k.PROCESS_MS,
        k.COMMIT_EVERY_MS,
        MAX_STEPS,
    ),
    _tell_uncommitted_cap,
    SpoutRun,
)


def _tell_start_position(run: SpoutRun) -> None:
    knobs, state = run.knobs, run.knobs["committed"]
    topic = run.stage.create_topic("events", knobs["records"])
    run.append(topic, knobs["records"])
    committed: int | None = None
    if state in ("inside", "deleted", "expired"):
        committed = knobs["records"] // 3
        run.note("spout", "start", topic, _ledger(0, 0), offset=0, why="no committed offset")
        _read(run, topic, 0, committed)
    elif state == "beyond_end":
        committed = knobs["records"] + knobs["records"] // 2
    if state == "deleted":
        run.delete_before(topic, knobs["records"] // 2)
    run.append(topic, knobs["records_while_down"])
    policy = knobs["auto_offset_reset"]
    try:
        position = run.stage.group_position(topic, committed, state == "expired", policy)
    except KitError as error:
        run.note("spout", "error", topic, error=type(error).__name__.removesuffix("Error"))
        return
    kept = committed is not None and state != "expired"
    why = (
        "committed offset"
        if kept and position == committed
        else (
            f"{'the committed offset is outside the log' if kept else 'no committed offset'}, auto.offset.reset={policy}"
        )
    )
    run.note("spout", "start", topic, _ledger(position, position), offset=position, why=why)
    _read(run, topic, position, run.bounds[topic.name][1])


def _read(run: SpoutRun, topic: Topic, begin: int, end: int) -> None:
    """The group reads from `begin` up to `end`, one record at a time, and commits at the end."""
    at = begin
    while at < end:
        for record in topic.fetch(at).records:
            if record.offset >= end:
                break
            at = record.offset + 1
            run.now_ms += 1
            run.note("spout", "emit", topic, _ledger(begin, at), offset=record.offset, attempt=1, parts=1)
            run.note("bolt", "process", topic, _ledger(begin, at), offset=record.offset, part=0)
    run.note("spout", "commit", topic, _ledger(at, at), offset=at, written=at > begin)


def _ledger(committed_to: int, emitted_to: int) -> dict[str, object]:
    """The state of a reader that keeps nothing pending."""
    nothing: list[list[int]] = []
    ledgers: dict[str, object] = {"pending": nothing, "failed": nothing, "waiting": nothing}
    return ledgers | {"committed_to": committed_to, "emitted_to_offset": emitted_to, "retries": 0}


start_position = Experiment(
    "start_position",
    "Where a consumer group begins",
    "A group comes back. Its committed offset may be fine, gone or useless. What does auto.offset.reset decide?",
    (
        replace(k.RECORDS, default=30, high=500),
        Knob(
            "committed",
            "choice",
            "none",
            "The group's committed offset: none, inside the log, deleted by retention, beyond the log's end, or expired.",
            choices=("none", "inside", "deleted", "beyond_end", "expired"),
            live=False,
        ),
        Knob(
            "auto_offset_reset",
            "choice",
            "latest",
            "What to do without a usable committed offset.",
            choices=("earliest", "latest", "none"),
            live=False,
        ),
        replace(RECORDS_WHILE_DOWN, default=10),
        MAX_STEPS,
    ),
    _tell_start_position,
    SpoutRun,
)
