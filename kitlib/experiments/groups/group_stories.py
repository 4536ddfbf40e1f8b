"""The experiments on groups: members come, go, are late, frozen, killed, cut off, or come back with their old name.

Each story begins with an empty topic. What is consumed twice can be told beforehand: records are appended
in waves, and a wave is worked on before the next thing happens to the group, with or without a commit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kitlib.errors import KnobError
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.groups.group_knobs import (
    HEARTBEAT_MS,
    LIBRARY,
    MAX_POLL_MS,
    SESSION_MS,
    STRATEGY,
    evicted,
    meanwhile,
    settings_of,
    take_all,
    told,
    until,
    wave,
)
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.knobs import Knob

PARTITIONS = Knob("partitions", "int", 6, "How many partitions the topic has.", "partitions", 1, 24, live=False)
WAVE = Knob("wave", "int", 4, "How many records each partition gets at a time.", "records", 1, 50, live=False)


# -- three consumers joining and leaving ---------------------------------------------------------------


@told
def _tell_rebalance(run: GroupRun) -> None:
    count, settings = run.knobs["wave"], settings_of(run, commit_on_revoke=run.knobs["commit_on_revoke"])
    run.create(run.knobs["partitions"])
    names: list[str] = []
    for name in ("A", "B", "C"):
        run.join(name, settings)
        names.append(name)
        run.settle(names)
        wave(run, names, count, is_committed=True)
        wave(run, names, count, is_committed=False)
    if run.knobs["leaves"] == "close":
        run.close("B")
    else:
        run.kill("B")
    names.remove("B")
    evicted(run, "B", names)
    wave(run, names, count, is_committed=True)


rebalance = Experiment(
    "rebalance",
    "Three consumers join, one leaves",
    "Each time the group rebalances: which partitions stand still, for how long, and which records are consumed twice?",
    (
        replace(STRATEGY, help="How partitions are dealt out; cooperative-sticky keeps those that need not move."),
        LIBRARY,
        PARTITIONS,
        WAVE,
        Knob(
            "commit_on_revoke",
            "bool",
            False,
            "Whether a consumer commits its positions when partitions are revoked.",
            live=False,
        ),
        Knob("leaves", "choice", "close", "How B goes: it says so, or it dies.", choices=("close", "kill"), live=False),
        SESSION_MS,
        MAX_STEPS,
    ),
    _tell_rebalance,
    kind=GroupRun,
)


# -- too late: slow work, a frozen process, a dead one ---------------------------------------------------


@told
def _tell_poll_too_late(run: GroupRun) -> None:
    trouble, ms, settings = run.knobs["trouble"], run.knobs["trouble_ms"], settings_of(run)
    run.create(2)
    for name in ("A", "B"):
        run.join(name, settings)
    run.settle()
    mine = min(run.seats["A"].held)
    run.append(mine, 10)
    batch = run.take("A", 10)
    run.work("A", batch[:5])
    run.commit_done("A")
    if trouble == "killed":
        run.kill("A", batch[5])
        evicted(run, "A", ["B"])
        return wave(run, ["B"], 0, is_committed=True)
    if trouble == "frozen":
        run.freeze("A")
    meanwhile(run, ["B"], ms)
    is_out = "A" not in run.group.view().members
    if is_out:  # B has all partitions before A finishes its batch
        run.settle(["B"])
        wave(run, ["B"], 0, is_committed=True)
    if trouble == "frozen":
        run.thaw("A")
    run.work("A", batch[5:])
    run.commit("A", {mine: batch[-1][1] + 1})
    run.settle(["A", "B"])
    wave(run, ["A", "B"], 2, is_committed=True)


poll_too_late = Experiment(
    "poll_too_late",
    "Slow, frozen or dead",
    "A holds a batch of ten and has committed five. Which time-out finds out that something is wrong, and what becomes "
    "of A's commit?",
    (
        Knob(
            "trouble",
            "choice",
            "slow work",
            "What happens to A: it works for too long, its process is frozen, or it is killed.",
            choices=("slow work", "frozen", "killed"),
            live=False,
        ),
        Knob("trouble_ms", "int", 2_600, "For how long it works, or is frozen.", "ms", 0, 8_000, live=False),
        LIBRARY,
        replace(SESSION_MS, high=2_000),
        MAX_POLL_MS,
        MAX_STEPS,
    ),
    _tell_poll_too_late,
    kind=GroupRun,
)


# -- batches that take too long, evictions without end ---------------------------------------------------------------


def _work_together(run: GroupRun, until_ms: int) -> None:
    """All members work at once, each on what its poll gave it; a batch is committed when it is done."""
    next_at = dict.fromkeys(run.seats, 0)
    while run.group.now_ms < until_ms:
        for name, seat in run.seats.items():
            if not seat.waiting:
                run.commit_done(name)
                if run.poll(name, timeout_ms=1):
                    next_at[name] = run.group.now_ms + run.knobs["work_ms"]
            while seat.waiting and next_at[name] <= run.group.now_ms:
                run.process(name, seat.waiting[0])
                next_at[name] += run.knobs["work_ms"]
        run.pass_ms(5)


@told
def _tell_slow_group(run: GroupRun) -> None:
    knobs, settings = run.knobs, settings_of(run, max_poll_records=run.knobs["poll_records"])
    run.create(knobs["members"])
    for name in "ABCDEFGH"[: knobs["members"]]:
        run.join(name, settings)
    run.settle()
    for partition in run.ends:
        run.append(partition, knobs["records"])
    _work_together(run, run.group.now_ms + knobs["run_ms"])
    for name, seat in run.seats.items():  # what is downstream is fast again
        run.work(name, list(seat.waiting))
        run.commit_done(name)
    run.settle()
    wave(run, run.running, 0, is_committed=True)


slow_group = Experiment(
    "slow_group",
    "A batch that takes too long",
    "What is downstream has become slow, and a batch takes longer than max.poll.interval.ms. How far does the group get?",
    (
        Knob("members", "int", 4, "How many members there are, and partitions.", "members", 2, 8, live=False),
        Knob("records", "int", 40, "How many records each partition holds.", "records", 1, 200, live=False),
        Knob("poll_records", "int", 30, "How many records one poll hands out at most.", "records", 1, 500, live=False),
        Knob("work_ms", "int", 100, "How long the work on one record takes.", "ms", 1, 1_000, live=False),
        Knob(
            "run_ms", "int", 6_500, "How long the work goes on before it becomes fast.", "ms", 100, 30_000, live=False
        ),
        LIBRARY,
        replace(SESSION_MS, high=2_000),
        MAX_POLL_MS,
        replace(MAX_STEPS, default=6_000),
    ),
    _tell_slow_group,
    kind=GroupRun,
)


# -- a commit in the middle of a rebalance -----------------------------------------------------------------


@told
def _tell_commit_during_rebalance(run: GroupRun) -> None:
    settings = settings_of(run, strategies=("cooperative-sticky",), max_poll_interval_ms=run.knobs["max_poll_ms"])
    run.create(6)
    for name in ("A", "B"):
        run.join(name, settings)
    run.settle()
    wave(run, ["A", "B"], run.knobs["wave"], is_committed=False)
    run.commit_done("B")
    run.join("C", settings)
    until(run, lambda: run.group.view().state == "PreparingRebalance", "the rebalance for C", lambda: run.poll("C", 0))
    meanwhile(run, ["A"], 3 * HEARTBEAT_MS)  # A joins again and waits for B, which does not poll
    error = run.commit_done("A")
    if error != "NONE" and run.knobs["handler"] == "fatal":
        run.close("A")
        run.join("A2", settings)
        run.settle()
    else:
        run.settle()
        run.commit_done("A")
    wave(run, run.running, run.knobs["wave"], is_committed=True)


commit_during_rebalance = Experiment(
    "commit_during_rebalance",
    "A commit in the middle of a rebalance",
    "A keeps its partitions while C joins, and commits before the rebalance is over. Is it refused, and what then?",
    (
        Knob(
            "handler",
            "choice",
            "retry",
            "What A does about a refused commit: it commits again after the rebalance, or gives up and is started anew.",
            choices=("retry", "fatal"),
            live=False,
        ),
        replace(LIBRARY, choices=("librdkafka", "java")),
        WAVE,
        replace(SESSION_MS, high=2_000),
        replace(MAX_POLL_MS, default=6_000, help="For how long the group waits for a member that does not join again."),
        MAX_STEPS,
    ),
    _tell_commit_during_rebalance,
    kind=GroupRun,
)


# -- static members ---------------------------------------------------------------------------------------------


@told
def _tell_static_member(run: GroupRun) -> None:
    what, away_ms = run.knobs["what"], run.knobs["away_ms"]

    def join(name: str, instance_id: str) -> None:
        run.join(name, settings_of(run, instance_id=instance_id if run.knobs["is_static"] else None))

    if what == "two with one id" and not run.knobs["is_static"]:
        raise KnobError("static_member: two members with one id need is_static=true. Or choose what=restart.")
    run.create(2)
    join("A", "a")
    join("B", "b")
    run.settle()
    wave(run, ["A", "B"], 5, is_committed=True)
    if what == "two with one id":
        join("A twin", "a")
        polls = partial(meanwhile, run, ["A twin", "B", "A"], 50)
        until(run, lambda: bool(run.seats["A"].error), "the refusal of A's next heartbeat", polls)
        run.commit("A", dict.fromkeys(run.seats["A"].held or run.ends, 5))
        run.kill("A")
        return _go_on(run, ["A twin", "B"])
    run.close("A")
    for _ in range(away_ms // 100):
        meanwhile(run, ["B"], 100)
        for partition in run.ends:
            run.append(partition, run.knobs["records_per_s"] // 10)
    if what == "gone for good":
        evicted(run, "A", ["B"])
        return _go_on(run, ["B"])
    join("A", "a")
    _go_on(run, ["A", "B"])


def _go_on(run: GroupRun, names: list[str]) -> None:
    run.settle(names)
    take_all(run, names)
    for name in names:
        run.commit_done(name)


static_member = Experiment(
    "static_member",
    "A member with a name of its own",
    "A is restarted, or never comes back, or there are two of it. Is there a rebalance, and who reads A's partition meanwhile?",
    (
        Knob(
            "what",
            "choice",
            "restart",
            "A is restarted, goes for good, or is started twice.",
            choices=("restart", "gone for good", "two with one id"),
            live=False,
        ),
        Knob("is_static", "bool", True, "Whether the members have a group.instance.id.", live=False),
        Knob("away_ms", "int", 700, "How long A is away before it is back.", "ms", 0, 5_000, live=False),
        Knob("records_per_s", "int", 100, "How fast records come meanwhile.", "records/s", 0, 500, live=False),
        replace(LIBRARY, default="librdkafka"),
        replace(SESSION_MS, default=3_000),
        MAX_STEPS,
    ),
    _tell_static_member,
    kind=GroupRun,
)


# -- a member whose network is gone --------------------------------------------------------------------------


@told
def _tell_client_cut_off(run: GroupRun) -> None:
    settings = settings_of(run)
    run.create(6)
    run.group.through_proxy = True
    for name in ("A", "B", "C"):
        run.join(name, settings)
    run.settle()
    wave(run, ["A", "B", "C"], 5, is_committed=True)
    wave(run, ["A", "B", "C"], 3, is_committed=False)
    run.commit_done("B")
    run.commit_done("C")
    run.cut_off("A")
    if run.knobs["cut_ms"] < run.knobs["session_ms"]:
        meanwhile(run, ["B", "C"], run.knobs["cut_ms"])
    else:
        began = run.group.now_ms
        evicted(run, "A", ["B", "C"])
        wave(run, ["B", "C"], 2, is_committed=True)
        meanwhile(run, ["B", "C"], max(0, run.knobs["cut_ms"] - (run.group.now_ms - began)))
    run.reconnect("A")
    run.settle(["A", "B", "C"])
    wave(run, ["A", "B", "C"], 2, is_committed=True)


client_cut_off = Experiment(
    "client_cut_off",
    "One client cut off",
    "A's network is gone for longer than its session. How many rebalances, is any partition left alone, do commits go back?",
    (
        Knob("cut_ms", "int", 2_500, "How long nothing of A gets through.", "ms", 0, 8_000, live=False),
        STRATEGY,
        LIBRARY,
        SESSION_MS,
        MAX_STEPS,
    ),
    _tell_client_cut_off,
    kind=GroupRun,
)
