"""Three ways to rebalance, side by side: who stood still for how long, and what was consumed twice.

A stream that never pauses runs through a topic, one record in each partition and round. Three consumers
come one after the other, one leaves, and one is killed. Whatever the protocol, a partition that moves
must be given up before it is taken: its records wait meanwhile. What differs is what happens to the
partitions that do not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group import Library, MemberSettings
from kitlib.experiments.groups.group_knobs import work_wave
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.monitor.figures import NO_OWNER
from kitlib.trace import Trace

QUIET_ROUNDS = 4  # rounds in which nothing happens to the group, before each event and at the end
LONGEST_MS = 30_000  # a rebalance that is not over by then, beyond the session of who is killed, is an error
SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {"strategies": ("range",)},
    "cooperative": {"strategies": ("cooperative-sticky",)},
    "consumer": {"protocol": "consumer"},
}


def _round(run: GroupRun, since_commit: dict[str, int]) -> None:
    """A record into each partition; then every member polls, works, and commits when it is time."""
    settings, begin_ms = run.settings, run.group.now_ms
    for partition in range(settings.partitions):
        run.append(partition, 1)
    for name in run.running:
        records = run.poll(name, timeout_ms=max(1, settings.round_ms // 8))
        run.work(name, records)
        since_commit[name] = since_commit.get(name, 0) + len(records)
        if since_commit[name] >= settings.commit_every:
            # Without waiting: in a rebalance some libraries would hold up the caller, and here all others too.
            member = run.members[name]
            member.client.commit_later(dict(member.done))
            since_commit[name] = 0
    left_ms = begin_ms + settings.round_ms - run.group.now_ms
    if left_ms > 0:
        run.pass_ms(left_ms)


def _flow(run: GroupRun, since_commit: dict[str, int]) -> None:
    """Rounds until each running member holds its share, and some more. LabError after a session and LONGEST_MS."""
    quiet = 0

    def round_() -> None:
        nonlocal quiet
        _round(run, since_commit)
        quiet = quiet + 1 if run.is_settled() else 0

    what = f"a quiet group of {', '.join(run.running)}"
    run.until(lambda: quiet >= QUIET_ROUNDS, what, round_, run.settings.session_timeout_ms + LONGEST_MS)


@experiment(
    "Who stands still", GroupRun, max_steps=20_000,
    figure=NO_OWNER, front=("protocol", "commit_every", "round_ms", "session_timeout_ms", "library"),
)
def rebalance_protocols(
    run: GroupRun,
    protocol: Annotated[
        Literal["eager", "cooperative", "consumer"],
        Knob(
            "How partitions change owners: all are revoked first (eager), only those that move (cooperative), or the broker "
            "decides (consumer)."
        ),
    ] = "eager",
    library: Annotated[Library, Knob("Which client library the members use.")] = "librdkafka",
    partitions: Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 12)] = 6,
    commit_every: Annotated[int, Knob("Records after which a member commits what it has processed.", "records", 1, 100)] = 8,
    round_ms: Annotated[int, Knob("Time between records in each partition.", "ms", 5, 1_000)] = 40,
    session_timeout_ms: Annotated[
        int, Knob("The coordinator removes a member without a heartbeat for this long.", "ms", 500, 60_000, scale="log")
    ] = 1_500,
) -> None:
    """Three consumers join, one leaves, one is killed. Which partitions stand still in the meantime, and what is consumed twice?"""
    settings = MemberSettings(
        library=library, session_timeout_ms=session_timeout_ms, max_poll_interval_ms=60_000,
        **SETTINGS[protocol],
    )  # fmt: skip
    run.group.waits = False  # the others go on while a process starts or ends
    run.create(partitions)
    since_commit: dict[str, int] = {}  # records of each member
    for name in "ABC":
        run.join(name, settings)
        _flow(run, since_commit)
    run.close("A")
    _flow(run, since_commit)
    run.kill("B")
    _flow(run, since_commit)
    work_wave(run, ["C"], 0, is_committed=True)


EVENTS = {"join": "joins", "leave": "leaves", "kill": "is killed"}


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One event of a run and what it cost."""

    what: str  # "B joins"
    given_up: int  # partitions that members who stayed gave up, some of them only to get them back
    moved: int  # partitions with another owner afterwards
    moved_ms: int  # the longest that a record of these waited


def rebalances(trace: Trace) -> list[Rebalance]:
    """What each event of a run of `rebalance_protocols` cost, the first join left out: nobody stood still then."""
    begins = [step.number for step in trace if step.what in EVENTS][1:]
    return [_cost(trace, begin, end) for begin, end in pairwise([*begins, len(trace)])]


def _cost(trace: Trace, begin: int, end: int) -> Rebalance:
    steps, event = trace.steps[begin:end], trace.steps[begin]
    before, after = (trace.steps[at].state["group"]["owners"] for at in (begin - 1, end - 1))
    moved = {lane for lane in after if after[lane] != before.get(lane)}
    given_up = sum(len(step.data["partitions"]) for step in steps if step.what in ("revoked", "lost"))
    waits = _waits(trace, begin, end)
    longest_ms = max((waits.get(lane, 0) for lane in moved), default=0)
    return Rebalance(f"{event.actor} {EVENTS[event.what]}", given_up, len(moved), longest_ms)


def _waits(trace: Trace, begin: int, end: int) -> dict[str, int]:
    """For each lane the longest time between a record's append and the first time it was processed, from step `begin` on."""
    appended: dict[tuple[str, int], int] = {}  # those that are not processed yet
    longest: dict[str, int] = {}
    for step in trace.steps[:end]:
        lane = f"{step.data.get('topic')}-{step.data.get('partition')}"
        if step.what == "append":
            appended.update(((lane, offset), step.at_ms) for offset in range(step.data["first"], step.data["last"] + 1))
        elif step.what == "process":
            since_ms = appended.pop((lane, step.data["offset"]), step.at_ms)
            if step.number >= begin:
                longest[lane] = max(longest.get(lane, 0), step.at_ms - since_ms)
    return longest


def compare(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """One row for each run: how many partitions were given up and moved in all its rebalances but the last."""
    rows = []
    for trace in traces:
        found = rebalances(trace)[:-1]
        given_up, moved = sum(each.given_up for each in found), sum(each.moved for each in found)
        rows.append({"protocol": trace.settings.protocol, "given up": given_up, "moved": moved})
    return rows
