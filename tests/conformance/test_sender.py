"""The client against every recorded step of Kafka 4.3.1's and 2.0.0's Sender."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest

from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.conformance.sender import replay, visiting_order
from kitlib.errors import TraceError
from kitlib.mechanisms.protocol import NO_SEQUENCE
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


@pytest.mark.parametrize(
    ("number", "path", "value", "words"),
    [
        (1, "args.records", 0, "records is 0, expected a whole number from 1"),
        (1, "args.records", 10**30, "expected a whole number from 1 to 100000"),
        (1, "args.records", "1", "records is '1', expected a whole number"),
        (1, "args.partition", 1, "there is no partition 1"), (1, "args.partition", None, "partition is None"),
        (1, "args", {"partition": 0}, "records is missing"), (1, "op", "rewind", "operation 'rewind' is unknown"),
        (3, "args.request", True, "request is True"), (3, "args.partitions", [], "partitions is []"),
        (3, "args.partitions", {"x": {}}, "partitions has 'x'"), (3, "args.partitions", {"0": 5}, "partition 0 is 5"),
        (3, "args.partitions.0.base_offset", "0", "base_offset is '0'"),
        (3, "args.partitions.0.log_start_offset", 2**63, "log_start_offset is 9223372036854775808"),
    ],
)  # fmt: skip
def test_sender_hostile_argument_is_a_difference(number: int, path: str, value: Any, words: str) -> None:
    """An argument that the recorder never writes differs at its step, in a sentence, and the next trace goes on."""
    bad = changed("idle_then_new_batches", number, path, value)
    found = conform(replay, iter([bad, SCENARIOS["happy_path"]]))
    assert (found.traces, len(found.differences), found.differences[0].step) == (2, 1, number)
    assert words in str(found.differences[0].got) and len(str(found.differences[0])) < 400


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("partitions", 10**9, "partitions is 1000000000"), ("partitions", 0, "partitions is 0"), ("first_pid", None, "first_pid is None"),
        ("max_in_flight", 0, "max_in_flight_requests_per_connection is 0"), ("retries", "3", "retries is '3'"),
        ("linger_ms", -1, "linger_ms is -1"), ("start_time_ms", 0.5, "start_time_ms is 0.5"),
    ],
)  # fmt: skip
def test_sender_hostile_setting_is_a_difference(name: str, value: Any, words: str) -> None:
    """A setting that no recorder writes differs at the first step, in a sentence."""
    trace = copy.deepcopy(SCENARIOS["happy_path"])
    trace["config"][name] = value
    found = conform(replay, iter([trace]))
    assert found.matched == 0 and words in str(found.differences[0].got)


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


def test_replay_without_settings_is_a_trace_error() -> None:
    """A recording that does not say how many partitions there are is refused by name."""
    with pytest.raises(TraceError, match="partitions is missing"):
        next(replay({"config": {}, "steps": []}))


def test_sender_sequence_sentinel_is_not_shown() -> None:
    """A batch that was never drained has neither epoch nor sequence in the state."""
    state = next(step for step in replay(SCENARIOS["happy_path"]) if step["state"]["partitions"][0]["queue"])
    assert state["state"]["partitions"][0]["queue"][0]["seq"] is None and NO_SEQUENCE == -1
