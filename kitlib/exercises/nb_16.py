"""The exercises of notebook 16: who runs a task and for how long no one does, what a crash repeats, which keys move, and a leader."""

from __future__ import annotations

from functools import cache
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.exercises import solutions
from kitlib.exercises.answers import NotYet, as_text, expected, mapping, whole_number
from kitlib.exercises.frame import Edge, Function, Given, Rows, exercise
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.more.connect.assignors import assign_eagerly
from kitlib.more.hashes import partition_of_key
from kitlib.trace import Trace
from kitlib.views import show

LOST: dict[str, Any] = {  # the first exercise
    "session_timeout_ms": 20_000,
    "scheduled_rebalance_max_delay_ms": 120_000,
    "join_ms": 2_000,
    "back_after_ms": 40_000,
}
RATE, MOST_TWICE = 150, 1_200  # records/s, and how many may come twice; of the second
WIDE: dict[str, Any] = {"partitions": 12, "repartition_partitions": 3, "instances": 3}  # of the fourth
KEYS = [f"order-{number}" for number in range(200)] + ["Ω", "订单", ""]
GROWTHS = ((6, 12), (6, 8), (1, 2), (3, 3), (4, 40))  # before, after; of the third
MOST_THREADS = 12
MANY_TASKS, WORKERS = {"b": 2, "a": 12}, ["w2", "w1", "w3"]  # of own_leader, beside the recorded ones: a-10 comes after a-9


def last(trace: Trace, what: str) -> dict[str, Any]:
    """The data of the last step with this verb."""
    return next(step.data for step in reversed(trace.steps) if step.what == what)


@exercise(Given(whole_number), solution=144, part="a")
def nobodys_task(seconds: int) -> Rows:
    trace = run("connect_worker_lost", **LOST)
    truth = last(trace, "idle")["longest_ms"] // 1_000
    if seconds != truth:
        picture = show(trace, at=max(step.number for step in trace if step.what == "start"))
        yield seconds == (LOST["back_after_ms"] + LOST["join_ms"]) // 1_000 and NotYet(
            "by then the worker is back, but its tasks are not.", picture=picture
        )
        yield NotYet(f"the run gives a different number than {seconds} s.", picture=picture)
    yield (
        f"{truth} s: {LOST['session_timeout_ms'] // 1_000} until the worker is missed, "
        f"{LOST['scheduled_rebalance_max_delay_ms'] // 1_000} of delay, and two rebalances. That it was back long before "
        "only changes who gets the work."
    )


@exercise(
    Edge(
        "the interval", 1, 60, largest=True, unit=" s",
        fits=lambda twice: twice <= MOST_TWICE,
        fails="with {n} s a crash at the worst moment repeats {here:,} records.",
        look="When is that moment?",
        spare=" ({there:,} records)",
        right="{n} s: at worst {here:,} records come twice, and with a second more {there:,}. The worst moment is just before a flush. No "
        "interval prevents all repetition; a transaction does.",
    ),
    solution=9,
    part="c",
)
def flush_often_enough(interval_s: int) -> int:
    """How many records come twice at most, whenever the worker dies within its second flush interval."""
    knobs: dict[str, Any] = {"records_per_s": RATE, "offset_flush_interval_ms": interval_s * 1_000, "max_steps": 20_000}
    crashes = [run("connect_source_crash", crash_at_ms=crash_s * 1_000, **knobs) for crash_s in range(interval_s, 2 * interval_s)]
    return max(judge(crash).counts["duplicated"] for crash in crashes)


def texts(value: Any, what: str) -> list[str]:
    """A list of texts, each once."""
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(key, str) for key in value):
        raise expected(what, "a list of keys", value)
    if len(set(value)) < len(value):
        raise NotYet(f"{what} names a key more than once; expected each once.", "")
    return sorted(value)


def shares_moved() -> str:
    """How many of the keys move at each growth, and why."""
    moved = [sum(len({partition_of_key(key.encode(), count) for count in growth}) > 1 for key in KEYS) for growth in GROWTHS]
    shares = [f"{before} to {after}: {100 * n // len(KEYS)} %" for (before, after), n in zip(GROWTHS, moved, strict=True)]
    return f"{'; '.join(shares)}. Nothing is asked and nothing is stored: a key's partition is what the arithmetic says today."


@exercise(
    Function(
        "moved", lambda: [[KEYS, before, after] for before, after in GROWTHS],
        shares_moved, texts,
    ),
    solution=solutions.moved,
    part="b",
)
def moved_keys(chosen: list[str], keys: list[str], before: int, after: int) -> Rows:
    homes = {key: [partition_of_key(key.encode(), count) for count in (before, after)] for key in keys}
    where, truth = f"from {before} to {after} partitions", {key for key, (old, new) in homes.items() if old != new}
    strange = sorted(set(chosen) - set(keys))
    stays, missed = sorted(set(chosen) - truth - set(strange)), sorted(truth - set(chosen))
    yield strange and NotYet(f"{where}: {as_text(strange[0])} is not one of the keys; expected only these.", "")
    yield stays and NotYet(
        f"{where}: {as_text(stays[0])} stays in partition {homes[stays[0]][0]}; expected it not to be in your list.",
        "Ask the hash for both.",
    )
    yield missed and NotYet(
        "{}: {} goes from partition {} to {}; expected it in your list.".format(where, as_text(missed[0]), *homes[missed[0]])
    )


@exercise(
    Edge(
        "threads", 1, MOST_THREADS - 1, largest=True,
        fits=lambda seen: not seen["threads_idle"],
        fails="with {n} threads in each instance {here[threads_idle]} of them have nothing to do.",
        picture=lambda n: show(run("streams_tasks", threads=n, **WIDE), part="layout"),
        right="{n} in each instance, {here[threads]} in all: as many as there are tasks, "
        f"{WIDE['partitions']} before the repartition topic and {WIDE['repartition_partitions']} behind it. Only "
        f"{WIDE['repartition_partitions']} of the threads ever count.",
    ),
    solution=5,
    part="b",
)
def busy_threads(threads: int) -> dict[str, Any]:
    return last(run("streams_tasks", threads=threads, **WIDE), "idle")


Dealt = dict[str, list[str]]


@cache
def eager_rebalances() -> tuple[tuple[dict[str, int], list[str], Dealt], ...]:
    """Every recorded rebalance of the eager protocol: connectors, workers, and what each worker had to run."""
    found = []
    for name in ("connect_named", "connect_public"):
        for trace in read_traces(bundled("groups", f"{name}.jsonl.gz")):
            for step in trace["steps"] if trace["config"]["protocol"] == "default" else ():
                workers = {
                    worker: sorted([*given["assigned_connectors"], *(f"{c}-{n}" for c, n in given["assigned_tasks"])])
                    for worker, given in step["result"]["workers"].items()
                }
                members = [member["id"] for member in step["args"]["members"]]
                found.append((step["args"]["connectors"], members[::-1], workers))
    return tuple(found)


def leader_cases() -> list[tuple[dict[str, int], list[str], Dealt]]:
    """The recorded rebalances, their connectors in reverse order, and one in which a-10 comes after a-9."""
    dealt = {worker: each.assigned for worker, each in assign_eagerly(MANY_TASKS, WORKERS).items()}
    wide = {worker: sorted([*each.connectors, *(f"{c}-{n}" for c, n in each.tasks)]) for worker, each in dealt.items()}
    recorded = [(dict(reversed(connectors.items())), workers, truth) for connectors, workers, truth in eager_rebalances()]
    return [*recorded, (MANY_TASKS, WORKERS, wide)]


@exercise(
    Function(
        "lead", leader_cases,
        "{n} rebalances come out the same, all but one of them recorded from Connect's EagerAssignor. Notice what it never asks: who runs "
        "what now. So everyone has to stop first.",
        mapping, asks=2,
    ),
    solution=solutions.lead,
    part="a",
)
def own_leader(got: Any, connectors: dict[str, int], workers: list[str], truth: Dealt) -> Rows:
    for worker, right in truth.items():
        had = got.get(worker, [])
        if not isinstance(had, list | tuple) or not all(isinstance(each, str) for each in had):
            raise expected(f"what {worker} runs", "a list of names", had)
        yield sorted(had) != right and NotYet(
            f"with connectors {as_text(connectors)} and workers {as_text(workers)}, {worker} should run {as_text(right)}; in your answer "
            f"it runs {as_text(sorted(had))}."
        )
