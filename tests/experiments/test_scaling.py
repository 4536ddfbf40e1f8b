"""What the experiments on Connect, Streams, partitions and consumers claim, by tables; two of them for real."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kitlib import experiments
from kitlib.errors import KnobError, LabError
from kitlib.lab.wire.coordinator import CoordinatorWire
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace

MODEL_ONLY = [each.name for each in experiments.every() if each.model_only]


def last(trace: Trace, what: str) -> dict[str, Any]:
    """The data of the last step with this verb."""
    return next(step.data for step in reversed(trace.steps) if step.what == what)


@pytest.mark.parametrize(
    ("knobs", "longest_ms", "shuffled"),
    [
        ({}, 312_000, 2),
        ({"back_after_ms": 60_000}, 312_000, 0),
        ({"scheduled_rebalance_max_delay_ms": 0}, 11_000, 2),
        ({"scheduled_rebalance_max_delay_ms": 0, "back_after_ms": 60_000}, 12_000, 4),
        ({"scheduled_rebalance_max_delay_ms": 60_000, "back_after_ms": 30_000}, 72_000, 0),
        ({"lost": "the leader"}, 11_000, 2),
        ({"protocol": "eager"}, 11_000, 4),
    ],
    ids=[
        "killed for good: its tasks wait for session, delay and two rebalances",
        "back in time: nothing moves, but its tasks wait all the same",
        "no delay: at once",
        "no delay and back: shuffled twice",
        "a short delay",
        "a dead leader's successor knows of nothing to wait for",
        "eager: at once, and everybody's tasks are dealt anew",
    ],
)
def test_connect_worker_lost(knobs: dict[str, Any], longest_ms: int, shuffled: int) -> None:
    """For how long a task of the lost worker runs nowhere, and how many moves there are."""
    told = last(experiments.run("connect_worker_lost", **knobs), "idle")
    assert (told["longest_ms"], told["shuffled"]) == (longest_ms, shuffled)


@pytest.mark.parametrize(
    ("knobs", "duplicated"),
    [
        ({}, 5_900),
        ({"offset_flush_interval_ms": 10_000}, 900),
        ({"crash_at_ms": 60_000}, 0),
        ({"ending": "stop"}, 0),
        ({"exactly_once": True}, 0),
        ({"exactly_once": True, "transaction_boundary": "interval"}, 0),
    ],
)
def test_connect_source_crash(knobs: dict[str, Any], duplicated: int) -> None:
    """What was produced since the last flush lies there twice; a transaction takes it back."""
    trace = experiments.run("connect_source_crash", **knobs)
    verdict = judge(trace)
    assert verdict.counts["duplicated"] == duplicated and not verdict.violations and verdict.counts["lost"] == 0
    assert verdict.processed == verdict.appended and ("aborted" in trace.words()) == (
        knobs.get("transaction_boundary") == "interval"
    )


@pytest.mark.parametrize("mode", ["distributed", "standalone"])
def test_connect_layouts_all_runs_in_the_end(mode: str) -> None:
    """Each connector and task at one worker, as the last state shows."""
    shown = experiments.run("connect_layouts", mode=mode).steps[-1].state["connect"]
    assert not shown["unassigned"]["tasks"] and len(shown["workers"]) == (1 if mode == "standalone" else 3)
    assert sorted(task for worker in shown["workers"].values() for task in worker["tasks"]) == [
        ["sink", 0], ["sink", 1], ["source", 0], ["source", 1],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("knobs", "threads", "idle", "counting"),
    [
        ({}, 4, 0, 4),
        ({"threads": 6}, 12, 2, 4),
        ({"partitions": 12, "repartition_partitions": 2, "threads": 7}, 14, 0, 2),
        ({"partitions": 12, "repartition_partitions": 12, "threads": 6}, 12, 0, 12),
    ],
)
def test_streams_tasks_bound_the_threads(knobs: dict[str, Any], threads: int, idle: int, counting: int) -> None:
    """More threads than tasks idle, and a repartition topic of two leaves two that count."""
    told = last(experiments.run("streams_tasks", **knobs), "idle")
    assert (told["threads"], told["threads_idle"], told["threads_counting"]) == (threads, idle, counting)


@pytest.mark.parametrize(
    ("knobs", "restored", "longest_ms"),
    [
        ({}, 24_000, 48_300),
        ({"num_standby_replicas": 1}, 0, 46_000),
        ({"run_s": 300}, 60_000, 51_900),
        ({"session_timeout_ms": 10_000}, 24_000, 13_300),
    ],
)
def test_streams_failover_restores_what_no_standby_has(knobs: dict[str, Any], restored: int, longest_ms: int) -> None:
    """The longer it ran the longer it takes; a standby leaves the timeout and the rebalance."""
    told = last(experiments.run("streams_failover", **knobs), "idle")
    assert told["restored"] == restored and abs(told["longest_ms"] - longest_ms) <= 200


def outcomes(**knobs: Any) -> list[str]:
    return [step.data["outcome"] for step in experiments.run("streams_queries", **knobs) if step.what == "ask"]


def test_streams_queries_right_old_missing_or_an_error() -> None:
    """Strict: null, no answer, an error while restoring. Stale: an old value. With a standby the old value comes at once."""
    error = "InvalidStateStoreException"
    assert outcomes() == ["value", "null", "no answer", "null", *[error] * 4, *["value"] * 3]
    assert outcomes(stale=True) == ["value", "null", "no answer", "null", *["value"] * 7]
    assert outcomes(num_standby_replicas=1, stale=True) == ["value", "value", "no answer", *["value"] * 8]
    assert outcomes(key="bob") == ["value", "value", "value", "value", *[error] * 4, *["value"] * 3], "it never moved"


ADDED: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "doubled": ({}, {"moved": 31, "early_cancels": 29, "left_over": 29, "refused": 0}),
    "a third more moves more": ({"partitions_after": 8}, {"moved": 42, "early_cancels": 10, "left_over": 10}),
    "nothing was waiting": ({"backlog": False}, {"moved": 31, "early_cancels": 0, "left_over": 0}),
    "a sink that takes offsets for versions": (
        {"backlog": False, "sink": "by offset", "updates": 2}, {"moved": 31, "refused": 31, "left_over": 31}),
    "the same sink and no new partition": ({"partitions_after": 6, "sink": "by offset"}, {"moved": 0, "refused": 0, "left_over": 0}),
    "fewer is not to be had": ({"partitions_after": 2}, {"moved": 0, "left_over": 0}),
}  # fmt: skip


@pytest.mark.parametrize("claim", ADDED)
def test_partitions_added_breaks_the_order_of_keys_and_no_partition_s(claim: str) -> None:
    """Cancels before creates, keys in two stores, documents that nobody can delete; and a clean verdict."""
    knobs, wanted = ADDED[claim]
    trace = experiments.run("partitions_added", **knobs)
    told = last(trace, "result")
    assert {name: told[name] for name in wanted} == wanted
    verdict = judge(trace)
    assert not any(verdict.counts.values()) and verdict.processed == verdict.appended


@pytest.mark.parametrize(("after", "share"), [(12, 0.50), (8, 0.75)])
def test_partitions_added_share_of_keys_that_move(after: int, share: float) -> None:
    """Half of them from 6 to 12, three quarters from 6 to 8."""
    told = last(experiments.run("partitions_added", orders=500, partitions_after=after), "result")
    assert abs(told["moved"] / told["orders"] - share) < 0.05


def test_more_consumers_are_no_faster_than_partitions() -> None:
    """From the sixth on none of the others has anything to do."""
    shares = [step.data for step in experiments.run("more_consumers") if step.what == "share"]
    assert [share["idle"] for share in shares] == [0, 0, 0, 0, 0, 0, 1, 2, 3, 4]
    assert [share["speed"] for share in shares] == [1, 2, 3, 3, 3, 6, 6, 6, 6, 6]


@pytest.mark.parametrize("name", MODEL_ONLY)
def test_model_only_experiments_say_so(name: str) -> None:
    """Nothing real is started for them."""
    with pytest.raises(KnobError, match=f"{name} runs on the model only: .*{experiments.get(name).model_only[-20:]}"):
        experiments.run(name, "kafka")


@pytest.mark.kafka
def test_group_of_another_kind_refuses_a_connect_worker(broker: Any) -> None:
    """A group id that consumers use is none for Connect: error 23, in a sentence."""
    host, _, port = broker.bootstrap.partition(":")
    group = f"kit.test.{uuid.uuid4().hex[:8]}"
    with (
        CoordinatorWire.open(host, int(port), "consumer", 10) as consumer,
        CoordinatorWire.open(host, int(port), "w1", 10) as worker,
    ):
        consumer.send_join(group, "consumer", [("range", b"")], 6_000, 6_000)
        consumer.receive_join()
        with pytest.raises(LabError, match=r"error 23 \(InconsistentGroupProtocolError\).* another group id"):
            worker.send_join(group, "connect", [("sessioned", b"")], 6_000, 6_000)
        assert consumer.heartbeat() in (0, 27) and consumer.leave() == 0


@pytest.mark.kafka
def test_member_whose_id_was_forgotten_before_it_had_joined_asks_for_another(broker: Any) -> None:
    """The coordinator forgets a group without offsets, its first member's id with it, when it looks for what has expired."""
    host, port = broker.bootstrap.rsplit(":", 1)
    with CoordinatorWire.open(host, int(port), "forgotten", 10) as worker:
        worker.member_id = "forgotten-1"
        worker.send_join(f"kit.forgotten-{uuid.uuid4().hex[:8]}", "connect", [("default", b"")], 10_000, 10_000)
        joined = worker.receive_join()
        assert joined.leads and joined.member_id == worker.member_id != "forgotten-1"
        assert worker.leave() == 0
