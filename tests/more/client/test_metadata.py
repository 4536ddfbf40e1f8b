"""When the client asks for metadata: the rules of today and those of the source's time."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kitlib.errors import KnobError
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.client.backoff import ExponentialBackoff
from kitlib.more.client.cluster import (
    Cluster,
    MetadataRequest,
    MetadataResponse,
    Node,
    PartitionMetadata,
    TopicMetadata,
)
from kitlib.more.client.metadata import (
    EarlierMetadata,
    Metadata,
    ProducerMetadata,
    TopicRefusedError,
    producer_metadata,
)

NODES = (Node(0, "zero", 9092), Node(1, "one", 9092))


def answer(topic: str = "t", leader: int = 0, epoch: int = 0, error: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
    partitions = (PartitionMetadata(topic, 0, leader_id=leader, leader_epoch=epoch),) if error is ErrorCode.NONE else ()
    return MetadataResponse(NODES, (TopicMetadata(topic, error, "id", partitions=partitions),))


def answered(metadata: ProducerMetadata, response: MetadataResponse, now_ms: int) -> None:
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


def test_request_for_a_new_topic_in_4_3_waits_for_nothing() -> None:
    """Since 2.5 a topic that is new is asked for at once, and alone."""
    metadata = producer_metadata("4.3")
    metadata.add("old", 0)
    answered(metadata, answer("old"), 990)
    metadata.add("t", 1_000)
    assert metadata.time_to_next_update(1_000) == 0
    assert metadata.new_request(1_000) == MetadataRequest(("t",), 2, is_partial=True)


def test_update_that_fails_in_4_3_waits_longer_each_time() -> None:
    """100, 200, 400, 800, then always 1,000 ms, each 20 % more or less by chance."""
    metadata = ProducerMetadata(100, 1_000)
    metadata.bootstrap([("zero", 9092)])
    waits = []
    for now_ms in range(10_000, 70_000, 10_000):
        metadata.failed_update(now_ms)
        waits.append(metadata.time_to_next_update(now_ms))
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


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
    metadata = ProducerMetadata()
    metadata.bootstrap([("zero", 9092)])
    metadata.add("t", 0)
    wait = metadata.await_update(metadata.request_update_for_topic("t"), 1_000, 0)
    metadata.bootstrap([("zero", 9092)])
    assert not wait.is_over(metadata) and not wait.is_late(metadata, 999) and wait.is_late(metadata, 1_000)
    answered(metadata, answer(), 500)
    assert wait.is_over(metadata) and not wait.is_late(metadata, 1_000)


def test_update_by_a_partial_answer_keeps_the_other_topics_and_does_not_renew_them() -> None:
    """What is known of the others stays, and grows old."""
    metadata = ProducerMetadata(metadata_expire_ms=5_000)
    metadata.add("old", 0)
    metadata.request_update()
    answered(metadata, answer("old", leader=1), 100)
    metadata.add("t", 200)
    answered(metadata, answer("t"), 300)
    assert (metadata.cluster.leader_of("old", 0), metadata.cluster.leader_of("t", 0)) == (NODES[1], NODES[0])
    assert (metadata.last_refresh_ms, metadata.last_successful_refresh_ms) == (300, 100)


def test_raise_for_topic_that_is_refused_tells_once_and_clears_all() -> None:
    """Whoever sends to the topic hears of it, and the next one asks anew."""
    metadata = ProducerMetadata()
    metadata.add("t", 0)
    answered(metadata, answer("t", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 10)
    with pytest.raises(TopicRefusedError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        metadata.raise_for_topic("t")
    metadata.raise_for_topic("t")


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


def test_cluster_of_bootstrap_has_addresses_and_no_knowledge() -> None:
    """Brokers known from bootstrap.servers only have numbers below 0."""
    cluster = Cluster.bootstrap([("a", 1), ("b", 2)])
    assert [str(node) for node in cluster.nodes] == ["a:1 (id: -1)", "b:2 (id: -2)"]
    assert cluster.partition_count("t") is None and cluster.leader_of("t", 0) is None


class MetadataClock(RuleBasedStateMachine):
    """The three times against a model that remembers only what happened when, and failures by counting."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = Metadata(100, 1_000, 5_000)
        self.now_ms = 10_000
        self.wanted = False
        self.answered_ms = self.touched_ms = 0
        self.failures = 0
        self.version = 0

    @rule(ms=st.sampled_from([0, 1, 50, 100, 999, 5_000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def request(self) -> None:
        assert self.metadata.request_update(reset_equivalent=True) == self.version
        self.wanted = True

    @rule()
    def fail(self) -> None:
        self.metadata.failed_update(self.now_ms)
        self.failures += 1
        self.touched_ms = self.now_ms

    @precondition(lambda self: self.metadata.time_to_next_update(self.now_ms) == 0)
    @rule()
    def ask_and_answer(self) -> None:
        """Each answer names a newer leader, so that answers without news play no part."""
        request = self.metadata.new_request(self.now_ms)
        self.version += 1
        self.metadata.update(request, answer(epoch=self.version), self.now_ms)
        self.wanted, self.failures = False, 0
        self.answered_ms = self.touched_ms = self.now_ms

    @invariant()
    def asks_when_it_wants_to_and_may(self) -> None:
        expires_ms = self.answered_ms + 5_000
        wants_ms = self.now_ms if self.wanted else max(expires_ms, self.now_ms)
        backoff_ms = min(100 * 2 ** max(self.failures - 1, 0), 1_000)
        may_ms = max(self.touched_ms + backoff_ms, self.now_ms)
        assert self.metadata.time_to_next_update(self.now_ms) == max(wants_ms, may_ms) - self.now_ms
        assert self.metadata.version == self.version and self.metadata.need_update is self.wanted


TestMetadataClock = MetadataClock.TestCase
TestMetadataClock.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
