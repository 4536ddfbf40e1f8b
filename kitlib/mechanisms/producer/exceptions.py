"""How Java's client reports a failure to the application: one exception class for each error code.

Source: Apache Kafka 4.3.1, `Errors` and `org.apache.kafka.common.errors`; 2.0.0 for the names that differ there.
Differs: codes that `protocol.ErrorCode` does not list are UnknownServerException.
"""

from __future__ import annotations

import re

from kitlib.mechanisms.protocol import ErrorCode

TIMEOUT = "TimeoutException"  # a batch expired, or a request timed out at the broker
KAFKA = "KafkaException"
_LAST_WORD = re.compile(r"_(EXCEPTION|FAILED|NUMBER|ERROR)$")  # of a code, which its class does not have

_NAMES = {  # of the classes that are not called as the code is
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: TIMEOUT,
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
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
    return _NAMES.get(error) or _LAST_WORD.sub("", error.name).title().replace("_", "") + "Exception"
