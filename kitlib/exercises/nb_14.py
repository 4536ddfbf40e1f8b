"""The exercises of notebook 14: which rule fires, when it rings, what it is blind to, every step back, and a broken cluster."""

from __future__ import annotations

from random import Random
from typing import Any

from kitlib.exercises.capstone import CAPSTONE
from kitlib.exercises.frame import Exercise, NotYet, a_function, one_of, told, values_of, whole_number
from kitlib.monitor.commit_history import Committed
from kitlib.monitor.lag import Status, Window, evaluate
from kitlib.monitor.lag_window import window_after
from kitlib.monitor.rewinds import rewinds
from kitlib.views import draw_window

WORDS = ("OK", "WARN", "STOP", "STALL", "REWIND")
GROWING = list(range(600, 1600, 100))  # a log that grows by 100 a minute
STORIES: dict[str, dict[str, Any]] = {  # of which_rule, in the words of window_after
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


# -- which_rule ----------------------------------------------------------------------------------------


def check_which_rule(answer: Any) -> str:
    """A status for each of the stories, held against the rules."""
    if not isinstance(answer, list | tuple) or len(answer) != len(STORIES):
        raise NotYet(f"the answer should be a list of {len(STORIES)} words, this is {told(answer)}.", "")
    for number, (given, (name, story)) in enumerate(zip(answer, STORIES.items(), strict=True), 1):
        word = one_of(given, WORDS, "each word")
        window = window_after(**story)
        if word != evaluate(window).status.name:
            raise NotYet(f"story {number}, {name}: it is not {word}.", None, draw_window(window))
    return "the order decides. STOP is asked before REWIND, one lag of 0 excuses a growing one, and without lag now nothing is asked."


# -- rings_after ---------------------------------------------------------------------------------------


def check_rings_after(answer: Any) -> str:
    """When the alarm for a dead consumer rings first, by how far its commits were apart."""
    function = a_function(answer)
    for every_s, value in zip(SPACINGS, values_of(function, [(each,) for each in SPACINGS]), strict=True):
        seconds = whole_number(value, "what your function returns")
        if not 1 <= seconds <= MOST_S:
            raise NotYet(f"commits {every_s} s apart: {seconds} s, expected 1 to {MOST_S}.", "")
        if not is_stopped(stopped_story(every_s, seconds)):
            raise NotYet(f"commits {every_s} s apart: {seconds} s after the last one the monitor does not say STOP yet.")
        if is_stopped(stopped_story(every_s, seconds - 1)):
            raise NotYet(f"commits {every_s} s apart: the monitor has said STOP before {seconds} s are over.")
    return "a second more than the window spans: 10 s for a group that commits every second, 9 minutes for one that does every minute."


def stopped_story(every_s: int, silent_s: int) -> Window:
    """A group that has committed a whole window, and then no more."""
    return window_after([100 * each for each in range(1, WINDOW + 1)], FAR_END, every_s, silent_s)


def is_stopped(window: Window) -> bool:
    """Whether the monitor says STOP."""
    return evaluate(window).status is Status.STOP


# -- second_rewind -------------------------------------------------------------------------------------


def check_second_rewind(answer: Any) -> str:
    """Commits that go back for good while the monitor does not say so."""
    if not isinstance(answer, list | tuple) or len(answer) != WINDOW:
        raise NotYet(f"the answer should be a list of {WINDOW} offsets, this is {told(answer)}.", "")
    offsets = [whole_number(each, "each offset") for each in answer]
    if not all(0 <= each <= LATEST_END for each in offsets):
        raise NotYet(f"the log ends at {LATEST_END}: offsets are 0 to {LATEST_END}, these are {offsets}.", "")
    window = window_after(offsets, [LATEST_END])
    if offsets[-1] == max(offsets):
        raise NotYet("the last commit is the highest: whatever went back has been made good.", None, draw_window(window))
    found = evaluate(window)
    if found.status is Status.REWIND:
        raise NotYet(f"the monitor sees it: {found.judgement.why}.", None, draw_window(window))
    return f"the monitor says {found.status.name}. It looks at the first step back alone; what comes after it, it never compares."


# -- hidden_stop ---------------------------------------------------------------------------------------


def check_hidden_stop(answer: Any) -> str:
    """How long an old log end hides a dead consumer."""
    seconds = whole_number(answer)
    right = next(each for each in range(1, MOST_S) if is_stopped(hidden_story(each)))
    if seconds != right:
        said = "has not said STOP yet" if seconds < right else "has said STOP before"
        shown = draw_window(hidden_story(min(max(seconds, 0), MOST_S)))
        raise NotYet(f"{seconds} s after the last commit the monitor {said}.", None, shown)
    return f"{right} s, though its commits were 1 s apart: as long as one of ten log ends that it remembers is one the group had reached."


def hidden_story(silent_s: int) -> Window:
    """A group that commits every second, is at the end, and dies; the log goes on by 100 records in ten seconds."""
    last_s = WINDOW  # commits from second 1 to second 10
    commits = [None, *(CAUGHT_UP - last_s + each for each in range(1, last_s + 1))]
    looks = (last_s + silent_s) // HIDDEN["ends_every_s"] + 1
    ends = [CAUGHT_UP + 10 * max(0, HIDDEN["ends_every_s"] * look - last_s) for look in range(looks)]
    told_s = max(last_s, HIDDEN["ends_every_s"] * (looks - 1))
    return window_after(commits, ends, silent_s=last_s + silent_s - told_s, **HIDDEN)


# -- thin_out ------------------------------------------------------------------------------------------


def check_thin_out(answer: Any) -> str:
    """The least min_distance_s with which a pause is no alarm."""
    distance_s = whole_number(answer)
    if not 0 <= distance_s <= 600:
        raise NotYet(f"min_distance_s is {distance_s}, expected 0 to 600.", "")
    window = pause_story(distance_s)
    if is_stopped(window):
        raise NotYet(f"with {distance_s} s the pause is still told as STOP: {evaluate(window).judgement.why}.", None, draw_window(window))
    if not is_stopped(pause_story(distance_s - 1)):
        raise NotYet(f"with {distance_s} s it is quiet, and with {distance_s - 1} s it is quiet, too.", "Thin out less.")
    return f"{distance_s}: ten slots that far apart span more than the pause. The price: a dead consumer is told as late as that."


def pause_story(min_distance_s: int) -> Window:
    """A group that commits every second for a while and then pauses."""
    return window_after([10 * each for each in range(FAST_COMMITS)], FAR_END, 1, PAUSE_S, min_distance_s=max(0, min_distance_s))


# -- every_step_back -----------------------------------------------------------------------------------


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


def check_every_step_back(answer: Any) -> str:
    """The learner's own detector against the kit's."""
    function, cases = a_function(answer), histories()
    for story, value in zip(cases, values_of(function, [(each,) for each in cases]), strict=True):
        if not isinstance(value, list | tuple) or not all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
            raise NotYet(f"{story}: your function should return a list of pairs (index, records), this is {told(value)}.", "")
        given = [(whole_number(index, "each index"), whole_number(records, "each number of records")) for index, records in value]
        history = [Committed(order, order * 1000, offset) for order, offset in enumerate(story)]
        right = [(each.after.order, each.records) for each in rewinds(history)]
        if missed := [each for each in right if each not in given]:
            said = f"{story}: it went back at index {missed[0][0]}, and your function says {given}."
            raise NotYet(said, "Look at each pair of neighbours.")
        if len(given) > len(right):
            extra = next((each for each in given if each not in right), given[-1])
            said = f"{story}: your function tells of a step back at index {extra[0]} by {extra[1]} that is none, or tells one twice."
            raise NotYet(said, None)
    return f"{len(cases)} histories, every step back with its size, and a tombstone between two commits is none: that one has vanished."


EXERCISES = (
    Exercise(
        "which_rule",
        "Six groups, each told as a story: " + "; ".join(f"({number}) {name}" for number, name in enumerate(STORIES, 1)) + ". "
        "`STORIES` has their numbers. What does the monitor say of each? Answer with a list of six words, "
        + ", ".join(f'`"{word}"`' for word in WORDS[:-1]) + f' or `"{WORDS[-1]}"`.',
        check_which_rule,
        (
            "Go through the rules in their order: no lag now, stopped, rewound, caught up once, stalled, slow.",
            "`draw_window(window_after(**story))` shows a story with the rule that fired.",
        ),
    ),
    Exercise(
        "rings_after",
        "A group with a lag commits ten times, `every_s` seconds apart, and dies. Write `rings_after(every_s)`: how many seconds after "
        "the last commit does the monitor say STOP for the first time? Its window has ten slots, its clock whole seconds.",
        check_rings_after,
        (
            "How long is the window, from its first commit to its last? Ten commits have nine gaps.",
            "The silence must be longer than that, not as long.",
        ),
    ),
    Exercise(
        "second_rewind",
        f"A log ends at {LATEST_END:,}. Write down ten committed offsets, a list, that go back and stay back, and for which the monitor "
        "does not say REWIND.",
        check_second_rewind,
        (
            "Which step back does the rule look at, and when does it count as recovered?",
            "Let it go back twice. The first time it comes again to where it was.",
        ),
    ),
    Exercise(
        "hidden_stop",
        f"A group commits every second and is at the end of the log, {CAUGHT_UP:,}, when it dies. Ten records a second go on coming. The "
        "monitor reads the log end every ten seconds, the last time at the moment of the last commit, and remembers ten of them. How many "
        "seconds after the last commit does it say STOP?",
        check_hidden_stop,
        (
            "STOP is not said while one of the remembered log ends is not above the last commit.",
            f"The last such log end was read with the last commit. When does the tenth later one push it out? `hidden_story(seconds)` of "
            f"`{__name__}` is the window to look at.",
        ),
    ),
    Exercise(
        "thin_out",
        f"A group with a lag commits every second and then pauses for {PAUSE_S} s, as it always does. What is the least "
        "`min_distance_s` with which ten slots do not make a STOP of it?",
        check_thin_out,
        (
            "Commits that follow the one before by less than `min_distance_s` take its slot, and its time. How far apart are slots then?",
            "Nine gaps must be as long as the pause at least; and mind where in its slot the last commit came.",
        ),
    ),
    Exercise(
        "every_step_back",
        "Write `every_step_back(offsets)`: `offsets` are a partition's commits in the order of the log, None for a tombstone. Return a "
        "pair (index, records) for each commit that is smaller than the record right before it, and by how many records.",
        check_every_step_back,
        (
            "Compare each one with its neighbour; all of them, not the first alone.",
            "A None has no offset: neither it nor the commit after it is a step back.",
        ),
    ),
    CAPSTONE,
)
