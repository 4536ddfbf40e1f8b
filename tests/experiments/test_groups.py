"""What each experiment on groups claims, on the model: counts, marks and reasons by a table; and any knobs at all."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib import experiments
from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.monitor.delivery import Verdict, judge
from kitlib.trace import Trace, from_ranges
from tests.experiments.knob_values import with_any_knobs

GROUPS = [name for name in experiments.names() if get(name).kind is GroupRun]
COOPERATIVE = {"strategy": "cooperative-sticky"}
BEGINS_AGAIN = "a new owner, which starts at the committed offset"

REFUSALS = "need is_static=true|librdkafka has no sticky assignor|the model has no protocol"

# (experiment, knobs) -> processed and appended records, the counts that are not 0, a word of each one's reason.
Claim = tuple[str, dict[str, Any], tuple[int, int], dict[str, int], dict[str, str]]
CLAIMS: dict[str, Claim] = {
    "an eager rebalance repeats what nobody had committed, everywhere": (
        "rebalance", {}, (168, 168), {"duplicated": 72}, {"duplicated": BEGINS_AGAIN}),
    "so does an eager sticky one": ("rebalance", {"strategy": "sticky"}, (168, 168), {"duplicated": 72}, {}),
    "a cooperative one repeats it where partitions move": (
        "rebalance", COOPERATIVE, (168, 168), {"duplicated": 28}, {"duplicated": BEGINS_AGAIN}),
    "who commits before he gives up repeats nothing": ("rebalance", {"commit_on_revoke": True}, (168, 168), {}, {}),
    "nor does a cooperative one": ("rebalance", COOPERATIVE | {"commit_on_revoke": True}, (168, 168), {}, {}),
    "but who is killed cannot commit": (
        "rebalance", COOPERATIVE | {"commit_on_revoke": True, "leaves": "kill"}, (168, 168), {"duplicated": 8}, {}),
    "slow work is repeated by the next owner": ("poll_too_late", {}, (14, 14), {"duplicated": 5}, {"duplicated": BEGINS_AGAIN}),
    "so is a frozen process's": ("poll_too_late", {"trouble": "frozen"}, (14, 14), {"duplicated": 5}, {}),
    "a killed one has done nothing to repeat": ("poll_too_late", {"trouble": "killed"}, (10, 10), {}, {}),
    "work that ends in time is nobody else's": ("poll_too_late", {"trouble_ms": 1_000}, (14, 14), {}, {}),
    "batches that take too long are repeated for ever": ("slow_group", {}, (160, 160), {"duplicated": 240}, {}),
    "smaller ones are not": ("slow_group", {"poll_records": 15}, (160, 160), {}, {}),
    "a commit in a rebalance is refused to Java, and what moved is repeated": (
        "commit_during_rebalance", {"library": "java"}, (48, 48), {"duplicated": 4}, {}),
    "to give up for that repeats everything of one's own": (
        "commit_during_rebalance", {"library": "java", "handler": "fatal"}, (48, 48), {"duplicated": 12}, {}),
    "librdkafka's waits behind its join, and is refused as the old generation's": (
        "commit_during_rebalance", {"library": "librdkafka"}, (48, 48), {"duplicated": 4}, {}),
    "a static member's restart is no rebalance": ("static_member", {}, (150, 150), {}, {}),
    "a slow topic's records arrive as well": ("static_member", {"what": "gone for good", "records_per_s": 5}, (16, 16), {}, {}),
    "a member cut off is replaced, and nothing goes back": ("client_cut_off", {}, (72, 72), {"duplicated": 6}, {}),
    "one cut off for a moment is not": ("client_cut_off", {"cut_ms": 800}, (60, 60), {}, {}),
    "Java's auto-commit and a crash: the batch again": ("auto_commit", {}, (300, 300), {"duplicated": 50}, {"duplicated": BEGINS_AGAIN}),
    "librdkafka's: the batch is lost": (
        "auto_commit", {"library": "librdkafka"}, (250, 300), {"lost": 50}, {"lost": "library=librdkafka: a record counts as done"}),
    "or the one record that was handed out": (
        "auto_commit", {"library": "librdkafka", "poll_records": 1}, (299, 300), {"lost": 1}, {}),
    "close() after an error commits the batch": (
        "auto_commit", {"rule": "closed after an error"}, (250, 300), {"lost": 50}, {"lost": "in close\\(\\), java commits"}),
    "offsets stored after the work lose nothing": (
        "auto_commit", {"rule": "kept after the work", "library": "librdkafka"}, (300, 300), {}, {}),
    "nor do commits after the batch": (
        "auto_commit", {"rule": "kept after the work"}, (300, 300), {"duplicated": 50}, {}),
    **{
        f"a pool's records are lost whoever commits: {library}": (
            "auto_commit", {"rule": "handed to a pool", "library": library}, (242, 300), {"lost": 58},
            {"lost": f"{library} commits what poll returned"})
        for library in ("java", "librdkafka")
    },
    "a worker's own commit claims what others have not done": (
        "worker_pool", {}, (107, 111), {"lost": 4, "rewound": 39},
        {"lost": "commits=own: a commit claims everything below it", "rewound": "workers finish in any order"}),
    "a contiguous one repeats what was done above the gap": ("worker_pool", {"commits": "contiguous"}, (111, 111), {"duplicated": 42}, {}),
    "an offset kept too long takes the group back": (
        "store_after_revoke", {}, (200, 200), {"duplicated": 200, "rewound": 1}, {"rewound": "keeper=the user: an offset from before"}),
    "old librdkafka did that by itself": (
        "store_after_revoke", {"keeper": "librdkafka 1.4.1"}, (200, 200), {"duplicated": 200, "rewound": 1}, {}),
    "today's refuses to keep it": ("store_after_revoke", {"keeper": "librdkafka"}, (200, 200), {"duplicated": 40}, {}),
    "the last offset instead of the next: one record a partition and restart": (
        "off_by_one", {}, (88, 88), {"duplicated": 40}, {"duplicated": "commits=offset: the commit names the last record"}),
    "the next one: none": ("off_by_one", {"commits": "offset + 1"}, (88, 88), {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CLAIMS)
def test_group_experiment_shows_what_it_claims(case: str) -> None:
    """The verdict has the counts and reasons, and nothing in it is a violation."""
    name, knobs, (processed, appended), counts, reasons = CLAIMS[case]
    verdict = judge(get(name).run(**knobs))
    assert (verdict.processed, verdict.appended) == (processed, appended)
    assert {kind: count for kind, count in verdict.counts.items() if count and kind != "reordered"} == counts
    assert verdict.violations == ()
    for kind, words in reasons.items():
        assert words.replace("\\", "") in verdict.first(kind).reason


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
