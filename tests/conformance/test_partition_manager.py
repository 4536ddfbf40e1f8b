"""The PartitionManager against every recorded step of Storm 0.9.3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.conformance.partition_manager import recorded_exception, replay
from kitlib.java.numbers import to_long
from kitlib.mechanisms.partition_manager import Emission, PartitionManager
from tests.conformance.changes import changed_in


def scenarios() -> Iterator[dict[str, Any]]:
    return read_traces(bundled("storm", "pm_scenarios.jsonl.gz"))


class ClearsAlsoWhatLiesOnTheBound(PartitionManager):
    """<= where Storm asks <, and headSet with its bound."""

    def ack(self, offset: int) -> Sequence[int]:
        bound = to_long(offset - self.config.max_offset_behind)
        if self.pending and self.pending.first() <= bound:
            self.pending.clear_below(bound + 1)
        self.pending.discard(offset)
        self.number_acked += 1
        return ()


def test_conform_first_difference_is_a_sentence() -> None:
    """A difference names trace, step, operation and field, what was recorded and what the model has."""
    boundary = [trace for trace in scenarios() if trace["name"] == "mob_ack_boundary"]
    found = conform(partial(replay, build=ClearsAlsoWhatLiesOnTheBound), iter(boundary))
    assert len(found.differences) == 1 and found.traces == 1
    first = found.differences[0]
    step = boundary[0]["steps"][first.step]
    assert first.op == step["op"] == "ack" and found.matched == first.step
    assert str(first) == (
        f"mob_ack_boundary, step {first.step} (ack): {first.field} should be "
        f"{_value(step, first.field)}, the model has {first.got}."
    )
    assert str(found).startswith(f"{found.matched}/{found.total} steps of 1 traces matched; first difference: mob_ack")
    assert first.meaning == boundary[0]["meaning"]


def _value(step: dict[str, Any], path: str) -> Any:
    value: Any = step
    for name in path.split("."):
        value = value[name]
    return value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("state.pending", [0]), ("state.zk", "{}"), ("state.numberAcked", True), ("state.emittedToOffset", 3.0),
        ("state.lastCompletedOffset", None), ("result.ret", "EMITTED_END"), ("result.emitted", []),
        ("result.exception", {"class": "java.lang.Error"}), ("zk_write", "{}"), ("state.more", 1),
    ],
)  # fmt: skip
def test_conform_changed_recording_names_the_field(path: str, value: Any) -> None:
    """Whichever field of a recorded step is changed, or added to it, is the one that the difference names."""
    traces = {trace["name"]: trace for trace in scenarios()}
    steps = enumerate(traces["mob_ack_boundary"]["steps"])
    number = next(number for number, step in steps if "broker" in step and step["op"] == "next")
    found = conform(replay, iter([changed_in(traces, "mob_ack_boundary", number, path, value)]))
    assert [(first.step, first.field) for first in found.differences] == [(number, path)]
    assert found.matched == number


@dataclass(slots=True)
class BreaksAtItsThirdCall(PartitionManager):
    """A model that raises what no model raises."""

    calls: int = 0

    def next(self) -> Emission:
        self.calls += 1
        if self.calls == 3:
            raise ZeroDivisionError("division by zero")
        return PartitionManager.next(self)


def test_conform_model_that_breaks_has_differed() -> None:
    """An exception of the model is a difference like any other, told with its words."""
    found = conform(partial(replay, build=BreaksAtItsThirdCall), scenarios())
    assert "crash should be nothing, the model has \"ZeroDivisionError: division by zero\"." in str(found.differences[0])


@pytest.mark.parametrize(
    ("name", "is_network"),
    [
        ("java.net.ConnectException", True), ("java.net.SocketTimeoutException", True), ("java.io.EOFException", True),
        ("java.nio.channels.UnresolvedAddressException", True), ("javax.net.ssl.SSLException", True),
        ("java.lang.IllegalStateException", False), ("java.io.UncheckedIOException", False),
        ("java.nio.BufferOverflowException", False), ("java.network.Fake", False),
        ("java.nio.channels.ClosedChannelException", True), ("java.nio.channels.NotYetBoundException", False),
    ],
)  # fmt: skip
def test_recorded_exception_of_the_network_is_an_oserror(name: str, is_network: bool) -> None:
    """Java's I/O exceptions come to the model as an OSError, all others do not, and the name is kept."""
    error = recorded_exception(name)
    assert isinstance(error, OSError) is is_network and str(error) == name
