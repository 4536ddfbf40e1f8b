"""The coordinator, by a table of conversations that the real broker was asked as well, and by bugs that the table finds."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments.transactions.model_transactions import ModelTransactions
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.mechanisms.transactions.coordinator import TransactionCoordinator
from kitlib.mechanisms.transactions.metadata import (
    PREVIOUS,
    IllegalTransitionError,
    TransactionMetadata,
    TransactionState,
)
from kitlib.mechanisms.transactions.offsets import GroupIdentity, GroupOffsets
from tests.mechanisms.transactions.scenarios import SCENARIOS, differences

PLACE = ("t", 0)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_is_answered_as_by_the_real_broker(name: str) -> None:
    """Each conversation of the table."""
    assert differences(ModelTransactions(), SCENARIOS[name]) == []


def open_one(timeout_ms: int = 1_000, **config: Any) -> tuple[TransactionCoordinator, int]:
    """A coordinator with one open transaction that began at 100 ms; and its producer id."""
    found = TransactionCoordinator(iter(range(100)).__next__, **config)
    answer = found.init_producer_id("x", timeout_ms, 0)
    found.add_partitions("x", answer.producer_id, answer.producer_epoch, [PLACE], 100)
    return found, answer.producer_id


def test_open_transaction_is_aborted_once_its_timeout_is_over() -> None:
    """Not at the timeout itself, but after it; the marker has a higher epoch, so that the producer is fenced."""
    found, producer_id = open_one()
    assert found.abort_timed_out(1_100) == [] and found.abort_timed_out(1_101) == ["x"]
    (sending,) = found.unsent
    assert (sending.marker.is_commit, sending.marker.producer_epoch) == (False, 1)
    assert found.add_partitions("x", producer_id, 0, [PLACE], 1_102) is ErrorCode.PRODUCER_FENCED
    found.marker_written(sending, PLACE)
    assert (
        found.entries["x"].state is TransactionState.COMPLETE_ABORT
        and found.transitions[-2].why == "transaction.timeout.ms"
    )


def test_producer_of_version_2_goes_on_after_a_timeout_and_one_of_version_1_does_not() -> None:
    """The cluster's own aborts raise the epoch once; with version 2 the last one is remembered and may go on."""
    for version, expected in ((2, ErrorCode.NONE), (1, ErrorCode.PRODUCER_FENCED)):
        found, producer_id = open_one(transaction_version=version)
        found.abort_timed_out(5_000)
        found.marker_written(found.unsent[0], PLACE)
        assert found.init_producer_id("x", 1_000, 5_001, (producer_id, 0)).error is expected


def test_markers_on_their_way_let_nobody_begin() -> None:
    """Until the last marker is written all but questions are told to come again."""
    found, producer_id = open_one()
    assert found.end_transaction("x", producer_id, 0, True, 200).error is ErrorCode.NONE
    assert found.init_producer_id("x", 1_000, 201).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert found.add_partitions("x", producer_id, 0, [PLACE], 201) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert found.end_transaction("x", producer_id, 0, True, 201).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert found.abort_timed_out(10**6) == []
    found.marker_written(found.unsent[0], PLACE)
    assert found.add_partitions("x", producer_id, 0, [PLACE], 202) is ErrorCode.NONE


def test_epochs_that_ran_out_bring_another_producer_id() -> None:
    """The highest epoch is never given out: it is kept to shut the producer out with."""
    found, producer_id = open_one()
    entry = found.entries["x"]
    entry.producer_epoch = 32_766
    answer = found.end_transaction("x", producer_id, 32_766, True, 200, version=2)
    assert (answer.producer_id, answer.producer_epoch) == (producer_id + 1, 0)
    assert found.unsent[0].marker.producer_epoch == 32_767 and found.unsent[0].marker.producer_id == producer_id
    found.marker_written(found.unsent[0], PLACE)
    assert (entry.producer_id, entry.producer_epoch) == (producer_id + 1, 0)
    assert found.end_transaction("x", producer_id, 32_766, True, 201, version=2) == answer  # it comes again


@pytest.mark.parametrize("goal", TransactionState)
def test_no_step_of_an_entry_but_those_of_the_table(goal: TransactionState) -> None:
    """Every pair of states that PREVIOUS does not have is refused, and the entry stays as it was."""
    for state in TransactionState:
        entry = TransactionMetadata("x", 1, 1_000, producer_epoch=0, state=state)
        if state in PREVIOUS[goal]:
            entry.move_to(goal)
            assert entry.state is goal
        else:
            with pytest.raises(IllegalTransitionError, match=f"from {state.value} to {goal.value}"):
                entry.move_to(goal, 2)
            assert entry == TransactionMetadata("x", 1, 1_000, producer_epoch=0, state=state)


def test_group_takes_offsets_of_its_member_in_its_generation_alone() -> None:
    """KIP-447: another member, or another generation, is refused; nobody in particular may commit within a transaction only."""
    group = GroupOffsets("g", 4, {"A"})
    asked = {who: group.check(GroupIdentity("g", *who)).name for who in [("A", 4), ("A", 3), ("B", 4), ("", -1)]}
    assert list(asked.values()) == ["NONE", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "NONE"]
    assert group.commit({PLACE: 1}, GroupIdentity("g")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit_transactional(5, {PLACE: 2}, GroupIdentity("g", "A", 4)) is ErrorCode.NONE
    assert PLACE in group.pending[5] and group.committed == {}
    group.end_transaction(5, commit=True)
    assert group.committed == {PLACE: 2} and not group.pending
