"""The exercises of notebook 10: what a crash leaves, what may be committed, who stops reading, how large a poll may be, who gets what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from kitlib.exercises.answers import as_text, choice, expected, sequence, whole_number
from kitlib.exercises.frame import Each, Edge, Function, Miss, Rows, Unlike, exercise
from kitlib.experiments import run
from kitlib.experiments.groups.rebalance_stories import rebalances
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import show

CRASHES: tuple[tuple[str, str], ...] = (  # (library, rule) of `auto_commit`
    ("java", "killed"),
    ("librdkafka", "killed"),
    ("librdkafka", "kept after the work"),
    ("java", "handed to a pool"),
)
FETCHED_MORE = 7  # records, of after_the_crash
FIRST, POOL = 40, 12  # of committable: the first offset, and how many records are under way
SLOW: dict[str, Any] = {"work_ms": 100, "max_poll_ms": 2_000}  # of poll_size
MOST_RECORDS = 40  # in a poll; a partition holds no more
SITUATIONS: tuple[tuple[str, dict[str, Any]], ...] = (  # of which_clock
    ("a batch takes 2.6 s", {"trouble": "slow work", "trouble_ms": 2_600}),
    ("a batch takes 1.8 s", {"trouble": "slow work", "trouble_ms": 1_800}),
    ("the process is frozen for 1.8 s", {"trouble": "frozen", "trouble_ms": 1_800}),
    ("the process is killed", {"trouble": "killed", "trouble_ms": 2_600}),
)
GROUPS, NAMES = 40, "ABCDEFG"  # of own_assignor


def cursors_at(trace: Trace, what: str) -> tuple[int, int, int]:
    """(committed, processed, fetched) of the first partition at the first step of this kind; 0 for nothing yet."""
    step = next(step for step in trace if step.what == what)
    committed, processed, fetched, _ = next(iter(step.state["cursors"].values()))
    return committed or 0, processed or 0, fetched or 0


def killed_consumers() -> list[list[Any]]:
    """The three cursors at each kill, then its name and run; and the same again after a larger fetch, which changes nothing."""
    found: list[list[Any]] = []
    for library, rule in CRASHES:
        trace = run("auto_commit", library=library, rule=rule)
        found.append([*cursors_at(trace, "kill"), f"{library}, {rule}", trace])
    return found + [[committed, processed, fetched + FETCHED_MORE, *rest] for committed, processed, fetched, *rest in found]


@exercise(Function(killed_consumers, sequence(2)))
def after_the_crash(given: tuple[int, ...], committed: int, processed: int, fetched: int, which: str, trace: Trace) -> Rows:
    counts = judge(trace).counts
    yield given != (counts["lost"], counts["duplicated"]) and Miss(
        "counts", which=which, committed=committed, processed=processed, fetched=fetched, counts=counts, given=given,
        picture=partial(show, trace, at=next(step.number for step in trace if step.what == "kill"), part="cursors"),
    )


def pools() -> list[tuple[int, list[int]]]:
    """The lowest offset in progress and the finished ones, of a pool that finishes them in any order."""
    rng = Random(15)
    return [(FIRST, rng.sample(range(FIRST, FIRST + POOL), rng.randint(0, POOL))) for _ in range(12)]


@exercise(Function(pools, whole_number))
def committable(offset: int, first: int, finished: list[int]) -> Rows:
    right = first
    while right in finished:
        right += 1
    yield offset > right and Miss("too far", finished=sorted(finished), offset=offset, right=right)
    yield offset < right and Miss(
        "one too low" if offset == right - 1 else "not far enough", finished=sorted(finished), right=right, offset=offset
    )


@exercise(Each(("eager", "cooperative"), whole_number, named=True))
def stand_still(given: int, protocol: str) -> Rows:
    right = next(each.given_up for each in rebalances(run("rebalance_protocols", protocol=protocol)) if each.what == "C joins")
    yield given != right and Miss("not so many", protocol=protocol, given=given)


@exercise(Each(tuple(situation for situation, _ in SITUATIONS), choice("session", "poll", "nobody")))
def which_clock(word: str, place: int) -> Rows:
    trace = run("poll_too_late", **SITUATIONS[place][1])
    yield word != next((step.data["why"] for step in trace if step.what == "evict"), "nobody") and Unlike()


@exercise(Edge("poll_records", 1, MOST_RECORDS, largest=True, fits=lambda twice: not twice))
def poll_size(records: int) -> int:
    return judge(run("slow_group", poll_records=records, **SLOW)).counts["duplicated"]


def groups() -> list[tuple[int, dict[str, list[int]]]]:
    """Groups before a rebalance: (partitions, member -> what it has), some partitions without an owner, some members new."""
    rng, found = Random(29), []
    for _ in range(GROUPS):
        partitions, names = rng.randint(0, 12), NAMES[: rng.randint(1, len(NAMES))]
        owned: dict[str, list[int]] = {name: [] for name in names}
        for partition in range(partitions):
            if rng.random() < 0.8:
                owned[rng.choice(names[: rng.randint(1, len(names))])].append(partition)
        found.append((partitions, owned))
    return found


def most_kept(partitions: int, owned: Mapping[str, Sequence[int]]) -> int:
    """How many partitions can stay where they are when everybody gets as many as the next, or one more."""
    share, more = divmod(partitions, len(owned))
    kept = 0
    for has in sorted(map(len, owned.values()), reverse=True):
        if has > share and more:
            kept, more = kept + share + 1, more - 1
        else:
            kept += min(has, share)
    return kept


def dealt_lists(value: Any, what: str) -> Mapping[Any, Any]:
    """A dict of lists of partitions."""
    if not isinstance(value, Mapping) or not all(isinstance(has, list | tuple) for has in value.values()):
        raise expected(what, "a dict with a list for each member", value)
    return value


@exercise(Function(groups, dealt_lists))
def own_assignor(dealt: Mapping[str, list[int]], partitions: int, owned: Mapping[str, list[int]]) -> Rows:
    where = f"{partitions} partitions, before: {owned}"
    yield set(dealt) != set(owned) and Miss("members", where=where, members=", ".join(owned), dealt=as_text(dict(dealt)), look="")
    all_dealt = sorted(whole_number(each, "each partition") for has in dealt.values() for each in has)
    yield all_dealt != list(range(partitions)) and Miss("not each once", where=where, all_dealt=all_dealt)
    sizes = [len(has) for has in dealt.values()]
    yield max(sizes) - min(sizes) > 1 and Miss("uneven", where=where, sizes=sizes)
    kept, possible = sum(len(set(dealt[name]) & set(has)) for name, has in owned.items()), most_kept(partitions, owned)
    yield kept < possible and Miss("moved", where=where, kept=kept, possible=possible)
