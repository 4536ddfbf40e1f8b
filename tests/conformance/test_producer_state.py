"""The broker against every recorded step of Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

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


def test_replay_deletion_beyond_the_end_is_refused() -> None:
    """Kafka answers OFFSET_OUT_OF_RANGE; the recorder never asks for it."""
    done = list(replay(changed("delete_records_keeps_the_producer", 2, "args.before", 3)))
    assert done[2]["result"]["error"] == "OFFSET_OUT_OF_RANGE" and done[2]["state"]["log_start_offset"] == 0
