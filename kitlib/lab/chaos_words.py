"""The words of the proxy's rules: Kafka's APIs and errors by their names, and what can be done to a frame."""

from __future__ import annotations

# What a client may ask a broker of release 4.3, by the names of Kafka's protocol. Source: Kafka 4.3.1,
# clients/src/main/resources/common/message/*Request.json, those that listen to "broker".
APIS = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch", 10: "FindCoordinator",
    11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup", 15: "DescribeGroups", 16: "ListGroups",
    17: "SaslHandshake", 18: "ApiVersions", 19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords",
    22: "InitProducerId", 23: "OffsetForLeaderEpoch", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn",
    27: "WriteTxnMarkers", 28: "TxnOffsetCommit", 29: "DescribeAcls", 30: "CreateAcls", 31: "DeleteAcls",
    32: "DescribeConfigs", 33: "AlterConfigs", 34: "AlterReplicaLogDirs", 35: "DescribeLogDirs", 36: "SaslAuthenticate",
    37: "CreatePartitions", 38: "CreateDelegationToken", 39: "RenewDelegationToken", 40: "ExpireDelegationToken",
    41: "DescribeDelegationToken", 42: "DeleteGroups", 43: "ElectLeaders", 44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments", 46: "ListPartitionReassignments", 47: "OffsetDelete", 48: "DescribeClientQuotas",
    49: "AlterClientQuotas", 50: "DescribeUserScramCredentials", 51: "AlterUserScramCredentials", 55: "DescribeQuorum",
    57: "UpdateFeatures", 60: "DescribeCluster", 61: "DescribeProducers", 64: "UnregisterBroker",
    65: "DescribeTransactions", 66: "ListTransactions", 68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe",
    71: "GetTelemetrySubscriptions", 72: "PushTelemetry", 74: "ListConfigResources", 75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat", 77: "ShareGroupDescribe", 78: "ShareFetch", 79: "ShareAcknowledge", 80: "AddRaftVoter",
    81: "RemoveRaftVoter", 88: "StreamsGroupHeartbeat", 89: "StreamsGroupDescribe", 90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets", 92: "DeleteShareGroupOffsets",
}  # fmt: skip
# In a rule: whatever the API.
ANY_API = "any"

# What can be done to a request on its way to the broker, and to an answer on its way back.
ON_REQUESTS = {
    "lose_request": "the broker never sees it",
    "delay_request": "it is delivered `ms` later, and everything after it on its connection waits too",
    "duplicate_request": "the broker gets it twice, the client gets only the first answer",
    "reorder": "it waits until the next match has passed (with `across`, on any connection, until that is answered), or for `ms` (1,000)",
    "cut": "both sides of the connection are closed; the broker never sees it",
    "reset": "the broker gets one half, then both sides are reset (RST)",
    "stop_reading": "nothing is read from this client for `ms` (default: ten minutes), or until released",
    "slice": "it is passed on one byte at a time",
    "throttle": "it is passed on at `bytes_per_s`",
    "answer_error": "the broker never sees it; the client gets `error` as the answer",
}
ON_ANSWERS = {
    "lose_answer": "the client never sees it; the connection stays open, but most clients close it when later answers arrive",
    "delay_answer": "it is delivered `ms` later, and everything after it on its connection waits too",
    "cut_after_answer": "both sides of the connection are closed instead of passing it on",
    "withhold": "it is held back, along with everything after it on its connection, until released",
    "reset_answer": "the client gets one half, then both sides are reset (RST)",
    "slice_answer": "it is passed on one byte at a time",
    "throttle_answer": "it is passed on at `bytes_per_s`",
    "replace_answer": "the broker has processed the request, but the client gets `error` as the answer",
}
ACTIONS = {**ON_REQUESTS, **ON_ANSWERS}

# What a broker of release 4.3 may answer to a producer.
ERRORS = {
    "UNKNOWN_SERVER_ERROR": -1, "CORRUPT_MESSAGE": 2, "UNKNOWN_TOPIC_OR_PARTITION": 3, "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6, "REQUEST_TIMED_OUT": 7, "MESSAGE_TOO_LARGE": 10, "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15, "NOT_COORDINATOR": 16, "INVALID_TOPIC_EXCEPTION": 17, "RECORD_LIST_TOO_LARGE": 18,
    "NOT_ENOUGH_REPLICAS": 19, "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20, "INVALID_REQUIRED_ACKS": 21,
    "TOPIC_AUTHORIZATION_FAILED": 29, "CLUSTER_AUTHORIZATION_FAILED": 31, "INVALID_TIMESTAMP": 32,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": 43, "OUT_OF_ORDER_SEQUENCE_NUMBER": 45, "DUPLICATE_SEQUENCE_NUMBER": 46,
    "INVALID_PRODUCER_EPOCH": 47, "INVALID_TXN_STATE": 48, "INVALID_PRODUCER_ID_MAPPING": 49,
    "CONCURRENT_TRANSACTIONS": 51, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53, "KAFKA_STORAGE_ERROR": 56,
    "UNKNOWN_PRODUCER_ID": 59, "UNSUPPORTED_COMPRESSION_TYPE": 76, "INVALID_RECORD": 87, "THROTTLING_QUOTA_EXCEEDED": 89,
    "PRODUCER_FENCED": 90, "UNKNOWN_TOPIC_ID": 100, "TRANSACTION_ABORTABLE": 120,
}  # fmt: skip
APIS_WITH_ERRORS = ("Produce", "InitProducerId")
