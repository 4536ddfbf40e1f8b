"""Connect's assignors: what is true of them whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.java.hash_tables import in_hash_order
from kitlib.more.connect.assignors import IncrementalCooperativeAssignor, assign_eagerly, revoking_backoff_ms
from kitlib.more.connect.work import ConnectError, ConnectorsAndTasks, as_told, configured_work, hash_set_order

WORKERS = ("w1", "w2", "w3", "w4")
SETTLING = 12  # rebalances after which nothing changes any more


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[str, str, int]]]:
    """A delay, and what happens to the cluster between rebalances."""
    kinds = st.sampled_from(["join", "leave", "restart", "connector", "delete", "miss"])
    event = st.tuples(kinds, st.sampled_from((*WORKERS, "a", "b", "c")), st.integers(0, 5))
    return draw(st.sampled_from([0, 1, 60_000])), draw(st.lists(event, max_size=12))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_incremental_after_enough_rebalances_all_runs_once_and_balanced(
    history: tuple[int, list[tuple[str, str, int]]],
) -> None:
    """Whatever joins, leaves or misses its sync: nothing is lost, nothing runs twice, nobody has two more than another."""
    max_delay_ms, events = history
    leader = IncrementalCooperativeAssignor(max_delay_ms)
    connectors = {"a": 2, "b": 3}
    members = {"w0": ConnectorsAndTasks()}
    now_ms = generation = 0

    def rebalance(missed: str = "") -> None:
        nonlocal generation
        generation += 1
        before = {name: set(work.tasks) for name, work in members.items()}
        told = leader.perform_task_assignment(
            connectors, generation - 1 if generation > 1 else -1, generation, members, now_ms
        )
        for name, each in told.items():
            for other in members.keys() - {name}:
                assert not each.assigned.tasks.keys() & before[other], "handed out while another worker runs it"
            if name != missed:
                members[name].remove(each.revoked)
                members[name].add(each.assigned)

    rebalance()
    for kind, name, number in events:
        now_ms += 10_000
        missed = ""
        if kind == "join" and name in WORKERS:
            members.setdefault(name, ConnectorsAndTasks())
        elif kind == "leave" and name in WORKERS:
            members.pop(name, None)
        elif kind == "restart" and name in members:
            members[name] = ConnectorsAndTasks()
        elif kind == "connector" and name not in WORKERS:
            connectors[name] = number
        elif kind == "delete":
            connectors.pop(name, None)
        elif kind == "miss" and name in members:
            missed = name
        rebalance(missed)
    for _ in range(SETTLING):
        now_ms += 60_000
        rebalance()
    wanted_work = configured_work(connectors)
    for held, wanted in (
        ([list(each.connectors) for each in members.values()], wanted_work.connectors),
        ([list(each.tasks) for each in members.values()], wanted_work.tasks),
    ):
        run = [each for share in held for each in share]
        assert sorted(run) == sorted(wanted)
        assert max(map(len, held)) - min(map(len, held)) <= 1


def work(connectors: str = "", tasks: str = "") -> ConnectorsAndTasks:
    """Work told shortly: connectors "ab", tasks "a0 b1"."""
    return ConnectorsAndTasks.of(connectors, ((each[0], int(each[1:])) for each in tasks.split()))


def test_incremental_lost_work_goes_to_who_was_idle_while_the_delay_ran() -> None:
    """A worker that came back empty gets the lost work, and not one that came later and is first by name."""
    leader = IncrementalCooperativeAssignor(1_000)
    leader.perform_task_assignment({"a": 2}, -1, 1, {"w1": work(), "w2": work()}, 0)
    w1, back = work("a", "a0"), work()
    told = leader.perform_task_assignment({"a": 2}, 1, 2, {"w1": w1, "w3": back}, 100)
    assert told["w3"].delay_ms == 1_000 and not told["w3"].assigned
    told = leader.perform_task_assignment({"a": 2}, 2, 3, {"w1": w1, "w3": back, "w0": work()}, 1_100)
    assert told["w3"].assigned == work("", "a1") and not told["w0"].assigned and told["w0"].delay_ms == 0


def test_incremental_leader_that_missed_its_own_sync_forgets() -> None:
    """Its last completed generation is not that of its memory: what it handed out then counts as new, without a delay."""
    leader = IncrementalCooperativeAssignor(1_000)
    leader.perform_task_assignment({"a": 2}, -1, 1, {"w1": work(), "w2": work()}, 0)
    told = leader.perform_task_assignment({"a": 2}, -1, 2, {"w1": work()}, 100)
    assert told["w1"].assigned == work("a", "a0 a1") and told["w1"].delay_ms == 0


def test_incremental_work_that_runs_twice_is_stopped_everywhere_first() -> None:
    """Both owners must stop; the next rebalance hands it out once."""
    leader = IncrementalCooperativeAssignor(1_000)
    members = {"w1": work("a", "a0 a1"), "w2": work("", "a1")}
    told = leader.perform_task_assignment({"a": 2}, -1, 1, members, 0)
    assert told["w1"].revoked == told["w2"].revoked == work("", "a1") and not told["w2"].assigned
    told = leader.perform_task_assignment({"a": 2}, 1, 2, {"w1": work("a", "a0"), "w2": work()}, 10)
    assert told["w2"].assigned == work("", "a1") and not told["w1"].assigned


@given(
    st.dictionaries(st.text("abc12", min_size=1), st.integers(0, 6), max_size=6),
    st.sets(st.text("wxyz09", min_size=1), min_size=1),
)
def test_eager_deals_everything_once_and_evenly(connectors: dict[str, int], workers: set[str]) -> None:
    """Each connector and task to one worker; the loads differ by one at most."""
    told = assign_eagerly(connectors, workers)
    dealt = [each for one in told.values() for each in (*one.assigned.connectors, *one.assigned.tasks)]
    wanted = configured_work(connectors)
    assert sorted(map(str, dealt)) == sorted(map(str, (*wanted.connectors, *wanted.tasks)))
    loads = [len(one.assigned) for one in told.values()]
    assert set(told) == workers and max(loads) - min(loads) <= 1


def test_assignors_refuse_an_empty_group_and_tasks_below_zero() -> None:
    """Both say what they need."""
    leader = IncrementalCooperativeAssignor(300_000)
    for connectors, workers in (({"a": 1}, []), ({"a": -1}, ["w1"])):
        with pytest.raises(ConnectError, match="expected"):
            assign_eagerly(connectors, workers)
        with pytest.raises(ConnectError, match="expected"):
            leader.perform_task_assignment(connectors, -1, 1, {name: ConnectorsAndTasks() for name in workers}, 0)
    assert leader == IncrementalCooperativeAssignor(300_000)


@pytest.mark.parametrize(
    ("attempts", "max_delay_ms", "wanted"),
    [
        (1, 300_000, 40),
        (2, 300_000, 1_600),
        (3, 300_000, 64_000),
        (9, 60_000, 60_000),
        (1, 30, 30),
        (5, 1, 1),
        (3, 0, 0),
    ],
)
def test_revoking_backoff_grows_fortyfold_up_to_the_delay(attempts: int, max_delay_ms: int, wanted: int) -> None:
    """1 ms x 40^n, never more than the scheduled delay; Math.pow may cut the last one by a millisecond."""
    assert wanted - 1 <= revoking_backoff_ms(attempts, max_delay_ms) <= wanted
    assert revoking_backoff_ms(1, 300_000) == 40


def test_java_order_is_by_bucket_and_grows_as_java_does() -> None:
    """A map of 12 names has 16 buckets, a set made of 12 names has 32: their orders differ."""
    names = [f"w{number * 100}" for number in range(12)]
    assert in_hash_order(["b", "a"]) == ["a", "b"]
    assert in_hash_order(names) != hash_set_order(names)
    assert sorted(in_hash_order(names)) == sorted(names) == sorted(hash_set_order(names))


def test_as_told_puts_tasks_of_one_connector_together() -> None:
    """Connectors first, then tasks where their connector stands."""
    told = as_told(["b"], [("c", 1), ("b", 0), ("c", 0)])
    assert list(told.tasks) == [("b", 0), ("c", 1), ("c", 0)] and list(told.connectors) == ["b"]
