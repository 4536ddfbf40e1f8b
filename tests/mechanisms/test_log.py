"""The model of a partition's log, as far as no recorded call asks it: times, error codes, and how it shows itself."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.log import FetchError, PartitionLog, Record


def test_offset_before_a_time_is_the_tables_or_none() -> None:
    """A time stamp is looked up; one that is not there has no offset."""
    log = PartitionLog(offsets_by_time={1_000: 2})
    log.append([b"v"] * 3)
    assert (log.offset_before(1_000), log.offset_before(1_001)) == (2, None)


@pytest.mark.parametrize("code", [*range(13)])
def test_error_code_of_the_wire_has_its_name(code: int) -> None:
    """The codes 0 to 12 of Kafka 0.8 are told apart."""
    assert FetchError.of(code).value == code


@pytest.mark.parametrize("code", [-1, 13, 14, 42, 10**30])
def test_error_code_unknown_is_unknown(code: int) -> None:
    """Every other code is UNKNOWN."""
    assert FetchError.of(code) is FetchError.UNKNOWN


def test_record_and_log_show_themselves() -> None:
    """A log tells how many records lie where; a record carries its time."""
    log = PartitionLog()
    log.append([None], at_ms=5)
    assert repr(log) == "<PartitionLog events: 1 records in [0, 1)>"
    assert log.records() == [Record(0, None, None, 5)]
