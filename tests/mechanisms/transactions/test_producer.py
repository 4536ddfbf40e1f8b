"""The transactional client: what an answer means to it, and what it asks for next, by tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kitlib.errors import KnobError
from kitlib.mechanisms.producer.transaction_manager import ProducerState
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.mechanisms.transactions.producer import (
    Api,
    Meaning,
    ProducerMisusedError,
    TransactionalProducer,
    meaning_of,
)

PLACE = ("t", 0)
E = ErrorCode
DONE, AGAIN, ABORTABLE, FATAL = Meaning.DONE, Meaning.COME_AGAIN, Meaning.ABORTABLE, Meaning.FATAL
# (error) -> what it means with InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, Produce, EndTxn
MEANINGS: dict[ErrorCode, tuple[Meaning, ...]] = {
    E.NONE: (DONE,) * 6,
    E.CONCURRENT_TRANSACTIONS: (AGAIN,) * 6,
    E.NOT_COORDINATOR: (AGAIN,) * 6,
    E.PRODUCER_FENCED: (FATAL,) * 6,
    E.INVALID_PRODUCER_EPOCH: (FATAL, FATAL, FATAL, FATAL, ABORTABLE, FATAL),
    E.TRANSACTION_ABORTABLE: (ABORTABLE,) * 6,
    E.INVALID_TXN_STATE: (FATAL, FATAL, FATAL, FATAL, ABORTABLE, FATAL),
    E.INVALID_PRODUCER_ID_MAPPING: (FATAL,) * 6,
    E.UNKNOWN_PRODUCER_ID: (FATAL, ABORTABLE, ABORTABLE, FATAL, ABORTABLE, ABORTABLE),
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (ABORTABLE, FATAL, FATAL, FATAL, FATAL, FATAL),
    E.TOPIC_AUTHORIZATION_FAILED: (FATAL, ABORTABLE, FATAL, FATAL, ABORTABLE, FATAL),
    E.ILLEGAL_GENERATION: (FATAL, ABORTABLE, FATAL, ABORTABLE, ABORTABLE, FATAL),
    E.INVALID_TRANSACTION_TIMEOUT: (FATAL, ABORTABLE, FATAL, FATAL, ABORTABLE, FATAL),
}  # fmt: skip


@pytest.mark.parametrize("error", MEANINGS, ids=lambda error: error.name)
def test_answer_means_what_it_means_to_javas_client(error: ErrorCode) -> None:
    """Done, come again, abort, or close: for each request."""
    apis = (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS, Api.ADD_OFFSETS, Api.TXN_OFFSET_COMMIT, Api.PRODUCE, Api.END_TXN)
    assert tuple(meaning_of(api, error) for api in apis) == MEANINGS[error]


def ready(version: int) -> TransactionalProducer:
    """A producer that has its id."""
    producer = TransactionalProducer("x", 1_000, version)
    assert producer.init_transactions() == [Api.INIT_PRODUCER_ID]
    producer.receive(Api.INIT_PRODUCER_ID, E.NONE, 5, 0)
    return producer


def test_version_1_adds_each_partition_once_and_keeps_its_epoch() -> None:
    """AddPartitionsToTxn before the first batch alone; the sequence runs on over the end."""
    producer = ready(1)
    producer.begin()
    assert producer.send(PLACE) == [Api.ADD_PARTITIONS, Api.PRODUCE]
    producer.receive(Api.ADD_PARTITIONS, E.NONE, partition=PLACE)
    producer.receive(Api.PRODUCE, E.NONE, partition=PLACE, count=3)
    assert producer.send(PLACE) == [Api.PRODUCE] and producer.next_sequence(PLACE) == 3
    assert producer.send_offsets() == [Api.ADD_OFFSETS, Api.TXN_OFFSET_COMMIT]
    assert producer.commit() == [Api.END_TXN]
    producer.receive(Api.END_TXN, E.NONE)
    assert (producer.state, producer.epoch, producer.next_sequence(PLACE)) == (ProducerState.READY, 0, 3)


def test_version_2_adds_nothing_and_begins_each_transaction_with_another_epoch() -> None:
    """The end brings the next epoch, and sequences begin at 0."""
    producer = ready(2)
    producer.begin()
    assert producer.send(PLACE) == [Api.PRODUCE] and producer.send_offsets() == [Api.TXN_OFFSET_COMMIT]
    producer.receive(Api.PRODUCE, E.NONE, partition=PLACE, count=3)
    assert producer.abort() == [Api.END_TXN]
    producer.receive(Api.END_TXN, E.NONE, 5, 1)
    assert (producer.state, producer.epoch, producer.next_sequence(PLACE)) == (ProducerState.READY, 1, 0)


def test_transaction_without_a_partition_needs_no_request() -> None:
    """Neither to commit nor to abort."""
    for version in (1, 2):
        producer = ready(version)
        producer.begin()
        assert producer.commit() == [] and producer.state is ProducerState.READY


def test_abortable_error_leaves_the_abort_alone() -> None:
    """After it send and commit are refused; after the abort version 1 asks for a new epoch, as a batch was in doubt."""
    producer = ready(1)
    producer.begin()
    producer.receive(Api.ADD_PARTITIONS, E.NONE, partition=PLACE)
    assert producer.receive(Api.PRODUCE, E.INVALID_PRODUCER_EPOCH) is Meaning.ABORTABLE
    calls: list[Callable[[], object]] = [lambda: producer.send(PLACE), producer.commit, producer.begin]
    for call in calls:
        with pytest.raises(ProducerMisusedError, match="The last error was INVALID_PRODUCER_EPOCH: call abort_transaction"):
            call()
    assert producer.abort() == [Api.END_TXN]
    producer.receive(Api.END_TXN, E.NONE)
    assert producer.state.value == "initializing"
    assert producer.receive(Api.INIT_PRODUCER_ID, E.NONE, 5, 1) is Meaning.DONE and producer.state.value == "ready"


def test_fenced_producer_can_only_be_closed() -> None:
    """Every call is refused, with the reason."""
    producer = ready(1)
    producer.begin()
    assert producer.receive(Api.ADD_PARTITIONS, E.PRODUCER_FENCED) is Meaning.FATAL
    with pytest.raises(ProducerMisusedError, match="PRODUCER_FENCED: close the producer and start another one"):
        producer.abort()


def test_id_that_is_too_long_is_refused() -> None:
    """One byte above what a request can carry."""
    TransactionalProducer("x" * 32_767, 1_000)
    with pytest.raises(KnobError, match="32,768 bytes, at most 32,767"):
        TransactionalProducer("x" * 32_768, 1_000)
