"""The exercises of notebook 16: who runs a task and for how long no one does, what a crash repeats, which keys move, and a leader."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.exercises.answers import NotYet, as_text, expected, mapping, whole_number
from kitlib.exercises.frame import Edge, Function, Given, Miss, Right, Rows, exercise
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


@exercise(Given(whole_number))
def nobodys_task(seconds: int) -> Rows:
    trace = run("connect_worker_lost", **LOST)
    truth = last(trace, "idle")["longest_ms"] // 1_000
    if seconds != truth:
        picture = show(trace, at=max(step.number for step in trace if step.what == "start"))
        yield seconds == (LOST["back_after_ms"] + LOST["join_ms"]) // 1_000 and Miss("back early", picture=picture)
        yield Miss("other", seconds=seconds, picture=picture)
    yield Right(truth=truth, session_s=LOST["session_timeout_ms"] // 1000, delay_s=LOST["scheduled_rebalance_max_delay_ms"] // 1000)


@exercise(Edge("the interval", 1, 60, largest=True, unit=" s", fits=lambda twice: twice <= MOST_TWICE))
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


def shares_moved() -> dict[str, str]:
    """How many of the keys move at each growth."""
    moved = [sum(len({partition_of_key(key.encode(), count) for count in growth}) > 1 for key in KEYS) for growth in GROWTHS]
    shares = [f"{before} to {after}: {100 * n // len(KEYS)} %" for (before, after), n in zip(GROWTHS, moved, strict=True)]
    return {"shares": "; ".join(shares)}


@exercise(Function(lambda: [[KEYS, before, after] for before, after in GROWTHS], texts, facts=shares_moved))
def moved_keys(chosen: list[str], keys: list[str], before: int, after: int) -> Rows:
    homes = {key: [partition_of_key(key.encode(), count) for count in (before, after)] for key in keys}
    where, truth = f"from {before} to {after} partitions", {key for key, (old, new) in homes.items() if old != new}
    strange = sorted(set(chosen) - set(keys))
    stays, missed = sorted(set(chosen) - truth - set(strange)), sorted(truth - set(chosen))
    yield strange and Miss("strange", where=where, strange=as_text(strange[0]), look="")
    yield stays and Miss("stays", where=where, stays=as_text(stays[0]), home=homes[stays[0]][0])
    yield missed and Miss("missed", where=where, missed=as_text(missed[0]), homes=homes[missed[0]])


@exercise(Edge(
    "threads", 1, MOST_THREADS - 1, largest=True, fits=lambda seen: not seen["threads_idle"],
    picture=lambda n: show(run("streams_tasks", threads=n, **WIDE), part="layout"),
))
def busy_threads(threads: int) -> dict[str, Any]:
    tasks = WIDE["partitions"], WIDE["repartition_partitions"]
    return last(run("streams_tasks", threads=threads, **WIDE), "idle") | {"tasks": tasks}


Dealt = dict[str, list[str]]


def dealt(connectors: dict[str, int], workers: list[str]) -> Dealt:
    """What each worker runs by the rules of Connect's EagerAssignor."""
    runs = {worker: each.assigned for worker, each in assign_eagerly(connectors, workers).items()}
    return {worker: sorted([*each.connectors, *(f"{name}-{number}" for name, number in each.tasks)]) for worker, each in runs.items()}


@cache
def eager_rebalances() -> list[tuple[dict[str, int], list[str]]]:
    """Connectors and workers of every recorded rebalance of the eager protocol, both in no order."""
    traces = chain.from_iterable(read_traces(bundled("groups", f"{name}.jsonl.gz")) for name in ("connect_named", "connect_public"))
    asked = [step["args"] for trace in traces if trace["config"]["protocol"] == "default" for step in trace["steps"]]
    return [(dict(reversed(each["connectors"].items())), [member["id"] for member in each["members"]][::-1]) for each in asked]


def leader_cases() -> list[tuple[dict[str, int], list[str], Dealt]]:
    """These, and one in which a-10 comes after a-9."""
    return [(*asked, dealt(*asked)) for asked in [*eager_rebalances(), (MANY_TASKS, WORKERS)]]


@exercise(Function(leader_cases, mapping))
def own_leader(got: Any, connectors: dict[str, int], workers: list[str], truth: Dealt) -> Rows:
    for worker, right in truth.items():
        had = got.get(worker, [])
        if not isinstance(had, list | tuple) or not all(isinstance(each, str) for each in had):
            raise expected(f"what {worker} runs", "a list of names", had)
        yield sorted(had) != right and Miss(
            "other", connectors=as_text(connectors), workers=as_text(workers), worker=worker, right=as_text(right),
            had=as_text(sorted(had)),
        )
