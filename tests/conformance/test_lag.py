"""Burrow's judgements against every recorded window and history, and against bugs planted by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kitlib.conformance import commits
from kitlib.conformance import lag as windows
from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.monitor import lag, lag_window
from kitlib.monitor.lag_window import CommitRing, LagStorage, Stored

WINDOWS = {row["name"]: row for row in read_traces(bundled("burrow", "windows_named.jsonl.gz"))}
HISTORIES = {row["name"]: row for row in read_traces(bundled("burrow", "commits_named.jsonl.gz"))}


@pytest.fixture(scope="module")
def all_windows() -> list[dict[str, Any]]:
    return [*WINDOWS.values(), *read_traces(bundled("burrow", "windows_public.jsonl.gz"))]


@pytest.fixture(scope="module")
def all_histories() -> list[dict[str, Any]]:
    return [*HISTORIES.values(), *read_traces(bundled("burrow", "commits_public.jsonl.gz"))]


_REAL_RULES = lag.RULES
_REAL_REWIND = lag.rewind_index
_REAL_TRIMMED = lag.trimmed


def _in_order(*names: str) -> tuple[lag.Rule, ...]:
    """The rules in another order; those not named stay behind, in theirs."""
    by_name = {rule.name: rule for rule in _REAL_RULES}
    return (*(by_name[name] for name in names), *(rule for rule in _REAL_RULES if rule.name not in names))


def _judged_with(rules: tuple[lag.Rule, ...]) -> Any:
    return lambda window, rules_=rules: _REAL_CALCULATE(window, rules_)


_REAL_CALCULATE = lag.calculate

RULE_BUGS: dict[str, tuple[str, Any]] = {
    "the wiki's order: a zero lag first": ("calculate", _judged_with(_in_order("no lag", "caught up once"))),
    "a rewind before a stop": ("calculate", _judged_with(_in_order("no lag", "rewound"))),
    "a stall before a zero lag": ("calculate", _judged_with(_in_order("no lag", "stopped", "rewound", "stalled"))),
    "a slow consumer before a stalled one": (
        "calculate",
        _judged_with(_in_order("no lag", "stopped", "rewound", "caught up once", "slow")),
    ),
    "no lag is not looked at first": ("calculate", _judged_with(_REAL_RULES[1:])),
    "a silence as long as the window is a stop": (
        "has_stopped",
        lambda window: lag.silence_and_span_ms(window)[0] >= lag.silence_and_span_ms(window)[1],
    ),
    "any commit counts for a recent zero lag": (
        "was_caught_up_lately",
        lambda window: any(end <= max(window.offsets) for end in window.log_ends),
    ),
    "allowed_lag counts for a recent zero lag": (
        "was_caught_up_lately",
        lambda window: any(end - window.allowed_lag <= window.commit(-1).offset for end in window.log_ends),
    ),
    "the last rewind is looked at": (
        "rewind_index",
        lambda window: (lambda back: back and len(window.commits) - back)(
            _REAL_REWIND(replace(window, commits=[replace(each, offset=-each.offset) for each in reversed(window.commits)]))
        ),
    ),
    "equality does not recover": (
        "has_recovered",
        lambda window, index: any(each > window.offsets[index - 1] for each in window.offsets[index:]),
    ),
    "an unknown lag is a zero lag": (
        "is_lag_always_not_zero",
        lambda window: all((each.lag or 0) > window.allowed_lag for each in window.commits),
    ),
    "a single commit is no stall": ("is_stalled", lambda window: len(window.commits) > 1 and len(set(window.offsets)) == 1),
    "equal lags are a decrease": (
        "is_lag_not_decreasing",
        lambda window: all(
            later.lag > earlier.lag
            for earlier, later in zip(window.commits, window.commits[1:], strict=False)
            if later.lag is not None and earlier.lag is not None
        ),
    ),
    "shares have 64 bits": ("float32", lambda value: value * 1.0000001),
    "an empty window is complete by nothing": (
        "trimmed",
        lambda slots: _REAL_TRIMMED(slots) if any(slots) else [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", RULE_BUGS)
def test_rule_with_a_planted_bug_is_caught(
    bug: str, all_windows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bug differs in some window."""
    monkeypatch.setattr(lag, *RULE_BUGS[bug])
    assert any(not conform(windows.replay, iter([row])).agrees for row in all_windows)


_REAL_ADD = CommitRing.add
_REAL_PLACE = CommitRing.place


def _never_late(self: CommitRing, order: int) -> Any:
    found = _REAL_PLACE(self, order)
    return found if found == (0, True) else Stored.SEEN_BEFORE


def _by_arrival(self: CommitRing, order: int) -> Any:
    return 0, True


def _with_lag(self: CommitRing, commit: Any, log_end: int, min_distance_s: int = 0) -> Any:
    """A commit that comes late gets the lag of today."""
    found = _REAL_ADD(self, commit, log_end, min_distance_s)
    self.slots = [
        each and replace(each, lag=max(0, log_end - each.offset)) if each and each.lag is None else each
        for each in self.slots
    ]
    return found


def _keeps_no_time(self: CommitRing, commit: Any, log_end: int, min_distance_s: int = 0) -> Any:
    """A merged commit brings its own timestamp."""
    found = _REAL_ADD(self, commit, log_end, min_distance_s)
    if found is Stored.MERGED:
        self.slots = [
            replace(each, timestamp_ms=commit.timestamp_ms) if each and each.order == commit.order else each
            for each in self.slots
        ]
    return found


def _may_be_below_zero(self: LagStorage, where: tuple[str, int], ring: CommitRing) -> int:
    return 0 if ring.newest is None else self.log_ends[where][-1] - ring.newest.offset


STORAGE_BUGS: dict[str, tuple[Any, str, Any]] = {
    "late commits are dropped": (CommitRing, "place", _never_late),
    "commits are kept as they come": (CommitRing, "place", _by_arrival),
    "a late commit gets a lag": (CommitRing, "add", _with_lag),
    "a merged commit brings its time": (CommitRing, "add", _keeps_no_time),
    "commits are never merged": (CommitRing, "add", lambda self, commit, end, distance=0: _REAL_ADD(self, commit, end, 0)),
    "a merge counts in milliseconds": (
        CommitRing, "add", lambda self, commit, end, distance=0: _REAL_ADD(self, commit, end, distance * 1000)
    ),
    "lag falls below zero": (LagStorage, "current_lag", _may_be_below_zero),
    "expiry is never looked at": (lag_window.LagStorage, "__post_init__", lambda self: setattr(self, "expire_group_s", 10**9)),
}  # fmt: skip


@pytest.mark.parametrize("bug", STORAGE_BUGS)
def test_storage_with_a_planted_bug_is_caught(
    bug: str, all_histories: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bug differs in some history."""
    monkeypatch.setattr(*STORAGE_BUGS[bug])
    assert any(not conform(commits.replay, iter([row])).agrees for row in all_histories)


def test_lag_beyond_63_bits_is_a_lag() -> None:
    """Burrow's lags are unsigned: the greatest is no reason to refuse a row."""
    row = copy.deepcopy(WINDOWS["stalled_consumer"])
    row["steps"][0]["args"].update(current_lag=2**64 - 1, allowed_lag=2**64 - 1)
    [done] = windows.replay(row)
    assert (done["result"]["status"], done["result"]["current_lag"]) == ("OK", 2**64 - 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda args: args.update(offsets=7), "offsets is 7"),
        (lambda args: args["offsets"].append(7), "a commit is 7"),
        (lambda args: args["offsets"][0].update(lag="1"), "lag is '1'"),
        (lambda args: args.update(broker_offsets=[None]), "broker_offsets is None"),
        (lambda args: args.update(current_lag=True), "current_lag is True"),
        (lambda args: args.pop("minimum_complete"), "minimum_complete is None"),
    ],
)  # fmt: skip
def test_window_that_is_never_recorded_is_told(change: Callable[[Any], Any], words: str) -> None:
    """What the recorder never writes differs in a sentence, and the next row goes on."""
    row = copy.deepcopy(WINDOWS["stalled_consumer"])
    change(row["steps"][0]["args"])
    found = conform(windows.replay, iter([row, WINDOWS["stop_beats_rewind"]]))
    assert found.matched == 1 and words in str(found.differences[0].got)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda args: args.update(ops=None), "no config or no ops"),
        (lambda args: args["ops"].append(7), "an event is 7"),
        (lambda args: args["ops"].append({"op": "owner"}), "an event is 'owner'"),
        (lambda args: args["config"].update(intervals=0), "intervals is 0"),
        (lambda args: args["ops"][0].update(offset="1"), "offset is '1'"),
        (lambda args: args.pop("evaluate_at_ms"), "evaluate_at_ms is missing"),
    ],
)  # fmt: skip
def test_history_that_is_never_recorded_is_told(change: Callable[[Any], Any], words: str) -> None:
    """What the recorder never writes differs in a sentence, and the next row goes on."""
    row = copy.deepcopy(HISTORIES["e2e_stop"])
    change(row["steps"][0]["args"])
    found = conform(partial(commits.replay), iter([row, HISTORIES["e2e_rewind"]]))
    assert found.matched == 1 and words in str(found.differences[0].got)
