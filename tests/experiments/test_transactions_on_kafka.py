"""The same stories on the real broker: step for step those of the model, by librdkafka and by the kit's client; and the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kitlib import experiments
from kitlib.errors import KnobError
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.experiments.transactions.kafka_transactions import KafkaTransactions
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from tests.mechanisms.transactions.scenarios import SCENARIOS, differences

pytestmark = [pytest.mark.kafka]

STORIES: dict[str, tuple[str, dict[str, Any]]] = {
    "commits, aborts and two at once, librdkafka": ("commit_and_abort", {"version": "1"}),
    "the same with an epoch for each": ("commit_and_abort", {"version": "2"}),
    "a worker that is killed before its position": ("consume_transform_produce", {}),
    "a zombie with the same id": ("zombie", {}),
    "a zombie with another id and its group's generation": ("zombie", {"ids": "new per start"}),
    "a zombie that nobody stops": ("zombie", {"ids": "new per start", "offsets": "outside"}),
    "a transaction left open by kill -9": ("transaction_timeout", {"transaction_timeout_ms": 5_000}),
    "a worker that was too slow, and continues": (
        "transaction_timeout", {"cause": "slow", "on_fenced": "continue", "transaction_timeout_ms": 5_000}),
    "a worker that was too slow, and goes on under its own next epoch": (
        "transaction_timeout", {"cause": "slow", "next_call": "batch", "version": "2", "transaction_timeout_ms": 5_000}),
    "a late marker, version 1": ("delayed_marker", {"version": "1"}),
    "a late marker, version 2": ("delayed_marker", {"version": "2"}),
    "a transaction that hangs, and an administrator": ("hanging_transaction", {"rescue": True}),
    "a database outside": ("outside_effect", {}),
}  # fmt: skip
# What a client calls an error is its own; why the coordinator acts is in no log of a real one.
OWN_WORDS = ("error", "why")


def told(trace: Trace) -> list[tuple[str, str, dict[str, Any]]]:
    """The steps without times and own words, and with the model's names of topics."""
    return [
        (step.actor, step.what, {
            name: value.replace(f"kit.{trace.run}.", "") if isinstance(value, str) else value
            for name, value in step.data.items() if name not in OWN_WORDS
        })
        for step in trace
    ]  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_story_on_the_real_broker_is_that_of_the_model(story: tuple[str, dict[str, Any]], broker: Cluster) -> None:
    """Every step: each write and marker, each transition of the coordinator, what both readers are given, who is fenced."""
    name, knobs = story
    real, model = (experiments.run(name, backend=backend, **knobs) for backend in ("kafka", "model"))
    assert told(real) == told(model)
    assert judge(real).counts == judge(model).counts and judge(real).violations == ()


def test_late_marker_comes_through_on_a_broker_that_was_restarted(broker: Cluster) -> None:
    """A coordinator's epoch grows with each start of its broker; the marker that comes late carries the present one."""
    kafka_server.restart("kill")
    real = experiments.run("delayed_marker", backend="kafka", version="1")
    assert judge(real).counts["lost"] == 3


def test_table_of_conversations_is_answered_so_by_the_real_broker(broker: Cluster) -> None:
    """All that tests/mechanisms/transactions holds the model to."""
    backend = KafkaBackend.open("transactions-table")
    wrong = {}
    try:
        for number, (name, talk) in enumerate(SCENARIOS.items()):
            place = KafkaTransactions.open(replace(backend, run=f"table-{number}"), kit_client=True)
            try:
                transactional_id = f"{place.topic}-x"
                place.coordinator(transactional_id)
                place.ids.append(transactional_id)
                wrong[name] = differences(place, talk, transactional_id)
            finally:
                place.close()
    finally:
        backend.close()
    assert wrong == {name: [] for name in SCENARIOS}


def test_generation_without_a_group_is_refused(broker: Cluster) -> None:
    """The kit's own client is no member of a real group, and says so."""
    with pytest.raises(KnobError, match="joins no real group: use version='1'"):
        experiments.run("zombie", backend="kafka", version="2")
