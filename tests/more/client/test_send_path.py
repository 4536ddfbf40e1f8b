"""From `send` to the wire, where no story comes: sizes, memory, when the loop is woken, and a leader that is told."""

from __future__ import annotations

from typing import Any

from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import InFlightRequest
from kitlib.mechanisms.protocol import ErrorCode, PartitionAnswer
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node, PartitionMetadata, TopicMetadata
from kitlib.more.client.network_client import Connect, Send
from kitlib.more.client.send_path import KafkaProducer

BROKER = Node(0, "zero", 9092)


class Rig:
    """A producer whose network answers at once, but to produce requests, in the order in which it was asked."""

    def __init__(self, **settings: Any) -> None:
        names = ("linger_ms", "batch_size", "max_request_size", "delivery_timeout_ms")
        of_producer = {name: settings.pop(name) for name in names if name in settings}
        self.producer = KafkaProducer(ProducerConfig(enable_idempotence=False, **of_producer), "t", **settings)
        self.now_ms = 0
        self.pending: list[tuple[Send, InFlightRequest]] = []
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
                elif isinstance(effect, Send) and isinstance(effect.request, InFlightRequest):
                    self.pending.append((effect, effect.request))
                elif isinstance(effect, Send):
                    told = TopicMetadata("t", partitions=(PartitionMetadata("t", 0, 0),))
                    answer = MetadataResponse((BROKER,), (told,)) if isinstance(effect.request, MetadataRequest) else None
                    self.producer.receive(effect.node, effect.number, answer, self.now_ms)
            if not effects and sleep.least_ms > 0 and not self.producer.is_woken:
                return

    def know(self) -> None:
        """A first record makes the topic known, and is stored."""
        self.producer.send(b"first", self.now_ms)
        for _ in range(2):
            self.turn(1_000)
        self.producer.advance(self.now_ms)
        self.turn(self.producer.config.linger_ms)
        self.acknowledge()

    def acknowledge(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answer every produce request that is out."""
        for effect, sent in self.pending:
            told = {batch.partition: PartitionAnswer(error, 0) for batch in sent.request.batches}
            self.producer.receive(effect.node, effect.number, told, self.now_ms)
        self.pending = []
        self.turn()


def test_send_that_waits_for_metadata_and_memory_has_max_block_for_both() -> None:
    """What the metadata took is missing from the time for memory."""
    rig = Rig(max_block_ms=1_000, buffer_memory=200, batch_size=200)
    first, second = (rig.producer.send(b"x" * 100, 0) for _ in range(2))
    for _ in range(2):
        rig.turn(300)
    rig.producer.advance(rig.now_ms)
    assert (first.state, second.state, second.deadline_ms) == ("appended", "memory", 1_000)
    assert rig.producer.advance(999) == [] and rig.producer.next_deadline_ms() == 1_000
    assert [sending.error for sending in rig.producer.advance(1_000)] == ["BufferExhaustedException"]


def test_send_of_a_record_that_can_never_be_sent_fails_at_once() -> None:
    """Larger than max.request.size, or than the whole memory; batch.size above buffer.memory is found out here as well."""
    for settings in ({"max_request_size": 1_000}, {"buffer_memory": 1_000, "batch_size": 500}):
        rig = Rig(**settings)
        rig.know()
        assert rig.producer.send(b"x" * 1_000, rig.now_ms).error == "RecordTooLargeException"
    rig = Rig(buffer_memory=1_000, batch_size=16_384)
    sending = rig.producer.send(b"x", 0)
    for _ in range(2):
        rig.turn(200)
    rig.producer.advance(rig.now_ms)
    assert (sending.error, sending.message) == ("IllegalArgumentException", "16384 bytes, and buffer.memory is 1000")


def test_send_wakes_the_loop_for_a_new_or_full_batch_and_not_in_between() -> None:
    """And, once a second batch waits behind a full one, for every record."""
    rig = Rig(linger_ms=1_000, batch_size=400)
    rig.know()
    woken = []
    for _ in range(12):
        rig.producer.is_woken = False
        rig.producer.send(b"x" * 50, rig.now_ms)
        woken.append(rig.producer.is_woken)
    in_first = rig.producer.accumulator.queues[0][0].count
    assert woken == [True] + [False] * (in_first - 1) + [True] * (12 - in_first)


def test_run_once_with_somebody_waiting_for_memory_sends_what_lingers() -> None:
    """linger.ms is not waited for while there is no memory."""
    rig = Rig(linger_ms=60_000, buffer_memory=400, batch_size=200, delivery_timeout_ms=120_000)
    rig.know()
    for _ in range(2):
        rig.producer.send(b"x" * 100, rig.now_ms)
    rig.turn()
    lingering = len(rig.pending)
    blocked = rig.producer.send(b"x" * 100, rig.now_ms)
    rig.turn()
    assert blocked.state == "memory" and len(rig.pending) > lingering
    rig.acknowledge()
    rig.producer.advance(rig.now_ms)
    assert blocked.state == "appended"


def test_named_leader_is_believed_if_it_is_newer() -> None:
    """A newer epoch changes the leader, an older one does not."""
    rig = Rig()
    rig.know()
    assert rig.producer.move_leader(Node(1, "one", 9092), 3) and not rig.producer.move_leader(Node(2, "two", 9092), 2)
    leader = rig.producer.leader
    assert leader is not None and leader.id == 1
