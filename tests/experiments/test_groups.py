"""The experiments on groups on the model, beyond what `test_claims` counts: who is removed, refused and stands still; and any knobs."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib import experiments
from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.groups.rebalance_stories import compare, rebalances
from kitlib.monitor.delivery import Verdict, judge
from kitlib.trace import Trace, from_ranges
from tests.experiments.knob_values import with_any_knobs

GROUPS = [name for name in experiments.names() if get(name).kind is GroupRun]

REFUSALS = "need is_static=true|librdkafka has no sticky assignor|the model has no protocol"


def told(trace: Trace, what: str, key: str) -> list[Any]:
    return [step.data[key] for step in trace if step.what == what]


@pytest.mark.parametrize(
    ("knobs", "evictions", "errors"),
    [
        ({}, ["poll"], ["COMMIT_FAILED"]),
        ({"library": "librdkafka"}, ["poll"], ["UNKNOWN_MEMBER_ID"]),
        ({"trouble": "frozen"}, ["session"], ["COMMIT_FAILED"]),
        ({"trouble": "frozen", "library": "librdkafka"}, ["session"], ["UNKNOWN_MEMBER_ID"]),
        ({"trouble": "killed"}, ["session"], []),
        ({"trouble_ms": 1_400}, [], []),
        ({"trouble": "frozen", "trouble_ms": 1_100}, [], []),
        ({"trouble": "frozen", "trouble_ms": 1_900, "session_ms": 2_000}, [], []),
        ({"trouble_ms": 2_600, "max_poll_ms": 3_000}, [], []),
    ],
)
def test_poll_too_late_which_time_out_fires(knobs: dict[str, Any], evictions: list[str], errors: list[str]) -> None:
    """Slow work trips max.poll.interval.ms, a frozen or dead process its session; a late commit is refused."""
    trace = get("poll_too_late").run(**knobs)
    assert told(trace, "evict", "why") == evictions
    assert [step.data["error"] for step in trace if step.what == "commit" and not step.data["written"]] == errors


@pytest.mark.parametrize(
    ("what", "is_static", "rebalances", "evictions"),
    [
        ("restart", True, 0, ["fenced"]), ("restart", False, 2, ["leave"]), ("gone for good", True, 1, ["session"]),
        ("gone for good", False, 1, ["leave"]), ("two with one id", True, 0, ["fenced"]),
    ],
)  # fmt: skip
def test_static_member_how_often_the_group_rebalances(what: str, is_static: bool, rebalances: int, evictions: list[str]) -> None:
    """A name of one's own saves both rebalances of a restart, and lets a dead member's partitions wait for its session."""
    trace = get("static_member").run(what=what, is_static=is_static)
    assert (told(trace, "evict", "why"), trace.words()["stable"]) == (evictions, 2 + rebalances)
    ends = [step.state["cursors"]["orders-0"] for step in trace if step.what == "evict" and step.data["why"] == "session"]
    assert all(end - committed > 50 for committed, _, _, end in ends)  # what came while nobody read the partition
    with pytest.raises(KnobError, match="need is_static=true"):
        get("static_member").run(what="two with one id", is_static=False)


def test_client_cut_off_one_rebalance_and_no_partition_alone() -> None:
    """The coordinator evicts it once; afterwards every partition has an owner, and no commit goes back (faults, row 33)."""
    trace = get("client_cut_off").run()
    cut = next(step.number for step in trace if step.what == "cut_off")
    back = next(step.number for step in trace if step.what == "reconnect")
    during = [step for step in trace.steps[cut:back] if step.actor == "coordinator"]
    assert [step.what for step in during] == ["evict", "prepare", "sync", "stable"]
    assert {name for _, _, name in during[-1].data["owners"]} == {"B", "C"}
    assert judge(trace).counts["rewound"] == 0


def test_auto_commit_lag_is_zero_while_a_pool_still_works() -> None:
    """The three cursors part: what is handed out is committed, 58 records before it is processed."""
    trace = get("auto_commit").run(rule="handed to a pool")
    crash = next(step for step in trace if step.what == "kill")
    assert crash.state["cursors"]["orders-0"] == [208, 150, 208, 300]


def test_cooperative_member_stands_still_only_with_what_moves() -> None:
    """Eager: every partition is without an owner in each rebalance; cooperative: only those that change hands."""
    eager, cooperative = (get("rebalance").run(strategy=strategy) for strategy in ("range", "cooperative-sticky"))

    def most_still(trace: Trace) -> int:
        joined = next(step.number for step in trace if step.what == "stable")
        return max(len(step.state["group"]["standing_still"]) for step in trace.steps[joined + 2 :])

    assert (most_still(eager), most_still(cooperative)) == (6, 3)


def test_rebalance_protocols_differ_in_what_is_given_up() -> None:
    """Eager members give up everything, cooperative ones what moves; nothing is lost."""
    traces = [get("rebalance_protocols").run(protocol=name, session_timeout_ms=3_000) for name in ("eager", "cooperative")]
    assert [(row["given up"], row["moved"]) for row in compare(traces)] == [(16, 9), (5, 7)]
    for trace in traces:
        assert judge(trace).counts["lost"] == 0 and judge(trace).violations in ((), ("stalled",))
        assert [each.what for each in rebalances(trace)] == ["B joins", "C joins", "A leaves", "B is killed"]
        assert rebalances(trace)[-1].moved_ms >= 2_600  # the session's timeout, less a heartbeat


@pytest.mark.parametrize("name", GROUPS)
def test_group_experiment_any_knobs_gives_a_trace_that_holds_together(name: str) -> None:
    """Whatever the knobs, a trace's states agree with its steps, and what is wrong has a reason."""

    def check(trace: Trace, verdict: Verdict) -> None:
        assert verdict.violations == ()
        processed: dict[int, set[int]] = {}
        for step in trace:
            if "topic" not in step.data:
                continue
            partition, offset = step.data["partition"], step.data.get("offset")
            if step.what == "process":
                processed.setdefault(partition, set()).add(step.data["offset"])
            assert from_ranges(step.state["processed"]) == sorted(processed.get(partition, ()))
            committed, _, fetched, end = step.state["cursors"][f"orders-{partition}"]
            assert step.state["log_end"] == end
            assert (committed or 0) <= end or trace.settings.get("state") == "beyond the end"
            if step.what == "emit":
                assert offset < end and fetched == offset + 1
            if step.what == "commit" and step.data["written"]:
                assert committed == offset

    with_any_knobs(name, 8, check, REFUSALS)
