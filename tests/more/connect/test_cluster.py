"""A Connect cluster in virtual time: who runs what, and for how long nobody does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.more.connect.assignors import IncrementalCooperativeAssignor, assign_eagerly
from kitlib.more.connect.cluster import ConnectCluster, StandaloneWorker
from kitlib.more.connect.work import ConnectError, ConnectorsAndTasks, ConnectSettings, configured_work

SOURCE_AND_SINK = {"source": 2, "sink": 2}


def cluster(workers: int = 3, connectors: dict[str, int] | None = None, **given: object) -> ConnectCluster:
    """A cluster that has settled; one second for each rebalance."""
    made = ConnectCluster(ConnectSettings(**given))  # type: ignore[arg-type]
    made.configure(connectors or SOURCE_AND_SINK)
    for number in range(workers):
        made.start(f"w{number + 1}")
    made.run_until(20_000)
    made.take_events()
    return made


def test_killed_worker_s_tasks_wait_for_session_and_delay() -> None:
    """10 s until it is missed, 1 s to rebalance, 300 s of delay, 1 s to rebalance: then others have its work."""
    found = cluster()
    lost = found.workers["w3"].work.tasks
    found.kill("w3")
    found.run_until(331_999)
    assert found.unassigned().tasks == lost
    found.run_until(332_000)
    assert not found.unassigned() and all(found.owner(task) != ["w3"] for task in lost)


def test_restart_within_the_session_time_out_waits_for_the_ghost() -> None:
    """The rebalance cannot end before the coordinator gives the dead process up."""
    found = cluster()
    found.kill("w3")
    found.run_until(22_000)
    found.start("w3")
    found.run_until(29_999)
    assert found.rebalance_ms is not None and "sync" not in {what for _, what, _ in found.take_events()}
    found.run_until(31_000)
    assert len(found.order) == 3


def test_eager_everybody_stands_still_during_each_rebalance() -> None:
    """One more worker stops all tasks of all the others for as long as the joining takes."""
    found = cluster(protocol="eager")
    found.start("w4")
    assert len(found.unassigned().tasks) == 4
    found.run_until(21_000)
    assert not found.unassigned()


HAPPENS = st.tuples(st.sampled_from(["start", "kill"]), st.sampled_from(["w1", "w2", "w3", "w4"]), st.integers(0, 90_000))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0, 30_000, 300_000]), st.lists(HAPPENS, max_size=10))
def test_cluster_no_work_is_ever_run_twice_and_none_is_lost_for_good(
    delay_ms: int, history: list[tuple[str, str, int]]
) -> None:
    """Whoever starts and dies: each task has one worker at most at any time, and one in the end."""
    found = cluster(workers=2, connectors={"a": 3, "b": 2}, scheduled_rebalance_max_delay_ms=delay_ms)

    def settle(until_ms: int) -> None:
        while (due := found.next_ms()) is not None and due <= until_ms:
            found.run_until(due)
            assert all(len(found.owner(task)) <= 1 for task in configured_work(found.published).tasks)
            assert all(len(found.owner(name)) <= 1 for name in found.published)
        found.run_until(until_ms)

    for what, name, ms in history:
        getattr(found, what)(name)
        settle(found.now_ms + ms)
    if not any(worker.is_up for worker in found.workers.values()):
        found.start("w1")
    settle(found.now_ms + 2_000_000)
    loads = [len(worker.work.tasks) for worker in found.workers.values() if worker.is_up]
    assert not found.unassigned() and max(loads) - min(loads) <= 1


def test_assignors_refuse_an_empty_group_and_tasks_below_zero() -> None:
    """Both say what they need."""
    leader = IncrementalCooperativeAssignor(300_000)
    for connectors, workers in (({"a": 1}, []), ({"a": -1}, ["w1"])):
        with pytest.raises(ConnectError, match="expected"):
            assign_eagerly(connectors, workers)
        with pytest.raises(ConnectError, match="expected"):
            leader.perform_task_assignment(connectors, -1, 1, {name: ConnectorsAndTasks() for name in workers}, 0)
    assert leader == IncrementalCooperativeAssignor(300_000)


def test_standalone_runs_everything_or_nothing() -> None:
    """No rebalance, no delay, and no second worker."""
    alone = StandaloneWorker()
    alone.configure({"source": 1, "sink": 1})
    assert len(alone.snapshot()["unassigned"]["tasks"]) == 2
    for name in ("w1", "w2"):
        alone.start(name)
        assert len(alone.workers["w1"].work) == 4 and list(alone.workers) == ["w1"]
    alone.kill("w1")
    assert not alone.workers["w1"].work and alone.next_ms() is None
