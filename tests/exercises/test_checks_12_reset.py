"""The checks of notebook 12 on the reset policy: what they take, and what they say to plausible wrong answers."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.nb_12_reset import EXERCISES

OURS = {"12_two_incidents": EXERCISES}


def begin(committed: int | None, log_start: int, log_end: int, policy: str) -> int | None:
    if committed is not None and log_start <= committed <= log_end:
        return committed
    return {"earliest": log_start, "latest": log_end}.get(policy)


def begin_by_policy(committed: int | None, log_start: int, log_end: int, policy: str) -> int | None:
    """What many believe: the policy is the start."""
    return {"earliest": log_start, "latest": log_end}.get(policy)


def begin_never_out(committed: int | None, log_start: int, log_end: int, policy: str) -> int | None:
    """As if an offset could not lie outside of its log."""
    return {"earliest": log_start, "latest": log_end}.get(policy) if committed is None else committed


def begin_below_end(committed: int | None, log_start: int, log_end: int, policy: str) -> int | None:
    """As if the end were out of range."""
    if committed is not None and log_start <= committed < log_end:
        return committed
    return {"earliest": log_start, "latest": log_end}.get(policy)


def begin_words(committed: int | None, log_start: int, log_end: int, policy: str) -> Any:
    return "error" if policy == "none" else begin(committed, log_start, log_end, policy)


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("after_the_outage", {"earliest": 20, "latest": 140}, "gives the other twelve away"),
    ("where_it_begins", begin, "is always taken"),
    ("no_effect_twice", {"check": "one step with the effect"}, "must be one step"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("after_the_outage", {"earliest": 0, "latest": 140}, "with earliest it is not 0"),
    ("after_the_outage", {"earliest": 20, "latest": 120}, "with latest it is not 120"),
    ("after_the_outage", {"earliest": 20, "latest": 150}, "with latest it is not 150"),
    ("after_the_outage", {"earliest": 20}, "should be a dict"),
    ("after_the_outage", {"earliest": "20", "latest": 140}, "should be a number"),
    ("where_it_begins", begin_by_policy, "a consumer does not do that"),
    ("where_it_begins", begin_never_out, "a consumer does not do that"),
    ("where_it_begins", begin_below_end, "a consumer does not do that"),
    ("where_it_begins", begin_words, "should return an offset or None"),
    ("where_it_begins", 7, "should be a function"),
    ("no_effect_twice", {"check": "before the effect"}, "1 effect is made twice"),
    ("no_effect_twice", {"check": "after the effect"}, "The table has 60 rows"),
    ("no_effect_twice", {}, "The table has 60 rows"),
    ("no_effect_twice", {"check": "none"}, "66 effects are made twice"),
    ("no_effect_twice", {"records": 1}, "only check may be turned"),
]
