"""The exercises of notebook 16: whose a task is and for how long, what a crash repeats, which keys move, and a leader."""

from __future__ import annotations

from functools import cache
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.exercises.frame import Exercise, NotYet, a_function, told, values_of, whole_number
from kitlib.experiments import run
from kitlib.kafka.connect.assignors import assign_eagerly
from kitlib.kafka.hashes import partition_of_key
from kitlib.monitor.delivery import judge
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


# -- nobodys_task --------------------------------------------------------------------------------------


def check_nobodys_task(answer: Any) -> str:
    """For how many seconds a lost worker's task runs nowhere, from a run."""
    seconds = whole_number(answer)
    trace = run("connect_worker_lost", **LOST)
    truth = last(trace, "idle")["longest_ms"] // 1_000
    if seconds == truth:
        return (
            f"{truth} s: {LOST['session_timeout_ms'] // 1_000} until the worker is missed, "
            f"{LOST['scheduled_rebalance_max_delay_ms'] // 1_000} of delay, and two rebalances. That it was back long before "
            "changes nothing but who gets the work."
        )
    if seconds == (LOST["back_after_ms"] + LOST["join_ms"]) // 1_000:
        raise NotYet("the worker is back by then, and its tasks are not.", picture=_at_return(trace))
    raise NotYet(f"the run says another number than {seconds} s.", picture=_at_return(trace))


def _at_return(trace: Trace) -> Any:
    return show(trace, at=max(step.number for step in trace if step.what == "start"))


# -- flush_often_enough ---------------------------------------------------------------------------------


def worst_crash(interval_s: int) -> int:
    """How many records come twice at most, whenever the worker dies within its second flush interval."""
    return max(
        judge(
            run(
                "connect_source_crash", records_per_s=RATE, offset_flush_interval_ms=interval_s * 1_000, crash_at_ms=crash_s * 1_000,
                max_steps=20_000,
            )
        ).counts["duplicated"]
        for crash_s in range(interval_s, 2 * interval_s)
    )  # fmt: skip


def check_flush_often_enough(answer: Any) -> str:
    """The longest interval that is short enough: from runs with it and with a second more."""
    interval_s = whole_number(answer)
    if not 1 <= interval_s <= 60:
        raise NotYet(f"the interval is {interval_s} s, expected 1 to 60.", "")
    twice = worst_crash(interval_s)
    if twice > MOST_TWICE:
        raise NotYet(
            f"with {interval_s} s a crash at the worst moment repeats {twice:,} records.", "When is that moment?"
        )
    more = worst_crash(interval_s + 1)
    if more <= MOST_TWICE:
        raise NotYet(
            f"{interval_s} s are short enough, and {interval_s + 1} s are as well: {more:,} records.",
            "Try a longer one.",
        )
    return (
        f"{interval_s} s: at worst {twice:,} records come twice, and with a second more {more:,}. The worst moment is just before "
        "a flush. No interval makes it none; a transaction does."
    )


# -- moved_keys -----------------------------------------------------------------------------------------


def check_moved_keys(answer: Any) -> str:
    """The learner's choice of keys that get another partition, for several growths."""
    function = a_function(answer)
    values = values_of(function, [[KEYS, before, after] for before, after in GROWTHS])
    shares = []
    for (before, after), value in zip(GROWTHS, values, strict=True):
        if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(key, str) for key in value):
            raise NotYet(f"your function should return a list of keys, this is {told(value)}.", "")
        if len(set(value)) < len(value):
            raise NotYet(f"from {before} to {after} partitions your function names a key more than once, expected each once.", "")
        chosen, truth = set(value), {key for key in KEYS if _partition(key, before) != _partition(key, after)}
        where = f"from {before} to {after} partitions"
        if strange := chosen - set(KEYS):
            raise NotYet(f"{where}: {told(sorted(strange)[0])} is none of the keys.", "")
        if stays := sorted(chosen - truth):
            raise NotYet(
                f"{where}: {told(stays[0])} stays in partition {_partition(stays[0], before)}.",
                "Ask the hash for both.",
            )
        if missed := sorted(truth - chosen):
            key = missed[0]
            raise NotYet(
                f"{where}: {told(key)} goes from partition {_partition(key, before)} to {_partition(key, after)}."
            )
        shares.append(f"{before} to {after}: {100 * len(truth) // len(KEYS)} %")
    return f"{'; '.join(shares)}. Nothing is asked and nothing is stored: a key's partition is what the arithmetic says today."


def _partition(key: str, partitions: int) -> int:
    return partition_of_key(key.encode(), partitions)


# -- busy_threads ---------------------------------------------------------------------------------------


def check_busy_threads(answer: Any) -> str:
    """The smallest number of threads for each instance with which more would idle: from runs."""
    threads = whole_number(answer)
    if not 1 <= threads < MOST_THREADS:
        raise NotYet(f"threads is {threads}, expected 1 to {MOST_THREADS - 1}.", "")
    here, next_one = (last(run("streams_tasks", threads=count, **WIDE), "idle") for count in (threads, threads + 1))
    if here["threads_idle"]:
        trace = run("streams_tasks", threads=threads, **WIDE)
        raise NotYet(
            f"with {threads} threads in each instance {here['threads_idle']} of them have nothing to do.",
            picture=show(trace, part="layout"),
        )
    if not next_one["threads_idle"]:
        raise NotYet(
            f"with {threads} all have something to do, and with one more all have as well.", "How many tasks are there?"
        )
    total = here["threads"]
    return (
        f"{threads} in each instance, {total} in all: as many as there are tasks, {WIDE['partitions']} before the repartition topic "
        f"and {WIDE['repartition_partitions']} behind it. Only {WIDE['repartition_partitions']} of the threads ever count."
    )


# -- own_leader -----------------------------------------------------------------------------------------

Dealt = dict[str, list[str]]


@cache
def eager_rebalances() -> tuple[tuple[dict[str, int], list[str], Dealt], ...]:
    """Every recorded rebalance of the eager protocol: connectors, workers, and who was told to run what."""
    found = []
    for name in ("connect_named", "connect_public"):
        for trace in read_traces(bundled("groups", f"{name}.jsonl.gz")):
            for step in trace["steps"] if trace["config"]["protocol"] == "default" else ():
                workers = {
                    worker: sorted([*told["assigned_connectors"], *(f"{c}-{n}" for c, n in told["assigned_tasks"])])
                    for worker, told in step["result"]["workers"].items()
                }
                members = [member["id"] for member in step["args"]["members"]]
                found.append((step["args"]["connectors"], members[::-1], workers))
    return tuple(found)


def check_own_leader(answer: Any) -> str:
    """The learner's eager leader, held against all recorded rebalances of the real one."""
    function = a_function(answer)
    recorded = eager_rebalances()
    cases = [(dict(reversed(connectors.items())), workers, truth) for connectors, workers, truth in recorded]
    dealt = {worker: each.assigned for worker, each in assign_eagerly(MANY_TASKS, WORKERS).items()}
    wide = {worker: sorted([*each.connectors, *(f"{c}-{n}" for c, n in each.tasks)]) for worker, each in dealt.items()}
    cases.append((MANY_TASKS, WORKERS, wide))
    values = values_of(function, [[connectors, workers] for connectors, workers, _ in cases])
    for (connectors, workers, truth), value in zip(cases, values, strict=True):
        where = f"with connectors {told(connectors)} and workers {told(workers)}"
        if not isinstance(value, dict):
            raise NotYet(f"your function should return a dict of lists, this is {told(value)}.", "")
        for worker in truth:
            had = value.get(worker, [])
            if not isinstance(had, list | tuple) or not all(isinstance(each, str) for each in had):
                raise NotYet(f"what {worker} runs should be a list of names, this is {told(had)}.", "")
            if sorted(had) != truth[worker]:
                raise NotYet(f"{where} {worker} should run {told(truth[worker])}, and has {told(sorted(had))}.")
    return (
        f"all {len(recorded)} recorded rebalances of Connect's EagerAssignor come out the same. Look at what it never asks: who runs "
        "what now. So everybody has to stop first."
    )


EXERCISES = (
    Exercise(
        "nobodys_task",
        f"`connect_worker_lost` with a session time-out of {LOST['session_timeout_ms'] // 1_000} s, a delay of "
        f"{LOST['scheduled_rebalance_max_delay_ms'] // 1_000} s and rebalances that take {LOST['join_ms'] // 1_000} s. The worker is "
        f"started again {LOST['back_after_ms'] // 1_000} s after it died. For how many seconds does nobody run its tasks?",
        check_nobodys_task,
        (
            "When does the delay begin: when the worker dies, or when somebody notices?",
            "The delay begins in the rebalance that follows the eviction, and another rebalance follows the delay.",
        ),
    ),
    Exercise(
        "flush_often_enough",
        f"A source task produces {RATE} records a second, and polls and looks at its flush timer once a second. What is the longest "
        f"`offset_flush_interval_ms`, in whole seconds, with which a crash never repeats more than {MOST_TWICE:,} records?",
        check_flush_often_enough,
        (
            "The worst moment is just before a flush. How many records have been produced by then?",
            "In the last second before a flush, an interval of n seconds has produced n - 1 seconds' records since the last one.",
        ),
    ),
    Exercise(
        "moved_keys",
        "Write `moved(keys, before, after)`: which of the keys have another partition when a topic grows from `before` to `after` "
        "partitions? Return them as a list. `partition_of_key` takes bytes.",
        check_moved_keys,
        (
            "A key is a text here, and the hash is one of bytes: `key.encode()`.",
            "`partition_of_key(key.encode(), before) != partition_of_key(key.encode(), after)`",
        ),
    ),
    Exercise(
        "busy_threads",
        f"`streams_tasks` with {WIDE['partitions']} input partitions, a repartition topic of {WIDE['repartition_partitions']} and "
        f"{WIDE['instances']} instances. How many threads may each instance have, at most, so that none of them idles?",
        check_busy_threads,
        (
            "A thread without a task idles. How many tasks are there in all?",
            "Each of the two sub-topologies has as many tasks as its widest topic has partitions.",
        ),
    ),
    Exercise(
        "own_leader",
        "Write `lead(connectors, workers)`, the leader of the eager protocol: connectors are names with their numbers of tasks. "
        'Return for each worker the list of what it runs, such as `["a", "b-0"]`. First the connectors, then the tasks, all '
        "sorted, go round the workers, sorted.",
        check_own_leader,
        (
            "The tasks go on where the connectors ended: the hand does not begin at the first worker again.",
            "Names sort as texts, so w10 comes before w2; the tasks of one connector sort by number.",
        ),
    ),
)
