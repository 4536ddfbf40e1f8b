"""The producer's experiments on a real broker: step by step what the model says, restarts and forgotten ids included.

The kit's own client drives both; only the producer id that the broker gives is another one.
"""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.lab.kafka_server import Cluster
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from tests.experiments.knob_values import case_id

pytestmark = pytest.mark.kafka

CASES: list[tuple[str, dict[str, Any]]] = [
    ("answers_lost", {}),
    ("answers_lost", {"max_in_flight": 1}),
    ("answers_lost", {"idempotence": False, "max_in_flight": 2}),
    ("answers_lost", {"idempotence": False}),
    ("answers_lost", {"max_in_flight": 10, "answer_loss_percent": 20}),
    ("answers_lost", {"acks": "0"}),
    ("answers_lost", {"acks": "1", "idempotence": False, "retries": 0}),
    ("six_in_flight", {}),
    ("six_in_flight", {"max_in_flight": 10, "batches": 10}),
    ("reordering_by_retry", {}),
    ("reordering_by_retry", {"idempotence": True}),
    ("reordering_by_retry", {"fault": "request lost"}),
    ("broker_restart", {"restart": "no"}),
    ("batch_expires", {}),
    ("batch_expires", {"lost": "request", "again": True}),
    ("two_producers_one_id", {}),
    ("two_producers_one_id", {"second_epoch": "same"}),
    ("producer_id_expired", {"expires": False}),
    ("producer_id_expired", {}),
    ("log_start_moved", {}),
    ("one_partition_waits", {}),
    ("one_partition_waits", {"numbered": "by producer", "rounds": 2}),
    ("new_id_for_all", {}),
]
RESTARTS: list[tuple[str, dict[str, Any]]] = [
    ("broker_restart", {}),
    ("broker_restart", {"restart": "clean", "max_in_flight": 2}),
    ("log_start_moved", {"restart": "clean"}),
]


def plain(trace: Trace) -> list[tuple[Any, ...]]:
    """Steps without the topic's name and the producer id, which the broker chooses."""
    return [
        (step.at_ms, step.actor, step.what, {name: value for name, value in step.data.items() if name not in ("topic", "pid")},
         {name: {k: v for k, v in part.items() if k != "pid"} if isinstance(part, dict) else part
          for name, part in step.state.items()})
        for step in trace
    ]  # fmt: skip


@pytest.mark.parametrize("case", CASES + [pytest.param(case, marks=pytest.mark.slow) for case in RESTARTS], ids=case_id)
def test_producer_on_kafka_does_what_the_model_does(broker: Cluster, case: tuple[str, dict[str, Any]]) -> None:
    """The same steps, the same states, the same verdict; nowhere does the broker answer what the model would not."""
    name, knobs = case
    model, real = get(name).run(**knobs), get(name).run(backend="kafka", **knobs)
    assert [step.data for step in real if step.what == "differs"] == []
    assert plain(real) == plain(model)
    assert judge(real).counts == judge(model).counts and judge(real).violations == ()


def test_fork_on_kafka_is_a_run_of_its_own_with_the_same_beginning(broker: Cluster) -> None:
    """A fork replays the run on a topic of its own; up to the fork nothing differs."""
    run = get("answers_lost").run(backend="kafka", records=20)
    fork = get("answers_lost").fork(run, 10, delay_ms=60)
    assert plain(fork)[:11] == plain(run)[:11] and plain(fork) != plain(run)
    assert fork.steps[3].data["topic"] != run.steps[3].data["topic"]


def test_rules_that_a_real_broker_does_not_have_are_refused(broker: Cluster) -> None:
    """Six remembered batches, the better rule and 2.0 are the model's alone."""
    for knobs in ({"remembered_batches": 6}, {"older_is_duplicate": True}):
        with pytest.raises(KnobError, match="Use their defaults, or backend='model'"):
            get("six_in_flight").run(backend="kafka", **knobs)
    with pytest.raises(KnobError, match="no replica to fail over to"):
        get("broker_restart").run(backend="kafka", restart="fail over")
