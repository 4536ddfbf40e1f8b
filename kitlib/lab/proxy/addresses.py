"""Where answers name brokers: each address is replaced by the one at which the proxy stands for that broker.

A client learns from its first broker where the others are, and from then on whom to ask for what. So whoever stands before a
cluster must have all of them come to itself. Answers that name a broker are read and written by the protocol library
(kafka-python), in the client's version; all others are not looked into.
Source: Kafka 4.3.1, common/message: MetadataResponse.json, FindCoordinatorResponse.json, DescribeClusterResponse.json, and the
NodeEndpoints of ProduceResponse.json, FetchResponse.json, ShareFetchResponse.json, ShareAcknowledgeResponse.json, by which a
broker that no longer leads a partition says who does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from kitlib.lab.messages import message
from kitlib.lab.proxy.frames import Request, decoded, encoded

# From a broker's host and port to those that a client is told.
Door = Callable[[str, int], tuple[str, int]]
# By API: how its answer is read, the first version that names brokers, and under which name; "": the answer itself is one.
NAMING: dict[str, tuple[Any, int, str]] = {
    "Metadata": (MetadataResponse, 0, "brokers"),
    "DescribeCluster": (DescribeClusterResponse, 0, "brokers"),
    "FindCoordinator": (FindCoordinatorResponse, 0, "coordinators"),
    "Produce": (ProduceResponse, 10, "node_endpoints"),
    "Fetch": (FetchResponse, 16, "node_endpoints"),
    "ShareFetch": (message("ShareFetchResponse"), 0, "node_endpoints"),
    "ShareAcknowledge": (message("ShareAcknowledgeResponse"), 0, "node_endpoints"),
}
# Before this version a FindCoordinator asks for one coordinator, and the answer is that one.
FIRST_WITH_COORDINATORS = 4


def may_name_brokers(request: Request) -> bool:
    """Whether the answer to this request may hold addresses of brokers."""
    return request.api in NAMING and request.version >= NAMING[request.api][1]


def with_doors(request: Request, answer: bytes, door: Door) -> bytes:
    """The answer to this request, as a whole frame, with each broker's address as `door` tells it; GarbageError when it cannot be read."""
    response, _, name = NAMING[request.api]
    said = decoded(response, request.version, answer)
    is_one = response is FindCoordinatorResponse and request.version < FIRST_WITH_COORDINATORS
    named = [said] if is_one else [each for each in getattr(said, name) or () if each.host]
    if not named or not named[0].host:  # a coordinator that is not there yet has no address
        return answer
    for each in named:
        each.host, each.port = door(each.host, each.port)
    return encoded(said, request.correlation_id)
