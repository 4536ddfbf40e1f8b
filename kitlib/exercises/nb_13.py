"""The exercises of notebook 13: what is left after an election, which settings keep it, where a consumer goes on, where to cut."""

from __future__ import annotations

from functools import partial
from random import Random

from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, maybe, sequence, whole_number
from kitlib.exercises.frame import Function, Knobs, Rows, Turned, Unlike, exercise
from kitlib.experiments import run
from kitlib.kafka.replication.epochs import resume
from kitlib.kafka.replication.partition import ReplicatedPartition, ReplicationConfig
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


@exercise(
    "Write `what_is_left(copied, alone, new_records, unclean)`: both brokers have `copied` records, the leader alone has acknowledged "
    "`alone` more and dies, the other comes back, `new_records` are sent as soon as a broker accepts them, and finally the old leader "
    "comes back. Return where the log ends, and how many acknowledged records are lost.",
    Function(
        "what_is_left", lambda: ELECTIONS,
        "an unclean leader goes on where its own log ends: what only the other one had is gone, and its offsets are used again.",
        sequence(2), names=("copied", "alone", "new_records", "unclean"),
    ),
    "Who leads when the new records come, and where does its log end?",
    "Without an unclean election the new records wait for the old leader, which has everything.",
    solution=solutions.what_is_left,
    part="a",
)
def what_is_left(got: tuple[int, ...], copied: int, alone: int, new: int, unclean: bool) -> Rows:
    trace = run("unclean_election", copied=copied, alone=alone, new_records=new, unclean_leader_election=unclean, read=copied)
    right = what_was_left(trace)
    yield got != right and Unlike(right, picture=partial(show, trace))


@exercise(
    "A follower stops, records keep coming, the leader dies (`follower_cut`, with the unclean election allowed). Two copies and "
    "`min_insync_replicas=1` lose ten records. Which `replicas` and `min_insync_replicas` lose none and refuse none? Answer with a "
    "dict of these two knobs.",
    Knobs("follower_cut", only=("replicas", "min_insync_replicas"), default={"replicas": 2, "min_insync_replicas": 1}),
    "One is away, and one more will die. How many copies are needed so that one of those left has everything?",
    "The leader alone must not be enough for an acknowledgement, and it must not need all three.",
    solution={"replicas": 3, "min_insync_replicas": 2},
    part="a",
)
def safe_follower(turned: Turned) -> Rows:
    trace = turned.trace
    lost = sum(step.data["from"] - step.data["to"] for step in trace if step.what == "cut")
    refused = sum(step.data["count"] for step in trace if step.what == "refused")
    yield lost and NotYet(f"with these settings {lost} acknowledged records are lost.", picture=show(trace))
    yield refused and HalfRight(
        f"with these settings nothing is lost, but {refused} records are refused while the follower stands still.", 2, show(trace)
    )
    yield trace.knobs["min_insync_replicas"] < 2 and HalfRight(
        "nothing is lost here, by luck: the third copy was in sync. If it had stopped too, the leader alone would have acknowledged.",
        "Which setting says how many copies an acknowledgement needs at least?",
    )
    yield "three copies, of which two must have a record: one may be away and another one may die, and every acknowledged record survives."


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


@exercise(
    "Write `goes_on(committed, end, epoch_end, policy)` for Java's consumer on a log [0, end): `epoch_end` is where the leader epoch "
    "that was committed ends by the leader's table, or None when no epoch was committed. Return the offset that it reads next, or None "
    "when the application gets an error.",
    Function(
        "goes_on", resumptions, "{n} consumers: first the epoch, then the range, and the policy only where neither has an answer.",
        maybe(whole_number), names=("committed", "end", "epoch_end", "policy"),
    ),
    "Out of range is committed > end. When does the policy decide, and when does it not?",
    "If epoch_end is known and below committed: go on at epoch_end, unless the policy is none. Only then look at the range.",
    solution=solutions.goes_on,
    part="b",
)
def goes_on(got: int | None, committed: int, end: int, epoch_end: int | None, policy: str) -> Rows:
    epoch = None if epoch_end is None else 0
    right = resume(committed, 0, end, policy, "java", epoch, (-1, -1) if epoch_end is None else (0, epoch_end)).offset
    yield got != right and Unlike(right, "Is the epoch checked first?" if epoch_end is not None else None)


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


@exercise(
    "Write `cut_to(leader, leader_end, follower, follower_end)`: a dead broker is back and follows. `leader` and `follower` are their "
    "tables of leader epochs, lists of `[epoch, first offset]`; each log ends at its end. Return the offset to which the follower cuts "
    "its log before it copies.",
    Function(
        "cut_to", histories,
        "{n} logs that diverged, each cut where it did. Without epochs one could only compare ends, and keep the wrong records.",
        whole_number, asks=4,
    ),
    "A record is identified by its offset and its epoch. Up to where do both tables say the same epoch for each offset?",
    "Take the newest epoch that both have, beginning at the same offset. It ends where the next one begins, or at the log's end. "
    "Of the two ends take the lower one.",
    solution=solutions.cut_to,
    part="b",
)
def cut_to(cut: int, leader: list[list[int]], end: int, follower: list[list[int]], own_end: int, part: int) -> Rows:
    where = f"the leader has {leader} and ends at {end}, the follower has {follower} and ends at {own_end}"
    yield cut > own_end and NotYet(f"{where}: your function cuts to {cut}, which is beyond the follower's own end; expected {part}.")
    yield cut > part and NotYet(
        f"{where}: your function cuts to {cut} and keeps offset {part}, which is a different record on the leader; expected {part}."
    )
    yield cut < part and NotYet(
        f"{where}: your function cuts to {cut} and throws away records that both have; expected {part}.", "Cut no more than necessary."
    )
