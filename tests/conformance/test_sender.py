"""The client against every recorded step of Kafka 4.3.1's and 2.0.0's Sender."""

from __future__ import annotations

from functools import partial

import pytest

from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.conformance.sender import replay, visiting_order
from tests.conformance.changes import changed_in

NAMED, RANDOM, EARLIER = (
    bundled("producer", f"{name}.jsonl.gz") for name in ("sender_named", "sender_public", "sender_named_2_0_0")
)
SCENARIOS = {trace["name"]: trace for trace in read_traces(NAMED)}
EARLIER_SCENARIOS = {trace["name"]: trace for trace in read_traces(EARLIER)}


def test_sender_rules_of_the_other_release_differ() -> None:
    """A recording of 2.0.0 is not repeated by the rules of 4.3, nor the other way round."""
    for name, trace in EARLIER_SCENARIOS.items():
        swapped = trace | {"kafka_version": "4.3.1"}
        assert not conform(replay, iter([swapped])).agrees, name
        assert not conform(replay, iter([SCENARIOS[name] | {"kafka_version": "2.0.0"}])).agrees, name


changed = partial(changed_in, SCENARIOS)


def test_sender_exception_message_is_not_compared() -> None:
    """Another message for the same exception class is no difference."""
    name = "expired_retry_alone"
    number = next(i for i, step in enumerate(SCENARIOS[name]["steps"]) if step["state"]["completed"])
    assert conform(replay, iter([changed(name, number, "state.completed.0.message", "words")])).agrees
    assert not conform(replay, iter([changed(name, number, "state.completed.0.result", "KafkaException")])).agrees


@pytest.mark.parametrize(
    ("partitions", "order"),
    [
        (1, [0]), (2, [1, 0]), (3, [1, 0, 2]), (4, [3, 2, 1, 0]), (7, [5, 4, 3, 2, 1, 0, 6]), (8, [5, 4, 3, 2, 1, 0, 7, 6]),
        (12, [5, 4, 3, 2, 1, 0, 11, 10, 9, 8, 7, 6]), (13, list(range(12, -1, -1))),
    ],
)  # fmt: skip
def test_visiting_order_is_that_of_a_hash_map(partitions: int, order: list[int]) -> None:
    """4.3 visits the partitions of topic t as MetadataSnapshot of kafka-clients 4.3.1 lists them; 2.0 in their own order."""
    assert visiting_order(partitions) == order and visiting_order(partitions, "2.0") == list(range(partitions))
