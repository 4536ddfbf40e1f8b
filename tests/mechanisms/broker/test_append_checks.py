"""Each rule by which a broker takes or refuses a batch, as a table of cases."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.broker.append_checks import (
    BatchRefusedError,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
    check_sequence,
    is_older,
)
from kitlib.mechanisms.broker.entry import (
    BatchMetadata,
    ProducerStateEntry,
)
from kitlib.mechanisms.protocol import MAX_SEQUENCE, NO_SEQUENCE, Batch

OK = None
Refusal = type[BatchRefusedError] | None


def entry_with(epoch: int, last_seq: int | None, txn: int | None = None) -> ProducerStateEntry:
    """An entry whose newest batch ends at `last_seq`; None: its epoch was begun by a marker."""
    batches = [] if last_seq is None else [BatchMetadata(last_seq, last_seq, 40, 40)]
    return ProducerStateEntry(7, epoch, batches=batches, txn_first_offset=txn)


def batch(seq: int, epoch: int = 3, count: int = 1, txn: bool = False) -> Batch:
    return Batch(0, count, 7, epoch, seq, txn)


def held(wanted: Refusal, check: object, *args: object) -> None:
    """The check passes, or raises exactly what is wanted with a message that says who and what to do."""
    assert callable(check)
    if wanted is None:
        check(*args)
        return
    with pytest.raises(wanted) as refused:
        check(*args)
    assert type(refused.value) is wanted and "producer 7" in str(refused.value) and str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("last", "first", "count", "older"),
    [
        (9, 9, 1, True), (9, 0, 10, True), (9, 10, 1, False), (9, 11, 1, False), (9, 8, 3, False), (9, 0, 11, False),
        (NO_SEQUENCE, 0, 1, False), (1, MAX_SEQUENCE, 2, True), (1, MAX_SEQUENCE, 4, False), (MAX_SEQUENCE, 0, 1, False),
        (MAX_SEQUENCE, MAX_SEQUENCE, 1, True), (2**30, 1, 1, False), (2**30, 2, 1, True),
    ],
)  # fmt: skip
def test_is_older_is_wholly_below_the_expected_sequence(last: int, first: int, count: int, older: bool) -> None:
    """A batch with one new record is not older, and what is half the numbers away counts as ahead."""
    assert is_older(last, first, count) is older


@pytest.mark.parametrize(
    ("entry", "seq", "epoch", "wanted"),
    [
        pytest.param(entry_with(-1, None), 0, 0, OK, id="an unknown producer begins at zero"),
        pytest.param(entry_with(-1, None), 1, 0, UnknownProducerIdError, id="else it is told that it is unknown"),
        pytest.param(entry_with(3, 4), 6, 3, OutOfOrderSequenceError, id="a gap is a gap"),
        pytest.param(entry_with(3, 4), 1, 4, OutOfOrderSequenceError, id="a new epoch that does not begin at zero"),
        pytest.param(entry_with(3, None), 1, 3, OutOfOrderSequenceError, id="after a marker that began the epoch"),
    ],
)
def test_check_sequence_of_release_2_0(entry: ProducerStateEntry, seq: int, epoch: int, wanted: Refusal) -> None:
    """Release 2.0 differs in one case: a producer of which nothing is remembered must begin at 0."""
    held(wanted, check_sequence, entry, batch(seq, epoch), None, "2.0")
