"""The broker against every recorded step of Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.conformance.golden import Conformance, bundled, conform, read_traces
from kitlib.conformance.producer_state import Build, replay
from kitlib.mechanisms.broker.entry import VerificationGuard
from kitlib.mechanisms.broker.unified_log import UnifiedLog
from kitlib.mechanisms.protocol import Batch
from tests.conformance.changes import changed_in

NAMED = bundled("producer", "producer_state_named.jsonl.gz")
SCENARIOS = {trace["name"]: trace for trace in read_traces(NAMED)}


def replayed(*names: str, build: Build = UnifiedLog) -> Conformance:
    """The named scenarios, all of them without a name, replayed on a broker."""
    return conform(partial(replay, build=build), iter([SCENARIOS[name] for name in names or SCENARIOS]))


@dataclass(slots=True)
class CountsAttempts(UnifiedLog):
    """A broker built on the kit's, which takes every batch twice."""

    def append(self, batch: Batch, guard: VerificationGuard | None = None) -> Any:
        UnifiedLog.append(self, batch, guard)
        return UnifiedLog.append(self, batch, guard)


def test_replay_takes_any_broker_that_is_built_from_a_config() -> None:
    """A class of one's own is replayed as the kit's is; here it answers a duplicate to the first batch."""
    found = replayed("happy_path", build=CountsAttempts)
    assert str(found.differences[0]).startswith('happy_path, step 0 (append): result.outcome should be "APPENDED"')
    six = replayed("max_in_flight_six_breaks", build=lambda config: UnifiedLog(replace(config, remembered_batches=6)))
    assert (six.differences[0].step, six.differences[0].field) == (5, "state.producers.1000.batches")


changed = partial(changed_in, SCENARIOS)


def test_conform_does_not_compare_messages() -> None:
    """A refusal agrees whatever its words, as these are Kafka's own."""
    assert conform(replay, iter([changed("gap", 1, "result.message", "in other words")])).agrees


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("args.seq", "0", "seq is '0', expected a whole number"), ("args.seq", True, "seq is True, expected a whole number"),
        ("args.seq", 2**31, "seq is 2147483648, expected a whole number from -2147483648 to 2147483647"),
        ("args.count", 0, "count is 0, expected a whole number from 1"), ("args.pid", 2**63, "pid is 9223372036854775808"),
        ("args.epoch", 2**15, "epoch is 32768"), ("args.txn", 0, "txn is 0, expected true or false"),
        ("args.ts", None, "ts is None"), ("args.partition", 1, "partition is 1, expected less than 1"),
        ("args.partition", -1, "partition is -1"), ("args.guard", "1", "guard is '1'"), ("args", {}, "partition is missing"),
        ("op", "rebalance", "operation 'rebalance', which this replay does not know"), ("op", "__init__", "operation '__init__'"),
        ("op", "marker", "coordinator_epoch is missing"), ("op", "verify", "supports_epoch_bump is missing"),
        ("op", "delete_records", "before is missing"), ("op", "advance_time", "ms is missing"),
    ],
)  # fmt: skip
def test_replay_hostile_argument_is_a_difference(path: str, value: Any, words: str) -> None:
    """An argument that the recorder never writes differs at its step, in a sentence, and the next trace goes on."""
    found = conform(replay, iter([changed("happy_path", 0, path, value), SCENARIOS["gap"]]))
    assert (found.traces, found.matched, len(found.differences)) == (2, len(SCENARIOS["gap"]["steps"]), 1)
    assert words in str(found.differences[0].got) and len(str(found.differences[0])) < 320


def test_replay_marker_that_is_neither_commit_nor_abort_is_a_difference() -> None:
    """A transaction ends in one of two ways."""
    found = conform(replay, iter([changed("marker_without_transaction", 0, "args.type", "PREPARE")]))
    assert "type is 'PREPARE', expected COMMIT or ABORT" in str(found.differences[0])


def test_replay_deletion_beyond_the_end_is_refused() -> None:
    """Kafka answers OFFSET_OUT_OF_RANGE; the recorder never asks for it."""
    done = list(replay(changed("delete_records_keeps_the_producer", 2, "args.before", 3)))
    assert done[2]["result"]["error"] == "OFFSET_OUT_OF_RANGE" and done[2]["state"]["log_start_offset"] == 0


@pytest.mark.parametrize(
    "config",
    [
        {}, {"partitions": 1}, {"partitions": 0, "producer_id_expiration_ms": 1, "transaction_verification": False, "start_time_ms": 0},
        {"partitions": 10**9, "producer_id_expiration_ms": 1, "transaction_verification": False, "start_time_ms": 0},
        {"partitions": 1, "producer_id_expiration_ms": 0, "transaction_verification": False, "start_time_ms": 0},
        {"partitions": 1, "producer_id_expiration_ms": 1, "transaction_verification": "no", "start_time_ms": 0},
    ],
)  # fmt: skip
def test_replay_unknown_settings_are_a_difference(config: dict[str, Any]) -> None:
    """A script says how many partitions there are, how long a producer lives, and what time it is."""
    found = conform(replay, iter([SCENARIOS["gap"] | {"config": config}]))
    assert found.matched == 0 and "expected" in str(found.differences[0])


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(0, 3) | st.floats() | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["pid", "seq", "epoch"]), inside),
    max_leaves=6,
)
NAMES = [
    "partition",
    "pid",
    "epoch",
    "seq",
    "count",
    "txn",
    "ts",
    "guard",
    "type",
    "coordinator_epoch",
    "tv",
    "ms",
    "before",
]
OPS = [
    "append",
    "marker",
    "verify",
    "advance_time",
    "expire",
    "clean_restart",
    "unclean_restart",
    "failover",
    "delete_records",
    "x",
]
SOUND = {"partition": 0, "pid": 1, "epoch": 0, "seq": 0, "count": 1, "txn": False, "ts": 0, "ms": 1, "before": 0, "tv": 1,
         "coordinator_epoch": 0, "type": "ABORT", "supports_epoch_bump": True}  # fmt: skip
STEP = st.fixed_dictionaries(
    {
        "op": st.sampled_from(OPS),
        "args": st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=2).map(lambda junk: SOUND | junk),
    },
    optional={"result": JUNK, "state": JUNK},
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=6))
def test_conform_any_steps_is_a_difference_and_no_traceback(steps: list[dict[str, Any]]) -> None:
    """Whatever stands in a file, a replay ends with a count and a sentence."""
    config = {"partitions": 1, "producer_id_expiration_ms": 5, "transaction_verification": True, "start_time_ms": 0}
    found = conform(replay, iter([{"name": "any", "config": config, "steps": steps}]))
    assert found.total == len(steps) and (found.agrees or str(found.differences[0]))
