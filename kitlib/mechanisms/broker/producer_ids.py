"""Where producer ids come from: blocks of 1,000, so that a broker asks once for a thousand producers.

One place in the cluster says which block was allocated last. A broker takes the next one by writing it
there, and the write says which version it has read: of two brokers that read the same version one writes,
the other has lost the race and reads again. So no id is assigned twice. Ids left over when a
broker dies are never assigned: the broker takes a new block when it comes back.

In release 2.0 the place is a node of ZooKeeper, and every broker writes there itself. In 4.x the
controller is the only writer and keeps the next id in the metadata log, and a broker asks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.errors import KitError

PRODUCER_ID_BLOCK_SIZE = 1_000
MAX_PRODUCER_ID = 2**63 - 1


class ProducerIdsExhaustedError(KitError):
    """No block is left below 2^63 - 1."""


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The ids from `first` to `last`, which belong to one broker."""

    broker: int
    first: int
    size: int = PRODUCER_ID_BLOCK_SIZE

    @property
    def last(self) -> int:
        """The last id of the block."""
        return self.first + self.size - 1


@dataclass(slots=True)
class ProducerIdNode:
    """The place that says which block was handed out last, written only by who has read its newest version.

    Source: Apache Kafka 2.0.0, ZooKeeper's node `/latest_producer_id_block`, `KafkaZkClient.conditionalUpdatePath`.
    Differs: the node is an object, not JSON.
    """

    block: ProducerIdBlock | None = None  # None before the first one
    version: int = 0  # one more with every write

    def read(self) -> tuple[ProducerIdBlock | None, int]:
        """The last block, and the version that a write must name."""
        return self.block, self.version

    def conditional_update(self, block: ProducerIdBlock, version: int) -> bool:
        """Write the block if nobody has written since `version` was read; whether it was written."""
        if version != self.version:
            return False
        self.block, self.version = block, version + 1
        return True


@dataclass(slots=True)
class ZkProducerIdManager:
    """A broker of release 2.0: takes its blocks itself, the first one when it starts.

    `take_block` is made of `read` and `write`, so that two brokers can be made to race between them.

    Source: Apache Kafka 2.0.0, `ProducerIdManager`.
    Differs: races that were lost are counted.
    """

    broker: int
    node: ProducerIdNode
    block: ProducerIdBlock | None = None  # None until the first one is taken
    next_id: int = 0  # the next id to give out; above the block's last when it is used up
    races_lost: int = 0  # blocks that another broker took first
    pending: tuple[ProducerIdBlock, int] | None = None  # what was read: the block wanted, and the node's version

    def __post_init__(self) -> None:
        self.take_block()

    def read(self) -> ProducerIdBlock:
        """Read the node: the block that will be wanted. Raises ProducerIdsExhaustedError, and nothing has changed."""
        last, version = self.node.read()
        if last is not None and last.last > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
            raise ProducerIdsExhaustedError(
                f"broker {self.broker}: the last producer id is {last.last}, so no block of {PRODUCER_ID_BLOCK_SIZE:,} is "
                f"left below {MAX_PRODUCER_ID}. Set up a new cluster."
            )
        wanted = ProducerIdBlock(self.broker, last.last + 1 if last else 0)
        self.pending = wanted, version
        return wanted

    def write(self) -> bool:
        """Try to take the block that was read; False when another broker was faster. KitError without a `read`."""
        if self.pending is None:
            raise KitError(f"broker {self.broker}: it has not read a block to take. Call read() first.")
        (wanted, version), self.pending = self.pending, None
        if not self.node.conditional_update(wanted, version):
            self.races_lost += 1
            return False
        self.block, self.next_id = wanted, wanted.first
        return True

    def take_block(self) -> None:
        """Read and write until it succeeds."""
        while True:
            self.read()
            if self.write():
                return

    def restart(self) -> None:
        """The broker starts again, with a block of its own: what was left of the old one is lost."""
        self.take_block()

    def generate(self) -> int:
        """A producer id that nobody else gets. Raises ProducerIdsExhaustedError."""
        if self.block is None or self.next_id > self.block.last:
            self.take_block()
        self.next_id += 1
        return self.next_id - 1

    @property
    def left(self) -> int:
        """Ids that are lost when the broker dies now."""
        return self.block.last - self.next_id + 1 if self.block else 0


@dataclass(slots=True)
class ProducerIdControlManager:
    """The controller of 4.x: the only one that hands out blocks, so nobody can lose a race.

    Source: Apache Kafka 4.3.1, `ProducerIdControlManager`.
    Differs: the metadata log, in which a new controller finds the next id, is a field.
    """

    next_first: int = 0  # the first id of the next block

    def allocate(self, broker: int) -> ProducerIdBlock:
        """A block for this broker. Raises ProducerIdsExhaustedError, and nothing has changed."""
        if self.next_first > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
            raise ProducerIdsExhaustedError(
                f"controller: the next producer id is {self.next_first}, so no block of {PRODUCER_ID_BLOCK_SIZE:,} is left "
                f"below {MAX_PRODUCER_ID}. Set up a new cluster."
            )
        block = ProducerIdBlock(broker, self.next_first)
        self.next_first = block.last + 1
        return block


@dataclass(slots=True)
class BrokerProducerIds:
    """A broker of 4.x: asks the controller for a block, and gives out its ids.

    Source: Apache Kafka 4.3.1, `RPCProducerIdManager`.
    Differs: it asks once its block is used up, and is answered at once. The real one asks in the background when nine tenths of
    a block are given out, and tells clients to come again while it has no id, without end when there are none.
    """

    broker: int
    controller: ProducerIdControlManager = field(default_factory=ProducerIdControlManager)
    block: ProducerIdBlock | None = None  # ids are given out of it; None until the first one is asked for
    next_id: int = 0

    def restart(self) -> None:
        """The broker starts again: what was left of its block is lost."""
        self.block = None

    def generate(self) -> int:
        """A producer id that nobody else gets. Raises ProducerIdsExhaustedError."""
        if self.block is None or self.next_id > self.block.last:
            self.block = self.controller.allocate(self.broker)
            self.next_id = self.block.first
        self.next_id += 1
        return self.next_id - 1
