"""The exercises of notebook 13: what is left after an election, which settings keep it, where a consumer goes on, where to cut."""

from __future__ import annotations

from functools import partial
from random import Random

from kitlib.exercises.answers import maybe, sequence, whole_number
from kitlib.exercises.frame import Function, Half, Knobs, Miss, Right, Rows, Turned, Unlike, exercise
from kitlib.experiments import run
from kitlib.mechanisms.replication.epochs import resume
from kitlib.mechanisms.replication.partition import ReplicatedPartition, ReplicationConfig
from kitlib.trace import Trace, from_ranges
from kitlib.views import show

ELECTIONS: tuple[tuple[int, int, int, bool], ...] = (  # copied, alone, new_records, unclean_leader_election
    (40, 20, 5, True),
    (40, 20, 5, False),
    (12, 3, 30, True),
    (7, 0, 4, True),
    (25, 9, 0, False),
)
HISTORIES = 40  # of cut_to


def what_was_left(trace: Trace) -> tuple[int, int]:
    """The log's end when all brokers are back, and how many acknowledged records are not in it."""
    held = set(from_ranges(trace.steps[-1].data["records"]))
    sent = sum(step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "append")
    return trace.steps[-1].state["log_end"], sent - len(held)


@exercise(Function(lambda: ELECTIONS, sequence(2)))
def what_is_left(got: tuple[int, ...], copied: int, alone: int, new: int, unclean: bool) -> Rows:
    trace = run("unclean_election", copied=copied, alone=alone, new_records=new, unclean_leader_election=unclean, read=copied)
    right = what_was_left(trace)
    yield got != right and Unlike(right, picture=partial(show, trace))


@exercise(Knobs("follower_cut", only=("replicas", "min_insync_replicas"), default={"replicas": 2, "min_insync_replicas": 1}))
def safe_follower(turned: Turned) -> Rows:
    trace = turned.trace
    lost = sum(step.data["from"] - step.data["to"] for step in trace if step.what == "cut")
    refused = sum(step.data["count"] for step in trace if step.what == "refused")
    yield lost and Miss("lost", lost=lost, picture=show(trace))
    yield refused and Half("refused", refused=refused, look=2, picture=show(trace))
    yield trace.settings.min_insync_replicas < 2 and Half("by luck")
    yield Right()


def resumptions() -> list[tuple[int, int, int | None, str]]:
    """(committed, log end, end of the committed epoch or None, policy), of every kind."""
    rng = Random(13)
    found = [(50, 40, None, "earliest"), (50, 55, None, "earliest"), (50, 55, 40, "latest"), (50, 60, 60, "none"), (50, 55, 40, "none")]
    found += [(40, 40, None, "earliest"), (40, 40, 40, "none"), (41, 40, None, "latest"), (5, 9, 0, "latest"), (5, 9, 0, "none")]  # edges
    for _ in range(60):
        committed, end = rng.randint(0, 60), rng.randint(0, 60)
        epoch_end = None if rng.random() < 0.5 else min(end, rng.randint(max(0, committed - 20), committed + 20))
        found.append((committed, end, epoch_end, rng.choice(("earliest", "latest", "none"))))
    return found


@exercise(Function(resumptions, maybe(whole_number)))
def goes_on(got: int | None, committed: int, end: int, epoch_end: int | None, policy: str) -> Rows:
    epoch = None if epoch_end is None else 0
    right = resume(committed, 0, end, policy, "java", epoch, (-1, -1) if epoch_end is None else (0, epoch_end)).offset
    yield got != right and Unlike(right, "epoch" if epoch_end is not None else "")


def histories() -> list[tuple[list[list[int]], int, list[list[int]], int, int]]:
    """(leader's epochs, its end, follower's epochs, its end, where they part): of logs that lived through unclean elections."""
    rng = Random(131)
    found: list[tuple[list[list[int]], int, list[list[int]], int, int]] = [
        ([[0, 0], [2, 40]], 45, [[0, 0]], 60, 40),
        ([[0, 0], [2, 40]], 45, [[0, 0]], 30, 30),  # it has nothing that the leader does not have
        ([[0, 0], [2, 40]], 45, [[0, 0], [1, 30]], 60, 30),
    ]
    while len(found) < HISTORIES:
        log, sent = ReplicatedPartition((2, 3), ReplicationConfig(1, unclean_leader_election=True)), 0
        for _ in range(rng.randint(2, 6)):
            broker = rng.choice((2, 3))
            if log.replicas[broker].is_alive:
                log.kill(broker)
                log.fence(broker)
            elif log.leader is None or rng.random() < 0.4:
                log.start(broker)
            count = rng.randint(0, 6)
            log.append(range(sent, sent + count))
            sent += count
        leader = log.leader
        follower = None if leader is None else next(each for each in log.replicas.values() if each is not leader)
        if leader is None or follower is None or follower.is_alive or not follower.end:
            continue
        part = 0
        while part < min(leader.end, follower.end) and leader.records[part] == follower.records[part]:
            part += 1
        tables = [[list(entry) for entry in each.epochs.entries] for each in (leader, follower)]
        found.append((tables[0], leader.end, tables[1], follower.end, part))
    return found


@exercise(Function(histories, whole_number))
def cut_to(cut: int, leader: list[list[int]], end: int, follower: list[list[int]], own_end: int, part: int) -> Rows:
    where = f"the leader has {leader} and ends at {end}, the follower has {follower} and ends at {own_end}"
    yield cut > own_end and Miss("beyond", where=where, cut=cut, part=part)
    yield cut > part and Miss("kept too much", where=where, cut=cut, part=part)
    yield cut < part and Miss("cut too much", where=where, cut=cut, part=part)
