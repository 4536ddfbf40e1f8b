"""The PartitionManager against every recorded step of Storm 0.9.3, and against bugs planted by hand."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.conformance.partition_manager import Build, recorded_exception, replay
from kitlib.java import json_simple
from kitlib.java.numbers import MAX_LONG, to_long
from kitlib.kafka.log import LATEST_TIME, Fetch, FetchError
from kitlib.storm.errors import FailedFetchError
from kitlib.storm.offset_set import OffsetSet
from kitlib.storm.offset_store import read_stored_offset
from kitlib.storm.partition_manager import Emission, EmitState, PartitionManager

FILES = ("pm_scenarios.jsonl.gz", "pm_random_public.jsonl.gz")


def scenarios() -> Iterator[dict[str, Any]]:
    return read_traces(bundled("storm", "pm_scenarios.jsonl.gz"))


def everything() -> Iterator[dict[str, Any]]:
    for name in FILES:
        yield from read_traces(bundled("storm", name))


# -- bugs planted by hand -------------------------------------------------------------------------


class ClearsAlsoWhatLiesOnTheBound(PartitionManager):
    """<= where Storm asks <, and headSet with its bound."""

    def ack(self, offset: int) -> Sequence[int]:
        bound = to_long(offset - self.config.max_offset_behind)
        if self.pending and self.pending.first() <= bound:
            self.pending.clear_below(bound + 1)
        self.pending.discard(offset)
        self.number_acked += 1
        return ()


class ClearsItsBoundAsWell(PartitionManager):
    """The strict question, but a headSet that includes its bound."""

    def ack(self, offset: int) -> Sequence[int]:
        bound = to_long(offset - self.config.max_offset_behind)
        if self.pending and self.pending.first() < bound:
            self.pending.clear_below(bound + 1)
        self.pending.discard(offset)
        self.number_acked += 1
        return ()


class ClearsBelowTheAckedOffset(PartitionManager):
    """0.9.2's clearing: everything below the acked offset."""

    def ack(self, offset: int) -> Sequence[int]:
        self.number_acked += 1
        if self.pending and self.pending.first() < to_long(offset - self.config.max_offset_behind):
            return self.pending.clear_below(offset)
        self.pending.discard(offset)
        return ()


class CountsOnlyAcksOfPendingOffsets(PartitionManager):
    """An ack of an unknown offset is not counted."""

    def ack(self, offset: int) -> Sequence[int]:
        known, before = offset in self.pending, self.number_acked
        cleared = PartitionManager.ack(self, offset)
        self.number_acked = before + known
        return cleared


class AckEndsTheRetry(PartitionManager):
    """An ack takes the offset out of `failed`, as later releases do."""

    def ack(self, offset: int) -> Sequence[int]:
        self.failed.discard(offset)
        return PartitionManager.ack(self, offset)


class SkipsAFailureOnTheBound(PartitionManager):
    """<= where Storm asks < whether a failure is too far behind."""

    def fail(self, offset: int) -> bool:
        if offset == to_long(self.emitted_to_offset - self.config.max_offset_behind):
            return False
        return PartitionManager.fail(self, offset)


class FailWithoutWrapAround(PartitionManager):
    """Sums that grow beyond 64 bits."""

    def fail(self, offset: int) -> bool:
        if offset < self.emitted_to_offset - self.config.max_offset_behind:
            return False
        self.failed.add(offset)
        self.number_failed += 1
        self.check_tuple_failures()
        return True


class ForgetsTheFailureItDiesOf(PartitionManager):
    """The offset is not kept in `failed` when there are too many failures."""

    def check_tuple_failures(self) -> None:
        try:
            PartitionManager.check_tuple_failures(self)
        except Exception:
            self.failed.clear_below(MAX_LONG)
            raise


class DiesOneFailureEarly(PartitionManager):
    """>= where Storm asks > whether there are too many failures."""

    def check_tuple_failures(self) -> None:
        self.number_failed += 1
        try:
            PartitionManager.check_tuple_failures(self)
        finally:
            self.number_failed -= 1


class CountsASkippedFailure(PartitionManager):
    """A failure too far behind is counted though it is not retried."""

    def fail(self, offset: int) -> bool:
        retry = PartitionManager.fail(self, offset)
        self.number_failed += not retry
        return retry


class AlwaysWritesAtACommit(PartitionManager):
    """A commit that writes although nothing has moved."""

    def commit(self) -> str | None:
        self.committed_to = -1
        return PartitionManager.commit(self)


class NeverWritesASmallerOffset(PartitionManager):
    """A commit that refuses to go back."""

    def commit(self) -> str | None:
        return None if self.last_completed_offset() < self.committed_to else PartitionManager.commit(self)


class MovesBeforeItHasWritten(PartitionManager):
    """committed_to moves although the write failed."""

    def commit(self) -> str | None:
        try:
            return PartitionManager.commit(self)
        finally:
            self.committed_to = self.last_completed_offset()


class AcceptsAStoredZero(PartitionManager):
    """A stored offset of 0 is gone on from."""

    def __post_init__(self) -> None:
        PartitionManager.__post_init__(self)
        stored = read_stored_offset(self.store, self.config.committed_path())
        if stored is not None and stored.offset == 0:
            self.committed_to = self.emitted_to_offset = 0


class TooFarBehindAtTheBound(PartitionManager):
    """>= where Storm asks > whether a stored offset is too far behind."""

    def __post_init__(self) -> None:
        config = self.config
        if config.max_offset_behind < MAX_LONG:
            self.config = replace(config, max_offset_behind=config.max_offset_behind - 1)
        PartitionManager.__post_init__(self)
        self.config = config


class BeginsFromTheLatestWhenForced(PartitionManager):
    """force_from_start with another topology id begins at the log's end."""

    def offset_at(self, time: int) -> int:
        return PartitionManager.offset_at(self, LATEST_TIME if self.config.force_from_start else time)


@dataclass(slots=True)
class FillsDifferently(PartitionManager):
    """Storm's fill with one line changed."""

    bug: str = ""

    def fill(self) -> None:
        retrying = bool(self.failed)
        offset = self.failed.first() if retrying else self.emitted_to_offset
        fetched = self.fetch(offset)
        if fetched.error is FetchError.OFFSET_OUT_OF_RANGE:
            self.emitted_to_offset = self.configured_offset()
            if self.bug == "drops what cannot be retried":
                self.failed.clear_below(self.emitted_to_offset)
            if self.bug == "fetches again at once":
                self.fill()
            return
        for record in fetched.records:
            at = record.offset
            if at < offset and self.bug != "takes what lies below the asked offset":
                continue
            if retrying and at not in self.failed:
                continue
            if not (retrying and self.bug == "forgets pending.add at a retry"):
                self.pending.add(at)
            if self.bug == "puts retries in front" and retrying:
                self.waiting_to_emit.appendleft(record)
            else:
                self.waiting_to_emit.append(record)
            if self.bug == "moves emitted_to_offset back" or at >= self.emitted_to_offset:
                self.emitted_to_offset = at + 1
            if retrying and self.bug != "keeps what it retries in failed":
                self.failed.discard(at)


class SwallowsFailedFetches(PartitionManager):
    """Out of range without the setting is followed all the same."""

    def fetch(self, offset: int) -> Fetch:
        try:
            return PartitionManager.fetch(self, offset)
        except FailedFetchError as error:
            if error.error is None:
                raise
            return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)


class EmitsNullPayloads(PartitionManager):
    """A null payload is emitted as nothing instead of acked on the spot."""

    def next(self) -> Emission:
        if not self.waiting_to_emit:
            self.fill()
        if not self.waiting_to_emit:
            return Emission(EmitState.NO_EMITTED)
        record = self.waiting_to_emit.popleft()
        state = EmitState.EMITTED_MORE_LEFT if self.waiting_to_emit else EmitState.EMITTED_END
        return Emission(state, record, self.config.scheme(record) or ())


class FillsWhileSomethingWaits(PartitionManager):
    """A retry does not wait for the waiting list."""

    def next(self) -> Emission:
        if self.failed and self.waiting_to_emit:
            self.fill()
        return PartitionManager.next(self)


class AcksWhatGivesNoTuples(PartitionManager):
    """An empty list of tuples is taken for a null payload."""

    def next(self) -> Emission:
        emission = PartitionManager.next(self)
        while emission.record is not None and not emission.tuples:
            self.ack(emission.record.offset)
            emission = PartitionManager.next(self)
        return emission


class CompletesUpToTheWaitingOnes(PartitionManager):
    """What waits to be emitted counts as unfinished though an ack took it out of `pending`."""

    def last_completed_offset(self) -> int:
        waiting = [record.offset for record in self.waiting_to_emit]
        return min([*waiting, PartitionManager.last_completed_offset(self)])


class ForgetsTheSlash(PartitionManager):
    """The stored text is plain JSON."""

    def commit(self) -> str | None:
        text = PartitionManager.commit(self)
        if text is not None:
            self.store.write(self.config.committed_path(), text.replace(":", ": ", 1))
        return text


FILL_BUGS = (
    "forgets pending.add at a retry",
    "moves emitted_to_offset back",
    "takes what lies below the asked offset",
    "puts retries in front",
    "keeps what it retries in failed",
    "drops what cannot be retried",
    "fetches again at once",
)
BUGS: dict[str, Build] = {
    found.__doc__ or "": found
    for found in (
        ClearsAlsoWhatLiesOnTheBound, ClearsItsBoundAsWell, ClearsBelowTheAckedOffset, CountsOnlyAcksOfPendingOffsets,
        AckEndsTheRetry, SkipsAFailureOnTheBound, FailWithoutWrapAround, ForgetsTheFailureItDiesOf, DiesOneFailureEarly,
        CountsASkippedFailure, AlwaysWritesAtACommit, NeverWritesASmallerOffset, MovesBeforeItHasWritten,
        AcceptsAStoredZero, TooFarBehindAtTheBound, BeginsFromTheLatestWhenForced, SwallowsFailedFetches,
        EmitsNullPayloads, FillsWhileSomethingWaits, AcksWhatGivesNoTuples, CompletesUpToTheWaitingOnes, ForgetsTheSlash,
    )
} | {f"fill {bug}": partial(FillsDifferently, bug=bug) for bug in FILL_BUGS}  # fmt: skip


def replay_of(build: Build) -> Any:
    return partial(replay, build=build)


def test_fill_written_anew_without_a_bug_agrees() -> None:
    """The fill into which bugs are planted is without them the recorded one, so that each bug is what is caught."""
    assert conform(replay_of(FillsDifferently), scenarios()).agrees


@pytest.mark.parametrize("bug", BUGS)
def test_partition_manager_with_a_planted_bug_differs(bug: str) -> None:
    """Each bug planted by hand is caught by the scenarios that come with the kit."""
    found = conform(replay_of(BUGS[bug]), scenarios())
    assert not found.agrees
    assert found.matched < found.total


# -- what a difference says -----------------------------------------------------------------------


def test_conform_first_difference_is_a_sentence() -> None:
    """A difference names trace, step, operation and field, what was recorded and what the model has."""
    boundary = [trace for trace in scenarios() if trace["name"] == "mob_ack_boundary"]
    found = conform(replay_of(ClearsAlsoWhatLiesOnTheBound), iter(boundary))
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


def _changed(trace: dict[str, Any], number: int, path: str, value: Any) -> dict[str, Any]:
    """A copy of `trace` with one recorded field of one step replaced."""
    steps = [dict(step) for step in trace["steps"]]
    *folders, name = path.split(".")
    inner = steps[number]
    for folder in folders:
        inner[folder] = dict(inner[folder])
        inner = inner[folder]
    inner[name] = value
    return trace | {"steps": steps}


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
    trace = next(trace for trace in scenarios() if trace["name"] == "mob_ack_boundary")
    number = next(number for number, step in enumerate(trace["steps"]) if "broker" in step and step["op"] == "next")
    found = conform(replay, iter([_changed(trace, number, path, value)]))
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
    found = conform(replay_of(BreaksAtItsThirdCall), scenarios())
    assert "crash should be nothing, the model has \"ZeroDivisionError: division by zero\"." in str(found.differences[0])


def test_replay_of_a_learners_own_class_needs_only_the_ledgers_names() -> None:
    """A model that shares no code with the kit's is replayed if it has the same constructor and ledgers."""

    class Own:
        def __init__(self, config: Any, log: Any, store: Any) -> None:
            self.config, self.emitted_to_offset, self.committed_to = config, log.offset_before(LATEST_TIME), 0
            self.pending, self.failed = OffsetSet(), OffsetSet()
            self.waiting_to_emit: deque[Any] = deque()
            self.number_acked = self.number_failed = 0

        def last_completed_offset(self) -> int:
            return self.emitted_to_offset

    found = conform(replay_of(Own), scenarios())
    assert found.traces == 95 and not found.agrees


def test_stored_texts_recorded_are_those_of_json_simple() -> None:
    """Every text that Storm wrote is read and written again to the same characters."""
    texts = {step["zk_write"] for trace in everything() for step in trace["steps"] if "zk_write" in step}
    assert len(texts) > 100
    assert all(json_simple.write(json_simple.read(text)) == text and re.fullmatch(r"\{.*\}", text) for text in texts)


@pytest.mark.parametrize(
    ("name", "is_network"),
    [
        ("java.net.ConnectException", True), ("java.net.SocketTimeoutException", True), ("java.io.EOFException", True),
        ("java.nio.channels.UnresolvedAddressException", True), ("javax.net.ssl.SSLException", True),
        ("java.lang.IllegalStateException", False), ("java.io.UncheckedIOException", False),
        ("java.nio.BufferOverflowException", False), ("java.network.Fake", False),
        ("java.nio.channels.ClosedChannelException", True), ("java.nio.channels.NotYetBoundException", False),
        ("java.nio.file.NoSuchFileException", True), ("java.nio.file.ClosedFileSystemException", False),
        ("java.util.zip.ZipException", True),
    ],
)  # fmt: skip
def test_recorded_exception_of_the_network_is_an_oserror(name: str, is_network: bool) -> None:
    """Java's I/O exceptions come to the model as an OSError, all others do not, and the name is kept."""
    error = recorded_exception(name)
    assert isinstance(error, OSError) is is_network and str(error) == name
