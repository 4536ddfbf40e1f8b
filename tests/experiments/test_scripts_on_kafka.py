"""The same script on the model and on a real broker, where the chaos proxy does to each message what the script says."""

from __future__ import annotations

import pytest

from kitlib.errors import KitError
from kitlib.experiments import run
from kitlib.experiments.script import Script
from kitlib.experiments.stored import compare_logs, stored_logs
from kitlib.lab.kafka_server import Cluster
from kitlib.monitor.delivery import judge
from tests.experiments.test_producers_on_kafka import plain

pytestmark = pytest.mark.kafka

MESSAGES = {
    "an answer": "lose answer 4",
    "a request": "lose request 4",
    "a request that is late": "delay request 4 by 150 ms",
    "an answer that is late": "delay answer 4 by 150 ms",
    "a request that comes twice": "double request 4",
    "several things": "double request 2\nlose request 4\nlose answer 9",
}


@pytest.mark.parametrize("idempotence", ["true", "false"])
@pytest.mark.parametrize("lines", MESSAGES.values(), ids=MESSAGES)
def test_script_does_to_real_messages_what_it_does_to_the_models(broker: Cluster, lines: str, idempotence: str) -> None:
    """Model and broker take the same steps, reach the same verdict and hold the same records in the same order."""
    agree(f"answers_lost lost_answers=0 idempotence={idempotence}\n{lines}")


@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_script_does_the_same_where_several_partitions_share_a_request(broker: Cluster, idempotence: str) -> None:
    """A request that is lost, and an answer, hit the batches of all partitions in it, on the model as on the broker."""
    agree(f"one_partition_waits idempotence={idempotence}\nlose answer 2\nlose request 5")


def agree(script: str) -> None:
    model, real = run(script=script), run(backend="kafka", script=script)
    assert plain(real) == plain(model)
    assert judge(real).counts == judge(model).counts
    assert stored_logs(real) == stored_logs(model)
    assert compare_logs(model, real).startswith("The broker's log is the model's, record by record: ")
    assert run(script=Script.of(real)).steps == model.steps


@pytest.mark.parametrize(
    "script",
    [
        "small_max_offset_behind\nlose ack of record 7",
        "happy_path\ndouble record 7\nbreak spout at 100 ms for 250 ms",
        "tuple_tree\nlose tuple 5\nbreak events-1 at 60 ms for 100 ms",
    ],
)
def test_script_does_the_same_to_a_spout_on_a_real_topic(broker: Cluster, script: str) -> None:
    """A spout or a topology that reads a real topic and keeps real offsets comes to the same verdict under the same script."""
    assert judge(run(backend="kafka", script=script)).counts == judge(run(script=script)).counts


def test_frozen_member_is_stopped_for_real_and_goes_on(broker: Cluster) -> None:
    """A member's process stands still for as long as the script says, the story waits for it, and each anomaly has its reason."""
    trace = run(backend="kafka", script="off_by_one library=librdkafka restarts=2\nfreeze A at 1 ms for 700 ms")
    begun, ended = (next(step for step in trace if step.what == word) for word in ("freeze", "thaw"))
    assert (begun.actor, ended.actor) == ("A", "A") and ended.at_ms - begun.at_ms >= 650
    assert not judge(trace).violations


@pytest.mark.alone
def test_broken_broker_is_killed_for_real_and_comes_back(broker: Cluster) -> None:
    """A break kills the real broker's process; the run then takes the model's steps, and the log is the model's."""
    script = "answers_lost lost_answers=0 idempotence=false\nlose answer 2\nbreak broker at 150 ms for 250 ms"
    model, real = run(script=script), run(backend="kafka", script=script)
    assert plain(real) == plain(model)
    assert "down" in real.words()
    assert compare_logs(model, real).startswith("The broker's log is the model's")


def test_delay_that_would_take_too_long_is_refused(broker: Cluster) -> None:
    """Virtual time can be long; a real message is held back for ten seconds at most."""
    with pytest.raises(KitError, match="expected at most 10,000 ms"):
        run(backend="kafka", script="answers_lost lost_answers=0\ndelay request 4 by 20000 ms")
