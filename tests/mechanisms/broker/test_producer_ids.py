"""Blocks of producer ids: who gets which, what a race and a death waste, and what happens at the end of all ids."""

from __future__ import annotations

import pytest

from kitlib.errors import KitError
from kitlib.mechanisms.broker.producer_ids import (
    MAX_PRODUCER_ID,
    PREFETCH_AT,
    RETRY_BACKOFF_MS,
    BrokerProducerIds,
    CoordinatorLoadInProgressError,
    ProducerIdBlock,
    ProducerIdControlManager,
    ProducerIdNode,
    ProducerIdsExhaustedError,
    RpcProducerIdManager,
    ZkProducerIdManager,
)


def test_zk_two_brokers_take_blocks_that_follow_each_other() -> None:
    """The first broker has 0 to 999, the second 1000 to 1999, and each gives out its own."""
    node = ProducerIdNode()
    first, second = ZkProducerIdManager(1, node), ZkProducerIdManager(2, node)
    assert [first.generate(), first.generate(), second.generate()] == [0, 1, 1000]
    assert node.block == ProducerIdBlock(2, 1000) and node.block.last == 1999


def test_zk_block_used_up_takes_the_next_free_one() -> None:
    """Id 999 is given out, and the one after it is the first of a block that nobody has."""
    node = ProducerIdNode()
    first = ZkProducerIdManager(1, node)
    ZkProducerIdManager(2, node)
    assert [first.generate() for _ in range(1_001)][-2:] == [999, 2000]


def test_zk_lost_race_reads_again_and_wastes_nothing() -> None:
    """Both have read version 1; who writes second is refused, and takes the block after it."""
    node = ProducerIdNode(ProducerIdBlock(0, 0), version=1)
    first, second = (ZkProducerIdManager(broker, ProducerIdNode()) for broker in (1, 2))
    first.node = second.node = node
    assert first.read().first == second.read().first == 1000
    assert first.write() and not second.write()
    assert (second.races_lost, second.block) == (1, ProducerIdBlock(2, 0))
    second.take_block()
    assert [(each.block.first, each.block.last) for each in (first, second) if each.block] == [
        (1000, 1999),
        (2000, 2999),
    ]


def test_zk_write_without_read_is_an_error() -> None:
    """A version that was never read cannot be named; nothing is written."""
    node = ProducerIdNode()
    broker = ZkProducerIdManager(1, node)
    with pytest.raises(KitError, match=r"Call read\(\) first"):
        broker.write()
    assert node.version == 1


def test_zk_restart_wastes_what_was_left_of_the_block() -> None:
    """Three ids were given out; 997 never will be."""
    broker = ZkProducerIdManager(1, ProducerIdNode())
    assert [broker.generate() for _ in range(3)] == [0, 1, 2] and broker.left == 997
    broker.restart()
    assert broker.generate() == 1000


@pytest.mark.parametrize(("last", "fits"), [(MAX_PRODUCER_ID - 1_000, True), (MAX_PRODUCER_ID - 999, False)])
def test_zk_ids_exhausted_when_the_next_block_does_not_fit(last: int, fits: bool) -> None:
    """The last block may end at 2^63 - 1; above it nothing is taken, and the node stays as it is."""
    node = ProducerIdNode(ProducerIdBlock(0, last - 999))
    if fits:
        assert ZkProducerIdManager(1, node).block == ProducerIdBlock(1, last + 1) and last + 1_000 == MAX_PRODUCER_ID
        return
    with pytest.raises(ProducerIdsExhaustedError, match="Set up a new cluster"):
        ZkProducerIdManager(1, node)
    assert (node.block, node.version) == (ProducerIdBlock(0, last - 999), 0)


def test_rpc_first_id_has_to_wait_for_the_controller() -> None:
    """A broker that has just started answers "try again" until its block is there, and asks once."""
    broker, controller = RpcProducerIdManager(1), ProducerIdControlManager()
    for _ in range(3):
        with pytest.raises(CoordinatorLoadInProgressError):
            broker.generate(0)
    assert broker.wants_block
    broker.receive(controller.allocate(1), 5)
    assert [broker.generate(5), broker.generate(5)] == [0, 1] and not broker.wants_block


def test_rpc_next_block_is_asked_for_before_this_one_is_used_up() -> None:
    """Giving out id 900 of the block sends the request; the ids run on without a gap in time."""
    broker, controller = RpcProducerIdManager(1), ProducerIdControlManager()
    broker.next_one = controller.allocate(1)
    assert [broker.generate(0) for _ in range(PREFETCH_AT)][-1] == 899 and not broker.wants_block
    assert broker.generate(0) == 900 and broker.wants_block
    controller.allocate(2)  # another broker was faster
    broker.receive(controller.allocate(1), 0)
    assert [broker.generate(0) for _ in range(100)][-2:] == [999, 2000]


def test_rpc_error_of_the_controller_waits_before_it_asks_again() -> None:
    """After an error no request is sent for 50 ms, and a client has to wait."""
    broker = RpcProducerIdManager(1)
    with pytest.raises(CoordinatorLoadInProgressError):
        broker.generate(0)
    broker.receive(None, 10)
    for now, asks in ((10 + RETRY_BACKOFF_MS - 1, False), (10 + RETRY_BACKOFF_MS, True)):
        with pytest.raises(CoordinatorLoadInProgressError):
            broker.generate(now)
        assert broker.wants_block is asks


def test_rpc_block_below_the_one_in_use_is_refused() -> None:
    """Ids that may have been given out already are not taken; it counts as an error."""
    broker = RpcProducerIdManager(1, block=ProducerIdBlock(1, 5000), next_id=5999, wants_block=True)
    broker.receive(ProducerIdBlock(1, 4000), 0)
    assert broker.next_one is None and broker.retry_at_ms == RETRY_BACKOFF_MS
    broker.receive(ProducerIdBlock(1, 6000), 0)
    assert [broker.generate(0), broker.generate(0)] == [5999, 6000]


def test_broker_with_a_slow_controller_answers_try_again_until_it_has_answered() -> None:
    """Asked at 0, answered after 30 ms: before that there is no id, then the first one."""
    broker = BrokerProducerIds(1, controller_delay_ms=30)
    for now in (0, 29):
        with pytest.raises(CoordinatorLoadInProgressError):
            broker.generate(now)
    assert broker.generate(30) == 0


def test_broker_death_wastes_its_block_and_the_one_it_had_asked_for() -> None:
    """Before its death it had given out 0 to 900 and fetched 1000 to 1999; it goes on with 2000."""
    broker = BrokerProducerIds(1)
    assert [broker.generate(0) for _ in range(902)][-1] == 901
    assert broker.manager.next_one == ProducerIdBlock(1, 1000)
    broker.restart()
    assert broker.generate(0) == 2000


@pytest.mark.parametrize(("next_first", "fits"), [(MAX_PRODUCER_ID - 1_000, True), (MAX_PRODUCER_ID - 999, False)])
def test_controller_ids_exhausted_leaves_clients_waiting(next_first: int, fits: bool) -> None:
    """The controller refuses the block, which the broker does not tell: clients are to try again without end."""
    broker = BrokerProducerIds(1, ProducerIdControlManager(next_first))
    if fits:
        assert broker.generate(0) == next_first
        return
    for now in (0, 1_000, 1_000_000):
        with pytest.raises(CoordinatorLoadInProgressError):
            broker.generate(now)
    assert broker.controller.next_first == next_first
