"""How Java's client reports a failure to the application: one exception class for each error code.

Source: Apache Kafka 4.3.1, `Errors` and `org.apache.kafka.common.errors`; 2.0.0 for the names that differ there.
Differs: codes that `protocol.ErrorCode` does not list are UnknownServerException.
"""

from __future__ import annotations

from kitlib.mechanisms.protocol import ErrorCode

TIMEOUT = "TimeoutException"  # a batch expired, or a request timed out at the broker
KAFKA = "KafkaException"

_NAMES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.OFFSET_OUT_OF_RANGE: "OffsetOutOfRangeException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "UnknownTopicOrPartitionException",
    ErrorCode.LEADER_NOT_AVAILABLE: "LeaderNotAvailableException",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "NotLeaderOrFollowerException",
    ErrorCode.REQUEST_TIMED_OUT: TIMEOUT,
    ErrorCode.REPLICA_NOT_AVAILABLE: "ReplicaNotAvailableException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "CoordinatorLoadInProgressException",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "CoordinatorNotAvailableException",
    ErrorCode.NOT_COORDINATOR: "NotCoordinatorException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.NOT_ENOUGH_REPLICAS: "NotEnoughReplicasException",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "NotEnoughReplicasAfterAppendException",
    ErrorCode.INVALID_REQUIRED_ACKS: "InvalidRequiredAcksException",
    ErrorCode.ILLEGAL_GENERATION: "IllegalGenerationException",
    ErrorCode.UNKNOWN_MEMBER_ID: "UnknownMemberIdException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.INVALID_TIMESTAMP: "InvalidTimestampException",
    ErrorCode.UNSUPPORTED_VERSION: "UnsupportedVersionException",
    ErrorCode.INVALID_REQUEST: "InvalidRequestException",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "UnsupportedForMessageFormatException",
    ErrorCode.POLICY_VIOLATION: "PolicyViolationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_EPOCH: "InvalidProducerEpochException",
    ErrorCode.INVALID_TXN_STATE: "InvalidTxnStateException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.CONCURRENT_TRANSACTIONS: "ConcurrentTransactionsException",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "TransactionCoordinatorFencedException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.UNKNOWN_PRODUCER_ID: "UnknownProducerIdException",
    ErrorCode.FENCED_LEADER_EPOCH: "FencedLeaderEpochException",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "UnsupportedCompressionTypeException",
    ErrorCode.FENCED_INSTANCE_ID: "FencedInstanceIdException",
    ErrorCode.INVALID_RECORD: "InvalidRecordException",
    ErrorCode.PRODUCER_FENCED: "ProducerFencedException",
    ErrorCode.UNKNOWN_TOPIC_ID: "UnknownTopicIdException",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "TransactionalIdNotFoundException",
    ErrorCode.TRANSACTION_ABORTABLE: "TransactionAbortableException",
}

_NAMES_OF_2_0 = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "NotLeaderForPartitionException",
    ErrorCode.INVALID_PRODUCER_EPOCH: "ProducerFencedException",
    ErrorCode.PRODUCER_FENCED: "UnknownServerException",  # a code of later brokers
}


def exception_name(error: ErrorCode, release: str = "4.3") -> str:
    """The simple name of the exception class that the user is given for this error code."""
    if release == "2.0" and error in _NAMES_OF_2_0:
        return _NAMES_OF_2_0[error]
    return _NAMES.get(error, "UnknownServerException")
