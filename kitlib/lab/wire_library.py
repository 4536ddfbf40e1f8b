"""What the wire takes from the protocol library (kafka-python), imported in one place.

The library reads its message definitions in a way that Python 3.11 and later warn of; whoever turns
warnings into errors, as the tests do, could not import it. Its own producer is here for the bench alone.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.errors import KafkaError, for_code
    from kafka.protocol.admin import DeleteRecordsRequest, DescribeProducersRequest, DescribeTransactionsRequest
    from kafka.protocol.api_key import ApiKey
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
    from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
    from kafka.protocol.producer import (
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        EndTxnRequest,
        InitProducerIdRequest,
        ProduceRequest,
        TxnOffsetCommitRequest,
        WriteTxnMarkersRequest,
    )
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from kafka.record.util import calc_crc32c as checksum_of_the_library

__all__ = [
    "AddOffsetsToTxnRequest", "AddPartitionsToTxnRequest", "ApiKey", "ApiMessage", "ApiVersionsRequest", "DefaultRecordBatch",
    "DefaultRecordBatchBuilder", "DeleteRecordsRequest", "DescribeProducersRequest", "DescribeTransactionsRequest",
    "EndTxnRequest", "FetchRequest", "FindCoordinatorRequest", "InitProducerIdRequest", "KafkaError", "KafkaProducer", "ListOffsetsRequest",
    "MetadataRequest", "OffsetFetchRequest", "ProduceRequest", "TxnOffsetCommitRequest", "WriteTxnMarkersRequest",
    "checksum_of_the_library", "for_code",
]  # fmt: skip
