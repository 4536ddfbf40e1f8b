"""The exercises of notebook 13: what is left after an election, which settings keep it, where a consumer goes on, where to cut."""

from __future__ import annotations

from random import Random
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, knobs_for, told, values_of, whole_number
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
TURNED = ("replicas", "min_insync_replicas")
HISTORIES = 40  # of cut_to


# -- what_is_left --------------------------------------------------------------------------------------


def what_was_left(trace: Trace) -> tuple[int, int]:
    """The log's end when all brokers are back, and how many acknowledged records are not in it."""
    held = set(from_ranges(trace.steps[-1].data["records"]))
    sent = sum(step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "append")
    return trace.steps[-1].state["log_end"], sent - len(held)


def check_what_is_left(answer: Any) -> str:
    """The learner's arithmetic, held against runs with and without an unclean election."""
    function = a_function(answer)
    for case, value in zip(ELECTIONS, values_of(function, ELECTIONS), strict=True):
        copied, alone, new, unclean = case
        trace = run("unclean_election", copied=copied, alone=alone, new_records=new, unclean_leader_election=unclean, read=copied)
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise NotYet(f"your function should return two numbers, (end, gone), this is {told(value)}.", "")
        given = tuple(whole_number(number, "each of the two numbers") for number in value)
        if given != (right := what_was_left(trace)):
            raise NotYet(
                f"copied={copied}, alone={alone}, new_records={new}, unclean={unclean}: the log ends at {right[0]} and {right[1]} are "
                f"gone, your function says {given[0]} and {given[1]}.",
                picture=show(trace),
            )
    return "an unclean leader goes on where its own log ends: what the other had alone is gone, and its offsets are given out again."


# -- safe_follower -------------------------------------------------------------------------------------


def check_safe_follower(answer: Any) -> str:
    """Settings with which a stopped follower and a dead leader cost nothing: neither records nor a refusal."""
    knobs = knobs_for("follower_cut", answer, only=TURNED)
    trace = run("follower_cut", **({"replicas": 2, "min_insync_replicas": 1} | knobs))
    lost = sum(step.data["from"] - step.data["to"] for step in trace if step.what == "cut")
    if lost:
        raise NotYet(f"with these {lost} acknowledged records are gone.", picture=show(trace))
    if refused := sum(step.data["count"] for step in trace if step.what == "refused"):
        raise NotYet(f"with these nothing is lost, and {refused} records are refused while the follower stands still.", picture=show(trace))
    if trace.knobs["min_insync_replicas"] < 2:
        raise NotYet(
            "nothing is lost here, by luck: the third copy was in sync. Should it stop too, the leader alone would say yes.",
            "Which setting says how many copies an acknowledgement needs at least?",
        )
    return "three copies, of which two must have a record: one may be away, and one more may die, and what was acknowledged is there."


# -- goes_on -------------------------------------------------------------------------------------------


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


def check_goes_on(answer: Any) -> str:
    """Where Java's consumer goes on with what it had committed."""
    function, cases = a_function(answer), resumptions()
    for (committed, end, epoch_end, policy), value in zip(cases, values_of(function, cases), strict=True):
        epoch = None if epoch_end is None else 0
        right = resume(committed, 0, end, policy, "java", epoch, (-1, -1) if epoch_end is None else (0, epoch_end)).offset
        given = None if value is None else whole_number(value, "what your function returns")
        if given != right:
            where = f"committed {committed}, the log ends at {end}, "
            where += "no epoch was committed" if epoch_end is None else f"the committed epoch ends at {epoch_end}"
            raise NotYet(
                f"{where}, {policy}: it goes on at {'an error (None)' if right is None else right}, your function says "
                f"{'None' if given is None else given}.",
                "Is the epoch asked first?" if epoch_end is not None else None,
            )
    return f"{len(cases)} consumers: first the epoch, then the range, and the policy only where neither has an answer."


# -- cut_to --------------------------------------------------------------------------------------------


def histories() -> list[tuple[list[list[int]], int, list[list[int]], int, int]]:
    """(leader's epochs, its end, follower's epochs, its end, where they part): of logs that lived through unclean elections."""
    rng = Random(131)
    found: list[tuple[list[list[int]], int, list[list[int]], int, int]] = [
        ([[0, 0], [2, 40]], 45, [[0, 0]], 60, 40),
        ([[0, 0], [2, 40]], 45, [[0, 0]], 30, 30),  # it has nothing that the leader has not
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


def check_cut_to(answer: Any) -> str:
    """A follower's truncation by tables of epochs, held against the records of logs that parted."""
    function, cases = a_function(answer), histories()
    for (leader, end, follower, own_end, part), value in zip(cases, values_of(function, [case[:4] for case in cases]), strict=True):
        cut = whole_number(value, "what your function returns")
        where = f"the leader has {leader} and ends at {end}, the follower has {follower} and ends at {own_end}"
        if cut > own_end:
            raise NotYet(f"{where}: cut to {cut}, which is beyond the follower's own end; expected {part}.")
        if cut > part:
            raise NotYet(f"{where}: cut to {cut}, it keeps offset {part}, which is another record on the leader.")
        if cut < part:
            raise NotYet(f"{where}: cut to {cut}, it throws away records that both have, up to {part}.", "Nothing more than it must.")
    return f"{HISTORIES} logs that parted, each cut where it did. Without epochs one could only compare ends, and keep the wrong records."


EXERCISES = (
    Exercise(
        "what_is_left",
        "Write `what_is_left(copied, alone, new_records, unclean)`: both brokers have `copied` records, the leader alone has acknowledged "
        "`alone` more and dies, the other comes back, `new_records` are sent as soon as somebody takes them, and at last the old leader is "
        "back. Return where the log ends, and how many acknowledged records are gone.",
        check_what_is_left,
        (
            "Who leads when the new records come, and where does its log end?",
            "Without an unclean election the new records wait for the old leader, which has everything.",
        ),
    ),
    Exercise(
        "safe_follower",
        "A follower stops, records go on, the leader dies (`follower_cut`, with the unclean election allowed). Two copies and "
        "`min_insync_replicas=1` lose ten records. Which `replicas` and `min_insync_replicas` lose none and refuse none? Answer with a "
        "dict of these two knobs.",
        check_safe_follower,
        (
            "One is away, and one more is to die. How many copies must there be, so that one is left which has everything?",
            "The leader alone must not be enough for an acknowledgement, and all three must not be needed.",
        ),
    ),
    Exercise(
        "goes_on",
        "Write `goes_on(committed, end, epoch_end, policy)` for Java's consumer on a log [0, end): `epoch_end` is where the leader epoch "
        "that was committed ends by the leader's table, or None when no epoch was committed. Return the offset that it reads next, or None "
        "when the application gets an error.",
        check_goes_on,
        (
            "Out of range is committed > end. What is the policy asked for, and what is it not asked for?",
            "If epoch_end is known and below committed: go on at epoch_end, unless the policy is none. Only then look at the range.",
        ),
    ),
    Exercise(
        "cut_to",
        "Write `cut_to(leader, leader_end, follower, follower_end)`: a dead broker is back and follows. `leader` and `follower` are their "
        "tables of leader epochs, lists of `[epoch, first offset]`; each log ends at its end. Return the offset to which the follower cuts "
        "its log before it copies.",
        check_cut_to,
        (
            "A record is named by its offset and its epoch. Up to where do both tables say the same epoch for each offset?",
            "Take the newest epoch that both have, beginning at the same offset. It ends where the next one begins, or at the log's end. "
            "Of the two ends the lower one.",
        ),
    ),
)
