"""The exercises of notebook 12 on the reset policy: a long outage, the rule itself, and effects that are not made twice."""

from __future__ import annotations

from random import Random
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, knobs_for, told, values_of, whole_number
from kitlib.experiments import run
from kitlib.experiments.offsets.reset_stories import AFTER, NO_CHECK
from kitlib.kafka.positions import NoOffsetForPartitionError, OffsetOutOfRangeError, start_position
from kitlib.monitor.delivery import judge
from kitlib.views import show

OUTAGE: dict[str, Any] = {  # 14 hours at 10 records an hour, of which 12 hours are kept
    "state": "committed but deleted", "records": 40, "done": 40, "while_down": 140, "deleted": 20, "after": 10,
}  # fmt: skip
POLICIES = ("earliest", "latest")


def check_after_the_outage(answer: Any) -> str:
    """How many records nobody will ever work on, under either policy."""
    if not isinstance(answer, dict) or set(answer) != set(POLICIES):
        raise NotYet(f'the answer should be a dict like {{"earliest": 1, "latest": 2}}, this is {told(answer)}.', "")
    for policy in POLICIES:
        given = whole_number(answer[policy], f"the number for {policy}")
        trace = run("reset_policy", policy=policy, **OUTAGE)
        if given != judge(trace).counts["lost"]:
            at = next(step.number for step in trace if step.actor == "B" and step.what == "start")
            raise NotYet(f"with {policy} it is not {given}.", picture=show(trace, at=at))
    return (
        "retention took the first two hours from everybody. `latest` gives the other twelve away as well, "
        "`none` would have stopped and asked you."
    )


def cases() -> list[tuple[int | None, int, int, str]]:
    """(committed, log start, log end, policy) for the learner's function; the borders are among them."""
    rng = Random(3)
    found: list[tuple[int | None, int, int, str]] = [
        (5, 5, 9, "latest"), (9, 5, 9, "earliest"), (0, 0, 9, "latest"), (10, 5, 9, "earliest"), (4, 5, 9, "latest"),
        (None, 0, 0, "none"), (4, 5, 9, "none"), (10, 5, 9, "none"), (7, 7, 7, "none"), (None, 3, 8, "earliest"),
    ]  # fmt: skip
    for _ in range(40):
        start = rng.randint(0, 20)
        committed = rng.choice((None, rng.randint(0, 40), rng.randint(0, 40)))
        found.append((committed, start, start + rng.randint(0, 15), rng.choice(("earliest", "latest", "none"))))
    return found


def truth_of_begin(committed: int | None, log_start: int, log_end: int, policy: str) -> int | None:
    """Where a consumer begins; None where it stops."""
    try:
        return start_position(committed, log_start, log_end, policy)
    except (NoOffsetForPartitionError, OffsetOutOfRangeError):
        return None


def check_where_it_begins(answer: Any) -> str:
    """The learner's rule, held against the model's."""
    function, asked = a_function(answer), cases()
    for case, value in zip(asked, values_of(function, asked), strict=True):
        right = truth_of_begin(*case)
        if isinstance(value, bool) or not isinstance(value, int | None):
            raise NotYet(f"your function should return an offset or None, for {case} this is {told(value)}.", "")
        if value != right:
            raise NotYet(f"for {case} your function says {value}, and a consumer does not do that.")
    return f"{len(asked)} starts: a committed offset that lies in the log is always taken, and only else the policy is asked."


def check_no_effect_twice(answer: Any) -> str:
    """Knobs under which a rewind and a crash repeat no effect."""
    knobs = knobs_for("reset_by_hand", answer, only=("check",))
    trace = run("reset_by_hand", **knobs)
    if twice := judge(trace).counts["duplicated"]:
        rows = trace.steps[-1].data
        where = "" if knobs.get("check", AFTER) == NO_CHECK else f" The table has {rows['rows']} rows, each record once."
        raise NotYet(f"{twice} {'effect is' if twice == 1 else 'effects are'} made twice.{where}")
    return "no effect twice: who dies between an effect and its row leaves one that nobody knows of, so the two must be one step."


EXERCISES = (
    Exercise(
        "after_the_outage",
        "A group is at the end of its topic when it goes down for 14 hours. 10 records arrive every hour, the topic keeps 12 hours. When "
        "the group has begun again, 10 more arrive. How many records will it never see, with `earliest` and with `latest`? Answer with a "
        'dict, `{"earliest": ..., "latest": ...}`.',
        check_after_the_outage,
        (
            "Where does the group's offset lie when it comes back, and where does the log begin?",
            "Out of range, both are asked: one goes to the log's start, the other to its end.",
        ),
    ),
    Exercise(
        "where_it_begins",
        "Write `begin(committed, log_start, log_end, policy)`: the offset at which a consumer begins, or None if it stops with an error. "
        "`committed` is None for a group without an offset, `log_end` is the offset of the next record to come, `policy` is "
        '`"earliest"`, `"latest"` or `"none"`.',
        check_where_it_begins,
        (
            "When is the policy not asked at all?",
            "A consumer that is at the very end has a valid offset: the one of the next record.",
        ),
    ),
    Exercise(
        "no_effect_twice",
        "Choose `check` for `reset_by_hand` so that neither the crash nor the operator makes any effect happen twice. Answer with a dict "
        "of knobs.",
        check_no_effect_twice,
        (
            "A table that is asked after the effect knows everything and prevents nothing.",
            "One record is left when it is asked before: whose effect was made, and whose row was not written?",
        ),
    ),
)  # fmt: skip
