"""The experiments on groups: members come, go, are late, frozen, killed, cut off, or come back with their old name.

Each story begins with an empty topic. What is consumed twice can be told beforehand: records are appended
in waves, and a wave is worked on before the next thing happens to the group, with or without a commit.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from kitlib.errors import KnobError
from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import (
    HEARTBEAT_MS,
    ClientLibrary,
    MaxPollMs,
    SessionMs,
    Strategy,
    evicted,
    meanwhile,
    settings_of,
    take_all,
    work_wave,
)
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.monitor.figures import COMMITTED, NO_OWNER, PROCESSED_AGAIN, REBALANCES, SPEED, WAITED

ShortSessionMs = Annotated[int, Knob("A member without a heartbeat for this long is removed.", "ms", 1_000, 2_000)]
Wave = Annotated[int, Knob("Records that each partition receives at a time.", "records", 1, 50)]


@experiment(
    "Three consumers join, one leaves", GroupRun,
    figure=NO_OWNER, front=("strategy", "commit_on_revoke", "leaves", "wave", "library"),
)
def rebalance(
    run: GroupRun,
    strategy: Annotated[
        Literal["range", "roundrobin", "sticky", "cooperative-sticky"],
        Knob("Assignment strategy; cooperative-sticky keeps the partitions that need not move."),
    ] = "range",
    library: ClientLibrary = "java",
    partitions: Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 24)] = 6,
    wave: Wave = 4,
    commit_on_revoke: Annotated[bool, Knob("Whether a consumer commits its positions when partitions are revoked.")] = False,
    leaves: Annotated[Literal["close", "kill"], Knob("How B leaves: it says so, or it dies.")] = "close",
    session_ms: SessionMs = 1_500,
) -> None:
    """Each time, the group rebalances: which partitions stand still, for how long, and which records are consumed twice?"""
    settings = settings_of(run, commit_on_revoke=commit_on_revoke)
    run.create(partitions)
    names: list[str] = []
    for name in ("A", "B", "C"):
        run.join(name, settings)
        names.append(name)
        run.settle(names)
        work_wave(run, names, wave, is_committed=True)
        work_wave(run, names, wave, is_committed=False)
    if leaves == "close":
        run.close("B")
    else:
        run.kill("B")
    names.remove("B")
    evicted(run, "B", names)
    work_wave(run, names, wave, is_committed=True)


@experiment("Slow, frozen or dead", GroupRun, figure=WAITED, front=("trouble", "trouble_ms", "max_poll_ms"))
def poll_too_late(
    run: GroupRun,
    trouble: Annotated[
        Literal["slow work", "frozen", "killed"],
        Knob("What happens to A: processing takes too long, its process freezes, or it is killed."),
    ] = "slow work",
    trouble_ms: Annotated[int, Knob("How long it processes, or stays frozen.", "ms", 0, 8_000)] = 2_600,
    library: ClientLibrary = "java",
    session_ms: ShortSessionMs = 1_500,
    max_poll_ms: MaxPollMs = 2_000,
) -> None:
    """A holds a batch of ten and has committed five. Which timeout detects the problem, and what happens to A's commit?
    """
    settings = settings_of(run)
    run.create(2)
    run.start(settings, "A", "B")
    mine = min(run.members["A"].held)
    run.append(mine, 10)
    batch = run.take("A", 10)
    run.work("A", batch[:5])
    run.commit_done("A")
    if trouble == "killed":
        run.kill("A", batch[5])
        evicted(run, "A", ["B"])
        return work_wave(run, ["B"], 0, is_committed=True)
    if trouble == "frozen":
        run.freeze("A")
    meanwhile(run, ["B"], trouble_ms)
    is_out = "A" not in run.group.view().members
    if is_out:  # B has all partitions before A finishes its batch
        run.settle(["B"])
        work_wave(run, ["B"], 0, is_committed=True)
    if trouble == "frozen":
        run.thaw("A")
    run.work("A", batch[5:])
    run.commit("A", {mine: batch[-1][1] + 1})
    run.settle(["A", "B"])
    work_wave(run, ["A", "B"], 2, is_committed=True)


def _work_together(run: GroupRun, until_ms: int) -> None:
    """All members work at once, each on what its poll gave it; a batch is committed when it is done."""
    next_at = dict.fromkeys(run.members, 0)
    while run.group.now_ms < until_ms:
        for name, member in run.members.items():
            if not member.waiting:
                run.commit_done(name)
                if run.poll(name, timeout_ms=1):
                    next_at[name] = run.group.now_ms + run.settings.work_ms
            while member.waiting and next_at[name] <= run.group.now_ms:
                run.process(name, member.waiting[0])
                next_at[name] += run.settings.work_ms
        run.pass_ms(5)


@experiment(
    "A batch that takes too long", GroupRun, max_steps=6_000,
    figure=COMMITTED, front=("members", "poll_records", "work_ms", "max_poll_ms", "library"),
)
def slow_group(
    run: GroupRun,
    members: Annotated[int, Knob("Number of members, and of partitions.", "members", 2, 8)] = 4,
    records: Annotated[int, Knob("How many records each partition holds.", "records", 1, 200)] = 40,
    poll_records: Annotated[int, Knob("Maximum number of records that one poll returns.", "records", 1, 500)] = 30,
    work_ms: Annotated[int, Knob("Processing time per record.", "ms", 1, 1_000)] = 100,
    run_ms: Annotated[int, Knob("How long processing stays slow.", "ms", 100, 30_000)] = 6_500,
    library: ClientLibrary = "java",
    session_ms: ShortSessionMs = 1_500,
    max_poll_ms: MaxPollMs = 2_000,
) -> None:
    """A downstream system has become slow, and a batch takes longer than max.poll.interval.ms. How far does the group get?"""
    settings = settings_of(run, max_poll_records=poll_records)
    run.create(members)
    run.start(settings, *"ABCDEFGH"[:members])
    for partition in run.ends:
        run.append(partition, records)
    _work_together(run, run.group.now_ms + run_ms)
    for name, member in run.members.items():  # what is downstream is fast again
        run.work(name, list(member.waiting))
        run.commit_done(name)
    run.settle()
    work_wave(run, run.running, 0, is_committed=True)


@experiment("A commit in the middle of a rebalance", GroupRun, figure=PROCESSED_AGAIN, front=("handler", "wave", "library"))
def commit_during_rebalance(
    run: GroupRun,
    handler: Annotated[
        Literal["retry", "fatal"],
        Knob("What A does about a refused commit: commit again after the rebalance, or give up and restart."),
    ] = "retry",
    library: Annotated[Literal["librdkafka", "java"], Knob("Which client library; each has its own rules for commits.")] = "java",
    wave: Wave = 4,
    session_ms: ShortSessionMs = 1_500,
    max_poll_ms: Annotated[
        int, Knob("How long the group waits for a member that does not rejoin.", "ms", 2_000, 10_000)
    ] = 6_000,
) -> None:
    """A keeps its partitions while C joins, and commits before the rebalance is over. Is the commit refused, and what then?"""
    settings = settings_of(run, strategies=("cooperative-sticky",), max_poll_interval_ms=max_poll_ms)
    run.create(6)
    run.start(settings, "A", "B")
    work_wave(run, ["A", "B"], wave, is_committed=False)
    run.commit_done("B")
    run.join("C", settings)
    run.poll("B", 0, 0)  # its last poll for now; a real consumer, such as C, takes a while to start
    run.until(lambda: run.group.view().state == "PreparingRebalance", "the rebalance for C", lambda: run.poll("C", 0))
    meanwhile(run, ["A"], 3 * HEARTBEAT_MS)  # A joins again and waits for B, which does not poll
    error = run.commit_done("A")
    if error != "NONE" and handler == "fatal":
        run.close("A")
        run.start(settings, "A2")
    else:
        run.settle()
        run.commit_done("A")
    work_wave(run, run.running, wave, is_committed=True)


def _go_on(run: GroupRun, names: list[str]) -> None:
    run.settle(names)
    take_all(run, names)
    for name in names:
        run.commit_done(name)


@experiment(
    "A member with a name of its own", GroupRun,
    figure=WAITED, front=("what", "is_static", "away_ms", "records_per_s"),
)
def static_member(
    run: GroupRun,
    what: Annotated[
        Literal["restart", "gone for good", "two with one id"], Knob("A is restarted, leaves for good, or is started twice.")
    ] = "restart",
    is_static: Annotated[bool, Knob("Whether the members have a group.instance.id.")] = True,
    away_ms: Annotated[int, Knob("How long A is away.", "ms", 0, 5_000)] = 700,
    records_per_s: Annotated[int, Knob("How fast records arrive in the meantime.", "records/s", 0, 500)] = 100,
    library: ClientLibrary = "librdkafka",
    session_ms: SessionMs = 3_000,
) -> None:
    """A is restarted, or never comes back, or runs twice. Is there a rebalance, and who reads A's partition in the
    meantime?
    """

    def join(name: str, instance_id: str) -> None:
        run.join(name, settings_of(run, instance_id=instance_id if is_static else None))

    if what == "two with one id" and not is_static:
        raise KnobError("static_member: two members with one id need is_static=true. Or choose what=restart.")
    run.create(2)
    join("A", "a")
    join("B", "b")
    run.settle()
    work_wave(run, ["A", "B"], 5, is_committed=True)
    if what == "two with one id":
        join("A twin", "a")
        polls = partial(meanwhile, run, ["A twin", "B", "A"])
        run.until(lambda: bool(run.members["A"].error), "the refusal of A's next heartbeat", partial(polls, 50))
        run.commit("A", dict.fromkeys(run.members["A"].held or run.ends, 5))
        run.kill("A")
        return _go_on(run, ["A twin", "B"])
    run.close("A")
    for tenth in range(away_ms // 100):
        meanwhile(run, ["B"], 100)
        for partition in run.ends:
            run.append(partition, records_per_s * (tenth + 1) // 10 - records_per_s * tenth // 10)
    if what == "gone for good":
        evicted(run, "A", ["B"])
        return _go_on(run, ["B"])
    join("A", "a")
    _go_on(run, ["A", "B"])


@experiment("One client cut off", GroupRun, figure=REBALANCES, front=("cut_ms", "strategy", "session_ms", "library"))
def client_cut_off(
    run: GroupRun,
    cut_ms: Annotated[int, Knob("How long nothing from A gets through.", "ms", 0, 8_000)] = 2_500,
    strategy: Strategy = "range",
    library: ClientLibrary = "java",
    session_ms: SessionMs = 1_500,
) -> None:
    """A loses its network for longer than its session timeout. How many rebalances follow, is any partition left
    without an owner, and do commits go back?"""
    settings = settings_of(run)
    run.create(6)
    run.group.through_proxy = True
    run.start(settings, "A", "B", "C")
    work_wave(run, ["A", "B", "C"], 5, is_committed=True)
    work_wave(run, ["A", "B", "C"], 3, is_committed=False)
    run.commit_done("B")
    run.commit_done("C")
    run.cut_off("A")
    if cut_ms < session_ms:
        meanwhile(run, ["B", "C"], cut_ms)
    else:
        began = run.group.now_ms
        evicted(run, "A", ["B", "C"])
        work_wave(run, ["B", "C"], 2, is_committed=True)
        meanwhile(run, ["B", "C"], max(0, cut_ms - (run.group.now_ms - began)))
    run.reconnect("A")
    run.settle(["A", "B", "C"])
    work_wave(run, ["A", "B", "C"], 2, is_committed=True)


@experiment(
    "More consumers than partitions", GroupRun,
    figure=SPEED, front=("consumers", "partitions", "at_a_time", "strategy", "library"),
)
def more_consumers(
    run: GroupRun,
    partitions: Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 24)] = 6,
    consumers: Annotated[int, Knob("Final number of consumers.", "consumers", 1, 12)] = 10,
    at_a_time: Annotated[int, Knob("How many of them join at once.", "consumers", 1, 12)] = 1,
    wave: Annotated[int, Knob("Records that each partition receives after each join.", "records", 1, 20)] = 1,
    strategy: Strategy = "range",
    library: ClientLibrary = "java",
) -> None:
    """Consumers join one after another. From which one on does the group get no faster?"""
    run.create(partitions)
    names: list[str] = []
    while len(names) < consumers:
        for _ in range(min(at_a_time, consumers - len(names))):
            names.append(f"C{len(names) + 1}")
            run.join(names[-1], settings_of(run))
        run.settle(names)
        held = {name: len(run.members[name].held) for name in names}
        work_wave(run, [name for name in names if held[name]], wave, is_committed=True)
        most = max(held.values())
        run.record(
            "group", "share", consumers=len(names), at_work=sum(map(bool, held.values())),
            idle=sum(not count for count in held.values()), most_partitions=most,
            speed=round(partitions / most, 2),
        )  # fmt: skip
