"""The two incidents on the model: what each cause does alone, what the reset policy decides, what was to be seen before, by which
figures of the health; and the rows that notebooks 11 to 13 show of a run.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import KnobError, TraceError
from kitlib.experiments import at_once, get, run
from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.offsets.health import DAY_MS, Health, alarms
from kitlib.experiments.offsets.incident_stories import IncidentRun, health_in
from kitlib.experiments.offsets.signs import signs_of
from kitlib.experiments.offsets.summaries import first_step, left_in_log, signs_in_topic
from kitlib.monitor.delivery import judge
from kitlib.monitor.rewinds import Excuse
from kitlib.settings import Settings
from kitlib.trace import Trace
from tests.experiments.knob_values import counted, settings_of

RIGHT: dict[str, int] = {}
OLD_LOG, NEW_LOG = {"log_rules": "0.8.2"}, {"log_rules": "4.3.1"}
# (experiment, knobs) -> what A is told last, the counts that are not 0, the signs.
Claim = tuple[str, dict[str, Any], int, dict[str, int], tuple[str, ...]]
CLAIMS: dict[str, Claim] = {
    "the incident: the old offset wins and is valid, so the reset policy is not asked, and everything since then is sent twice": (
        "stale_offset", OLD_LOG, 4, {"duplicated": 21, "rewound": 1}, ("rewinds", "surges", "lag_spikes")),
    "the policy makes no difference to it": (
        "stale_offset", {"auto_offset_reset": "earliest"}, 4, {"duplicated": 21, "rewound": 1}, ("rewinds", "surges", "lag_spikes")),
    "with a retention that works the old offset is out of range, and latest loses what came meanwhile": (
        "stale_offset", NEW_LOG, 4, {"lost": 1, "skipped": 1}, ("lag_spikes",)),
    "and earliest repeats what is still there": (
        "stale_offset", NEW_LOG | {"auto_offset_reset": "earliest"}, 4, {"duplicated": 9, "rewound": 1},
        ("rewinds", "surges", "lag_spikes")),
    "a broker that is never restarted rolls by the old rules, too": (
        "stale_offset", {"restart_every_days": 40}, 4, {"lost": 1, "skipped": 1}, ("lag_spikes",)),
    "ten minutes later the old offset has been forgotten, and so the policy is asked": (
        "stale_offset", {"asks_after_min": 11}, -1, {"lost": 1, "skipped": 1}, ("vanished",)),
    "offsets that are kept for long enough stay, however late A asks": (
        "stale_offset", {"asks_after_min": 11, "offsets_retention_days": 60}, 4, {"duplicated": 21, "rewound": 1},
        ("rewinds", "surges", "lag_spikes")),
    "a coordinator of the next release reads both formats": ("stale_offset", {"coordinator_rules": "0.9.0"}, 25, RIGHT, ()),
    "and so does one of today": ("stale_offset", {"coordinator_rules": "4.3.1"}, 25, RIGHT, ()),
    "the incident: the purge takes the offset away while it is loaded, and earliest repeats everything": (
        "dead_cleaner", {}, -1, {"duplicated": 24, "rewound": 1}, ("vanished", "surges", "lag_spikes")),
    "and latest loses all that came during the load": (
        "dead_cleaner", {"auto_offset_reset": "latest"}, -1, {"lost": 9, "skipped": 9}, ("vanished",)),
    "a cleaner that runs keeps the load short": ("dead_cleaner", {"cleaner": "runs"}, 24, RIGHT, ()),
    "a coordinator that reads faster is done before the purge": ("dead_cleaner", {"load_records_per_s": 10}, 24, RIGHT, ()),
    "a purge that comes less often comes after the load": ("dead_cleaner", {"check_interval_s": 600}, 24, RIGHT, ()),
    "offsets that are kept for longer than the log's age are not purged": (
        "dead_cleaner", {"offsets_retention_days": 30}, 24, RIGHT, ()),
    "the purge that waits for the load takes nothing away, though the load is as long": (
        "dead_cleaner", {"coordinator_rules": "0.9.0"}, 24, RIGHT, ()),
    "and neither does that of today": ("dead_cleaner", {"coordinator_rules": "4.3.1"}, 24, RIGHT, ()),
}  # fmt: skip


def told_last(trace: Trace) -> int:
    return [step.data["offset"] for step in trace if step.what == "answer" and "error" not in step.data][-1]


@pytest.mark.parametrize("case", CLAIMS)
def test_incident_needs_each_of_its_causes(case: str) -> None:
    """What A is told, what the audit counts, and which signs a monitor sees; all of it explained by the knobs."""
    name, knobs, told, counts, signs = CLAIMS[case]
    trace = run(name, **knobs)
    assert (told_last(trace), counted(trace), signs_of(trace).kinds) == (told, counts, signs)
    assert judge(trace).violations == ()


@pytest.mark.parametrize("name", ["stale_offset", "dead_cleaner"])
def test_incident_is_explained_by_the_rules_of_its_time(name: str) -> None:
    """The verdict names the release's rules, and the signs excuse nobody."""
    trace = run(name)
    for kind in ("duplicated", "rewound"):
        assert judge(trace).first(kind).reason.startswith(f"coordinator_rules={trace.settings.coordinator_rules}: ")
    signs = signs_of(trace)
    assert signs.is_fault and {each.excuse for each in (*signs.rewinds, *signs.vanished)} == {Excuse.NONE}


def test_dead_cleaner_writes_its_tombstone_behind_the_commit_that_it_kills() -> None:
    """The purge saw an old offset; by its place in the log the tombstone takes away the new one."""
    trace = run("dead_cleaner")
    begin = next(step.number for step in trace if step.what == "move")
    steps = [step for step in trace.steps[begin:] if str(step.data.get("key", "")) == "mail orders-0"]
    purged, written, gone = (
        next(step for step in steps if step.what == what and more(step.data))
        for what, more in (
            ("evict", lambda data: data["why"] == "expired"),
            ("write", lambda data: data["value"] is None),
            ("evict", lambda data: data["why"] == "tombstone"),
        )
    )
    loading = [step.state["offsets"]["loading"] for step in (purged, written, gone)]
    assert loading[0] is not None and loading[1] is not None
    last_commit = max(offset for offset, key, value in written.state["offsets"]["records"] if value == 24 and key == 0)
    assert written.data["offset"] > last_commit and gone.number > written.number
    assert gone.state["offsets"]["cache"].get("mail orders-0") is None


def test_waiting_for_a_load_is_an_error_that_is_asked_again() -> None:
    """While the load runs the answer is an error and -1, which is not the -1 that sends a consumer to its policy."""
    trace = run("dead_cleaner", coordinator_rules="4.3.1")
    asked = [step.data for step in trace if step.what == "answer"][1:]
    assert {each.get("error") for each in asked[:-1]} == {"COORDINATOR_LOAD_IN_PROGRESS"} and len(asked) > 5
    assert (asked[-1]["offset"], "error" in asked[-1]) == (24, False)


def rung(trace: Trace) -> dict[str, float]:
    """Each alarm that rang, and how many days after the run's beginning."""
    return {alarm.threshold.name: round(alarm.at_ms / DAY_MS, 1) for alarm in alarms(health_in(trace))}


def test_dead_cleaner_is_seen_days_before_anything_is_repeated() -> None:
    """The dirty ratio and the records a key ring while all is well; the load's time and the cache when it is too late."""
    found = rung(run("dead_cleaner"))
    assert found["dirty ratio"] < 8 and found["records a key"] < 10
    assert found["load time"] == found["offset cache size"] == 12.0


def test_stale_offset_is_seen_by_the_cache_alone_and_only_at_the_move() -> None:
    """Nothing was ill before; the cache that lacks half of its offsets is, a minute before A asks."""
    trace = run("stale_offset")
    assert rung(trace) == {"offsets missing in the cache": 25.0}
    (alarm,) = alarms(health_in(trace))
    assert alarm.at_ms < next(step.at_ms for step in trace if step.what == "answer" and step.data["offset"] == 4)


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("stale_offset", {"coordinator_rules": "4.3.1"}),
        ("stale_offset", {"coordinator_rules": "0.9.0"}),
        ("dead_cleaner", {"cleaner": "runs"}),
    ],
)
def test_healthy_run_rings_no_alarm(name: str, knobs: dict[str, Any]) -> None:
    """Bounds are such that a cluster whose cleaner runs and whose loads end well is quiet."""
    assert rung(run(name, **knobs)) == {}


@pytest.mark.parametrize("name", ["stale_offset", "dead_cleaner"])
def test_any_knobs_tell_a_log_that_the_states_agree_with(name: str) -> None:
    """Each state shows the log that the writes and passes before it leave, and A is never told what was not committed."""

    @settings(deadline=None, max_examples=8)
    @given(settings_of(name), st.just(1))
    def any_knobs(knobs: dict[str, Any], seed: int) -> None:
        trace = get(name).run(seed=seed, **knobs)
        log: dict[int, tuple[str, int | None]] = {}
        committed = {-1}
        for step in trace:
            if step.what == "write":
                log[step.data["offset"]] = step.data["key"], step.data["value"]
            elif step.what == "clean":
                for offset in step.data["removed"]:
                    del log[offset]
            elif step.what == "commit":
                committed.add(step.data["offset"])
            elif step.what == "answer":
                assert step.data["offset"] in committed
            shown = step.state["offsets"]
            if step.what != "evict":  # a purge's tombstones are in the log before the first of them is told
                told = {offset: (shown["keys"][key].removesuffix(", old format"), value) for offset, key, value in shown["records"]}
                assert {offset: told[offset] for offset in log if offset in told} == {o: log[o] for o in log if o in told}
                assert set(log) <= set(told)

    any_knobs()


def test_checks_that_are_passed_over_would_have_found_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group stops committing: its offset goes at the first check at which it is too old, whether each check is made or not."""

    def told() -> Trace:
        trace = Trace("r", "stale_offset", domain="incidents")
        told = IncidentRun(trace, ModelBackend("r"), Settings(offsets_retention_days=2, auto_offset_reset="latest"))
        told.begin("0.8.2")
        told.day()
        told.groups = ()
        for _ in range(4):
            told.day()
        return trace

    quick = told()
    (gone,) = [step for step in quick if step.what == "evict"]
    committed = next(step for step in quick if step.what == "write" and step.data["key"] == gone.data["key"])
    assert 0 <= gone.at_ms - committed.at_ms - 2 * DAY_MS <= 600_000
    monkeypatch.setattr(IncidentRun, "_pass_over_checks", lambda self, end_ms: None)
    assert told().steps == quick.steps


@pytest.mark.parametrize(
    ("name", "knobs", "operator"),
    [
        ("stale_offset", OLD_LOG, "alter"),
        ("dead_cleaner", {}, "forget"),
    ],
)
def test_real_incident_has_the_verdict_of_the_model(broker: Any, name: str, knobs: dict[str, Any], operator: str) -> None:
    """What the old coordinator answered is done by hand; a real consumer, the audit and the broker's own topic tell the same."""
    model, real = run(name, **knobs), run(name, backend="kafka", **knobs)
    assert judge(real).sentence == judge(model).sentence
    assert [step.what for step in real if step.actor == "operator"] == [operator]
    seen = signs_in_topic(broker, real)
    assert seen.kinds[0] == ("rewinds" if operator == "alter" else "vanished")
    if operator == "alter":  # the tool works on an empty group, and that gives it away
        assert [each.excuse for each in seen.rewinds] == [Excuse.BY_HAND]
        assert (seen.rewinds[0].before.offset, seen.rewinds[0].after.offset) == (25, 4)
    else:
        # A group without members and offsets goes at the coordinator's next look, which may come at any moment.
        (gone,) = seen.vanished
        assert gone.last.offset == 24 and gone.excuse in (Excuse.NONE, Excuse.GROUP_GONE)


def test_real_run_without_a_cause_needs_no_operator(broker: Any) -> None:
    """Where the model's coordinator answers what is committed, nobody touches the group."""
    real = run("stale_offset", backend="kafka", coordinator_rules="4.3.1", days=2)
    assert not any(step.actor == "operator" for step in real) and counted(real) == {}
    assert str(signs_in_topic(broker, real)) == "no signs were found"


def test_signs_of_a_model_s_run_are_in_no_broker_s_topic() -> None:
    """The sentence says where they are."""
    with pytest.raises(TraceError, match=r"is one of the model: no broker has its commits\. Use signs_of"):
        signs_in_topic(None, run("dead_cleaner", days=2))  # type: ignore[arg-type]


def test_rules_of_today_excuse_no_wrong_answer() -> None:
    """The same steps under a coordinator that reads both formats and lets the purge wait: then it is a fault."""
    for name, kinds in (("stale_offset", ("duplicated", "rewound")), ("dead_cleaner", ("duplicated", "rewound"))):
        trace = run(name)
        assert judge(replace(trace, settings=trace.settings | {"coordinator_rules": "4.3.1"})).violations == kinds
        assert judge(trace).violations == ()
    rewound = judge(replace(trace, settings=trace.settings | {"coordinator_rules": "0.9.0"})).first("rewound")
    assert rewound.is_violation  # an offset was committed: that none is there any more excuses nobody


def test_step_that_a_run_has_not_is_a_sentence() -> None:
    """Where a notebook asks for a step that did not come, the verb and the actor are told."""
    with pytest.raises(TraceError, match="no step is a dies now"):
        first_step(run("stale_offset"), "dies", "now")


def test_purged_tombstone_is_not_left_in_the_log() -> None:
    """What is left are the records after the last pass: the tombstone's offset is among them only as long as it may not go."""
    purged, kept = run("tombstones"), run("tombstones", new_records=False, away_ms=3_000)
    removed = {offset for step in purged if step.what == "purge" for offset in step.data["offsets"]}
    assert removed
    assert not removed & {offset for offset, _, _ in left_in_log(purged)}
    assert removed <= {offset for offset, _, _ in left_in_log(kept)}


def test_calls_run_at_the_same_time_and_keep_their_order() -> None:
    """Each call waits for the others, so they must be under way together; an error of one is the answer to all."""
    together = Barrier(3, timeout=30)
    assert list(at_once(lambda key: (together.wait(), key * 2)[1], "cab").items()) == [("c", "cc"), ("a", "aa"), ("b", "bb")]
    assert at_once(str, ()) == {}
    with pytest.raises(KnobError, match="policy"):
        at_once(lambda policy: run("reset_policy", policy=policy), ("latest", "whatever"))


WELL: dict[str, Any] = {
    "dirty_ratio": 0.4, "records": 300, "keys": 100, "cached_offsets": 100, "groups": 20, "commits_a_minute": 60.0, "load_ms": 2_000,
}  # fmt: skip


def days(*changes: dict[str, Any]) -> list[Health]:
    """A look a day; each changes what the looks before it showed."""
    shown, looks = dict(WELL), []
    for day, change in enumerate(changes):
        shown |= change
        looks.append(Health(day * DAY_MS, **shown))
    return looks


# What happens day by day -> the alarms that ring, each with its day.
CASES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, int]]]] = {
    "all is well": ([{}] * 5, []),
    "the cleaner has died: the ratio stays above its bound for two days": (
        [{}, *({"dirty_ratio": ratio} for ratio in (0.76, 0.8, 0.9, 0.95))], [("dirty ratio", 3)]),
    "a ratio that touches the bound is not above it": ([{"dirty_ratio": 0.75}] * 9, []),
    "a cleaner that comes in time begins the count anew": (
        [{"dirty_ratio": ratio} for ratio in (0.8, 0.8, 0.1, 0.8, 0.8)], []),
    "no pass comes to a dirty log: one look tells": (
        [{}, {"dirty_ratio": 0.8, "since_cleaned_ms": 8 * DAY_MS}, {"since_cleaned_ms": 8 * DAY_MS + 1}], [("days without a pass", 2)]),
    "no pass comes to a log that needs none": ([{"dirty_ratio": 0.75, "since_cleaned_ms": 9 * DAY_MS}] * 3, []),
    "records pile up": ([{}, {"records": 1_200}, {"records": 1_201}], [("records a key", 2)]),
    "a load takes minutes": ([{}, {"load_ms": 61_000}], [("load time", 1)]),
    "a load has ended early": ([{}, {"cached_offsets": 79}], [("offsets missing in the cache", 1)]),
    "a purge has taken everything": (
        [{}, {"cached_offsets": 0, "groups": 0, "keys": 0}], [("offset cache size", 1), ("group count", 1)]),
    "consumers cannot begin": ([{}, {"commits_a_minute": 6.0}], [("commit rate", 1)]),
    "a figure that is not known rings nothing": (
        [{}, dict.fromkeys(WELL)], []),
    "and does not end a count": (
        [{"dirty_ratio": 0.9}, {"dirty_ratio": None}, {"dirty_ratio": 0.9}], [("dirty ratio", 2)]),
    "more of everything is not fewer": ([{}, {"cached_offsets": 200, "groups": 40, "commits_a_minute": 120.0}], []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_alarm_rings_for_its_disease_alone(case: str) -> None:
    """Each figure above its bound, for as long as it must be, at the first look at which it is."""
    changes, rung = CASES[case]
    assert [(alarm.threshold.name, alarm.at_ms // DAY_MS) for alarm in alarms(days(*changes))] == rung


def test_alarms_come_in_the_order_of_time_and_say_why() -> None:
    """The first that rings is the one that could have helped."""
    found = alarms(days({}, {"load_ms": 90_000}, {"records": 5_000}))
    assert [alarm.threshold.name for alarm in found] == ["load time", "records a key"]
    assert str(found[0]) == (
        f"at {DAY_MS} load time is 90000, above 60000: a compacted partition is read in seconds; until then, its groups "
        "cannot start"
    )
