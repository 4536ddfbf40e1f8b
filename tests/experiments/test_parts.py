"""The three parts alone: what docs/three_parts.md shows, on the real broker, and the producer on the model."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from typing import Any

import pytest

from kitlib import IdempotentProducer, Leader, PartitionManager, run
from kitlib.errors import KnobError
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab.clients import Cluster
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "three_parts.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.kafka
def test_page_shows_what_its_samples_print(broker: Cluster) -> None:
    """Each sample has ten lines at most, runs as it stands on the topic of a real broker, and prints what stands below it."""
    backend = KafkaBackend.open("three-parts")
    topic = backend.create_topic("orders", 10)
    topic.append([b"order"] * 20)
    assert len(SAMPLES) == 5
    for code, printed in SAMPLES:
        assert len([line for line in code.splitlines() if line]) <= 10
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(code.replace("\"orders\"", repr(topic.name)).replace("127.0.0.1:9092", broker.bootstrap), {"__name__": "page"})  # noqa: S102
        assert told.getvalue() == printed
    assert topic.end == 120
    backend.close()


def test_idempotent_producer_on_the_model_waits_for_linger_and_keeps_its_numbers() -> None:
    """Records that were appended one by one leave in batches, whose sequences follow one another."""
    leader = Leader(partitions=2)
    with IdempotentProducer("orders", leader, linger_ms=300, max_in_flight_requests_per_connection=6) as producer:
        for number in range(10):
            producer.append(b"%d" % number, number % 2)
    assert all(delivery.error is None for delivery in producer.deliveries) and producer.unfinished == 0
    assert [log.end for log in leader.logs.values()] == [5, 5]
    assert [stored.batch.base_sequence for log in leader.logs.values() for stored in log.batches] == [0, 0]


def test_idempotent_producer_refuses_eleven_in_flight() -> None:
    """The limits are checked as those of the kit's client."""
    with pytest.raises(KnobError, match="takes 1 to 10"):
        IdempotentProducer("orders", Leader(), max_in_flight_requests_per_connection=11)


@pytest.mark.parametrize("name", ["small_max_offset_behind", "tuple_tree"])
def test_run_takes_a_partition_manager_of_ones_own(name: str) -> None:
    """A subclass stands where the kit's class stands, in spout stories and in topologies."""
    asked: list[int] = []

    class Mine(PartitionManager):
        def next(self) -> Any:
            asked.append(1)
            return super().next()

    assert run(name, manager=Mine).steps == run(name).steps and asked


def test_run_without_a_partition_manager_refuses_one() -> None:
    """A story that has none says so."""
    with pytest.raises(KnobError, match="it has no PartitionManager"):
        run("answers_lost", manager=PartitionManager)


def test_kitlib_imports_no_part_before_it_is_asked_for() -> None:
    """`import kitlib` stays fast."""
    code = "import kitlib, sys; print([name for name in sys.modules if name.startswith('kitlib.')])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert told.stdout.strip() == "[]"
