"""The knobs of the groups' experiments, and the scenes that their stories are made of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from kitlib.errors import LateError
from kitlib.experiments.groups.group import Library, MemberSettings
from kitlib.experiments.groups.group_run import SETTLE_MS, GroupRun, MemberState
from kitlib.experiments.knobs import Knob

ClientLibrary = Annotated[Library, Knob("Which client library; each has its own rules for commits.")]
Strategy = Annotated[
    Literal["range", "roundrobin", "sticky", "cooperative-sticky"],
    Knob("Assignment strategy; with cooperative-sticky, members keep their partitions during a rebalance."),
]
SessionMs = Annotated[int, Knob("A member without a heartbeat for this long is removed.", "ms", 1_000, 10_000)]
MaxPollMs = Annotated[
    int, Knob("A consumer that has not polled for this long leaves the group.", "ms", 2_000, 10_000)
]
HEARTBEAT_MS = 300
PATIENCE_MS = 3_000  # how long one member alone is waited for


def settings_of(run: GroupRun, **more: object) -> MemberSettings:
    """The members' settings from the run's knobs; `more` replaces some."""
    settings = run.settings
    library: Library = settings.library
    chosen: dict[str, object] = {
        "library": library,
        "strategies": (settings.strategy,),
        "session_timeout_ms": settings.session_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "max_poll_interval_ms": settings.max_poll_ms,
    }
    return MemberSettings(**(chosen | more))  # type: ignore[arg-type]


def meanwhile(run: GroupRun, names: Sequence[str], ms: int) -> None:
    """So much time passes; these members poll and take part, and are handed nothing."""
    end = run.group.now_ms + ms
    while run.group.now_ms < end:
        for name in names:
            run.poll(name, 0)
        if not names:
            run.pass_ms(min(50, end - run.group.now_ms))
    run.look()


def take_all(run: GroupRun, names: Sequence[str]) -> None:
    """These members are handed all that is left of what they hold, and work on it.

    One after the other, so that a rebalance (the coordinator has removed someone after all) would wait for the others:
    when nothing comes, all of them take part until the group is settled again, and go on with what they hold then.
    LateError after SETTLE_MS.
    """
    deadline = run.group.now_ms + SETTLE_MS
    members = [run.members[name] for name in names]
    while True:
        try:
            for name, member in zip(names, members, strict=True):
                run.until(partial(_knows_its_start, member), f"{name}'s start", partial(run.poll, name, 0), PATIENCE_MS)
                run.take(name, len(member.waiting) + _left(run, member), PATIENCE_MS)
                run.work(name, list(member.waiting))
        except LateError:
            if run.group.now_ms > deadline:
                raise
            run.settle(names)
        else:
            if not any(_left(run, member) for member in members):
                return


def _knows_its_start(member: MemberState) -> bool:
    """In all that it holds; a real client has to ask."""
    return not member.unsettled


def _left(run: GroupRun, member: MemberState) -> int:
    """How many records it has not been handed yet of those that it knows to be there."""
    return sum(max(0, run.ends[partition] - member.position[partition]) for partition in member.held & member.position.keys())


def work_wave(run: GroupRun, names: Sequence[str], count: int, is_committed: bool) -> None:
    """So many new records in each partition; these members work on them, and commit or do not."""
    for partition in run.ends if count else ():
        run.append(partition, count)
    take_all(run, names)
    for name in names if is_committed else ():
        run.commit_done(name)


def evicted(run: GroupRun, name: str, by: Sequence[str]) -> None:
    """Wait until the coordinator has removed this member; `by` poll meanwhile. LabError after SETTLE_MS."""
    deadline = run.group.now_ms + SETTLE_MS
    run.until(lambda: name not in run.group.view().members, f"the removal of {name}", lambda: meanwhile(run, by, 50))
    run.settle(by, max(1, deadline - run.group.now_ms))
