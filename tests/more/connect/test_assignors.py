"""Connect's assignors: what is true of them whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.more.connect.assignors import IncrementalCooperativeAssignor, assign_eagerly
from kitlib.more.connect.work import ConnectError, ConnectorsAndTasks, configured_work

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


def test_assignors_refuse_an_empty_group_and_tasks_below_zero() -> None:
    """Both say what they need."""
    leader = IncrementalCooperativeAssignor(300_000)
    for connectors, workers in (({"a": 1}, []), ({"a": -1}, ["w1"])):
        with pytest.raises(ConnectError, match="expected"):
            assign_eagerly(connectors, workers)
        with pytest.raises(ConnectError, match="expected"):
            leader.perform_task_assignment(connectors, -1, 1, {name: ConnectorsAndTasks() for name in workers}, 0)
    assert leader == IncrementalCooperativeAssignor(300_000)
