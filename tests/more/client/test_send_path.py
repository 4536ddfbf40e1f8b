"""From `send` to the wire: what a call waits for, where its record goes, and when the loop is woken."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.protocol import (
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceRequest,
)
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node, PartitionMetadata, TopicMetadata
from kitlib.more.client.connections import MAX_LONG
from kitlib.more.client.network_client import ApiVersionsRequest, Connect, Send
from kitlib.more.client.send_path import KafkaProducer, SendConfig
from kitlib.more.hashes import partition_of_key

BROKER = Node(0, "zero", 9092)


def answer(partitions: int = 2, error: ErrorCode = ErrorCode.NONE, epoch: int = 0) -> MetadataResponse:
    told = tuple(PartitionMetadata("t", number, leader_id=0, leader_epoch=epoch) for number in range(partitions))
    return MetadataResponse((BROKER,), (TopicMetadata("t", error, partitions=told if error is ErrorCode.NONE else ()),))


class Rig:
    """A producer whose network answers at once, in the order in which it was asked."""

    def __init__(self, response: MetadataResponse | None = None, idempotent: bool = False, **settings: Any) -> None:
        names = ("linger_ms", "batch_size", "acks", "max_request_size", "delivery_timeout_ms")
        of_producer = {name: settings.pop(name) for name in names if name in settings}
        config = SendConfig(ProducerConfig(enable_idempotence=idempotent, **of_producer), **settings)
        self.producer = KafkaProducer(config, "t")
        self.response = answer() if response is None else response
        self.now_ms = 0
        self.sent: list[ProduceRequest] = []
        self.pending: list[Send] = []
        self.producer.start([("bootstrap", 9092)], 0)

    def turn(self, ms: int = 0) -> None:
        """Let the loop turn until it would sleep."""
        self.now_ms += ms
        for _ in range(12):
            sleep = self.producer.run_once(self.now_ms)
            effects = self.producer.client.take_effects()
            for effect in effects:
                if isinstance(effect, Connect):
                    self.producer.client.connected(effect.node, self.now_ms)
                elif isinstance(effect, Send):
                    self._answer(effect)
            if not effects and sleep.least_ms > 0 and not self.producer.is_woken:
                return

    def _answer(self, effect: Send) -> None:
        told: Any = None
        if isinstance(effect.request, MetadataRequest):
            told = self.response
        elif isinstance(effect.request, InitProducerIdRequest):
            told = InitProducerIdAnswer(ErrorCode.NONE, 7, 0)
        elif isinstance(effect.request, ProduceRequest):
            self.sent.append(effect.request)
            self.pending.append(effect)
            return
        assert told is not None or isinstance(effect.request, ApiVersionsRequest)
        self.producer.receive(effect.node, effect.number, told, self.now_ms)

    def know(self) -> None:
        """A first record makes the topic known."""
        self.producer.send(b"first", self.now_ms)
        self.turn(1_000)
        self.turn(1_000)
        self.producer.advance(self.now_ms)
        self.turn()
        self.acknowledge()

    def acknowledge(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answer every produce request that is out."""
        for effect in self.pending:
            assert isinstance(effect.request, ProduceRequest)
            told = {batch.partition: PartitionAnswer(error, 0) for batch in effect.request.batches}
            self.producer.receive(effect.node, effect.number, told, self.now_ms)
        self.pending = []
        self.turn()


def test_send_to_an_unknown_topic_waits_and_goes_on_with_the_answer() -> None:
    """The call blocks, the loop asks, the answer lets it go on."""
    rig = Rig()
    sending = rig.producer.send(b"x", 0)
    assert (sending.state, rig.producer.is_woken) == ("metadata", True)
    rig.turn(200)
    rig.turn(200)
    assert rig.producer.advance(rig.now_ms) == [sending]
    assert (sending.state, sending.is_new_batch) == ("appended", True)


def test_send_that_waits_for_metadata_and_memory_has_max_block_for_both() -> None:
    """What the metadata took is missing from the time for memory."""
    rig = Rig(max_block_ms=1_000, buffer_memory=16_384)
    first, second = rig.producer.send(b"x", 0, partition=0), rig.producer.send(b"y", 0, partition=1)
    rig.turn(300)
    rig.turn(300)
    rig.producer.advance(rig.now_ms)
    assert (first.state, second.state, second.deadline_ms) == ("appended", "memory", 1_000)
    assert rig.producer.advance(999) == [] and rig.producer.next_deadline_ms() == 1_000
    assert [sending.error for sending in rig.producer.advance(1_000)] == ["BufferExhaustedException"]


@pytest.mark.parametrize(
    "release, words", [("4.3", "Topic t not present in metadata after 500 ms."), ("0.10", "Failed to update metadata after 500 ms.")]
)
def test_send_to_a_topic_that_never_comes_fails_after_max_block(release: str, words: str) -> None:
    """Each answer says that there is none; the call asks again until its time is up."""
    rig = Rig(answer(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), max_block_ms=500, release=release)
    sending = rig.producer.send(b"x", 0)
    rig.turn(200)
    rig.turn(299)
    assert rig.producer.advance(499) == []
    assert rig.producer.advance(500) == [sending]
    assert (sending.error, sending.message) == ("TimeoutException", words)


def test_send_to_a_partition_that_is_not_there_waits_for_it() -> None:
    """The topic may have grown since it was asked for."""
    rig = Rig(max_block_ms=5_000)
    rig.know()
    sending = rig.producer.send(b"x", rig.now_ms, partition=2)
    assert sending.state == "metadata"
    rig.response = answer(partitions=3)
    rig.turn(1_000)
    rig.producer.advance(rig.now_ms)
    assert (sending.state, sending.partition) == ("appended", 2)


@pytest.mark.parametrize("key", [b"a", b"b", b"c", b"a longer key"])
def test_send_with_a_key_goes_where_its_hash_says(key: bytes) -> None:
    """Whatever the sticky partition is."""
    rig = Rig(answer(partitions=5))
    rig.know()
    assert rig.producer.send(b"x", rig.now_ms, key=key).partition == partition_of_key(key, 5)


def test_send_of_a_record_that_can_never_be_sent_fails_at_once() -> None:
    """Larger than max.request.size, or than the whole memory."""
    for settings in ({"max_request_size": 1_000}, {"buffer_memory": 1_000, "batch_size": 500}):
        rig = Rig(**settings)
        rig.know()
        assert rig.producer.send(b"x" * 1_000, rig.now_ms).error == "RecordTooLargeException"


def test_send_with_batches_larger_than_the_memory_throws() -> None:
    """batch.size above buffer.memory is no ConfigException: the first call of send ends with it."""
    rig = Rig(buffer_memory=1_000, batch_size=16_384)
    sending = rig.producer.send(b"x", 0)
    rig.turn(200)
    rig.turn(200)
    rig.producer.advance(rig.now_ms)
    assert (sending.error, sending.message) == ("IllegalArgumentException", "16384 bytes, and buffer.memory is 1000")


def test_send_wakes_the_loop_for_a_new_or_full_batch_and_not_in_between() -> None:
    """And, once a second batch waits behind a full one, for every record."""
    rig = Rig(answer(partitions=1), linger_ms=1_000, batch_size=400)
    rig.know()
    rig.turn(1_000)
    rig.acknowledge()
    woken = []
    for _ in range(12):
        rig.producer.is_woken = False
        rig.producer.send(b"x" * 50, rig.now_ms)
        woken.append(rig.producer.is_woken)
    in_first = rig.producer.sender.accumulator.queues[0][0].count
    assert woken == [True] + [False] * (in_first - 1) + [True] * (12 - in_first)


def test_run_once_with_somebody_waiting_for_memory_sends_what_lingers() -> None:
    """linger.ms is not waited for while there is no memory."""
    rig = Rig(answer(partitions=1), linger_ms=60_000, buffer_memory=400, batch_size=200, delivery_timeout_ms=120_000)
    rig.know()
    rig.turn(60_000)
    rig.acknowledge()
    before = len(rig.sent)
    for _ in range(2):
        rig.producer.send(b"x" * 100, rig.now_ms)
    rig.turn()
    lingering = len(rig.sent)
    blocked = rig.producer.send(b"x" * 100, rig.now_ms)
    rig.turn()
    assert blocked.state == "memory" and len(rig.sent) > lingering >= before
    rig.acknowledge()
    rig.producer.advance(rig.now_ms)
    assert blocked.state == "appended"


def test_run_once_with_idempotence_gets_an_id_before_the_first_batch() -> None:
    """Until then nothing leaves, and the loop looks again after retry.backoff.ms."""
    rig = Rig(idempotent=True)
    rig.producer.run_once(0)
    assert rig.producer.client.select.poll_ms == 100
    rig.know()
    manager = rig.producer.sender.transaction_manager
    assert manager is not None and manager.producer_id == 7
    assert [batch.producer_id for request in rig.sent for batch in request.batches] == [7]


def test_run_once_without_acks_has_its_memory_back_at_once() -> None:
    """Nobody is waited for."""
    rig = Rig(answer(partitions=1), acks=0)
    rig.know()
    assert rig.producer.pool.available == rig.producer.config.buffer_memory
    assert [done.error for done in rig.producer.completed()] == [None]


def test_poll_timeout_with_nothing_to_do_is_without_end_and_with_a_batch_its_linger() -> None:
    """The loop sleeps until the batch has lingered, or expires."""
    rig = Rig(answer(partitions=1), linger_ms=300)
    rig.know()
    rig.turn(300)
    rig.acknowledge()
    assert rig.producer.poll_timeout_ms(rig.now_ms) == MAX_LONG
    rig.producer.send(b"x", rig.now_ms)
    assert rig.producer.poll_timeout_ms(rig.now_ms + 100) == 200


def test_receive_of_not_leader_wants_metadata_and_a_named_leader_is_believed() -> None:
    """The batch goes back into its queue; a newer epoch changes the leader, an older one does not."""
    rig = Rig(answer(partitions=1))
    rig.know()
    rig.producer.send(b"x", rig.now_ms)
    rig.turn()
    rig.response = answer(partitions=1, epoch=1)
    (effect,) = rig.pending
    rig.producer.receive(effect.node, effect.number, {0: PartitionAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)}, rig.now_ms)
    assert rig.producer.metadata.need_full_update
    assert rig.producer.move_leader(Node(1, "one", 9092), 3) and not rig.producer.move_leader(Node(2, "two", 9092), 2)
    leader = rig.producer.leader
    assert leader is not None and leader.id == 1


def test_send_config_with_an_unknown_release_or_negative_sizes_is_refused() -> None:
    """The message names what can be given."""
    with pytest.raises(KnobError, match=r"4\.3, 0\.10"):
        SendConfig(release="2.0")
    with pytest.raises(KnobError, match="buffer_memory -1"):
        SendConfig(buffer_memory=-1)
    assert not SendConfig(release="0.10").for_sender.enable_idempotence
