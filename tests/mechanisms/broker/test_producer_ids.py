"""Blocks of producer ids: who gets which, what a race and a death waste, and what happens at the end of all ids."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.broker.producer_ids import (
    MAX_PRODUCER_ID,
    BrokerProducerIds,
    ProducerIdBlock,
    ProducerIdControlManager,
    ProducerIdNode,
    ProducerIdsExhaustedError,
    ZkProducerIdManager,
)


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


def test_controller_hands_out_each_block_once_and_a_death_wastes_the_rest() -> None:
    """Two brokers have blocks of their own; one that dies after three ids goes on with a new block."""
    controller = ProducerIdControlManager()
    first, second = BrokerProducerIds(1, controller), BrokerProducerIds(2, controller)
    assert [first.generate(), second.generate(), first.generate(), first.generate()] == [0, 1000, 1, 2]
    first.restart()
    assert [first.generate() for _ in range(1_001)][-2:] == [2999, 3000]


@pytest.mark.parametrize(("next_first", "fits"), [(MAX_PRODUCER_ID - 1_000, True), (MAX_PRODUCER_ID - 999, False)])
def test_controller_ids_exhausted_leaves_the_next_one_where_it_is(next_first: int, fits: bool) -> None:
    """The controller refuses a block that would not end below 2^63."""
    broker = BrokerProducerIds(1, ProducerIdControlManager(next_first))
    if fits:
        assert broker.generate() == next_first
        return
    with pytest.raises(ProducerIdsExhaustedError, match="controller: the next producer id is"):
        broker.generate()
    assert broker.controller.next_first == next_first
