"""The exercises of notebook 14: which rule fires, when it rings, what it is blind to, every step back, and a broken cluster.

The last one is the capstone of the notebooks on offsets. The notebook makes the cluster by `broken_cluster(seed,
backend="kafka")`. The check plays the same seed in memory, lets the signs and the rules of lag diagnose that, and
holds the learner's answer against it: what the named partition does not show explains why an answer is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import chain
from random import Random
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.lag import window_of
from kitlib.errors import KnobError
from kitlib.exercises.answers import NotYet, choice, expected, sequence, whole_number
from kitlib.exercises.frame import Each, Edge, Function, Given, Half, Miss, Right, Rows, Unlike, exercise
from kitlib.experiments.cluster_audit.broken_cluster import FAULTS, PARTITIONS, BrokenCluster, diagnose
from kitlib.experiments.cluster_audit.broken_cluster import (
    broken_cluster as cluster_of,
)
from kitlib.experiments.lag.lag_stories import window_after
from kitlib.mechanisms.lag import Commit, Status, Window, calculate, evaluate, trimmed
from kitlib.monitor.commit_history import Committed
from kitlib.monitor.diagnosis import signs
from kitlib.monitor.rewinds import Rewind, Vanished, rewinds
from kitlib.views import draw_window
from kitlib.words.template import count

BURROW_FILES = ("windows_named.jsonl.gz", "windows_public.jsonl.gz")
WORDS = ("OK", "WARN", "STOP", "STALL", "REWIND")
GROWING = list(range(600, 1600, 100))  # a log that grows by 100 a minute
STORIES: dict[str, dict[str, Any]] = {  # of which_rule, as arguments of window_after
    "keeps up with a distance of 300": {"commits": list(range(300, 1300, 100)), "log_ends": GROWING},
    "commits the same offset for ten minutes": {"commits": [500] * 10, "log_ends": GROWING},
    "fell behind, was at the end in the first minute": {"commits": list(range(600, 1100, 50)), "log_ends": GROWING},
    "dead for ten minutes": {"commits": list(range(100, 600, 50)), "log_ends": [*GROWING, *range(1600, 2600, 100)]},
    "went back by 400 and works on": {"commits": [100, 200, 300, 400, 500, 100, 150, 200, 250, 300], "log_ends": GROWING},
    "dead for ten minutes, at the end": {"commits": list(range(600, 1600, 100)), "log_ends": GROWING, "silent_s": 601},
}
FAR_END = [10_000]  # a log end that is out of reach
SPACINGS = (1, 5, 10, 60, 90)
WINDOW = 10  # commits
LATEST_END = 1_000  # of second_rewind
HIDDEN: dict[str, Any] = {"every_s": 1, "ends_every_s": 10}
CAUGHT_UP = 1_000  # of hidden_stop: the end of the log when the consumer dies
MOST_S = 3_600
PAUSE_S, FAST_COMMITS = 60, 200
LISTS = 30  # of every_step_back


@exercise(Each(tuple(STORIES), choice(*WORDS)))
def which_rule(word: str, place: int) -> Rows:
    window = window_after(**list(STORIES.values())[place])
    yield word != evaluate(window).status.name and Unlike(picture=draw_window(window))


def stopped_story(every_s: int, silent_s: int) -> Window:
    """A group that has committed a whole window, and then no more."""
    return window_after([100 * each for each in range(1, WINDOW + 1)], FAR_END, every_s, silent_s)


def is_stopped(window: Window) -> bool:
    """Whether the monitor says STOP."""
    return evaluate(window).status is Status.STOP


@exercise(Function(lambda: [(each,) for each in SPACINGS], whole_number))
def rings_after(seconds: int, every_s: int) -> Rows:
    where = f"commits {every_s} s apart"
    yield not 1 <= seconds <= MOST_S and Miss("out of range", where=where, seconds=seconds, most_s=MOST_S, look="")
    yield not is_stopped(stopped_story(every_s, seconds)) and Miss("too early", where=where, seconds=seconds)
    yield is_stopped(stopped_story(every_s, seconds - 1)) and Miss("too late", where=where, seconds=seconds)


@exercise(Given(sequence(WINDOW, "offsets")))
def second_rewind(offsets: tuple[int, ...]) -> Rows:
    yield not all(0 <= each <= LATEST_END for each in offsets) and Miss("out of the log", latest_end=LATEST_END, offsets=offsets, look="")
    window = window_after(offsets, [LATEST_END])
    yield offsets[-1] == max(offsets) and Miss("highest", picture=draw_window(window))
    found = evaluate(window)
    yield found.status is Status.REWIND and Miss("noticed", found=found, picture=draw_window(window))
    yield Right(found=found)


@exercise(Edge("the second", 1, MOST_S, largest=False, fits=bool, picture=lambda second: draw_window(hidden_story(second))))
def hidden_stop(second: int) -> bool:
    return is_stopped(hidden_story(second))


def hidden_story(silent_s: int) -> Window:
    """A group that commits every second, is at the end, and dies; the log goes on by 100 records in ten seconds."""
    last_s = WINDOW  # commits from second 1 to second 10
    commits = [None, *(CAUGHT_UP - last_s + each for each in range(1, last_s + 1))]
    looks = (last_s + silent_s) // HIDDEN["ends_every_s"] + 1
    ends = [CAUGHT_UP + 10 * max(0, HIDDEN["ends_every_s"] * look - last_s) for look in range(looks)]
    shown_s = max(last_s, HIDDEN["ends_every_s"] * (looks - 1))
    return window_after(commits, ends, silent_s=last_s + silent_s - shown_s, **HIDDEN)


@exercise(Edge(
    "min_distance_s", 0, 600, largest=False, fits=lambda seen: not seen["stopped"],
    picture=lambda n: draw_window(pause_story(n)),
))
def thin_out(distance_s: int) -> dict[str, Any]:
    found = evaluate(pause_story(distance_s))
    return {"stopped": found.status is Status.STOP, "why": found.judgement.why}


def pause_story(min_distance_s: int) -> Window:
    """A group that commits every second for a while and then pauses."""
    return window_after([10 * each for each in range(FAST_COMMITS)], FAR_END, 1, PAUSE_S, min_distance_s=max(0, min_distance_s))


def histories() -> list[list[int | None]]:
    """Commits of one partition, some of them tombstones."""
    rng = Random(14)
    found: list[list[int | None]] = [[], [5], [5, 5, 5], [9, None, 3], [9, 3, 9, 3], [None, 4, 2, None], [5, 4], [1, 0, 1]]
    while len(found) < LISTS:
        offset, story = 0, list[int | None]()
        for _ in range(rng.randint(2, 12)):
            offset = max(0, offset + rng.choice((10, 10, 20, 0, -15, -30)))
            story.append(None if rng.random() < 0.1 else offset)
        found.append(story)
    return found


def pairs(value: Any, what: str) -> list[tuple[int, int]]:
    """What the learner's detector returns: (index, records) for each step back."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
        raise expected(what, "a list of pairs (index, records)", value)
    return [(whole_number(index, "each index"), whole_number(records, "each number of records")) for index, records in value]


@exercise(Function(lambda: [(each,) for each in histories()], pairs))
def every_step_back(given: list[tuple[int, int]], story: list[int | None]) -> Rows:
    history = [Committed(order, order * 1000, offset) for order, offset in enumerate(story)]
    right = [(each.after.order, each.records) for each in rewinds(history)]
    missed = [each for each in right if each not in given]
    yield missed and Miss("missed", story=story, index=missed[0][0], given=given, right=right)
    extra = next((each for each in given if each not in right), given[-1] if given else (0, 0))
    yield len(given) > len(right) and Miss("extra", story=story, extra=extra, right=right)


@cache
def windows() -> tuple[tuple[list[list[int | None]], list[int], int, int, int, str], ...]:
    """What Burrow 1.9.5 was asked, the shortest first: commits as [offset, ms, lag or None], log ends, lag, s now, no lag; its word.

    All are shifted so that the smallest offset and the first commit's second are 0: no rule minds, and a sentence can show them.
    """
    found = []
    for trace in chain.from_iterable(read_traces(bundled("burrow", name)) for name in BURROW_FILES):
        for step in trace["steps"]:
            window, word = window_of(step["args"]), step["result"].get("calculate_status")
            commits = [commit for commit in trimmed(window.commits) if commit is not None]
            if word is None or len(commits) < len(trimmed(window.commits)):
                continue  # Burrow did not judge it
            low, begin_s = min(commit.offset for commit in commits), commits[0].timestamp_ms // 1000
            rows = [[commit.offset - low, commit.timestamp_ms - 1000 * begin_s, commit.lag] for commit in commits]
            ends = [end - low for end in window.log_ends]
            found.append((rows, ends, window.current_lag, window.now_s - begin_s, window.allowed_lag, word))
    return tuple(sorted(found, key=lambda case: (len(case[0]), len(case[1]), sum(case[1]))))


def as_window(commits: list[list[Any]], log_ends: list[int], lag: int, now_s: int, allowed: int) -> Window:
    """The window of a case."""
    return Window([Commit(*commit) for commit in commits], log_ends, lag, now_s, allowed)


@exercise(Function(windows, choice(*WORDS)))
def own_lag_rules(word: str, *case: Any) -> Rows:
    *given, truth = case
    window = as_window(*given)
    rule = calculate(window)
    yield word != truth and Unlike(truth, "rule", rule=rule, picture=draw_window(window))


def diagnosis(answer: Any, what: str = "the answer") -> tuple[BrokenCluster, int, str]:
    """The cluster of the seed, the partition and the fault that are named."""
    if not isinstance(answer, Mapping) or set(answer) != {"seed", "partition", "fault"}:
        raise expected(what, "a dict of seed, partition, fault", answer)
    try:
        cluster = cluster_of(whole_number(answer["seed"], "the seed"))
    except KnobError as error:
        raise NotYet(str(error), "") from error
    partition, fault = whole_number(answer["partition"], "the partition"), choice(*FAULTS)(answer["fault"], "the fault")
    if partition not in range(PARTITIONS):
        raise NotYet(f"there is no partition {partition}, they are 0 to {PARTITIONS - 1}.", "")
    return cluster, partition, fault


@exercise(Given(diagnosis))
def broken_cluster(answer: tuple[BrokenCluster, int, str]) -> Rows:
    cluster, partition, fault = answer
    (truth,) = diagnose(cluster)
    part, seen = cluster.part(partition), signs(cluster.snapshot, cluster.part(partition))
    back, gone = [each for each in seen if isinstance(each, Rewind)], [each for each in seen if isinstance(each, Vanished)]
    yield partition != truth.partition and Miss("late commit" if back else "healthy", partition=partition, step=back[0] if back else None)
    if fault != truth.fault:
        is_tombstone = None in [each.offset for each in part.commits]
        resets = "tombstone" if is_tombstone else "members" if back else "never back"
        members = count(back[0].after.members or 0, "member") if back else ""
        names = {"vanished": "not vanished", "stopped": "not stopped", "stalled": "not stalled", "slow": "not slow"}
        yield Half(names.get(fault, resets), partition=partition, members=members)
    again = gone[0].begun_again if gone else None
    yield Right(
        fault if fault in ("vanished", "stopped", "stalled") else "right", fault=FAULTS[fault], partition=partition, why=truth.why,
        gone=gone[0] if gone else None, again=again.offset if again else None, last=part.commits[-1], lag=part.lag,
        commits=min(WINDOW, sum(each.offset is not None for each in part.commits)),
    )  # fmt: skip
