"""When the client asks for metadata, beyond what is recorded of the real class: the rules of the source's time, and who waits."""

from __future__ import annotations

from kitlib.more.client.cluster import MetadataResponse, Node, PartitionMetadata, TopicMetadata
from kitlib.more.client.metadata import EarlierMetadata, Metadata, exponential_backoff_ms

ANSWER = MetadataResponse((Node(0, "zero", 9092),), (TopicMetadata("t", partitions=(PartitionMetadata("t", 0, 0),)),))


def test_request_update_in_0_10_waits_for_the_backoff_and_no_longer() -> None:
    """The backoff of 0.10 counts from the last answer or failure and never grows."""
    metadata = EarlierMetadata(refresh_backoff_ms=100)
    metadata.bootstrap([("zero", 9092)], 1_000)
    assert metadata.time_to_next_update(1_161) == 299_839, "161 ms later, as in the source's log"
    metadata.add("t", 1_010)
    version = metadata.request_update()
    assert (version, metadata.time_to_next_update(1_040), metadata.time_to_next_update(2_000)) == (1, 60, 0)
    for now_ms in (2_000, 3_000, 4_000):
        metadata.failed_update(now_ms)
        assert metadata.time_to_next_update(now_ms) == 100


def test_backoff_doubles_up_to_its_maximum() -> None:
    """retry.backoff.max.ms below retry.backoff.ms: a constant wait."""
    assert [exponential_backoff_ms(100, 1_000, attempts) for attempts in range(6)] == [100, 200, 400, 800, 1_000, 1_000]
    assert [exponential_backoff_ms(100, 30, attempts) for attempts in range(3)] == [30] * 3


def test_await_update_ends_with_an_answer_and_not_with_a_new_beginning() -> None:
    """A rebootstrap raises the version, and wakes nobody."""
    metadata = Metadata()
    metadata.bootstrap([("zero", 9092)])
    metadata.add("t", 0)
    wait = metadata.await_update(metadata.request_update_for_topic("t"), 1_000, 0)
    metadata.bootstrap([("zero", 9092)])
    assert not wait.is_over(metadata)
    metadata.update(metadata.new_request(500), ANSWER, 500)
    assert wait.is_over(metadata)


def test_topic_that_is_idle_in_0_10_is_forgotten_five_minutes_after_an_answer() -> None:
    """There is no setting for it, and only an answer looks."""
    metadata = EarlierMetadata()
    metadata.add("t", 0)
    for now_ms, is_kept in ((1_000, True), (300_999, True), (301_000, False)):
        metadata.update(metadata.new_request(now_ms), ANSWER, now_ms)
        assert ("t" in metadata.topics) is is_kept
