"""The experiments on `auto.offset.reset`: when it is asked, and what each answer costs.

It is the answer to "there is no usable committed offset", and that question comes on the worst days: the
offset has been deleted, the records have, the log is shorter than it was, or the partition is new.
"""

from __future__ import annotations

from dataclasses import replace

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.groups.group_knobs import LIBRARY, settings_of, told, until
from kitlib.experiments.groups.group_run import SETTLE_MS, GroupRun
from kitlib.experiments.groups.group_stage import MemberSettings
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.mirror_run import MirrorRun, both_told

OLD_MS = 7_200_000  # how far back the timestamps of old records lie
HOUR_MS = 3_600_000  # the retention that takes them, and the duration that leaves them out
BY_HOUR = "by_duration:PT1H"
STATES = ("new", "committed", "committed but deleted", "committed but forgotten", "beyond the end")
FLUSHED_MS = 300  # so long a fetch that is under way takes to come back, empty or not
REALLY_FLUSHED_MS = 1_000  # the same on a busy machine
POLICY = Knob(
    "policy", "choice", "latest", "auto.offset.reset: where to begin without a usable committed offset; by_duration is Java's alone.",
    choices=("earliest", "latest", "none", BY_HOUR), live=False,
)  # fmt: skip


def settings_under(run: GroupRun, policy: str = "earliest") -> MemberSettings:
    """A member under this policy; by_duration needs Java, whatever the library knob says."""
    more = {"library": "java"} if policy == BY_HOUR else {}
    return replace(settings_of(run, max_poll_interval_ms=60_000, **more), auto_offset_reset=policy)


def read_on(run: GroupRun, name: str) -> None:
    """Let it read to the end and commit, or notice that it cannot."""
    seat = run.seats[name]
    until(run, lambda: bool(seat.error) or not seat.unsettled, f"{name}'s first position", lambda: run.poll(name, 0))
    if not seat.error:
        run.drain(name)


# -- nine questions and more -----------------------------------------------------------------------------


@told
def _tell_reset_policy(run: GroupRun) -> None:
    knobs, state = run.knobs, run.knobs["state"]
    done = min(knobs["done"], knobs["records"])
    run.create(1)
    run.append(0, knobs["records"], age_ms=OLD_MS)
    if state != "new":
        run.join("A", settings_under(run))
        run.settle()
        run.work("A", run.take("A", done))
        run.commit_done("A")
        run.close("A")
    run.append(0, knobs["while_down"])
    if state == "committed but deleted":
        run.delete_before(0, min(done + knobs["deleted"], run.ends[0]))
    elif state == "committed but forgotten":
        run.forget([0])
    elif state == "beyond the end":
        run.alter({0: run.ends[0] + 100})
    run.join("B", settings_under(run, knobs["policy"]))
    run.settle()
    run.append(0, knobs["after"])
    read_on(run, "B")


reset_policy = Experiment(
    "reset_policy",
    "When the reset policy is asked",
    "A has worked on some records and is gone; more arrive. B takes over. What does it repeat, and what does it never see?",
    (
        Knob("state", "choice", "new", "What B finds of the group: nothing; an offset; an offset whose records were deleted, that "
             "was deleted itself, or that lies beyond the log's end.", choices=STATES, live=False),
        POLICY,
        Knob("records", "int", 40, "How many old records there are; their timestamps are two hours back.", "records", 1, 500, live=False),
        Knob("done", "int", 20, "How many of them A works on and commits.", "records", 1, 500, live=False),
        Knob("while_down", "int", 30, "How many records arrive before B comes.", "records", 1, 500, live=False),
        Knob("deleted", "int", 30, "How many records above A's offset are deleted, if they are.", "records", 1, 1_000, live=False),
        Knob("after", "int", 10, "How many records arrive when B has begun.", "records", 1, 500, live=False),
        LIBRARY,
        MAX_STEPS,
    ),
    _tell_reset_policy,
    kind=GroupRun,
)  # fmt: skip


# -- retention is faster than the consumer ------------------------------------------------------------------


@told
def _tell_retention_overtakes(run: GroupRun) -> None:
    knobs = run.knobs
    run.create(1)
    run.group.roll_after(HOUR_MS)
    run.alter({0: 0})  # so that A begins at 0 under any policy
    run.append(0, knobs["records"], age_ms=OLD_MS)
    run.join("A", settings_under(run, knobs["policy"]))
    run.settle()
    run.work("A", run.take("A", knobs["records"]))
    run.commit_done("A")
    run.poll("A", 0)
    run.pass_ms(FLUSHED_MS if run.group.backend == "model" else REALLY_FLUSHED_MS)  # what A has asked for comes back without records
    run.append(0, knobs["deleted"], age_ms=OLD_MS)
    run.append(0, knobs["left"])
    if knobs["by"] == "retention.ms":
        run.retain(0, HOUR_MS)
    else:
        run.delete_before(0, knobs["records"] + knobs["deleted"])
    run.tell_lag("A is paused")
    seat = run.seats["A"]
    until(run, lambda: bool(seat.error) or run.is_in_log(0, seat.position[0]), "A's next position", lambda: run.poll("A"))
    run.append(0, knobs["after"])
    read_on(run, "A")
    run.tell_lag("A goes on")


retention_overtakes = Experiment(
    "retention_overtakes",
    "Retention is faster than the consumer",
    "A is at the end and pauses. Records arrive, and retention deletes some of them. A goes on: what has it missed?",
    (
        POLICY,
        Knob("by", "choice", "retention.ms", "Who deletes: the topic's retention, or an operator's DeleteRecords.",
             choices=("retention.ms", "DeleteRecords"), live=False),
        Knob("records", "int", 40, "How many records A works on first.", "records", 1, 500, live=False),
        Knob("deleted", "int", 15, "How many arrive and are deleted.", "records", 1, 500, live=False),
        Knob("left", "int", 15, "How many arrive after them and are not.", "records", 1, 500, live=False),
        Knob("after", "int", 10, "How many arrive when A reads again.", "records", 1, 500, live=False),
        LIBRARY,
        MAX_STEPS,
    ),
    _tell_retention_overtakes,
    kind=GroupRun,
)  # fmt: skip


# -- two groups, one answer each ------------------------------------------------------------------------------


@both_told
def _tell_mirror(run: MirrorRun) -> None:
    knobs = run.knobs
    run.create(1)
    mirror = run.mirror
    run.join("A", settings_under(run))
    mirror.join("M", settings_under(run, knobs["policy"]))
    for each in (run, mirror):
        each.settle()
        run.keep_time()
    run.append(0, knobs["records"])
    for each, name, most in ((run, "A", knobs["records"]), (mirror, "M", min(knobs["mirrored"], knobs["records"]))):
        each.work(name, each.take(name, most))
        each.commit_done(name)
        each.close(name)
        run.keep_time()
    run.append(0, knobs["while_down"])
    for each in (run, mirror):
        if knobs["trouble"] == "forgotten":
            each.forget([0])
        else:
            each.alter({0: run.ends[0] + 100})
    run.join("A", settings_under(run))
    mirror.join("M", settings_under(run, knobs["policy"]))
    for each in (run, mirror):
        each.settle()
        run.keep_time()
    run.append(0, knobs["after"])
    for each, name in ((run, "A"), (mirror, "M")):
        read_on(each, name)
        run.keep_time()


mirror = Experiment(
    "mirror",
    "What the first one repeats, the second one loses",
    "A consumer begins at the earliest offset when it has none, a mirror at the latest. Both lose their offset. Who repeats, who loses?",
    (
        replace(POLICY, help="The mirror's auto.offset.reset; the consumer's is earliest.", choices=("earliest", "latest")),
        Knob("trouble", "choice", "forgotten", "What becomes of both offsets: they are deleted, or lie beyond the log's end.",
             choices=("forgotten", "beyond the end"), live=False),
        Knob("records", "int", 40, "How many records the consumer has done.", "records", 1, 500, live=False),
        Knob("mirrored", "int", 25, "How many of them the mirror has copied by then.", "records", 1, 500, live=False),
        Knob("while_down", "int", 30, "How many arrive before both come back.", "records", 1, 500, live=False),
        Knob("after", "int", 10, "How many arrive when both have begun.", "records", 1, 500, live=False),
        replace(LIBRARY, default="librdkafka"),
        MAX_STEPS,
    ),
    _tell_mirror,
    kind=MirrorRun,
)  # fmt: skip


# -- a partition that is new ---------------------------------------------------------------------------------


@told
def _tell_new_partition(run: GroupRun) -> None:
    knobs = run.knobs
    age_ms = knobs["metadata_max_age_ms"]
    run.create(1)
    run.alter({0: 0})  # so that A begins at 0 under any policy
    run.join("A", replace(settings_under(run, knobs["policy"]), metadata_max_age_ms=age_ms))
    run.settle()
    run.append(0, 20)
    read_on(run, "A")
    run.add_partitions(2)  # right after A has asked, so it will not know for as long as it can
    run.append(1, max(1, knobs["records_a_second"] * age_ms // 1_000))
    seat = run.seats["A"]
    until(
        run, lambda: bool(seat.error) or (1 in seat.held and seat.is_placed), "the new partition's owner", lambda: run.poll("A", 0),
        age_ms + SETTLE_MS,
    )  # fmt: skip
    run.append(1, 10)
    read_on(run, "A")
    run.tell_lag("after all")


new_partition_latest = Experiment(
    "new_partition_latest",
    "A new partition, and a consumer that does not know it yet",
    "A runs and is at the end. The topic gets a second partition, and records at once. Which of them does A read?",
    (
        POLICY,
        Knob("metadata_max_age_ms", "int", 1_000, "How often A asks which partitions there are.", "ms", 200, 300_000, live=False),
        Knob("records_a_second", "int", 10, "How fast records arrive in the new partition.", "records/s", 1, 100, live=False),
        LIBRARY,
        replace(MAX_STEPS, default=10_000),
    ),
    _tell_new_partition,
    kind=GroupRun,
)  # fmt: skip
