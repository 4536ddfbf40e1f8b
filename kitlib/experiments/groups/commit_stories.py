"""The experiments on committed offsets: what counts as done, who says so, and what a successor begins with.

In each story somebody ends in the middle of his work, and another one takes over at the committed offset.
What lies between what was committed and what was processed is lost or done twice.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from random import Random
from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import (
    ClientLibrary,
    SessionMs,
    evicted,
    settings_of,
    take_all,
    work_wave,
)
from kitlib.experiments.groups.group_run import GroupRun, Record
from kitlib.experiments.knobs import Knob
from kitlib.monitor.figures import LOST, LOST_OR_AGAIN, PROCESSED_AGAIN, WENT_BACK

WORKERS, QUEUE = 8, 50  # a pool that is handed records
AFTER_WORK, POOL = "kept after the work", "handed to a pool"


def _batches(run: GroupRun, crash_at: int) -> None:
    """Batch after batch is worked off in the thread that polls, up to the record at which it ends."""
    settings = run.settings
    keeps, stores = settings.rule == AFTER_WORK, settings.library == "librdkafka"
    while run.members["A"].position.get(0, 0) <= crash_at:
        left = settings.records - run.members["A"].position.get(0, 0)
        batch = run.take("A", min(settings.poll_records, left))
        before = [record for record in batch if record[1] < crash_at]
        if keeps and stores:
            for partition, offset in before:
                run.work("A", [(partition, offset)], settings.work_ms)
                run.store("A", partition, offset + 1)
        else:
            run.work("A", before, settings.work_ms)
            if keeps and len(before) == len(batch):
                run.commit_done("A")
    run.pass_ms(2 * settings.auto_commit_interval_ms)  # so long is the record at which it ends already worked on


def _pool(run: GroupRun, crash_at: int) -> None:
    """The thread that polls keeps a pool's queue full; the pool's workers finish the oldest records."""
    settings, member = run.settings, run.members["A"]
    while True:
        left = settings.records - member.position.get(0, 0)
        run.take("A", min(WORKERS + QUEUE, len(member.waiting) + left))
        done = [record for record in list(member.waiting)[:WORKERS] if record[1] < crash_at]
        if not done:
            break
        run.pass_ms(settings.work_ms)
        run.work("A", done)
    run.pass_ms(2 * settings.auto_commit_interval_ms)
    run.poll("A", 0)  # the queue is full; the next poll asks for nothing, and commits


@experiment(
    "Committed, but not done", GroupRun, max_steps=6_000,
    figure=LOST_OR_AGAIN, front=("rule", "crash_at", "auto_commit_interval_ms", "poll_records", "library"),
)
def auto_commit(
    run: GroupRun,
    library: ClientLibrary = "java",
    rule: Annotated[
        Literal["killed", "closed after an error", "kept after the work", "handed to a pool"],
        Knob(
            "How A works and stops: killed in a batch; close() after an error in it; killed, with offsets stored only "
            "after processing; killed, with records handed to a worker pool."
        ),
    ] = "killed",
    records: Annotated[int, Knob("How many records the topic holds.", "records", 2, 600)] = 300,
    poll_records: Annotated[int, Knob("Maximum number of records that one poll returns.", "records", 1, 500)] = 100,
    crash_at: Annotated[int, Knob("The record that A is processing when it stops.", "offset", 0, 599)] = 150,
    work_ms: Annotated[int, Knob("Processing time per record.", "ms", 0, 20)] = 4,
    auto_commit_interval_ms: Annotated[int, Knob("How often the library commits, if it commits automatically.", "ms", 50, 5_000)] = 200,
    session_ms: SessionMs = 1_500,
) -> None:
    """The library commits automatically, and A stops in the middle of a batch. What does its successor skip, and what does it repeat?"""
    is_stored_by_hand = rule == AFTER_WORK and library == "librdkafka"
    settings = settings_of(
        run, auto_commit=rule != AFTER_WORK or is_stored_by_hand, auto_store=not is_stored_by_hand,
        auto_commit_interval_ms=auto_commit_interval_ms, max_poll_records=poll_records,
    )  # fmt: skip
    crash_at = min(crash_at, records - 1)
    run.create(1, records)
    run.start(settings, "A")
    (_pool if rule == POOL else _batches)(run, crash_at)
    if rule == "closed after an error":
        run.record_lane("A", "throw", 0, offset=crash_at)
        run.close("A")
    else:
        run.kill("A", (0, crash_at))
    run.join("B", replace(settings, auto_commit=False, auto_store=True))
    evicted(run, "A", ["B"])
    work_wave(run, ["B"], 0, is_committed=True)


def _finish_order(run: GroupRun, records: list[Record], failing: range) -> list[Record]:
    """The order in which a pool of workers finishes these records, the last one last; those that fail are not in it."""
    free = [0.0] * run.settings.workers
    finished: list[tuple[float, Record]] = []
    for record in records:
        begin = heapq.heappop(free)
        takes = Random(f"{run.trace.seed} work {record[1]}").uniform(0.5, 1.5)
        heapq.heappush(free, begin + takes)
        if record[1] not in failing:
            finished.append((begin + takes, record))
    last = finished.pop()[1]
    return [record for _, record in sorted(finished)] + [last]


@experiment(
    "Eight workers, one offset", GroupRun,
    figure=LOST, front=("commits", "workers", "first_failed", "failed", "crash_after"),
)
def worker_pool(
    run: GroupRun,
    commits: Annotated[
        Literal["own", "contiguous"],
        Knob("What is committed when a record is finished: that record, or the end of the contiguous finished range."),
    ] = "own",
    workers: Annotated[int, Knob("Records processed at once.", "workers", 1, 64)] = 8,
    first_failed: Annotated[int, Knob("The first record that fails and waits for a retry.", "offset", 0, 200)] = 55,
    failed: Annotated[int, Knob("How many records fail.", "records", 0, 20)] = 4,
    crash_after: Annotated[int, Knob("The last record finished before the crash.", "offset", 1, 400)] = 100,
    library: ClientLibrary = "java",
    session_ms: SessionMs = 1_500,
) -> None:
    """Workers finish in any order, four records fail, and each worker commits its own record. What does a crash leave undone?"""
    settings = settings_of(run)
    failing = range(first_failed, first_failed + failed)
    crash_after = max(crash_after, failing.stop)
    run.create(1, crash_after + 11)
    run.start(settings, "A")
    batch = run.take("A", crash_after + 1)
    done: set[int] = set()
    first_open = 0  # every record below it is finished
    for record in _finish_order(run, batch, failing):
        run.process("A", record)
        done.add(record[1])
        if commits == "own":
            run.commit("A", {0: record[1] + 1})
        elif record[1] == first_open:
            while first_open in done:
                first_open += 1
            run.commit("A", {0: first_open})
    run.kill("A")
    run.join("B", settings)
    evicted(run, "A", ["B"])
    work_wave(run, ["B"], 0, is_committed=True)


@experiment("An offset kept too long", GroupRun, figure=WENT_BACK, front=("keeper", "records", "done"))
def store_after_revoke(
    run: GroupRun,
    keeper: Annotated[
        Literal["librdkafka", "librdkafka 1.4.1", "the user"],
        Knob("Who keeps A's offset until it is committed: today's librdkafka, that of 2020, or the application itself."),
    ] = "the user",
    records: Annotated[int, Knob("How many records B commits.", "records", 2, 500)] = 200,
    done: Annotated[int, Knob("How many of them A has processed when it finally commits.", "records", 1, 500)] = 40,
    session_ms: SessionMs = 1_500,
) -> None:
    """A is slow; its partition goes to B and comes back. A has kept an offset from before. Where does the next member start?"""
    by_library = keeper != "the user"
    done = min(done, records)
    settings = settings_of(
        run, library="librdkafka", auto_commit=by_library, auto_store=False, auto_commit_interval_ms=200,
        **({"release": (1, 4, 1)} if keeper == "librdkafka 1.4.1" else {}),
    )  # fmt: skip
    run.create(2)
    run.start(settings, "A")
    run.append(1, records)
    batch = run.take("A", done)[:done]
    run.start(settings, "B")
    take_all(run, ["B"])
    run.commit("B", {1: records})
    run.work("A", batch)  # which was handed to it when the partition was its own
    if by_library:
        run.store("A", 1, done)
    run.close("B")
    run.settle()
    if by_library:
        run.pass_ms(500)
    else:
        run.commit("A", {1: done})
    run.close("A")
    run.start(settings, "C")
    work_wave(run, ["C"], 0, is_committed=False)


@experiment("The offset of the last record, or of the next", GroupRun, figure=PROCESSED_AGAIN, front=("commits", "partitions", "restarts"))
def off_by_one(
    run: GroupRun,
    commits: Annotated[
        Literal["offset", "offset + 1"], Knob("What is committed: the last record's offset, or the one after it.")
    ] = "offset",
    partitions: Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 24)] = 4,
    restarts: Annotated[int, Knob("How often the consumer is restarted.", "restarts", 0, 20)] = 10,
    library: ClientLibrary = "java",
    session_ms: SessionMs = 1_500,
) -> None:
    """After each batch, the offset of its last record is committed, and the consumer is restarted. What is consumed twice?"""
    more = 1 if commits == "offset + 1" else 0
    run.create(partitions)
    for _ in range(restarts + 1):
        run.start(settings_of(run), "A")
        work_wave(run, ["A"], 2, is_committed=False)
        run.commit("A", {partition: end - 1 + more for partition, end in run.ends.items()})
        run.close("A")
