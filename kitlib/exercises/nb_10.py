"""The exercises of notebook 10: what a crash leaves, what may be committed, who stops reading, how large a poll may be, who gets what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import NotYet, as_text, choice, expected, sequence, whole_number
from kitlib.exercises.frame import Each, Edge, Function, Rows, Unlike, exercise
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


@exercise(
    Function(
        "after_the_crash", killed_consumers,
        "what lies between the committed offset and the processed one is lost or processed twice; what was fetched does not matter.",
        sequence(2), asks=3,
    ),
    solution=solutions.after_the_crash,
    part="a",
)
def after_the_crash(given: tuple[int, ...], committed: int, processed: int, fetched: int, which: str, trace: Trace) -> Rows:
    counts = judge(trace).counts
    yield given != (counts["lost"], counts["duplicated"]) and NotYet(
        f"{which}: committed {committed}, processed {processed}, fetched {fetched}: {counts['lost']} are lost and {counts['duplicated']} "
        f"processed twice; your function says {given[0]} and {given[1]}, expected {counts['lost']} and {counts['duplicated']}.",
        picture=partial(show, trace, at=next(step.number for step in trace if step.what == "kill"), part="cursors"),
    )


def pools() -> list[tuple[int, list[int]]]:
    """The lowest offset in progress and the finished ones, of a pool that finishes them in any order."""
    rng = Random(15)
    return [(FIRST, rng.sample(range(FIRST, FIRST + POOL), rng.randint(0, POOL))) for _ in range(12)]


@exercise(
    Function(
        "committable", pools, "the end of what is finished without a gap. It is Storm's PartitionManager again (notebook 01), in one line.",
        whole_number,
    ),
    solution=solutions.committable,
    part="a",
)
def committable(offset: int, first: int, finished: list[int]) -> Rows:
    right = first
    while right in finished:
        right += 1
    yield offset > right and NotYet(
        f"with {sorted(finished)} finished it commits {offset}, but record {right} is not finished: a crash would lose it; "
        f"expected {right}.",
        "A commit claims everything below it.",
    )
    yield offset < right and NotYet(
        f"with {sorted(finished)} finished it may commit {right}, but it commits {offset}: a crash would repeat more than it must; "
        f"expected {right}.",
        "The committed offset is the next to be read." if offset == right - 1 else None,
    )


@exercise(
    Each(
        ("eager", "cooperative"), whole_number,
        "all six, or the two that the new member gets. The four others are read meanwhile, and their uncommitted records are not "
        "consumed twice.",
        named=True,
        looks=(
            "An eager member gives up everything before it joins again.",
            "A cooperative one gives up what the new member will get. How many is that, with three members?",
        ),
    ),
    solution={"eager": 6, "cooperative": 2},
    part="b",
)
def stand_still(given: int, protocol: str) -> Rows:
    right = next(each.given_up for each in rebalances(run("rebalance_protocols", protocol=protocol)) if each.what == "C joins")
    yield given != right and NotYet(f"{protocol} members do not give up {given} partitions.")


@exercise(
    Each(
        tuple(situation for situation, _ in SITUATIONS), choice("session", "poll", "nobody"),
        "a busy process still sends its heartbeats, so only its polls give it away; a frozen or dead one sends none, and the session "
        "notices that first.",
        looks=(
            "A busy process goes on sending heartbeats, so its session lives. Which clock is left, and is 2.6 s too long for it?",
            "The poll interval is 2 s. Is 1.8 s too long for it?",
            "A frozen process sends no heartbeats. Which of the two clocks runs out first, 1.5 s or 2 s?",
            "A dead process sends no heartbeats and does not poll. Which of the two clocks runs out first?",
        ),
    ),
    solution=["poll", "nobody", "session", "session"],
    part="c",
)  # fmt: skip
def which_clock(word: str, place: int) -> Rows:
    trace = run("poll_too_late", **SITUATIONS[place][1])
    yield word != next((step.data["why"] for step in trace if step.what == "evict"), "nobody") and Unlike()


@exercise(
    Edge(
        "poll_records", 1, MOST_RECORDS, largest=True,
        fits=lambda twice: not twice,
        fails="with {n} records in a poll {here} records are processed twice.",
        look="How long does such a batch take?",
        right="{n}: with one more, a batch takes as long as a member may stay away. Then {there} records are processed twice, and the "
        "group would have gone on like that for ever.",
    ),
    solution=19,
    part="c",
)
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


@exercise(
    Function(
        "own_assignor", groups,
        "{n} groups: every partition assigned once, evenly, and none moved needlessly. Kafka's sticky ones do no better.",
        dealt_lists,
    ),
    solution=solutions.own_assignor,
    part="b",
)
def own_assignor(dealt: Mapping[str, list[int]], partitions: int, owned: Mapping[str, list[int]]) -> Rows:
    where = f"{partitions} partitions, before: {owned}"
    yield set(dealt) != set(owned) and NotYet(f"{where}: expected a list for each of {', '.join(owned)}; got {as_text(dict(dealt))}.", "")
    all_dealt = sorted(whole_number(each, "each partition") for has in dealt.values() for each in has)
    yield all_dealt != list(range(partitions)) and NotYet(
        f"{where}: each partition should be assigned once; your function assigns {all_dealt}.", "Which one has no owner yet?"
    )
    sizes = [len(has) for has in dealt.values()]
    yield max(sizes) - min(sizes) > 1 and NotYet(
        f"{where}: the shares are {sizes}, expected even ones: the largest may be at most one above the smallest."
    )
    kept, possible = sum(len(set(dealt[name]) & set(has)) for name, has in owned.items()), most_kept(partitions, owned)
    yield kept < possible and NotYet(f"{where}: {kept} of them stay where they are; expected {possible}.", "Who may keep one more?")
