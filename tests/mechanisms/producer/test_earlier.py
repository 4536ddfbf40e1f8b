"""The rules of 2.0.0 that its recordings meet rarely or never."""

from __future__ import annotations

from typing import Any

from kitlib.mechanisms.producer.batch import ProducerBatch, closed_batch
from kitlib.mechanisms.producer.earlier import EarlierPartitionEntry
from kitlib.mechanisms.protocol import ErrorCode, InitProducerIdAnswer
from tests.mechanisms.producer.rig import Rig, numbers, rig


def earlier(**settings: Any) -> Rig:
    """A client of 2.0 that has its id."""
    return rig(release="2.0", **settings)


def test_open_batch_expires_after_the_request_time_out_and_its_linger() -> None:
    """Lingering is not counted against a batch that is not full."""
    made = earlier(linger_ms=100)
    made.sender.append(0, b"a", made.now_ms)
    for waited, expired in ((30_100, False), (30_101, True)):
        made.now_ms = 1_000 + waited
        made.poll(connected=False)
        assert bool(made.errors()) is expired


def test_unresolved_sequence_is_resolved_by_its_successors() -> None:
    """Two in flight, the first expires as a retry, the second is acknowledged: no new id is needed."""
    made = earlier(max_in_flight_requests_per_connection=2, request_timeout_ms=1_000)
    made.send()
    made.send()
    made.answer(0, "NOT_LEADER_OR_FOLLOWER")
    made.now_ms += 1_001
    made.sender.in_flight_requests[1].sent_ms = made.now_ms
    made.poll(connected=False)
    assert made.errors() == {0: "TimeoutException"}
    assert made.send() is None, "nothing new leaves while the sequence is in doubt"
    made.answer(1, "NONE", 1)
    assert [numbers(request) for request in made.poll()] == [[(1_000, 0, 2)]] and made.errors()[1] is None


def test_fatal_answer_to_the_request_for_an_id_is_the_end() -> None:
    """CLUSTER_AUTHORIZATION_FAILED is for ever in 2.0."""
    made = earlier()
    made.send()
    made.answer(0, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    made.sender.poll(made.now_ms)
    made.sender.receive_id(InitProducerIdAnswer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    for _ in range(2):
        made.send()
    assert set(list(made.errors().values())[1:]) == {"ClusterAuthorizationException"} and made.sender.poll(0) == []


def test_refusal_whose_numbers_were_rewritten_twice_stops_the_run_and_is_never_told() -> None:
    """2.0 guards against negative sequences with an exception in its loop: that batch's future never completes."""
    made = earlier()
    made.send(2)
    assert made.sender.transaction_manager is not None
    made.sender.transaction_manager.entry(0).next_sequence = 1
    made.answer(0, "INVALID_TIMESTAMP")
    assert made.errors() == {} and made.sender.in_flight_batches[0] != []


def test_retention_renumbers_in_the_heaps_order() -> None:
    """UNKNOWN_PRODUCER_ID after retention numbers what is in flight in the order of a heap, which is not that of the sequences."""
    entry = EarlierPartitionEntry()
    batches = [numbered(sequence) for sequence in range(5)]
    for batch in batches:
        entry.add_in_flight(batch)
    entry.remove_in_flight(batches[0])
    assert [batch.base_sequence for batch in entry.in_flight] == [1, 3, 2, 4]
    entry.start_at_zero()
    assert [batch.base_sequence for batch in batches[1:]] == [0, 2, 1, 3] and entry.next_sequence == 4


def numbered(sequence: int) -> ProducerBatch:
    """A batch of one record with this sequence."""
    batch = closed_batch(0, 0, 0, [b""], 0)
    batch.number_from(7, 0, sequence)
    return batch
