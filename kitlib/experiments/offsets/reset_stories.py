"""The experiments on `auto.offset.reset`: when it is asked, and what each answer costs.

It is the answer to "there is no usable committed offset", and that question comes on the worst days: the
offset has been deleted, the records have, the log is shorter than it was, or the partition is new.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group import MemberSettings
from kitlib.experiments.groups.group_knobs import ClientLibrary, SessionMs, evicted, settings_of, work_wave
from kitlib.experiments.groups.group_run import SETTLE_MS, GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.monitor.figures import LOST, LOST_OR_AGAIN, PROCESSED_AGAIN

OLD_MS = 7_200_000  # how far back the timestamps of old records lie
HOUR_MS = 3_600_000  # the retention that takes them, and the duration that leaves them out
BY_HOUR = "by_duration:PT1H"
FLUSHED_MS = 300  # so long a fetch that is under way takes to come back, empty or not
REALLY_FLUSHED_MS = 1_000  # the same on a busy machine
Policy = Annotated[
    Literal["earliest", "latest", "none", "by_duration:PT1H"],
    Knob("auto.offset.reset: where to start without a usable committed offset; only Java has by_duration."),
]


def settings_under(run: GroupRun, policy: str = "earliest") -> MemberSettings:
    """A member under this policy; by_duration needs Java, whatever the library knob says."""
    more = {"library": "java"} if policy == BY_HOUR else {}
    return replace(settings_of(run, max_poll_interval_ms=60_000, **more), auto_offset_reset=policy)


def read_on(run: GroupRun, name: str) -> None:
    """Let it read to the end and commit, or notice that it cannot."""
    member = run.members[name]
    run.until(lambda: bool(member.error) or not member.unsettled, f"{name}'s first position", lambda: run.poll(name, 0))
    if not member.error:
        work_wave(run, [name], 0, is_committed=True)


@experiment("When the reset policy applies", GroupRun, figure=LOST_OR_AGAIN, front=("state", "policy", "while_down", "after", "records"))
def reset_policy(
    run: GroupRun,
    state: Annotated[
        Literal["new", "committed", "committed but deleted", "committed but forgotten", "beyond the end"],
        Knob(
            "What B finds for the group: nothing; an offset; or an offset whose records were deleted, that was itself deleted, "
            "or that lies beyond the log end."
        ),
    ] = "new",
    policy: Policy = "latest",
    records: Annotated[int, Knob("Number of old records; their timestamps are two hours in the past.", "records", 1, 500)] = 40,
    done: Annotated[int, Knob("How many of them A processes and commits.", "records", 1, 500)] = 20,
    while_down: Annotated[int, Knob("How many records arrive before B joins.", "records", 1, 500)] = 30,
    deleted: Annotated[int, Knob("How many records above A's offset are deleted, if they are.", "records", 1, 1_000)] = 30,
    after: Annotated[int, Knob("How many records arrive after B has started.", "records", 1, 500)] = 10,
    library: ClientLibrary = "java",
) -> None:
    """A has processed some records and is gone; more arrive. B takes over. What does it repeat, and what does it never see?"""
    done = min(done, records)
    run.create(1)
    run.append(0, records, age_ms=OLD_MS)
    if state != "new":
        run.start(settings_under(run), "A")
        run.work("A", run.take("A", done))
        run.commit_done("A")
        run.close("A")
    run.append(0, while_down)
    if state == "committed but deleted":
        run.delete_before(0, min(done + deleted, run.ends[0]))
    elif state == "committed but forgotten":
        run.forget([0])
    elif state == "beyond the end":
        run.alter({0: run.ends[0] + 100})
    run.start(settings_under(run, policy), "B")
    run.append(0, after)
    read_on(run, "B")


@experiment("Retention is faster than the consumer", GroupRun, figure=LOST, front=("policy", "deleted", "left", "after", "records"))
def retention_overtakes(
    run: GroupRun,
    policy: Policy = "latest",
    by: Annotated[
        Literal["retention.ms", "DeleteRecords"], Knob("Who deletes: the topic's retention, or an operator's DeleteRecords.")
    ] = "retention.ms",
    records: Annotated[int, Knob("How many records A processes first.", "records", 1, 500)] = 40,
    deleted: Annotated[int, Knob("How many arrive and are deleted.", "records", 1, 500)] = 15,
    left: Annotated[int, Knob("How many arrive after them and are not deleted.", "records", 1, 500)] = 15,
    after: Annotated[int, Knob("How many arrive after A has resumed.", "records", 1, 500)] = 10,
    library: ClientLibrary = "java",
) -> None:
    """A is at the end and pauses. Records arrive, and retention deletes some of them. A resumes: what has it missed?"""
    run.create(1)
    run.group.roll_after(HOUR_MS)
    run.alter({0: 0})  # so that A begins at 0 under any policy
    run.append(0, records, age_ms=OLD_MS)
    run.start(settings_under(run, policy), "A")
    run.work("A", run.take("A", records))
    run.commit_done("A")
    run.poll("A", 0)
    run.pass_ms(FLUSHED_MS if run.backend.name == "model" else REALLY_FLUSHED_MS)  # what A has asked for comes back without records
    run.append(0, deleted, age_ms=OLD_MS)
    run.append(0, left)
    if by == "retention.ms":
        run.retain(0, HOUR_MS)
    else:
        run.delete_before(0, records + deleted)
    run.tell_lag("A is paused")
    member = run.members["A"]
    run.until(lambda: bool(member.error) or run.is_in_log(0, member.position[0]), "A's next position", lambda: run.poll("A"))
    run.append(0, after)
    read_on(run, "A")
    run.tell_lag("A goes on")


@experiment(
    "A new partition that the consumer does not know yet", GroupRun, max_steps=10_000,
    figure=LOST, front=("policy", "metadata_max_age_ms", "records_a_second"),
)
def new_partition_latest(
    run: GroupRun,
    policy: Policy = "latest",
    metadata_max_age_ms: Annotated[int, Knob("How often A refreshes its metadata.", "ms", 200, 300_000)] = 1_000,
    records_a_second: Annotated[int, Knob("How fast records arrive in the new partition.", "records/s", 1, 100)] = 10,
    library: ClientLibrary = "java",
) -> None:
    """A is running and has reached the end. The topic gets a second partition, which receives records at once. Which of
    them does A read?"""
    run.create(1)
    run.alter({0: 0})  # so that A begins at 0 under any policy
    run.start(replace(settings_under(run, policy), metadata_max_age_ms=metadata_max_age_ms), "A")
    run.append(0, 20)
    read_on(run, "A")
    run.add_partitions(2)  # right after A has asked, so it will not know for as long as it can
    run.append(1, max(1, records_a_second * metadata_max_age_ms // 1_000))
    member = run.members["A"]
    run.until(
        lambda: bool(member.error) or (1 in member.held and member.is_placed),
        "the new partition's owner",
        lambda: run.poll("A", 0),
        metadata_max_age_ms + SETTLE_MS,
    )
    run.append(1, 10)
    read_on(run, "A")
    run.tell_lag("after all")


# Each record has an effect outside of Kafka (a payment), and a row in a table says that it was made. The table helps
# only if it is asked before the effect; and only if effect and row are one step is nothing done twice when somebody
# dies between the two.

NO_CHECK, AFTER, BEFORE, WITH = "none", "after the effect", "before the effect", "one step with the effect"
BATCH = 10


def _work(run: GroupRun, name: str, table: set[int], most: int, crash_at: int | None = None) -> bool:
    """Work on so many records in batches, each committed; whether it lived to the end. It dies before the row of `crash_at`."""
    settings, left = run.settings, most
    while left:
        for record in run.take(name, min(BATCH, left)):
            _, offset = record
            left -= 1
            if settings.check in (BEFORE, WITH) and offset in table:
                run.pass_over(name, record)
                continue
            run.process(name, record)
            if offset == crash_at:
                table |= {offset} if settings.check == WITH else set()
                run.kill(name, record)
                return False
            if settings.check != NO_CHECK and offset in table:
                run.record_lane("table", "refuse", 0, offset=offset)
            table |= set() if settings.check == NO_CHECK else {offset}
        run.commit_done(name)
    return True


@experiment("An offset is reset by hand", GroupRun, figure=PROCESSED_AGAIN, front=("check", "crash_at", "rewind_to", "records"))
def reset_by_hand(
    run: GroupRun,
    check: Annotated[
        Literal["none", "after the effect", "before the effect", "one step with the effect"],
        Knob("When the table is checked for a processed record: never, after the effect, before it, or in one transaction with it."),
    ] = "after the effect",
    records: Annotated[int, Knob("Number of records.", "records", 1, 500)] = 60,
    crash_at: Annotated[int, Knob("The record at which the first consumer dies, between its effect and its row.", "offset", 0, 499)] = 25,
    rewind_to: Annotated[int, Knob("The offset that the operator sets.", "offset", 0, 500)] = 0,
    library: ClientLibrary = "librdkafka",
    session_ms: SessionMs = 1_500,
) -> None:
    """All records have had their effect, and a table has a row for each. An operator sets the offset back. Which
    effects happen twice?
    """
    table = set[int]()
    settings = settings_of(run, max_poll_interval_ms=60_000)
    run.create(1, records)
    run.start(settings, "A")
    crash_at = min(crash_at, records - 1)
    _work(run, "A", table, crash_at + 1, crash_at)
    run.join("B", settings)
    evicted(run, "A", ["B"])
    _work(run, "B", table, records - (run.committed[0] or 0))
    run.alter({0: min(rewind_to, records)})  # B is still there: refused
    run.close("B")
    run.alter({0: min(rewind_to, records)})
    run.start(settings, "C")
    _work(run, "C", table, records - min(rewind_to, records))
    effects = sum(step.what == "process" for step in run.trace.steps)
    refused = sum(step.what == "refuse" for step in run.trace.steps)
    run.record("table", "rows", rows=len(table), refused=refused, effects=effects, records=records)
