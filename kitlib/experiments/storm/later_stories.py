"""Experiments around the PartitionManager: a lost failed record, the spout that came after, and groups.

They answer questions that people who met the same traps under other names have asked.
"""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.errors import KitError
from kitlib.experiments.backend import Topic, read_to_end
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.experiments.storm.knobs import (
    ForceFromStart,
    MaxOffsetBehind,
    Records,
    Release,
    StartOffsetTime,
    UseStartOffsetTime,
    WorkKnobs,
)
from kitlib.experiments.storm.spout_run import SpoutRun
from kitlib.experiments.storm.stories import RecordsWhileDown
from kitlib.monitor.figures import LOST, RESETS, RETRY_WAIT


@experiment(
    "A failed record that retention deleted", SpoutRun, shared=(WorkKnobs,),
    figure=RESETS, front=("fail_offset", "delete_before", "use_start_offset_time_if_offset_out_of_range", "release", "max_offset_behind"),
)
def failed_offset_deleted(
    run: SpoutRun,
    records: Records = 40,
    fail_offset: Annotated[int, Knob("The record whose tuple always fails.", "", -1, 5_000)] = 5,
    delete_before: Annotated[int, Knob("Retention deletes every record below this offset.", "offset", 0, 10_000)] = 20,
    records_after: Annotated[int, Knob("How many records arrive after that.", "records", 0, 5_000)] = 20,
    use_start_offset_time_if_offset_out_of_range: UseStartOffsetTime = True,
    force_from_start: ForceFromStart = False,
    start_offset_time: StartOffsetTime = "earliest",
    release: Release = "0.9.3",
    max_offset_behind: MaxOffsetBehind = UNLIMITED,
) -> None:
    """A record fails, and while it waits for its retry it is deleted. New records keep arriving. What does the spout do?"""
    topic = run.create(0)
    run.fails = lambda offset, attempt, part: offset == fail_offset
    run.start(topic)
    run.append(topic, records)
    run.run_for(100, until=run.is_settled)
    run.delete_before(topic, min(delete_before, topic.end))
    run.append(topic, records_after)
    run.finish(1_000)


@experiment(
    "A cap on uncommitted offsets", SpoutRun, shared=(WorkKnobs,),
    figure=RETRY_WAIT, front=("max_uncommitted_offsets", "retries_may_poll", "fail_offset", "fail_after_ms"),
)
def uncommitted_cap(
    run: SpoutRun,
    records: Records = 60,
    max_uncommitted_offsets: Annotated[int, Knob("How many offsets may be emitted and not yet committed.", "offsets", 1, 100_000)] = 20,
    retries_may_poll: Annotated[
        bool, Knob("Whether a retry may be fetched even at the cap (1.2.2) or not (1.1.0).")
    ] = False,
    fail_offset: Annotated[int, Knob("The record that fails once.", "", -1, 5_000, live=True)] = 5,
    fail_after_ms: Annotated[int, Knob("How long it is processed before it fails.", "ms", 0, 10_000, live=True)] = 300,
) -> None:
    """The number of emitted but uncommitted offsets is capped. One record fails late, once. Does the spout ever retry it?"""
    topic = run.create(records)
    run.slow_ms = {run.settings.fail_offset: run.settings.fail_after_ms}
    run.fails = lambda offset, attempt, part: offset == run.settings.fail_offset and attempt == 1
    run.start(topic)
    run.finish()


def _read(run: SpoutRun, topic: Topic, begin: int, end: int) -> None:
    """The group reads from `begin` up to `end`, one record at a time, and commits at the end."""
    at = begin
    for record in read_to_end(topic, begin):
        if record.offset >= end:
            break
        at = record.offset + 1
        run.clock_ms += 1
        run.record_on(topic, "spout", "emit", _ledger(begin, at), offset=record.offset, attempt=1, parts=1)
        run.record_on(topic, "bolt", "process", _ledger(begin, at), offset=record.offset, part=0)
    run.record_on(topic, "spout", "commit", _ledger(at, at), offset=at, written=at > begin)


def _ledger(committed_to: int, emitted_to: int) -> dict[str, object]:
    """The state of a reader that keeps nothing pending."""
    nothing: list[list[int]] = []
    ledgers: dict[str, object] = {"pending": nothing, "failed": nothing, "waiting": nothing}
    return ledgers | {"committed_to": committed_to, "emitted_to_offset": emitted_to, "retries": 0}


@experiment("Where a consumer group starts", SpoutRun, figure=LOST)
def start_position(
    run: SpoutRun,
    records: Annotated[int, Knob("How many records the topic holds at the start.", "records", 1, 500)] = 30,
    committed: Annotated[
        Literal["none", "inside", "deleted", "beyond_end", "expired"],
        Knob("The group's committed offset: none, inside the log, deleted by retention, beyond the log end, or expired."),
    ] = "none",
    auto_offset_reset: Annotated[
        Literal["earliest", "latest", "none"], Knob("What to do without a usable committed offset.")
    ] = "latest",
    records_while_down: RecordsWhileDown = 10,
) -> None:
    """A group comes back. Its committed offset may be fine, gone or useless. What does auto.offset.reset decide?"""
    topic = run.backend.create_topic("events", records)
    offset = {"none": None, "beyond_end": records + records // 2}.get(committed, records // 3)
    has_read = committed in ("inside", "deleted", "expired")
    if has_read:  # it came when the topic was empty
        run.record_on(topic, "spout", "start", _ledger(0, 0), offset=0, why="no committed offset")
    run.append(topic, records)
    if has_read:
        assert offset is not None
        _read(run, topic, 0, offset)
    if committed == "deleted":
        run.delete_before(topic, records // 2)
    run.append(topic, records_while_down)
    try:
        position = run.backend.group_position(topic, offset, committed == "expired", auto_offset_reset)
    except KitError as error:
        run.record_on(topic, "spout", "error", error=type(error).__name__.removesuffix("Error"))
        return
    kept = offset is not None and committed != "expired"
    why = f"{'the committed offset is outside the log' if kept else 'no committed offset'}, auto.offset.reset={auto_offset_reset}"
    if kept and position == offset:
        why = "committed offset"
        if committed == "beyond_end":
            why = f"committed={committed}: the committed offset lay beyond the log end, and the log has grown past it since"
    run.record_on(topic, "spout", "start", _ledger(position, position), offset=position, why=why)
    _read(run, topic, position, run.ledgers[topic.name].log_end)
