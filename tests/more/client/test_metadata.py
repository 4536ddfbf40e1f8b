"""When the client asks for metadata: the rules of today and those of the source's time."""

from __future__ import annotations

from random import Random

import pytest

from kitlib.errors import KnobError
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.client.backoff import ExponentialBackoff
from kitlib.more.client.cluster import MetadataResponse, Node, PartitionMetadata, TopicMetadata
from kitlib.more.client.metadata import EarlierMetadata, Metadata, producer_metadata

NODES = (Node(0, "zero", 9092), Node(1, "one", 9092))


def answer(topic: str = "t", leader: int = 0, epoch: int = 0, error: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
    partitions = (PartitionMetadata(topic, 0, leader_id=leader, leader_epoch=epoch),) if error is ErrorCode.NONE else ()
    return MetadataResponse(NODES, (TopicMetadata(topic, error, partitions),))


def answered(metadata: Metadata, response: MetadataResponse, now_ms: int) -> None:
    metadata.update(metadata.new_request(now_ms), response, now_ms)


@pytest.mark.parametrize(
    "now_ms, expected",
    [(0, 299_839 + 161), (161, 299_839), (300_000, 0), (300_500, 0)],
    ids=["just updated", "161 ms later, as in the source's log", "expired now", "expired a while ago"],
)
def test_time_to_next_update_without_a_request_is_the_time_to_expiry(now_ms: int, expected: int) -> None:
    """Without a request, metadata is asked for when it is metadata.max.age.ms old."""
    metadata = producer_metadata("0.10", metadata_expire_ms=300_000)
    metadata.bootstrap([("zero", 9092)], 0)
    assert metadata.time_to_next_update(now_ms) == expected


def test_request_update_in_0_10_waits_for_the_backoff_and_no_longer() -> None:
    """The backoff of 0.10 counts from the last answer or failure and never grows."""
    metadata = producer_metadata("0.10", refresh_backoff_ms=100)
    metadata.bootstrap([("zero", 9092)], 1_000)
    metadata.add("t", 1_010)
    version = metadata.request_update()
    assert (version, metadata.time_to_next_update(1_040), metadata.time_to_next_update(2_000)) == (1, 60, 0)
    for now_ms in (2_000, 3_000, 4_000):
        metadata.failed_update(now_ms)
        assert metadata.time_to_next_update(now_ms) == 100


@pytest.mark.parametrize("attempts", range(6))
def test_backoff_with_chance_stays_within_a_fifth_and_below_the_maximum(attempts: int) -> None:
    """The random part never takes a wait beyond the maximum."""
    backoff, rng = ExponentialBackoff(100, 1_000), Random(1)
    low, high = backoff.backoff_ms(attempts, 0.0), backoff.backoff_ms(attempts, 1.0)
    middle = 100 * 2**attempts
    assert all(low <= backoff.backoff_ms(attempts, rng.random()) <= high <= 1_000 for _ in range(50))
    assert low == pytest.approx(0.8 * min(middle, 1_000), abs=1) and high == min(1.2 * middle, 1_000)


def test_backoff_whose_maximum_is_below_its_beginning_is_the_maximum() -> None:
    """retry.backoff.max.ms below retry.backoff.ms: a constant wait, without chance."""
    assert [ExponentialBackoff(100, 30).backoff_ms(attempts, 1.0) for attempts in range(4)] == [30] * 4
    with pytest.raises(KnobError, match="jitter"):
        ExponentialBackoff(100, 1_000, jitter=1.5)


def test_await_update_ends_with_an_answer_and_not_with_a_new_beginning() -> None:
    """A rebootstrap raises the version, and wakes nobody."""
    metadata = Metadata()
    metadata.bootstrap([("zero", 9092)])
    metadata.add("t", 0)
    wait = metadata.await_update(metadata.request_update_for_topic("t"), 1_000, 0)
    metadata.bootstrap([("zero", 9092)])
    assert not wait.is_over(metadata) and not wait.is_late(metadata, 999) and wait.is_late(metadata, 1_000)
    answered(metadata, answer(), 500)
    assert wait.is_over(metadata) and not wait.is_late(metadata, 1_000)


def test_topic_that_is_idle_in_0_10_is_forgotten_five_minutes_after_an_answer() -> None:
    """There is no setting for it, and only an answer looks."""
    metadata = EarlierMetadata()
    metadata.add("t", 0)
    for now_ms, is_kept in ((1_000, True), (300_999, True), (301_000, False)):
        answered(metadata, answer(), now_ms)
        assert ("t" in metadata.topics) is is_kept


def test_producer_metadata_of_an_unknown_release_or_a_negative_time_is_refused() -> None:
    """The message names the range."""
    with pytest.raises(KnobError, match=r"4\.3, 0\.10"):
        producer_metadata("1.0")
    with pytest.raises(KnobError, match="refresh_backoff_ms is -1, expected 0"):
        producer_metadata(refresh_backoff_ms=-1)
