"""The client's rules one by one, also those that the recordings meet rarely or never."""

from __future__ import annotations

import pytest

from kitlib.errors import KitError
from kitlib.mechanisms.producer.config import ConfigError, ProducerConfig
from kitlib.mechanisms.producer.sender import Completion, LoopState, Sender
from kitlib.mechanisms.producer.transaction_manager import (
    PREVIOUS,
    IllegalStateError,
    ProducerState,
    TransactionManager,
)
from kitlib.mechanisms.protocol import (
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
)
from tests.mechanisms.producer.rig import Rig, numbers, refused, rig, unfinished


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT])
def test_receive_id_with_a_retriable_error_asks_again_after_the_back_off(error: ErrorCode) -> None:
    """The first InitProducerId after a broker's start answers 14; the client waits and asks again."""
    sender = Sender(ProducerConfig(retry_backoff_ms=100))
    sender.poll(0)
    sender.receive_id(InitProducerIdAnswer(error))
    assert sender.poll(99) == [] and sender.next_event_ms(99) == 100 and sender.poll(100) == [InitProducerIdRequest()]


def test_receive_id_refused_fails_what_waits_and_asks_again() -> None:
    """CLUSTER_AUTHORIZATION_FAILED for the id is told to the user, and is not for ever."""
    sender = Sender(ProducerConfig())
    sender.send(0, 0, [b"0000"] * 2)
    sender.poll(0)
    sender.receive_id(InitProducerIdAnswer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert sender.poll(1) == [] and sender.completed() == [Completion(0, 0, 2, "ClusterAuthorizationException", -1)]
    assert sender.poll(2) == [InitProducerIdRequest()]


@pytest.mark.parametrize(
    ("error", "exception"),
    [
        ("INVALID_PRODUCER_EPOCH", "ProducerFencedException"), ("UNSUPPORTED_VERSION", "KafkaException"),
        ("INVALID_REQUEST", "KafkaException"),
    ],
)  # fmt: skip
def test_receive_id_with_a_fatal_error_fails_every_send_for_ever(error: str, exception: str) -> None:
    """An answer that makes no sense is the end of the producer."""
    sender = Sender(ProducerConfig())
    sender.poll(0)
    sender.receive_id(InitProducerIdAnswer(ErrorCode[error]))
    for send in range(2):
        sender.send(0, send, [b"0000"])
        assert sender.poll(send) == []
    assert [told.error for told in sender.completed()] == [exception] * 2


@pytest.mark.parametrize(
    ("error", "exception"),
    [
        ("CLUSTER_AUTHORIZATION_FAILED", "ClusterAuthorizationException"), ("UNSUPPORTED_VERSION", "UnsupportedVersionException"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TransactionalIdAuthorizationException"),
        ("PRODUCER_FENCED", "ProducerFencedException"), ("INVALID_PRODUCER_ID_MAPPING", "InvalidPidMappingException"),
    ],
)  # fmt: skip
def test_answer_fatal_fails_what_waits_and_what_is_in_flight(error: str, exception: str) -> None:
    """After a fatal answer everything fails: the batch, those in flight, those that wait, those sent later."""
    made = rig(max_in_flight_requests_per_connection=2)
    for _ in range(3):
        made.send()
    made.answer(0, error)
    assert made.errors() == {0: exception} and made.poll() == []
    assert made.errors() == dict.fromkeys(range(3), exception)
    made.send()
    assert made.errors()[3] == exception


def at_the_wrap() -> Rig:
    """A client whose next record has the sequence 2^31 - 2 and all of whose batches are acknowledged."""
    made = rig()
    made.send()
    made.answer(0, "NONE", 0)
    assert made.sender.transaction_manager is not None
    entry = made.sender.transaction_manager.entry(0)
    entry.next_sequence, entry.last_acked_sequence = 2**31 - 2, 2**31 - 3
    return made


def test_sequence_after_the_last_one_is_zero() -> None:
    """A batch across 2^31 - 1 ends at a small sequence, the next one begins there."""
    made = at_the_wrap()
    first, second = made.send(3), made.send(2)
    assert numbers(first) == [(1_000, 0, 2**31 - 2)] and numbers(second) == [(1_000, 0, 1)]
    assert first is not None and first.batches[0].last_sequence == 0


def test_ack_across_the_wrap_does_not_raise_the_last_acked_sequence() -> None:
    """Java adds ints: the end of a batch across the wrap is negative, so the last acked sequence stays behind."""
    made = at_the_wrap()
    made.send(3)
    made.answer(1, "NONE", 1)
    made.send()
    made.answer(2, "NONE", 4)
    assert made.sender.transaction_manager is not None
    assert made.sender.transaction_manager.entry(0).last_acked_sequence == 2**31 - 3


def test_retries_across_the_wrap_come_back_in_the_wrong_order() -> None:
    """Sequences are compared as plain numbers: after a lost connection at the wrap the later batch leaves first."""
    made = at_the_wrap()
    made.send(2)
    made.send(1)
    made.sender.disconnect()
    made.poll()
    assert made.queue() == [(2, 0, 0), (1, 0, 2**31 - 2)]
    assert [numbers(request) for request in made.poll()] == [[(1_000, 0, 0)]]


def test_answer_for_some_partitions_completes_these() -> None:
    """A partition that the answer does not name stays in flight until it expires."""
    made = rig((0, 1))
    made.sender.send(0, made.now_ms, [b"0000"])
    made.sender.send(1, made.now_ms, [b"0000"])
    made.poll()
    made.answer(0, "NONE", 0)
    assert made.errors() == {0: None} and unfinished(made.sender)
    made.now_ms += 120_000
    made.poll()
    assert made.errors() == {0: None, 1: "TimeoutException"}


def test_receive_none_loses_one_request() -> None:
    """A request that went down is retried with its numbers, the others stay out."""
    made = rig()
    made.send()
    made.send()
    made.sender.receive(0, None)
    made.poll()
    assert made.queue() == [(0, 0, 0)] and list(made.sender.in_flight_requests) == [1]


def test_next_event_after_an_idle_disconnect_is_now() -> None:
    """What waits while the connection breaks may leave with the poll after the next one, and nothing else wakes the client."""
    made = rig()
    made.sender.send(0, made.now_ms, [b"0000"])
    made.sender.disconnect()
    assert made.poll() == [] and made.sender.next_event_ms(made.now_ms) == made.now_ms
    assert len(made.poll()) == 1


def test_poll_of_a_driver_without_a_connection_is_idle_until_it_has_one() -> None:
    """A driver that cannot connect yet holds requests back; polls that do nothing leave the client idle."""
    made = rig()
    made.sender.send(0, made.now_ms, [b"0000"])
    for _ in range(3):
        assert made.poll(connected=False) == [] and made.sender.is_idle
    assert len(made.poll()) == 1


def test_events_name_what_the_last_poll_did() -> None:
    """Requeued, bumped, expired and split batches are told once, with the batch."""
    made = rig(delivery_timeout_ms=1_000)
    made.send(2)
    made.answer(0, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert [(event.what, event.batch and event.batch.number) for event in made.sender.events] == [("requeue", 0)]
    made.poll()
    assert [(event.what, event.producer_epoch) for event in made.sender.events] == [("bump", 1)]
    made.answer(1, "MESSAGE_TOO_LARGE")
    assert [event.what for event in made.sender.events] == ["split"]
    made.now_ms += 1_000
    made.poll()
    assert [event.what for event in made.sender.events] == ["expire"]
    made.poll()
    assert made.sender.events == []


@pytest.mark.parametrize(
    ("partition", "values", "words"),
    [(7, [b"a"], "there is no partition 7"), (0, [], "a batch of no records"), (0, [b"x" * 1_048_576], "max_request_size is 1048576")],
)
def test_send_bad_argument_is_refused_and_nothing_changes(partition: int, values: list[bytes], words: str) -> None:
    """A batch that cannot be sent is refused in a sentence, and the next send has the number that it would have had."""
    made = rig()
    with pytest.raises(KitError, match=words):
        made.sender.send(partition, 0, values)
    assert made.queue() == [] and made.sender.send(0, 0, [b"0000"]) == 0


def test_append_bad_argument_is_refused() -> None:
    """A record for no partition, or one that no request can carry, is refused; the largest one is taken."""
    made = rig(max_request_size=200)
    with pytest.raises(KitError, match="there is no partition 1"):
        made.sender.append(1, b"", 0)
    with pytest.raises(KitError, match="a record needs 201 bytes"):
        made.sender.append(0, b"x" * 115, 0)
    assert made.sender.append(0, b"x" * 114, 0) == 0


@pytest.mark.parametrize(
    "settings",
    [{"acks": 2}, {"acks": "all"}, {"max_in_flight_requests_per_connection": 0}, {"retries": -1}, {"linger_ms": 0.5}, {"release": "3"}],
)  # fmt: skip
def test_config_outside_its_range_is_refused(settings: dict[str, object]) -> None:
    """A setting that means nothing to the client is refused by name, with the range."""
    with pytest.raises(ConfigError, match=next(iter(settings))):
        ProducerConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ProducerState)
@pytest.mark.parametrize("target", ProducerState)
def test_transition_that_kafka_does_not_know_changes_nothing(source: ProducerState, target: ProducerState) -> None:
    """A state is entered from those of Kafka's table; any other step is refused, with what was possible."""
    manager = TransactionManager(7, 0, state=source, last_error="KafkaException")
    if source in PREVIOUS[target]:
        manager.transition_to(target)
        assert (manager.state, manager.last_error) == (target, None)
    else:
        with pytest.raises(IllegalStateError, match=f"producer 7 epoch 0: '{target.value}' cannot follow '{source.value}', only"):
            manager.transition_to(target)
        assert (manager.state, manager.last_error) == (source, "KafkaException")


def test_response_wakes_an_idle_loop_and_a_loss_outlasts_it() -> None:
    """What comes in wakes the loop; after a loss only a run that reports it ends the state, whatever comes in."""
    made = rig()
    made.send()
    made.poll()
    assert made.sender.state is LoopState.IDLE
    made.sender.receive(0, {0: PartitionAnswer(ErrorCode.NONE, 0)})
    assert made.sender.state is LoopState.AWAKE
    made.sender.disconnect()
    made.sender.send(0, made.now_ms, [b"0000"])
    assert made.sender.state is LoopState.DISCONNECTED and made.poll() == []
    assert made.sender.state is LoopState.AWAKE


def test_id_that_comes_after_a_fatal_error_does_not_end_it() -> None:
    """A batch was refused for good while a request for an id was out: its response is taken, and the error stands."""
    manager = TransactionManager(state=ProducerState.INITIALIZING, id_request_in_flight=True)
    manager.transition_to(ProducerState.FATAL_ERROR, "ProducerFencedException")
    manager.receive_id(InitProducerIdAnswer(ErrorCode.NONE, 9, 0))
    assert manager.has_fatal_error and manager.has_producer_id and not manager.id_request_due


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
    assert not made.sender.in_flight_requests and not unfinished(made.sender)


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
    made.sender.send(0, made.now_ms, [b"0000"])
    made.sender.receive(0, {0: refused("MESSAGE_TOO_LARGE")})
    made.sender.disconnect()
    made.poll()
    assert [batch.first for batch in made.sender.accumulator.queues[0]] == [0, 1, 0]
