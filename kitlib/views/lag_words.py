"""Why each of Burrow's rules does or does not apply to a window, in a sentence with its numbers.

`kitlib.monitor.lag` says why the first rule that applies does; a reader who looks for a false alarm also wants
to know why the ones before it did not, and which were never asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from kitlib.monitor.lag import (
    RULES,
    EmptyWindowError,
    Judgement,
    Rule,
    Window,
    has_stopped,
    in_seconds,
    rewind_index,
    silence_and_span_ms,
)
from kitlib.views.clock import figure


@dataclass(frozen=True, slots=True)
class Asked:
    """One rule as it stands to a window: it has fired, has been passed over, or was never asked."""

    rule: Rule
    state: str  # "fired", "passed" or "unasked"
    said: str


def asked_rules(window: Window, judgement: Judgement) -> list[Asked]:
    """All the rules in their order; those behind the one that fired were not asked.

    `window` without its leading empty slots. A judgement by none of the rules (incomplete, no window) leaves all unasked.
    """
    names = [rule.name for rule in RULES]
    if judgement.rule not in names:
        return [Asked(rule, "unasked", "not asked") for rule in RULES]
    fired = names.index(judgement.rule)
    found = []
    for place, rule in enumerate(RULES):
        if place == fired:
            found.append(Asked(rule, "fired", judgement.why))
        elif place < fired:
            found.append(Asked(rule, "passed", why_not(rule, window)))
        else:
            found.append(Asked(rule, "unasked", "not asked"))
    return found


def why_not(rule: Rule, window: Window) -> str:
    """Why a rule does not apply. A window that cannot be read says only that it does not."""
    try:
        return WHY_NOT[rule.name](window)
    except (EmptyWindowError, KeyError, StopIteration):
        return "does not apply"


def _lag(window: Window) -> str:
    return f"no: the lag is {figure(window.current_lag)}, more than {window.allowed_lag}"


def _not_stopped(window: Window) -> str:
    silence_ms, span_ms = silence_and_span_ms(window)
    silence, span = in_seconds(silence_ms), in_seconds(span_ms)
    if not has_stopped(window):
        return f"no: the last commit is {silence} old, not longer than the {span} of the window"
    last = window.commit(-1).offset
    end = next(end for end in window.log_ends if end <= last)
    return f"no: silent for {silence}, but a known log end ({figure(end)}) is not above its last commit"


def _not_rewound(window: Window) -> str:
    index = rewind_index(window)
    if index is None:
        return "no: no commit is smaller than the one before it"
    before, offsets = window.commit(index - 1).offset, window.offsets
    again = next(at for at in range(index, len(offsets)) if offsets[at] >= before)
    told = f"no: commit {index + 1} went back, but commit {again + 1} has reached {figure(before)} again"
    later = next((at for at in range(index + 1, len(offsets)) if offsets[at] < offsets[at - 1]), None)
    return told if later is None else f"{told}; commit {later + 1}, which went back too, is never looked at"


def _never_caught_up(window: Window) -> str:
    lags = [each.lag for each in window.commits if each is not None and each.lag is not None]
    if not lags:
        return "no: no commit has a known lag"
    return f"no: the smallest known lag is {figure(min(lags))}, more than {window.allowed_lag}"


def _not_stalled(window: Window) -> str:
    offsets = window.offsets
    return f"no: the commits differ, from {figure(min(offsets))} to {figure(max(offsets))}"


def _not_slow(window: Window) -> str:
    known = [(at, each.lag) for at, each in enumerate(window.commits) if each is not None and each.lag is not None]
    (_, before), (at, after) = next((a, b) for a, b in pairwise(known) if b[1] < a[1])
    return f"no: at commit {at + 1} the lag shrank from {figure(before)} to {figure(after)}"


WHY_NOT: dict[str, Callable[[Window], str]] = {
    "no lag": _lag,
    "stopped": _not_stopped,
    "rewound": _not_rewound,
    "caught up once": _never_caught_up,
    "stalled": _not_stalled,
    "slow": _not_slow,
}

# What each status means, for the legend and for those who see the word for the first time.
STATUS_WORDS = {
    "NOTFOUND": "nobody knows the group",
    "OK": "nothing is wrong that commits can tell",
    "WARN": "it moves, and never gets nearer to the end",
    "ERR": "some partition is worse than WARN",
    "STOP": "commits have ceased",
    "STALL": "the same offset is committed again and again",
    "REWIND": "the commits have gone back",
}
