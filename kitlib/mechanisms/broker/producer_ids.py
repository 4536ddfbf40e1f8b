"""Where producer ids come from: blocks of 1,000, so that a broker asks once for a thousand producers.

One place in the cluster says which block was allocated last. A broker takes the next one by writing it
there, and the write says which version it has read: of two brokers that read the same version one writes,
the other has lost the race and reads again. So no id is assigned twice. Ids left over when a
broker dies are never assigned: the broker takes a new block when it comes back.

In release 2.0 the place is a node of ZooKeeper, and every broker writes there itself. In 4.x the
controller is the only writer and keeps the next id in the metadata log; a broker asks it in the
background, before its block is used up, and answers "try again" while it has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.errors import KitError

PRODUCER_ID_BLOCK_SIZE = 1_000
MAX_PRODUCER_ID = 2**63 - 1
PREFETCH_AT = 900  # 4.x: giving out this id of a block makes the broker ask for the next one
RETRY_BACKOFF_MS = 50  # 4.x: after an error of the controller


class ProducerIdsExhaustedError(KitError):
    """No block is left below 2^63 - 1."""


class CoordinatorLoadInProgressError(KitError):
    """The broker has no id just now; the client is to ask again."""


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

    def generate(self, now_ms: int = 0) -> int:
        """A producer id that nobody else gets; the time does not matter. Raises ProducerIdsExhaustedError."""
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
class RpcProducerIdManager:
    """A broker of 4.x: asks the controller in the background, and has clients ask again while it has no block.

    Sans I/O: when `wants_block` is true, a request is under way; its answer is given to `receive`.

    Source: Apache Kafka 4.3.1, `RPCProducerIdManager`.
    Differs: nothing.
    """

    broker: int
    block: ProducerIdBlock | None = None  # ids are given out of it
    next_id: int = 0
    next_one: ProducerIdBlock | None = None  # has arrived, for when the block is used up
    wants_block: bool = False  # a request is under way
    retry_at_ms: int = 0  # none is sent before, as the controller answered the last one with an error

    def generate(self, now_ms: int) -> int:
        """A producer id that nobody else gets. Raises CoordinatorLoadInProgressError while there is none."""
        if self.left == 0:
            if self.next_one is None:
                self.maybe_request_block(now_ms)
                raise CoordinatorLoadInProgressError(
                    f"broker {self.broker}: it is waiting for a block of producer ids. Ask again soon."
                )
            self.block, self.next_one = self.next_one, None
            self.next_id = self.block.first
        assigned, self.next_id = self.next_id, self.next_id + 1
        if self.block is not None and assigned == self.block.first + PREFETCH_AT:
            self.maybe_request_block(now_ms)
        return assigned

    def maybe_request_block(self, now_ms: int) -> None:
        """Ask the controller, unless a block is there, or asked for, or an error was answered just now."""
        if self.next_one is None and not self.wants_block and now_ms >= self.retry_at_ms:
            self.wants_block = True

    def receive(self, block: ProducerIdBlock | None, now_ms: int) -> None:
        """The controller's answer; None for an error, after which the next request waits 50 ms.

        A block that begins below the end of the one in use counts as an error: its ids may be given out already.
        """
        self.wants_block = False
        if block is None or (self.block is not None and block.first < self.block.last):
            self.retry_at_ms = now_ms + RETRY_BACKOFF_MS
        else:
            self.next_one = block

    @property
    def left(self) -> int:
        """Ids of the block in use that were not given out."""
        return self.block.last - self.next_id + 1 if self.block else 0


@dataclass(slots=True)
class BrokerProducerIds:
    """A broker and the controller it asks, whose answer takes `controller_delay_ms`.

    With no delay the first block is there when the broker has started; the real one takes its first
    second, in which it answers "try again".
    """

    broker: int
    controller: ProducerIdControlManager = field(default_factory=ProducerIdControlManager)
    controller_delay_ms: int = 0
    manager: RpcProducerIdManager = field(init=False)
    answer_at_ms: int | None = None  # when the answer to the request under way arrives

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """The broker starts (again): what was left of its block is lost."""
        self.manager = RpcProducerIdManager(self.broker)
        self.answer_at_ms = None

    def generate(self, now_ms: int) -> int:
        """A producer id. Raises CoordinatorLoadInProgressError, without end when the ids are exhausted."""
        self._deliver(now_ms)
        try:
            return self.manager.generate(now_ms)
        except CoordinatorLoadInProgressError:
            if self.controller_delay_ms:
                raise
            self._deliver(now_ms)
            return self.manager.generate(now_ms)
        finally:
            if self.manager.wants_block and self.answer_at_ms is None:
                self.answer_at_ms = now_ms + self.controller_delay_ms

    def _deliver(self, now_ms: int) -> None:
        if not self.manager.wants_block or now_ms < (self.answer_at_ms or 0):
            return
        self.answer_at_ms = None
        try:
            self.manager.receive(self.controller.allocate(self.broker), now_ms)
        except ProducerIdsExhaustedError:
            self.manager.receive(None, now_ms)
