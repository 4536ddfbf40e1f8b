"""The PartitionManager's experiments: each one a short story with a question.

Where the story is about a later start, with knobs of its own, the first spout starts at the empty topic: whatever the
knobs say, that is offset 0. Elsewhere the topic holds `records` records, and the spout is told to start at the earliest.
The last ones, a lost failed record and the spout that came after, are what people asked who met the same traps
under other names.
"""

from __future__ import annotations

from typing import Annotated

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.experiments.storm.knobs import (
    FailPercent,
    FetchRecords,
    ForceFromStart,
    MaxOffsetBehind,
    MaxSpoutPending,
    Records,
    Release,
    SpoutKnobs,
    StartOffsetTime,
    UseStartOffsetTime,
    WorkKnobs,
)
from kitlib.experiments.storm.spout_run import PATIENCE_MS, SpoutRun
from kitlib.monitor.figures import LOST, PROCESSED_AGAIN, RESETS, RETRIES, RETRY_WAIT, STANDSTILL, UNCLAIMED


@experiment(
    "Every record once", SpoutRun, shared=(SpoutKnobs,),
    figure=UNCLAIMED, front=("records", "max_spout_pending", "process_ms", "fail_percent"),
)
def happy_path(run: SpoutRun, records: Records = 40) -> None:
    """Many records are in flight at once and finish in any order. What may the spout record as done?"""
    topic = run.create(records)
    run.start(topic)
    run.finish()


OutageMs = Annotated[
    int, Knob("How long it is down; every tuple that finishes in that time fails.", "ms", 0, 10_000, live=True)
]


@experiment(
    "A bound smaller than what is in flight", SpoutRun, shared=(SpoutKnobs,),
    figure=LOST, front=("max_offset_behind", "fetch_records", "outage_ms", "outage_from_ms", "max_spout_pending"),
)
def small_max_offset_behind(
    run: SpoutRun,
    records: Records = 60,
    fetch_records: FetchRecords = 20,
    max_offset_behind: MaxOffsetBehind = 5,
    outage_from_ms: Annotated[int, Knob("When the bolt's database goes away.", "ms", 0, 10_000, live=True)] = 50,
    outage_ms: OutageMs = 600,
    max_spout_pending: MaxSpoutPending = 8,
) -> None:
    """The bolt fails everything for a while. The spout retries failures, so will every record be processed in the end?"""
    topic = run.create(records)

    def is_out(offset: int, attempt: int, part: int) -> bool:
        begin: int = run.settings.outage_from_ms
        return begin <= run.now_ms < begin + int(run.settings.outage_ms)

    run.fails = is_out
    run.start(topic)
    run.finish()


PoisonOffset = Annotated[int, Knob("The record whose tuple always fails; -1 for none.", "", -1, 5_000, live=True)]
DurationMs = Annotated[int, Knob("How long the story runs, in virtual time.", "ms", 100, 60_000, live=True)]


@experiment(
    "One record that never succeeds", SpoutRun, shared=(SpoutKnobs,),
    figure=STANDSTILL, front=("poison_offset", "max_offset_behind", "duration_ms", "max_spout_pending", "fail_percent"),
)
def poison_record(
    run: SpoutRun, records: Records = 40, poison_offset: PoisonOffset = 13, duration_ms: DurationMs = 1_500
) -> None:
    """With max_offset_behind unlimited, nothing is ever given up. One record always fails. What happens to the others?"""
    _read_poison(run, records)


@experiment(
    "The later retry manager", SpoutRun, shared=(WorkKnobs,),
    figure=RETRIES, front=("retry_initial_delay_ms", "retry_delay_multiplier", "retry_delay_max_ms", "retry_limit", "poison_offset"),
)
def retry_with_backoff(
    run: SpoutRun,
    records: Records = 40,
    max_offset_behind: MaxOffsetBehind = UNLIMITED,
    poison_offset: PoisonOffset = 13,
    duration_ms: DurationMs = 1_500,
    fail_percent: FailPercent = 0,
    retry_initial_delay_ms: Annotated[int, Knob("How long the first retry waits.", "ms", 0, 60_000, live=True)] = 50,
    retry_delay_multiplier: Annotated[
        float, Knob("Factor by which each further retry waits longer.", "times", 1, 10, live=True)
    ] = 2.0,
    retry_delay_max_ms: Annotated[int, Knob("The longest wait before a retry.", "ms", 0, 600_000, live=True)] = 1_000,
    retry_limit: Annotated[
        int, Knob("Retries before a record is given up; -1 for no limit.", "retries", -1, 100, live=True)
    ] = 3,
) -> None:
    """The same poison record, but each retry waits longer and there is a limit. What is better now, and what is worse?"""
    _read_poison(run, records)


def _read_poison(run: SpoutRun, records: int) -> None:
    """A spout reads a topic with a record that always fails."""
    topic = run.create(records)
    run.fails = lambda offset, attempt, part: offset == run.settings.poison_offset
    run.start(topic)
    run.finish(run.settings.duration_ms)


RecordsWhileDown = Annotated[int, Knob("How many records arrive while the spout is down.", "records", 0, 5_000)]


@experiment(
    "Retention was faster", SpoutRun, shared=(SpoutKnobs,),
    figure=LOST,
    front=("delete_before", "records_while_down", "use_start_offset_time_if_offset_out_of_range", "force_from_start", "release"),
)
def out_of_range(
    run: SpoutRun,
    records: Records = 40,
    delete_before: Annotated[int, Knob("Retention deletes every record below this offset.", "offset", 0, 10_000)] = 35,
    records_while_down: RecordsWhileDown = 20,
    use_start_offset_time_if_offset_out_of_range: UseStartOffsetTime = True,
    force_from_start: ForceFromStart = False,
    start_offset_time: StartOffsetTime = "earliest",
) -> None:
    """The spout was down, and the records it needs next were deleted in the meantime. Where does it continue?"""
    topic = run.create(0)
    run.start(topic)
    run.append(topic, records)
    seen = records // 3
    run.run_for(PATIENCE_MS, until=lambda: _committed(run) >= seen)
    run.crash()
    run.append(topic, records_while_down)
    run.delete_before(topic, min(delete_before, topic.end))
    run.start(topic)
    run.run_for(1_500, until=run.is_settled)
    if not run.is_dead:
        run.append(topic, run.settings.fetch_records)
    run.finish(1_500)


def _committed(run: SpoutRun) -> int:
    return run.manager.committed_to if run.manager else 0


@experiment(
    "A crash, and the start after it", SpoutRun, shared=(SpoutKnobs,),
    figure=PROCESSED_AGAIN, front=("crash_at_ms", "records_while_down", "stuck_offset", "max_spout_pending", "commit_every_ms"),
)
def restart(
    run: SpoutRun,
    records: Records = 40,
    crash_at_ms: Annotated[int, Knob("When the worker dies.", "ms", 1, 60_000)] = 100,
    records_while_down: RecordsWhileDown = 20,
    same_topology_id: Annotated[bool, Knob("A restart of the same topology (true), or a new submission (false).")] = True,
    force_from_start: ForceFromStart = False,
    start_offset_time: StartOffsetTime = "earliest",
    stuck_offset: Annotated[int, Knob("A record that neither succeeds nor fails before the crash; -1 for none.", "", -1, 5_000)] = -1,
) -> None:
    """The worker dies with tuples in flight. Which records are repeated, and which settings decide where it starts?"""
    topic = run.create(0)
    run.never_finishes = frozenset({stuck_offset})
    run.start(topic)
    run.append(topic, records)
    run.run_for(crash_at_ms, until=run.is_settled)
    run.clock_ms = crash_at_ms  # once it has settled there would be idle commits only
    run.crash()
    run.never_finishes = frozenset()
    run.append(topic, records_while_down)
    run.start(topic, topology_id="topology-1" if same_topology_id else "topology-2")
    run.finish()


@experiment(
    "The same spout id on another topic", SpoutRun, shared=(SpoutKnobs,),
    figure=LOST, front=("same_id", "force_from_start", "records_of_other", "records"),
)
def same_id_other_topic(
    run: SpoutRun,
    records: Records = 40,
    records_of_other: Annotated[int, Knob("How many records the other topic holds.", "records", 0, 5_000)] = 60,
    same_id: Annotated[bool, Knob("Whether the second spout has the first one's id.")] = True,
    force_from_start: Annotated[bool, Knob("Whether the second spout is forced to start at start_offset_time.", live=True)] = False,
    start_offset_time: StartOffsetTime = "earliest",
) -> None:
    """A second topology reads another topic with the spout id of the first one. Where does it start?"""
    orders, payments = run.create(0, "orders"), run.create(records_of_other, "payments")
    run.start(orders)
    run.append(orders, records)
    run.finish()
    spout_id = "spout" if same_id else "spout-of-payments"
    run.start(payments, spout_id=spout_id, topology_id="topology-2")
    run.finish()


@experiment(
    "A record that becomes several tuples", SpoutRun, shared=(SpoutKnobs,),
    figure=PROCESSED_AGAIN, front=("parts", "fail_offset", "failures", "records", "max_spout_pending"),
)
def several_tuples(
    run: SpoutRun,
    records: Records = 20,
    parts: Annotated[int, Knob("How many tuples a record becomes.", "tuples", 1, 50)] = 3,
    fail_offset: Annotated[int, Knob("The record whose last tuple fails.", "offset", -1, 5_000, live=True)] = 5,
    failures: Annotated[int, Knob("How many times it fails.", "times", 0, 100, live=True)] = 1,
) -> None:
    """Each record becomes several tuples. One tuple of one record fails once. What is repeated?"""
    line = b" ".join(b"word%d" % part for part in range(parts))
    topic = run.create(records, "lines", lambda offset: line, parts)
    run.fails = lambda offset, attempt, part: (
        attempt <= run.settings.failures and (offset, part) == (run.settings.fail_offset, parts - 1)
    )
    run.start(topic, scheme=lambda record: record.value.split() if record.value is not None else None)
    run.finish()


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
