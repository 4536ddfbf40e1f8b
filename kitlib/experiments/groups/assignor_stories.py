"""The experiment on changing a group's assignor while it runs: consumers are restarted one by one with another list.

A group reads by one assignor, which all of its members must have in their lists. So a new one comes in with
a list that has both, and the old one goes out in a second round; who leaves the first round out is refused.
While a member's list has an eager assignor it gives up everything in each rebalance, whatever is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group import Library
from kitlib.experiments.groups.group_knobs import settings_of, work_wave
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.monitor.figures import NO_OWNER

EAGER, COOPERATIVE = "range", "cooperative-sticky"
DEPLOYS: dict[str, tuple[tuple[str, ...], ...]] = {  # the lists of the members: at first, after one round, after two
    "one round": ((EAGER,), (COOPERATIVE,)),
    "two rounds": ((EAGER,), (COOPERATIVE, EAGER), (COOPERATIVE,)),
    "one round from both": ((EAGER, COOPERATIVE), (COOPERATIVE,)),
}
NAMES = ("A", "B", "C")
# librdkafka 2.16 checks `partition.assignment.strategy` in rd_kafka_conf_finalize. Java takes such a list, and is eager for as
# long as it has it.
REFUSES_MIXED_LISTS = "librdkafka"
MIXED_LIST = "MIXED_LIST"


def _start(run: GroupRun, name: str, strategies: tuple[str, ...]) -> bool:
    """Start a consumer; False when its own library refuses the list, before any broker is asked."""
    settings, said = settings_of(run, strategies=strategies), {}
    if run.backend.name == "model":
        is_refused = settings.library == REFUSES_MIXED_LISTS and len(strategies) > 1
    else:
        from kitlib.lab.client_processes.driver import Refused  # a browser has no processes

        try:
            run.join(name, settings)
            return True
        except Refused as refused:
            is_refused, said = True, {"says": str(refused)}
    if is_refused:
        run.record(name, "refused", error=MIXED_LIST, **said)
        return False
    run.join(name, settings)
    return True


def _refusal(run: GroupRun, name: str, others: Sequence[str]) -> str:
    """Poll until all have what they were dealt, "", or until the newcomer is told why it cannot join."""
    member = run.members[name]

    def polls() -> None:
        for each in (name, *others):
            run.poll(each, 0)

    run.until(lambda: bool(member.error) or run.is_settled(), f"{name}'s admission to the group, or its refusal,", polls)
    return member.error


def _tell_restart(run: GroupRun, name: str, strategies: Sequence[str], begin: int, error: str) -> None:
    """What the group reads by after a restart, and how many partitions nobody read for a while."""
    paused: set[str] = set()
    for step in run.trace.steps[begin:]:
        paused |= set(step.state["group"]["standing_still"])
    run.record(
        name, "restarted", strategies=list(strategies), protocol=run.group.view().protocol, paused=len(paused),
        **({"error": error} if error else {}),
    )  # fmt: skip


@experiment("A new assignor for a running group", GroupRun, figure=NO_OWNER, front=("deploy", "partitions", "wave"))
def mixed_assignors(
    run: GroupRun,
    deploy: Annotated[
        Literal["one round", "two rounds", "one round from both"],
        Knob("The assignor lists the members get: the new one at once; both, then the new one; or the new one after both."),
    ] = "two rounds",
    partitions: Annotated[int, Knob("How many partitions the topic has.", "partitions", 3, 24)] = 6,
    wave: Annotated[int, Knob("Records that each partition receives at a time.", "records", 1, 50)] = 2,
    library: Annotated[
        Library, Knob("Which client library; only Java's accepts a list with an eager and a cooperative assignor.")
    ] = "java",
) -> None:
    """Three consumers are restarted one by one with cooperative-sticky instead of range. Which assignor does the group
    use in between, and which restart stops the deployment?
    """
    first, *rounds = DEPLOYS[deploy]
    run.create(partitions, wave)
    for name in NAMES:
        if not _start(run, name, first):
            return
    run.settle()
    work_wave(run, NAMES, 0, is_committed=True)
    for strategies in rounds:
        for name in NAMES:
            begin, others = len(run.trace.steps), [each for each in NAMES if each != name]
            run.close(name)
            run.settle(others)
            is_started = _start(run, name, strategies)
            error = _refusal(run, name, others) if is_started else MIXED_LIST
            _tell_restart(run, name, strategies, begin, error)
            if error:  # the deploy stops; its consumer is taken away
                if is_started:
                    run.kill(name)
                run.settle(others)
                return work_wave(run, others, wave, is_committed=True)
            work_wave(run, NAMES, wave, is_committed=True)
