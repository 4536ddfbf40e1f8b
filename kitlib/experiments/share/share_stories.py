"""The share group's experiments: a record that always fails, one that takes too long, and one that ends its consumers."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.share.share_run import ShareRun
from kitlib.monitor.figures import LOST, PROCESSED_AGAIN

Records = Annotated[int, Knob("How many records the topic holds.", "records", 1, 1_000)]


class ShareKnobs:
    """What a share group keeps of each record, and how its consumers work."""

    consumers: Annotated[int, Knob("How many consumers the group has; all of them read the one partition.", "consumers", 1, 8)] = 2
    delivery_limit: Annotated[
        int, Knob("share.delivery.count.limit: a record that comes back from so many deliveries is archived.", "deliveries", 2, 10)
    ] = 5
    lock_ms: Annotated[
        int, Knob("share.record.lock.duration.ms: how long a consumer may keep a record before it answers.", "ms", 1_000, 60_000)
    ] = 1_000
    max_locks: Annotated[
        int, Knob("share.partition.max.record.locks: the most records between start and end offset; a broker takes no less than 100.",
                  "records", 1, 2_000, scale="log"),
    ] = 2_000
    max_poll_records: Annotated[int, Knob("max.poll.records: the most records that a poll brings.", "records", 1, 500)] = 5
    process_ms: Annotated[int, Knob("Mean time for each record; each takes 50 to 150 % of it.", "ms", 1, 1_000)] = 40
    on_failure: Annotated[Literal["release", "reject"], Knob("What a consumer answers for a record that it cannot process.")] = "release"
    acknowledge: Annotated[
        Literal["explicit", "implicit"], Knob("share.acknowledgement.mode: an answer for each record, or the next poll accepts them all.")
    ] = "explicit"


@experiment(
    "A share group and a record that never succeeds", ShareRun, shared=(ShareKnobs,),
    figure=LOST, front=("poison_offset", "delivery_limit", "on_failure", "acknowledge", "consumers"),
)
def share_group(
    run: ShareRun,
    records: Records = 40,
    poison_offset: Annotated[int, Knob("The record that no consumer can process; -1 for none.", "", -1, 1_000)] = 13,
) -> None:
    """Two consumers share one partition, and each record is delivered five times at most. One record always fails. What happens to
    it, and what to the others?
    """
    run.fails = lambda offset: offset == poison_offset
    run.work_off(records)


@experiment(
    "A lock that runs out", ShareRun, shared=(ShareKnobs,),
    figure=PROCESSED_AGAIN, front=("slow_ms", "lock_ms", "max_poll_records", "renew", "max_locks"),
)
def share_lock(
    run: ShareRun,
    records: Records = 40,
    slow_offset: Annotated[int, Knob("The record that takes long at its first delivery; -1 for none.", "", -1, 1_000)] = 10,
    slow_ms: Annotated[int, Knob("How long it takes.", "ms", 1, 60_000)] = 1_500,
    renew: Annotated[bool, Knob("Whether a consumer renews its locks while it works; librdkafka cannot.")] = False,
) -> None:
    """A consumer works on one record for longer than it may keep it locked. Nothing fails. Which records are processed twice?"""
    run.slow_ms = {slow_offset: slow_ms}
    run.work_off(records)


@experiment(
    "A record that ends its consumer", ShareRun, shared=(ShareKnobs,),
    figure=PROCESSED_AGAIN, front=("crash", "crashes", "acknowledge", "max_poll_records"),
)
def share_crash(
    run: ShareRun,
    records: Records = 40,
    crash_offset: Annotated[int, Knob("The record that ends the consumer which processes it.", "offset", 0, 1_000)] = 13,
    crash: Annotated[
        Literal["killed", "frozen"], Knob("The consumer's process is killed, or it freezes with its connection open.")
    ] = "killed",
    crashes: Annotated[int, Knob("How many consumers the record ends; each is replaced by a new one.", "consumers", 0, 8)] = 1,
) -> None:
    """A consumer dies with five records in its hands. When does somebody else get them, and do these deliveries count?"""
    run.crashes, run.how_it_ends = {crash_offset: crashes}, "kill" if crash == "killed" else "freeze"
    run.work_off(records, spare=crashes)
