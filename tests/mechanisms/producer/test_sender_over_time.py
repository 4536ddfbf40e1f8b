"""The client without idempotence, over time, and with batches that are too large."""

from __future__ import annotations

from kitlib.mechanisms.producer.sender import Completion
from tests.mechanisms.producer.rig import numbers, refused, rig


def test_retries_without_idempotence_change_places() -> None:
    """Each retry comes back at the front: of two that were refused one after the other the second leaves first."""
    made = rig(enable_idempotence=False)
    made.send()
    made.send()
    made.sender.receive(0, {0: refused("NOT_LEADER_OR_FOLLOWER")})
    made.answer(1, "NOT_LEADER_OR_FOLLOWER")
    assert [send for send, _, _ in made.queue()] == [1, 0]
    assert [numbers(request) for request in made.poll()] == [[(-1, -1, -1)]]


def test_gap_without_idempotence_is_a_failure() -> None:
    """Nothing but retriable errors is retried without idempotence."""
    made = rig(enable_idempotence=False)
    made.send()
    made.answer(0, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert made.errors() == {0: "OutOfOrderSequenceException"}


def test_acks_0_completes_with_the_request_and_knows_no_offset() -> None:
    """Nobody answers, so the user is told with the next answers; nothing stays in flight."""
    made = rig(enable_idempotence=False, acks=0)
    request = made.send(2)
    assert request is not None and request.acks == 0 and made.told == [Completion(0, 0, 2, None, -1)]
    assert not made.sender.in_flight_requests and not made.sender.has_unfinished


def test_retry_waits_for_a_back_off_that_doubles() -> None:
    """100, 200, 400 ... ms and never more than the longest one."""
    made = rig(retry_backoff_ms=100, retry_backoff_max_ms=300)
    made.send()
    for number, backoff in enumerate((100, 200, 300, 300)):
        made.answer(number, "NOT_LEADER_OR_FOLLOWER")
        made.poll()
        assert made.sender.next_event_ms(made.now_ms) == made.now_ms + backoff
        made.now_ms += backoff - 1
        assert made.poll() == []
        made.now_ms += 1
        assert len(made.poll()) == 1


def test_append_lingers_until_the_time_is_over_or_the_batch_is_full() -> None:
    """An open batch waits for linger_ms; one that is full, or has another behind it, does not."""
    made = rig(linger_ms=5, batch_size=200)
    assert made.sender.append(0, b"a", made.now_ms) == 0 and made.sender.append(0, b"b", made.now_ms) == 0
    assert made.poll() == [] and made.poll() == [] and made.sender.next_event_ms(made.now_ms) == made.now_ms + 5
    made.now_ms += 5
    assert [batch.values for request in made.poll() for batch in request.batches] == [(b"a", b"b")]
    assert made.sender.append(0, b"c" * 120, made.now_ms) == 1 and made.sender.append(0, b"d" * 120, made.now_ms) == 2
    assert [batch.values for request in made.poll() for batch in request.batches] == [(b"c" * 120,)]


def test_flush_lets_an_open_batch_leave_and_closes_it() -> None:
    """After a flush nothing lingers; the next record begins a batch of its own."""
    made = rig(linger_ms=1_000)
    made.sender.append(0, b"a", made.now_ms)
    assert made.poll() == []
    made.sender.flush()
    assert made.sender.append(0, b"b", made.now_ms) == 1 and len(made.poll()) == 1


def test_drained_batch_takes_no_more_records() -> None:
    """A record that comes while its batch is out, or waits for a retry, begins a new one."""
    made = rig()
    made.sender.append(0, b"a", made.now_ms)
    made.poll()
    made.answer(0, "NOT_LEADER_OR_FOLLOWER")
    assert made.sender.append(0, b"b", made.now_ms) == 1
    assert [batch.count for batch in made.sender.accumulator.queues[0]] == [1, 1]


def test_batch_that_expires_is_told_once() -> None:
    """The user hears TimeoutException; a late answer, good or bad, adds nothing."""
    for error in ("NONE", "NOT_LEADER_OR_FOLLOWER", "INVALID_TIMESTAMP", "MESSAGE_TOO_LARGE"):
        made = rig(delivery_timeout_ms=1_000)
        made.send(2)
        made.now_ms += 1_000
        made.poll()
        made.answer(0, error, 5)
        assert made.told == [Completion(0, 0, 2, "TimeoutException", -1)] and not made.sender.has_unfinished


def test_answer_too_large_for_one_record_is_a_failure() -> None:
    """There is nothing to split: the user is told, and the hole in the sequences is closed by a bump."""
    made = rig()
    made.send()
    made.answer(0, "MESSAGE_TOO_LARGE")
    assert made.errors() == {0: "RecordTooLargeException"} and numbers(made.send()) == [(1_000, 1, 0)]


def test_answer_too_large_without_idempotence_keeps_the_order_of_the_parts() -> None:
    """The parts come back at the front, the first one first."""
    made = rig(enable_idempotence=False, batch_size=100)
    made.sender.send(0, made.now_ms, [b"a" * 60, b"b" * 60])
    made.poll()
    made.sender.send(0, made.now_ms, count=1)
    made.sender.receive(0, {0: refused("MESSAGE_TOO_LARGE")})
    made.sender.disconnect()
    made.poll()
    assert [batch.first for batch in made.sender.accumulator.queues[0]] == [0, 1, 0]
