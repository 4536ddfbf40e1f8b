"""The settings of the whole send path, and one call of `send` in progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kitlib.errors import KnobError
from kitlib.kafka.client.connections import ClusterConnectionStates
from kitlib.kafka.client.earlier_metadata import RELEASES
from kitlib.kafka.client.metadata import Metadata, MetadataWait
from kitlib.kafka.client.network_client import MAX_INT, NetworkClient
from kitlib.kafka.producer.buffer_pool import Allocation
from kitlib.kafka.producer.config import ProducerConfig


@dataclass(frozen=True, slots=True)
class SendConfig:
    """The settings of the whole path, under Kafka's names. Times in ms, sizes in bytes.

    Source: Apache Kafka 4.3.1, `ProducerConfig`; 0.10.1.0 with `release` "0.10", which has no idempotence.
    Differs: as `ProducerConfig` of this folder. With "0.10" the sender follows 2.0's rules, which expire a batch as 0.10's do.
    """

    producer: ProducerConfig = field(default_factory=ProducerConfig)
    max_block_ms: int = 60_000
    buffer_memory: int = 33_554_432
    metadata_max_age_ms: int = 300_000
    metadata_max_idle_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000
    adaptive_partitioning: bool = True  # partitioner.adaptive.partitioning.enable
    release: str = "4.3"

    def __post_init__(self) -> None:
        if self.release not in RELEASES:
            raise KnobError(f"release is {self.release!r}. Give one of {', '.join(RELEASES)}.")
        if self.max_block_ms < 0 or self.buffer_memory < 0:
            raise KnobError(
                f"max_block_ms is {self.max_block_ms} and buffer_memory {self.buffer_memory}, expected 0 or more."
            )

    @property
    def for_sender(self) -> ProducerConfig:
        """What the sender is made with."""
        if self.release == "4.3":
            return self.producer
        return replace(self.producer, release="2.0", enable_idempotence=False)


@dataclass(slots=True, eq=False)
class Sending:
    """One call of `send`, from its beginning to its return."""

    number: int
    topic: str
    value: bytes
    key: bytes | None
    wanted_partition: int | None
    begun_ms: int
    deadline_ms: int  # for metadata and memory together
    state: str = "metadata"  # what it waits for: "metadata" or "memory"; "appended" or "failed" once it returned
    wait: MetadataWait | None = None
    waited_on_metadata_ms: int = 0
    allocation: Allocation | None = None
    partition: int | None = None  # once it is chosen
    batch: int | None = None  # the batch's send number, see `Completion.send`
    is_new_batch: bool = False
    wakes_sender: bool = False  # its batch is new or full
    error: str | None = None  # an exception class of Java's client
    message: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the call has returned."""
        return self.state in ("appended", "failed")


def network_client(config: SendConfig, metadata: Metadata, luck: Callable[[], float]) -> NetworkClient:
    """A producer's connections; by the rules of 0.10 an attempt is never given up, and no backoff grows."""
    earlier, producer = config.release == "0.10", config.for_sender
    connections = ClusterConnectionStates(
        config.reconnect_backoff_ms,
        config.reconnect_backoff_ms if earlier else config.reconnect_backoff_max_ms,
        MAX_INT if earlier else config.connection_setup_timeout_ms,
        MAX_INT if earlier else 30_000,  # socket.connection.setup.timeout.max.ms
        luck,
    )
    return NetworkClient(
        metadata,
        config.release,
        producer.request_timeout_ms,
        producer.max_in_flight_requests_per_connection,
        connections,
        luck=luck,
    )
