"""The exercises of notebook 03: the first capstone, a spout that jumped over most of its backlog.

The facts of the incident are given to the learner; what follows from them is computed here by the start rule of
the PartitionManager and by the experiments, at the moment of the check.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kitlib.exercises.answers import NotYet, choice, in_order, knobs_for, mapping, whole_number
from kitlib.exercises.frame import Given, Half, Knobs, Miss, Right, Rows, Turned, exercise
from kitlib.exercises.spouts import emitted_spout
from kitlib.experiments import run
from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.log import PartitionLog
from kitlib.mechanisms.offset_store import MemoryOffsetStore, read_stored_offset
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.monitor.delivery import judge
from kitlib.more.spout.earlier import DEFAULT_MAX_OFFSET_BEHIND, EarlierPartitionManager
from kitlib.views import show
from kitlib.words.template import count

STORED = 15_266_940  # what ZooKeeper held for the partition
LOG_END = 22_092_614  # where the partition's log ended at the redeployment
JUMP_KNOBS = ("same_topology_id", "force_from_start", "start_offset_time", "max_offset_behind", "records_while_down")
BUG_RECORDS, BUG_BOUND = 40, 10
START_KNOBS = ("max_offset_behind", "force_from_start")


def jumped_spout() -> PartitionManager:
    """The 0.9.2 spout of the incident after its start: redeployed, not forced, with its default bound."""
    return redeployed_spout(EarlierPartitionManager, LOG_END, max_offset_behind=DEFAULT_MAX_OFFSET_BEHIND)


def redeployed_spout(kind: type[PartitionManager], log_end: int, **settings: Any) -> PartitionManager:
    """A spout of a new topology id, after its start on a log that ends at `log_end`; STORED is stored."""
    config = SpoutConfig("events", "spout", topology_id="topology-2", **settings)
    store = MemoryOffsetStore()
    store.write(config.committed_path(), json.dumps({"topology": {"id": "topology-1"}, "offset": STORED}))
    return kind(config, PartitionLog("events", end=log_end), store)


@exercise(Given(whole_number))
def silent_jump(given: int) -> Rows:
    spout = jumped_spout()
    skipped = spout.committed_to - STORED
    if given != skipped:
        yield given in (spout.committed_to, STORED) and Miss("an offset", given=given)
        yield given == skipped - DEFAULT_MAX_OFFSET_BEHIND and Miss("bound subtracted", default_max_offset_behind=DEFAULT_MAX_OFFSET_BEHIND)
        yield given == DEFAULT_MAX_OFFSET_BEHIND and Miss("the bound", given=given)
        yield abs(given - skipped) == 1 and Miss("off by one")
        yield Miss("other", given=given)
    yield Right(spout=spout, stored=STORED)


def true_lines() -> set[str]:
    """Those of the quoted log lines that agree with what the start rule does."""
    spout = jumped_spout()
    began, earliest = spout.committed_to, 0
    found = read_stored_offset(spout.store, spout.config.committed_path())
    stored = found.offset if found else None
    claims = {
        "A": stored == STORED and found is not None and found.topology_id != spout.config.topology_id,
        "B": stored == STORED,
        "C": stored == LOG_END and began == earliest,
        "D": began == LOG_END,
    }
    return {line for line, is_true in claims.items() if is_true}


@exercise(Given(choice("A", "B", "C", "D")))
def lying_line(line: str) -> Rows:
    yield line in true_lines() and Miss(line, stored=STORED, began=jumped_spout().committed_to)
    yield Right(line=line)


@exercise(Knobs("restart", only=JUMP_KNOBS, most=3))
def reproduce_the_jump(turned: Turned) -> Rows:
    trace = turned.trace
    start = [step for step in trace if step.what == "start"][-1]
    stored, offset, end = start.data["stored"], start.data["offset"], start.state["log_end"]
    picture = show(trace, at=start.number)
    yield trace.settings.same_topology_id and Miss("same topology", picture=picture)
    yield trace.settings.force_from_start and Miss("forced", offset=offset, picture=picture)
    yield offset == stored and Miss("not too far", offset=offset, end=end, picture=picture)
    yield Right(stored=stored, end=end, offset=offset, turned=turned, start=start)


def committed_after(kind: type[PartitionManager], acks: Iterable[int]) -> int:
    """The committed offset after these acks of 40 emitted records with a bound of 10."""
    spout = emitted_spout(BUG_RECORDS, kind, max_offset_behind=BUG_BOUND)
    for offset in acks:
        spout.ack(offset)
    spout.commit()
    return spout.committed_to


def young_losses(kind: type[PartitionManager], acks: list[int]) -> list[int]:
    """Unfinished offsets below the commit that are at most the bound below the highest acked one."""
    committed, bound = committed_after(kind, acks), max(acks) - BUG_BOUND
    return [offset for offset in range(max(0, bound), committed) if offset not in acks]


def acks_in_order(answer: Any, what: str = "the answer") -> list[int]:
    """Distinct offsets of emitted records, in the order of their acks."""
    acks: list[int] = in_order("a list of offsets in the order of their acks", "ack")(answer, what)
    if not acks:
        raise NotYet("without an ack nothing is cleared.", "One ack can be enough.")
    if any(not 0 <= offset < BUG_RECORDS for offset in acks) or len(set(acks)) != len(acks):
        raise NotYet(f"each ack should name a different one of the {BUG_RECORDS} emitted records, 0 to {BUG_RECORDS - 1}.")
    return acks


@exercise(Given(acks_in_order))
def second_bug(acks: list[int]) -> Rows:
    later = young_losses(PartitionManager, acks)
    only_earlier = [offset for offset in young_losses(EarlierPartitionManager, acks) if offset not in later]
    if not only_earlier:
        committed = committed_after(EarlierPartitionManager, acks)
        below = [offset for offset in range(committed) if offset not in acks]
        yield not below and Miss("all finished", committed=committed)
        yield Half("outside the bound", committed=committed, passed=count(len(below), "unfinished record"), bug_bound=BUG_BOUND)
    yield Right(passed=count(len(only_earlier), "unfinished record"), bug_bound=BUG_BOUND, only_earlier=only_earlier)


def start_settings(answer: Any, what: str = "the answer") -> tuple[dict[str, Any], str]:
    """The two settings and the price; NotYet when one is missing."""
    given = mapping(answer, what)
    for name in (*START_KNOBS, "price"):
        if given.get(name, ...) is ...:
            raise NotYet(f"there is no answer for {name} yet.")
    knobs = knobs_for("restart", {name: value for name, value in given.items() if name != "price"}, START_KNOBS)
    return knobs, choice("duplicates", "loss")(given["price"], "price")


@exercise(Given(start_settings))
def defend_a_start(settings: tuple[dict[str, Any], str]) -> Rows:
    knobs, price = settings
    yield from lost_backlogs(knobs)
    redeployed = judge(run("restart", same_topology_id=False, **knobs)).counts
    crashed = judge(run("restart", same_topology_id=True, **knobs)).counts
    outrun = {forced: run("out_of_range", **{**knobs, "force_from_start": forced}) for forced in (True, False)}
    lost = {forced: judge(trace).counts["lost"] for forced, trace in outrun.items()}
    repeats = redeployed["duplicated"] - crashed["duplicated"]
    loses = lost[knobs["force_from_start"]] - min(lost.values())
    if price != ("duplicates" if repeats > 0 else "loss"):
        yield repeats > 0 and Half("repeats", repeats=repeats)
        yield Half("jumps", loses=loses, picture=show(outrun[knobs["force_from_start"]]))
    yield Right(price=price)


def lost_backlogs(knobs: Mapping[str, Any]) -> Rows:
    """Near misses: a redeployment with these settings loses records, or jumps over a backlog larger than its bound."""
    for waiting in (20, 200):
        trace = run("restart", same_topology_id=False, records_while_down=waiting, **knobs)
        counts, start = judge(trace).counts, [step for step in trace if step.what == "start"][-1]
        yield (counts["skipped"] or counts["lost"]) and Miss(
            "small backlog", waiting=waiting, counts=counts, start=start, picture=show(trace, at=start.number)
        )
    backlog = min(knobs["max_offset_behind"] + 1, MAX_LONG - STORED)
    spout = redeployed_spout(PartitionManager, STORED + backlog, **knobs)
    yield spout.committed_to > STORED and Miss("large backlog", backlog=backlog)
