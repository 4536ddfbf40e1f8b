"""The experiments on a partition with copies: an unclean election, a commit that it leaves beyond the end, a follower that
stands still, and a bit that flips on a disk.

Broker 2 is the preferred leader, 3 its follower. Broker 1 is the controller and lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.replicas.replica_run import ReplicaRun
from kitlib.kafka.replication.resume import LIBRARIES

LEADER, FOLLOWER, CONTROLLER = 2, 3, 1

UNCLEAN = Knob(
    "unclean_leader_election", "bool", True,
    "unclean.leader.election.enable: whether a copy may lead that was not in sync, when no other lives.", live=False,
)  # fmt: skip
MIN_INSYNC = Knob(
    "min_insync_replicas", "int", 1, "How many copies have to be in sync for acks=all to be answered.", "replicas", 1, 3, live=False
)
COPIED = Knob("copied", "int", 40, "How many records both copies have.", "records", 1, 1_000, live=False)
ALONE = Knob(
    "alone", "int", 20, "How many records are sent after the follower has died: the leader has them alone.", "records", 0, 1_000,
    live=False,
)  # fmt: skip
READ = Knob("read", "int", 50, "How many records have been processed and committed when the leader dies.", "records", 0, 2_000, live=False)
NEW = Knob(
    "new_records", "int", 5, "How many records are sent after the election, before the consumer is back.", "records", 0, 2_000, live=False
)
POLICY = Knob(
    "auto_offset_reset", "choice", "earliest", "Where the consumer begins when its offset is none of the log's.",
    choices=("earliest", "latest", "none"), live=False,
)  # fmt: skip
LIBRARY = Knob("library", "choice", "java", "Which client reads.", choices=LIBRARIES, live=False)
LEADER_EPOCH = Knob(
    "leader_epoch", "bool", False, "Whether the leader epoch of the last record is committed with the offset.", live=False
)
STEPS = replace(MAX_STEPS, default=10_000)


def told(story: Callable[[ReplicaRun], None]) -> Callable[[ReplicaRun], None]:
    """A story after which, however it ends, every broker runs again."""

    @wraps(story)
    def tell(run: ReplicaRun) -> None:
        try:
            story(run)
        finally:
            run.close()

    return tell


# -- an unclean election --------------------------------------------------------------------------------


@told
def _tell_election(run: ReplicaRun) -> None:
    knobs = run.knobs
    run.create([LEADER, FOLLOWER])
    run.send(knobs["copied"])
    run.kill(FOLLOWER)
    run.send(knobs["alone"])
    run.read("A", knobs["read"], "earliest")
    run.kill(LEADER)
    run.start(FOLLOWER)
    if run.send(knobs["new_records"]):
        run.read("B")
        run.start(LEADER)
    else:  # nobody leads, or too few are in sync
        run.start(LEADER)
        run.send(knobs["new_records"])
        run.read("B")
    run.read_log()


unclean_election = Experiment(
    "unclean_election",
    "A leader that had not copied everything",
    "The follower dies, 20 more records are acknowledged, the leader dies, the follower comes back. Which records are left?",
    (UNCLEAN, replace(MIN_INSYNC, high=2), COPIED, ALONE, READ, NEW, POLICY, replace(LIBRARY, default="librdkafka"), LEADER_EPOCH, STEPS),
    _tell_election,
    kind=ReplicaRun,
)

truncated_commit = Experiment(
    "truncated_commit",
    "A committed offset of another history",
    "Everything was read and committed, the log was cut off below the committed offset, and has grown past it. What does the consumer "
    "read next?",
    (
        LIBRARY,
        LEADER_EPOCH,
        replace(NEW, default=15),
        POLICY,
        replace(UNCLEAN, default=True),
        COPIED,
        replace(ALONE, default=10),
        READ,
        STEPS,
    ),
    _tell_election,
    kind=ReplicaRun,
)


# -- a follower that stands still -------------------------------------------------------------------------


@told
def _tell_follower(run: ReplicaRun) -> None:
    records = run.knobs["records"]
    stop, go_on = (run.pause, run.wake) if run.knobs["trouble"] == "paused" else (run.kill, run.start)
    run.create([LEADER, FOLLOWER, CONTROLLER][: run.knobs["replicas"]])
    run.send(records)
    stop(FOLLOWER)
    run.send(records)
    if run.knobs["returns"]:
        go_on(FOLLOWER)
        run.send(records)
    run.kill(LEADER)
    if not run.knobs["returns"]:
        go_on(FOLLOWER)
    run.read("A", policy="earliest")
    run.start(LEADER)
    run.read("A", policy="earliest")
    run.read_log()


follower_cut = Experiment(
    "follower_cut",
    "A follower that stands still",
    "A follower stops, records go on, the leader dies. With how many copies in sync is an acknowledgement worth something?",
    (
        replace(MIN_INSYNC, default=2),
        Knob("replicas", "int", 3, "How many copies the partition has.", "replicas", 2, 3, live=False),
        Knob(
            "trouble", "choice", "paused", "What happens to the follower: SIGSTOP or SIGKILL.", choices=("paused", "killed"), live=False
        ),
        Knob("returns", "bool", False, "Whether the follower is back, and has caught up, before the leader dies.", live=False),
        replace(UNCLEAN, default=True),
        Knob("records", "int", 10, "How many records are sent each time.", "records", 1, 500, live=False),
        STEPS,
    ),
    _tell_follower,
    kind=ReplicaRun,
)


# -- a flipped bit ----------------------------------------------------------------------------------------


@told
def _tell_flipped(run: ReplicaRun) -> None:
    knobs = run.knobs
    run.create([LEADER, FOLLOWER][: knobs["replicas"]])
    run.send(knobs["records"])
    run.kill(LEADER)
    run.flip_bit(LEADER, min(knobs["at"], knobs["records"] - 1))
    run.start(LEADER)
    run.read("A", policy="earliest")
    run.read_log()


flipped_bit = Experiment(
    "flipped_bit",
    "One bit on one disk",
    "The leader is killed, one bit in the middle of its log flips, it is started again. How many records are left?",
    (
        Knob("replicas", "int", 2, "How many copies the partition has.", "replicas", 1, 2, live=False),
        Knob("records", "int", 20, "How many records are acknowledged.", "records", 1, 500, live=False),
        Knob("at", "int", 7, "In which record the bit flips.", "offset", 0, 499, live=False),
        STEPS,
    ),
    _tell_flipped,
    kind=ReplicaRun,
)
