"""The words that a producer and a broker exchange: batches, requests, answers, error codes, sequence numbers.

A batch carries the producer's id and epoch and the sequence number of its first record; the broker
answers each batch of a request with an error code and, when it was written (or had been written
before), its offsets. Both sides of the idempotent producer in this folder, and the wire to a real
broker, speak these words.

Source: Apache Kafka 4.3.1, `Errors`, `DefaultRecordBatch`, `ProduceRequest` and `ProduceResponse`.
Differs: one topic at a time, so partitions are plain numbers; the codes that the kit never meets are
left out and read as UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

NO_PRODUCER_ID = -1  # a batch without idempotence
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1  # the sequence after it is 0
MAX_EPOCH = 2**15 - 1
INVALID_OFFSET = -1
BATCH_OVERHEAD_BYTES = 61  # the header of a record batch of format 2


def increment_sequence(sequence: int, by: int) -> int:
    """The sequence number `by` records later; 0 follows 2^31 - 1."""
    return (sequence + by) % (MAX_SEQUENCE + 1)


def varint_bytes(number: int) -> int:
    """How many bytes a number takes, zigzag and seven bits to the byte."""
    if -64 <= number < 64:
        return 1
    return -(-(number * 2 if number >= 0 else -number * 2 - 1).bit_length() // 7)


def record_bytes(value_bytes: int, index: int) -> int:
    """The bytes of a record in a batch: its value, and around it attributes, a time stamp's delta of 0, its index, no key, no headers.

    Source: Apache Kafka 4.3.1, `DefaultRecord.sizeOf`.
    Differs: nothing.
    """
    body = 4 + varint_bytes(index) + varint_bytes(value_bytes) + value_bytes
    return varint_bytes(body) + body


class ErrorCode(IntEnum):
    """The error codes of a broker's answer, with the numbers of the wire."""

    NO_OFFSET_FOR_PARTITION = -2  # the clients' own, and on no wire
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    GROUP_ID_NOT_FOUND = 69
    FENCED_LEADER_EPOCH = 74
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    TRANSACTIONAL_ID_NOT_FOUND = 105
    TRANSACTION_ABORTABLE = 120

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The name for a code from the wire; one that is not listed is UNKNOWN_SERVER_ERROR."""
        return cls(code) if code in cls._value2member_map_ else cls.UNKNOWN_SERVER_ERROR

    @property
    def is_retriable(self) -> bool:
        """Whether Java's client may send the same batch again after this answer."""
        return self in _RETRIABLE

    @property
    def wants_new_metadata(self) -> bool:
        """Whether Java's client asks for the topic's leaders again after this answer."""
        return self in _STALE_METADATA


_STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_RETRIABLE = _STALE_METADATA | {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of records as it travels: what the broker sees of it.

    `values` may be empty in runs that only count; `len(values)` is `count` otherwise.
    """

    partition: int
    count: int  # records, at least 1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE  # of the first record
    is_transactional: bool = False
    timestamp_ms: int = 0  # of its records
    values: tuple[bytes, ...] = ()

    @property
    def has_producer_id(self) -> bool:
        """Whether the broker is to watch its sequence numbers."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record; NO_SEQUENCE without idempotence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.count - 1)

    @property
    def size_bytes(self) -> int:
        """The size on the wire, uncompressed, of its values without keys and headers."""
        return BATCH_OVERHEAD_BYTES + sum(record_bytes(len(value), index) for index, value in enumerate(self.values))


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """At most one batch for each partition, to the broker that leads them."""

    number: int  # the client counts its produce requests from 0
    batches: tuple[Batch, ...]
    acks: int = -1  # -1: all replicas in sync, 1: the leader, 0: no answer at all
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """What the broker says of one batch."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: int = INVALID_OFFSET  # of its first record; that of the first copy for a duplicate
    log_start_offset: int = INVALID_OFFSET


ProduceAnswer = Mapping[int, PartitionAnswer]  # partition -> answer


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """Asks any broker for a producer id of one's own."""


@dataclass(frozen=True, slots=True)
class InitProducerIdAnswer:
    """A fresh producer id with epoch 0, or an error."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
