"""Topologies and their tasks; an application whose instances die; and what queries get meanwhile."""

from __future__ import annotations

import pytest

from kitlib.more.streams.app import StreamsApp, StreamsSettings, metadata_for_key, query, task_of_key
from kitlib.more.streams.assignor import AssignmentSettings, StreamsAssignmentError
from kitlib.more.streams.topology import StreamsTopology, TopologyError, task_name


def counting(width: int = 4) -> StreamsTopology:
    """Orders are counted by customer: a repartition topic cuts the topology in two."""
    made = StreamsTopology().source("orders", "orders").processor("rekey", "orders")
    made.repartition("by-customer", "rekey", width).processor("count", "by-customer-source", stores=("counts",))
    return made.sink("out", "totals", "count")


def app(standbys: int = 0, instances: int = 2, threads: int = 1) -> StreamsApp:
    """An application that has run for two minutes."""
    made = StreamsApp(counting(), {"orders": 6}, StreamsSettings(AssignmentSettings(num_standby_replicas=standbys)))
    for number in range(instances):
        made.start(f"i{number + 1}", threads)
    made.run_for(120_000)
    made.take_events()
    return made


def test_repartition_topic_cuts_the_topology() -> None:
    """What comes before it and what comes after it run apart, each with as many tasks as its widest topic."""
    subs = counting().sub_topologies()
    assert [sub.source_topics for sub in subs] == [("orders",), ("by-customer",)]
    assert [sub.sink_topics for sub in subs] == [("by-customer",), ("totals",)]
    assert [sub.stores for sub in subs] == [(), ("counts",)]
    tasks = counting().tasks({"orders": 6})
    assert [task_name(task) for task in tasks] == ["0_0", "0_1", "0_2", "0_3", "0_4", "0_5", "1_0", "1_1", "1_2", "1_3"]
    assert counting().stateful(tasks) == {(1, 0), (1, 1), (1, 2), (1, 3)}


def test_common_store_and_common_source_join_what_is_apart() -> None:
    """Two inputs of one task: partition 1 of both."""
    made = (
        StreamsTopology()
        .source("a", "a")
        .source("b", "b")
        .processor("pa", "a", stores=("s",))
        .processor("pb", "b", stores=("s",))
    )
    assert len(made.sub_topologies()) == 1
    assert made.tasks({"a": 2, "b": 3})[0, 1] == (("a", 1), ("b", 1)) and made.tasks({"a": 2, "b": 3})[0, 2] == (
        ("b", 2),
    )


def test_join_of_topics_that_do_not_fit_is_looked_at_only_beside_a_repartition_topic() -> None:
    """Six tasks, of which the last two read one of the topics alone; Streams says nothing until something is repartitioned."""
    made = StreamsTopology().source("a", "a").source("b", "b").processor("join", "a", "b", stores=("s",)).joined("a", "b")
    assert made.tasks({"a": 6, "b": 4})[0, 5] == (("a", 5),)
    with pytest.raises(TopologyError, match="a has 6, b has 4"):
        made.repartition("r", "join", 2).tasks({"a": 6, "b": 4})


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: counting().source("orders", "x"), "it already exists"),
        (lambda: counting().processor("p", "nowhere"), "not a source or processor"),
        (lambda: counting().processor("p", "out"), "not a source or processor"),
        (lambda: counting(0).tasks({"orders": 6}), "topic by-customer: it has 0 partitions, expected 1 or more"),
        (lambda: counting().tasks({}), "topic orders: it has no partitions"),
        (lambda: counting().joined("orders", "by-customer").tasks({"orders": 6}), "orders has 6, by-customer has 4"),
    ],
)
def test_topology_refuses_what_cannot_run(ask: object, words: str) -> None:
    """Names that clash, parents that are not there, topics without partitions, joins that do not fit."""
    with pytest.raises(TopologyError, match=words):
        ask()  # type: ignore[operator]


def settle(found: StreamsApp) -> None:
    """Let time pass until every task runs."""
    while not found.is_settled:
        found.run_for(100)


def test_restarted_instance_reads_on_from_its_own_disk() -> None:
    """With its disk it lacks only what was written since; without one it lacks all, and warms up first."""
    for disk, first in ((True, "restoring"), (False, "standby")):
        found = app()
        found.run_for(600_000)
        found.kill("i2")
        settle(found)
        found.take_events()
        found.start("i2", disk=disk)
        found.run_for(2_000)
        told = [what for who, what, data in found.take_events() if who == "i2" and data.get("task", "")[:1] == "1"]
        assert told[0] == first


def test_probing_rebalance_moves_the_task_when_the_warm_up_has_caught_up() -> None:
    """Until then the old instance goes on; nobody waits."""
    found = app(instances=1)
    found.run_for(600_000)
    found.start("i2")
    found.run_for(2_000)
    assert found.probing_ms is not None and not found.instances["i2"].active & found.stateful
    idle = dict(found.idle_ms)
    found.run_for(700_000)
    assert len(found.instances["i2"].active & found.stateful) == 2 and found.probing_ms is None
    assert all(found.idle_ms[task] - idle[task] == 0 for task in found.stateful & found.instances["i1"].active)


def outcomes(found: StreamsApp, key: str) -> dict[str, tuple[str, str]]:
    """What each instance answers, strict and stale."""
    return {
        name: (query(found, name, "counts", key).outcome, query(found, name, "counts", key, stale=True).outcome)
        for name in found.instances
    }


def test_query_of_the_owner_is_exact_and_of_another_is_null() -> None:
    """Null from an instance that has the store's other partitions: not an error, and no value."""
    found = app()
    task, owner = metadata_for_key(found, "counts", "alice")
    assert (task, owner) == (task_of_key(found, "counts", "alice"), "i2")
    exact = query(found, "i2", "counts", "alice")
    assert (exact.value, exact.behind) == (found.processed[task] // 10, 0)
    assert outcomes(found, "alice") == {"i1": ("null", "null"), "i2": ("value", "value")}


def test_query_while_the_owner_is_dead_and_while_it_is_restored() -> None:
    """No answer until the group notices; then an error until the store is whole; stale reads go up from nothing."""
    found = app()
    found.kill("i2")
    assert metadata_for_key(found, "counts", "alice")[1] == "i2"
    assert outcomes(found, "alice") == {"i1": ("null", "null"), "i2": ("no answer", "no answer")}
    found.run_for(46_500)
    assert metadata_for_key(found, "counts", "alice")[1] == "i1"
    assert outcomes(found, "alice")["i1"] == ("InvalidStateStoreException", "value")
    assert 0 < query(found, "i1", "counts", "alice", stale=True).behind < 12_000
    settle(found)
    assert query(found, "i1", "counts", "alice").behind == 0


def test_query_of_a_store_that_is_nowhere() -> None:
    """An unknown store is refused; one that this instance has no part of may have migrated."""
    found = app(instances=5)
    assert {answer for name in found.instances for answer in outcomes(found, "alice")[name][:1]} >= {"value"}
    nothing = [name for name, each in found.instances.items() if not each.active & found.stateful]
    assert nothing and "migrated" in query(found, nothing[0], "counts", "alice").why
    with pytest.raises(TopologyError, match="there is no store"):
        query(found, "i1", "sums", "alice")


def test_thread_that_dies_leaves_its_stores_to_the_other_threads_of_its_process() -> None:
    """Its tasks wait for the session timeout, go to the process that has their stores, and nothing is restored."""
    made = app(instances=1, threads=2)
    made.lose_thread("i1", 2)
    assert made.instances["i1"].thread_names == ["i1-1"] and not made.is_settled
    settle(made)
    assert sum(made.restored.values()) == 0
    assert max(made.idle_ms.values()) >= made.settings.session_timeout_ms
    with pytest.raises(StreamsAssignmentError, match="two or more"):
        made.lose_thread("i1", 1)
