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
from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, choice, expected, one_of, sequence, whole_number
from kitlib.exercises.frame import Each, Edge, Function, Given, Rows, Unlike, exercise
from kitlib.experiments.cluster_audit.broken_cluster import (
    FAULTS,
    PARTITIONS,
    BrokenCluster,
    Diagnosis,
    diagnose,
    judge,
    signs_of,
)  # fmt: skip
from kitlib.experiments.cluster_audit.broken_cluster import (
    broken_cluster as cluster_of,
)
from kitlib.experiments.lag.lag_windows import window_after
from kitlib.mechanisms.lag import Status, Window, calculate, evaluate, trimmed
from kitlib.monitor.commit_history import Committed
from kitlib.monitor.rewinds import rewinds
from kitlib.views import draw_window
from kitlib.words.template import count

BURROW_FILES = ("windows_named.jsonl.gz", "windows_public.jsonl.gz")
ASKED = 5  # how many parts of a case are arguments
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


@exercise(
    Each(
        tuple(STORIES), choice(*WORDS),
        "the order decides. STOP comes before REWIND, one lag of 0 excuses a growing one, and without lag now no rule applies.",
        looks=(
            "Its lag never falls to 0 and never shrinks. Does any rule know that 300 is little?",
            "It still commits, so it is not dead. What is said of commits that do not move?",
            "One lag of 0 in the window is enough for one of the rules. Which one, and does it come before the growing lag?",
            "How old is its last commit, compared with what the window spans, and is there a lag?",
            "Which rule looks for a commit that is smaller than the one before? Is there another before it that applies?",
            "Which question is asked before all others? What is its lag now?",
        ),
    ),
    solution=["WARN", "STALL", "OK", "STOP", "REWIND", "OK"],
    part="a",
)  # fmt: skip
def which_rule(word: str, place: int) -> Rows:
    window = window_after(**list(STORIES.values())[place])
    yield word != evaluate(window).status.name and Unlike(picture=draw_window(window))


def stopped_story(every_s: int, silent_s: int) -> Window:
    """A group that has committed a whole window, and then no more."""
    return window_after([100 * each for each in range(1, WINDOW + 1)], FAR_END, every_s, silent_s)


def is_stopped(window: Window) -> bool:
    """Whether the monitor says STOP."""
    return evaluate(window).status is Status.STOP


@exercise(
    Function(
        "rings_after", lambda: [(each,) for each in SPACINGS],
        "a second more than the window spans: 10 s for a group that commits every second, 9 minutes for one that commits every minute.",
        whole_number,
    ),
    solution=solutions.rings_after,
    part="b",
)
def rings_after(seconds: int, every_s: int) -> Rows:
    where = f"commits {every_s} s apart"
    yield not 1 <= seconds <= MOST_S and NotYet(f"{where}: your function returns {seconds} s, expected 1 to {MOST_S}.", "")
    yield not is_stopped(stopped_story(every_s, seconds)) and NotYet(
        f"{where}: {seconds} s after the last one the monitor does not say STOP yet; expected the first second at which it does."
    )
    yield is_stopped(stopped_story(every_s, seconds - 1)) and NotYet(
        f"{where}: the monitor says STOP before {seconds} s have passed; expected the first second at which it does."
    )


@exercise(Given(sequence(WINDOW, "offsets")), solution=[100, 200, 150, 300, 400, 120, 160, 200, 240, 280], part="b")
def second_rewind(offsets: tuple[int, ...]) -> Rows:
    yield not all(0 <= each <= LATEST_END for each in offsets) and NotYet(
        f"the log ends at {LATEST_END}: offsets are 0 to {LATEST_END}; got {offsets}.", ""
    )
    window = window_after(offsets, [LATEST_END])
    yield offsets[-1] == max(offsets) and NotYet(
        "the last commit is the highest: the group has recovered from every step back.", None, draw_window(window)
    )
    found = evaluate(window)
    yield found.status is Status.REWIND and NotYet(f"the monitor notices: {found.judgement.why}.", None, draw_window(window))
    yield f"the monitor says {found.status.name}. It looks only at the first step back, and compares nothing that comes after it."


@exercise(Given(whole_number), solution=100, part="b")
def hidden_stop(seconds: int) -> Rows:
    right = next(each for each in range(1, MOST_S) if is_stopped(hidden_story(each)))
    yield seconds != right and NotYet(
        f"{seconds} s after the last commit the monitor {'has not said STOP yet' if seconds < right else 'has said STOP before'}.",
        None,
        draw_window(hidden_story(min(max(seconds, 0), MOST_S))),
    )
    yield f"{right} s, though its commits were 1 s apart: as long as the group had reached one of the ten log ends that it remembers."


def hidden_story(silent_s: int) -> Window:
    """A group that commits every second, is at the end, and dies; the log goes on by 100 records in ten seconds."""
    last_s = WINDOW  # commits from second 1 to second 10
    commits = [None, *(CAUGHT_UP - last_s + each for each in range(1, last_s + 1))]
    looks = (last_s + silent_s) // HIDDEN["ends_every_s"] + 1
    ends = [CAUGHT_UP + 10 * max(0, HIDDEN["ends_every_s"] * look - last_s) for look in range(looks)]
    shown_s = max(last_s, HIDDEN["ends_every_s"] * (looks - 1))
    return window_after(commits, ends, silent_s=last_s + silent_s - shown_s, **HIDDEN)


@exercise(
    Edge(
        "min_distance_s", 0, 600, largest=False,
        fits=lambda seen: not seen["stopped"],
        fails="with {n} s the monitor still takes the pause for a STOP: {here[why]}.",
        picture=lambda n: draw_window(pause_story(n)),
        right="{n}: ten slots that far apart span more than the pause. The price: it notices a dead consumer that much later.",
    ),
    solution=7,
    part="b",
)
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


@exercise(
    Function(
        "every_step_back", lambda: [(each,) for each in histories()],
        "{n} histories, every step back with its size. A tombstone between two commits is not one: there the offset vanished.",
        pairs,
    ),
    solution=solutions.every_step_back,
    part="c",
)
def every_step_back(given: list[tuple[int, int]], story: list[int | None]) -> Rows:
    history = [Committed(order, order * 1000, offset) for order, offset in enumerate(story)]
    right = [(each.after.order, each.records) for each in rewinds(history)]
    missed = [each for each in right if each not in given]
    yield missed and NotYet(
        f"{story}: it went back at index {missed[0][0]}, but your function returns {given}; expected {right}.",
        "Look at each pair of neighbours.",
    )
    extra = next((each for each in given if each not in right), given[-1] if given else (0, 0))
    yield len(given) > len(right) and NotYet(
        f"{story}: at index {extra[0]} there is no step back by {extra[1]}, or your function names it twice; expected {right}."
    )


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


def as_window(commits: list[list[int | None]], log_ends: list[int], lag: int, now_s: int, allowed: int) -> Window:
    """The window of a case."""
    slots: list[dict[str, Any]] = [{"offset": offset, "timestamp_ms": at_ms, "lag": lag_then} for offset, at_ms, lag_then in commits]
    args = {"offsets": slots, "broker_offsets": log_ends, "current_lag": lag, "time_now_s": now_s, "allowed_lag": allowed}
    return window_of(args)


@exercise(
    Function(
        "judged", windows, "{n} windows recorded from Burrow 1.9.5 get the same word from your rules.", choice(*WORDS),
        asks=ASKED, names=("commits", "log_ends", "lag", "now_s", "allowed"),
    ),
    solution=solutions.judged,
    part="a",
)
def own_lag_rules(word: str, *case: Any) -> Rows:
    *given, truth = case
    window = as_window(*given)
    rule = calculate(window)
    yield word != truth and Unlike(truth, f"The rule that decides is *{rule.rule}*: {rule.why}.", draw_window(window))


def diagnosis(answer: Any, what: str = "the answer") -> tuple[BrokenCluster, int, str]:
    """The cluster of the seed, the partition and the fault that are named."""
    if not isinstance(answer, Mapping) or set(answer) != {"seed", "partition", "fault"}:
        raise expected(what, "a dict of seed, partition, fault", answer)
    try:
        cluster = cluster_of(whole_number(answer["seed"], "the seed"))
    except KnobError as error:
        raise NotYet(str(error), "") from error
    partition, fault = whole_number(answer["partition"], "the partition"), one_of(answer["fault"], FAULTS, "the fault")
    if partition not in range(PARTITIONS):
        raise NotYet(f"there is no partition {partition}, they are 0 to {PARTITIONS - 1}.", "")
    return cluster, partition, fault


@exercise(Given(diagnosis), solution={"seed": 27, "partition": 1, "fault": "stopped"}, part="c")
def broken_cluster(answer: tuple[BrokenCluster, int, str]) -> Rows:
    cluster, partition, fault = answer
    (truth,) = diagnose(cluster)
    yield partition != truth.partition and NotYet(
        f"partition {partition} is healthy: {innocence(cluster, partition)}.", "Look at the other partitions."
    )
    yield fault != truth.fault and HalfRight(f"partition {partition} is the broken one, but {against(fault, cluster, truth)}.")
    yield f"{FAULTS[fault]}. Partition {partition}: {evidence(cluster, truth)}."


def innocence(cluster: BrokenCluster, partition: int) -> str:
    """What a partition without a fault shows."""
    back, _ = signs_of(cluster, partition)
    if back:
        step = back[0]
        return (
            f"its one step back, from {step.before.offset} to {step.after.offset}, is a late commit, which the next one repaired, "
            "and its lag is 0 at the end"
        )
    return "its commits only rise, and its lag is 0 at the end"


def against(fault: str, cluster: BrokenCluster, truth: Diagnosis) -> str:
    """What a partition would show with the fault that was named, and does not."""
    back, _ = signs_of(cluster, truth.partition)
    offsets = [each.offset for each in cluster.commits(truth.partition)]
    match fault:
        case "vanished":
            return "an offset that vanishes leaves a tombstone, and there is none among its records"
        case "rewound" | "reset by hand" if None in offsets:
            return "there is a tombstone before its offsets go on: no one has reset them"
        case "rewound" | "reset by hand" if not back:
            return "its committed offset never goes back"
        case "rewound" | "reset by hand":
            return f"when the offset went back, the group had {count(back[0].after.members or 0, 'member')}"
        case "stopped":
            return "its offset is still being committed at the end"
        case "stalled":
            return "the commits in its window are not all of one offset"
        case _:
            return "its commits do not keep rising while its lag grows from look to look"


def evidence(cluster: BrokenCluster, truth: Diagnosis) -> str:
    """What the right answer rests on, in numbers that are the same in memory and on a broker."""
    partition, window = truth.partition, cluster.window(truth.partition)
    lag = window.current_lag
    match truth.fault:
        case "vanished":
            _, (sign, *_) = signs_of(cluster, partition)
            again = sign.begun_again.offset if sign.begun_again else None
            return f"the committed offset {sign.last.offset} was taken away, and the next commit is {again}"
        case "rewound" | "reset by hand":
            return truth.why
        case "stopped":
            return f"its last commit is of offset {window.commit(-1).offset}, and {lag} records have come since"
        case "stalled":
            commits = sum(each is not None for each in window.commits)
            return f"{commits} commits in a row are of offset {window.commit(-1).offset}, with a lag of {lag} at the end"
        case _:
            return judge(cluster, partition).why
