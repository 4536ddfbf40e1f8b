"""The experiments on a partition with copies: an unclean election, a commit that it leaves beyond the end, a follower that
stands still, and a bit that flips on a disk.

Broker 2 is the preferred leader, 3 its follower. Broker 1 is the controller and lives.
"""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.replication.replication_run import Deed, ReplicaRun
from kitlib.mechanisms.replication.epochs import Library
from kitlib.monitor.figures import LOST

LEADER, FOLLOWER, CONTROLLER = 2, 3, 1

Unclean = Annotated[
    bool, Knob("unclean.leader.election.enable: whether a replica that was not in sync may become leader when no other is alive.")
]
Copied = Annotated[int, Knob("How many records both replicas have.", "records", 1, 1_000)]
Alone = Annotated[
    int, Knob("How many records are sent after the follower has died; only the leader has them.", "records", 0, 1_000)
]
Read = Annotated[
    int, Knob("How many records have been processed and committed when the leader dies.", "records", 0, 2_000)
]
New = Annotated[
    int, Knob("How many records are sent after the election, before the consumer is back.", "records", 0, 2_000)
]
Policy = Annotated[
    Literal["earliest", "latest", "none"], Knob("Where the consumer starts when its offset is outside the log.")
]
ClientLibrary = Annotated[Library, Knob("Which client library reads.")]
LeaderEpoch = Annotated[bool, Knob("Whether the leader epoch of the last record is committed with the offset.")]


@experiment(
    "A leader that had not replicated everything", ReplicaRun, max_steps=10_000,
    figure=LOST, front=("unclean_leader_election", "min_insync_replicas", "copied", "alone", "read"),
)
def unclean_election(
    run: ReplicaRun,
    unclean_leader_election: Unclean = True,
    min_insync_replicas: Annotated[
        int, Knob("How many replicas must be in sync for acks=all to succeed (min.insync.replicas).", "replicas", 1, 2)
    ] = 1,
    copied: Copied = 40,
    alone: Alone = 20,
    read: Read = 50,
    new_records: New = 5,
    auto_offset_reset: Policy = "earliest",
    library: ClientLibrary = "librdkafka",
    leader_epoch: LeaderEpoch = False,
) -> None:
    """The follower dies, 20 more records are acknowledged, the leader dies, and the follower comes back. Which records are left?"""
    _elect_uncleanly(run, copied, alone, read, new_records)


@experiment(
    "A committed offset from another history", ReplicaRun, max_steps=10_000,
    figure=LOST, front=("leader_epoch", "new_records", "read", "copied", "unclean_leader_election"),
)
def truncated_commit(
    run: ReplicaRun,
    library: ClientLibrary = "java",
    leader_epoch: LeaderEpoch = False,
    new_records: New = 15,
    auto_offset_reset: Policy = "earliest",
    unclean_leader_election: Unclean = True,
    copied: Copied = 40,
    alone: Alone = 10,
    read: Read = 50,
) -> None:
    """Everything was read and committed; then the log was truncated below the committed offset and grew past it. What
    does the consumer read next?
    """
    _elect_uncleanly(run, copied, alone, read, new_records)


def _elect_uncleanly(run: ReplicaRun, copied: int, alone: int, read: int, new_records: int) -> None:
    """The follower dies, then the leader, and the follower comes back without the records that the leader has alone."""
    run.create([LEADER, FOLLOWER])
    run.send(copied)
    run.do("kill", FOLLOWER)
    run.send(alone)
    run.read("A", read, "earliest")
    run.do("kill", LEADER)
    run.do("start", FOLLOWER)
    if run.send(new_records):
        run.read("B")
        run.do("start", LEADER)
    else:  # nobody leads, or too few are in sync
        run.do("start", LEADER)
        run.send(new_records)
        run.read("B")
    run.read_log()


@experiment(
    "A follower that falls behind", ReplicaRun, max_steps=10_000,
    figure=LOST, front=("min_insync_replicas", "trouble", "returns", "replicas", "records"),
)
def follower_cut(
    run: ReplicaRun,
    min_insync_replicas: Annotated[
        int, Knob("How many replicas must be in sync for acks=all to succeed (min.insync.replicas).", "replicas", 1, 3)
    ] = 2,
    replicas: Annotated[int, Knob("How many replicas the partition has.", "replicas", 2, 3)] = 3,
    trouble: Annotated[Literal["paused", "killed"], Knob("What happens to the follower: SIGSTOP or SIGKILL.")] = "paused",
    returns: Annotated[bool, Knob("Whether the follower is back, and has caught up, before the leader dies.")] = False,
    unclean_leader_election: Unclean = True,
    records: Annotated[int, Knob("How many records are sent each time.", "records", 1, 500)] = 10,
) -> None:
    """A follower stops, records keep arriving, and the leader dies. With how many in-sync replicas is an
    acknowledgement worth something?"""
    deeds: tuple[Deed, Deed] = ("pause", "wake") if trouble == "paused" else ("kill", "start")
    stop, go_on = deeds
    run.create([LEADER, FOLLOWER, CONTROLLER][:replicas])
    run.send(records)
    run.do(stop, FOLLOWER)
    run.send(records)
    if returns:
        run.do(go_on, FOLLOWER)
        run.send(records)
    run.do("kill", LEADER)
    if not returns:
        run.do(go_on, FOLLOWER)
    run.read("A", policy="earliest")
    run.do("start", LEADER)
    run.read("A", policy="earliest")
    run.read_log()


@experiment("One bit on one disk", ReplicaRun, max_steps=10_000, figure=LOST, front=("records", "replicas"))
def flipped_bit(
    run: ReplicaRun,
    replicas: Annotated[int, Knob("How many replicas the partition has.", "replicas", 1, 2)] = 2,
    records: Annotated[int, Knob("How many records are acknowledged.", "records", 1, 500)] = 20,
    at: Annotated[int, Knob("In which record the bit flips.", "offset", 0, 499)] = 7,
) -> None:
    """The leader is killed, one bit in the middle of its log flips, and it is restarted. How many records are left?"""
    run.create([LEADER, FOLLOWER][:replicas])
    run.send(records)
    run.do("kill", LEADER)
    run.flip_bit(LEADER, min(at, records - 1))
    run.do("start", LEADER)
    run.read("A", policy="earliest")
    run.read_log()
