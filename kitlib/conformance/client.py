"""Replays recorded scripts of the real client's classes on the kit's: metadata, the built-in partitioner, the memory pool.

A script's `kind` says which class it drives. The recordings are of Kafka 4.3.1's own classes; the random part of the
metadata's backoff was set to 0 for them, and the partitioner's chance is among the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kitlib.conformance.golden import quoted, unknown
from kitlib.errors import TraceError
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.client.backoff import ExponentialBackoff
from kitlib.more.client.buffer_pool import Allocation, BufferPool
from kitlib.more.client.cluster import (
    Cluster,
    MetadataRequest,
    MetadataResponse,
    Node,
    PartitionMetadata,
    TopicMetadata,
)
from kitlib.more.client.metadata import ProducerMetadata, TopicRefusedError
from kitlib.more.client.partitioner import BuiltInPartitioner

Step = Callable[[str, dict[str, Any]], dict[str, Any]]  # operation, arguments -> result and state
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
}


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the class did at each step of one recorded script: its result, and its state.

    TraceError for a kind, a setting, an operation or an argument that the recorder never writes.
    """
    config = trace.get("config", {})
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in STEPPERS:
        raise TraceError(f"kind is {quoted(kind)}, expected one of {', '.join(STEPPERS)}.")
    op, given = "config", config
    try:
        step = STEPPERS[kind](config)
        for each in trace["steps"]:
            op, given = each["op"], each.get("args", {})
            yield step(op, given)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"{op}: {quoted(given)} has no such argument ({error}).") from error


def _metadata_stepper(config: dict[str, Any]) -> Step:
    names = ("refresh_backoff_ms", "refresh_backoff_max_ms", "metadata_expire_ms", "metadata_idle_ms")
    metadata = ProducerMetadata(**{name: config[name] for name in names})
    metadata.refresh_backoff = ExponentialBackoff(config[names[0]], config[names[1]], jitter=0.0)

    def step(op: str, args: dict[str, Any]) -> dict[str, Any]:
        return {"result": _metadata_result(metadata, op, args), "state": metadata_state(metadata)}

    return step


CALLS = {  # operations that are the method of that name, with these arguments
    "add": "topic now_ms", "request_update": "reset_equivalent", "request_update_for_topic": "topic",
    "time_to_next_update": "now_ms", "time_to_allow_update": "now_ms", "failed_update": "now_ms",
}  # fmt: skip
SHOWN = (  # of the state, fields that the recording calls by the same names
    "version", "request_version", "last_refresh_ms", "last_successful_refresh_ms", "attempts", "equivalent_response_count",
    "need_full_update", "need_partial_update",
)  # fmt: skip


def _metadata_result(metadata: Any, op: str, args: dict[str, Any]) -> Any:
    if op in CALLS:
        return getattr(metadata, op)(*(args[name] for name in CALLS[op].split()))
    match op:
        case "new_request":
            request = metadata.new_request(args["now_ms"])
            return {
                "topics": sorted(request.topics),
                "request_version": request.request_version,
                "is_partial": request.is_partial,
            }
        case "update_last_seen_epoch":
            return metadata.update_last_seen_epoch((args["topic"], args["partition"]), args["leader_epoch"])
        case "bootstrap":
            metadata.bootstrap([("127.0.0.1", 9092)])
        case "raise_for_topic":
            try:
                metadata.raise_for_topic(args["topic"])
            except TopicRefusedError as refused:
                return REFUSALS[refused.error]
        case "update_partition_leadership":
            leaders = {(topic, partition): (leader, epoch) for topic, partition, leader, epoch in args["leaders"]}
            moved = metadata.update_partition_leadership(leaders, [_node(number) for number in args["nodes"]])
            return sorted([topic, partition] for topic, partition in moved)
        case "update":
            request = MetadataRequest(None, args["request_version"], args["is_partial"])
            metadata.update(request, response_of(args), args["now_ms"])
        case _:
            raise unknown(op)
    return None


def response_of(args: dict[str, Any]) -> MetadataResponse:
    """The answer in an update's arguments."""
    topics = []
    for topic in args["topics"]:
        partitions = tuple(
            PartitionMetadata(topic["name"], number, ErrorCode[error], leader, epoch, (0, 1), (0,))
            for number, error, leader, epoch in topic["partitions"]
        )
        topics.append(
            TopicMetadata(topic["name"], ErrorCode[topic["error"]], topic["id"], topic["is_internal"], partitions)
        )
    brokers = tuple(_node(number) for number in args["brokers"])
    return MetadataResponse(brokers, tuple(topics), "c", args["reliable_epochs"])


def metadata_state(metadata: Any) -> dict[str, Any]:
    """All that the client knows, in the recording's words."""
    cluster = metadata.cluster
    epochs = {f"{topic}-{number}": epoch for (topic, number), epoch in metadata.last_seen_leader_epochs.items()}
    partitions = sorted(
        [found.topic, found.partition, found.error.name, found.leader_id, found.leader_epoch]
        for found in cluster.partitions.values()
    )
    return {name: getattr(metadata, name) for name in SHOWN} | {
        "topics": dict(metadata.topics),
        "new_topics": sorted(metadata.new_topics),
        "last_seen_leader_epochs": epochs,
        "partitions": partitions,
        "nodes": sorted(node.id for node in cluster.nodes),
        "invalid_topics": sorted(cluster.invalid_topics),
        "unauthorized_topics": sorted(cluster.unauthorized_topics),
        "topic_ids": dict(cluster.topic_ids),
        "errors": {name: error.name for name, error in metadata.errors.items()},
    }


def _node(number: int) -> Node:
    return Node(number, f"n{number}", 9)


def _partitioner_stepper(config: dict[str, Any]) -> Step:
    chance = [0]
    has_leader = config["has_leader"]
    cluster = Cluster(
        (_node(0),), {("t", number): PartitionMetadata("t", number, leader_id=0 if led else None) for number, led in enumerate(has_leader)}
    )  # fmt: skip
    partitioner = BuiltInPartitioner("t", config["sticky_batch_size"], lambda: chance[0])

    def step(op: str, args: dict[str, Any]) -> dict[str, Any]:
        match op:
            case "peek":
                chance[0] = args["chance"]
                return {"result": partitioner.peek(cluster)}
            case "update":
                chance[0] = args["chance"]
                partitioner.peek(cluster)
                partitioner.update(args["appended_bytes"], cluster, args["enable_switch"])
                return {"result": partitioner.peek(cluster)}
            case "load_stats":
                sizes = args["queue_sizes"]
                partitioner.update_load_stats(sizes, range(len(sizes or ())), args["length"])
                return {"result": None}
        raise unknown(op)

    return step


def _pool_stepper(config: dict[str, Any]) -> Step:
    pool = BufferPool(config["total_memory"], config["poolable_size"])
    asked: list[Allocation] = []

    def step(op: str, args: dict[str, Any]) -> dict[str, Any]:
        match op:
            case "allocate":
                asked.append(pool.allocate(args["size"], 600_000, 0))
            case "deallocate":
                pool.deallocate(asked[args["allocation"]].size)
            case _:
                raise unknown(op)
        granted = "".join("g" if each.is_granted else "x" if each.error else "w" for each in asked)
        return {
            "state": {
                "unallocated": pool.non_pooled_available,
                "free": pool.free,
                "queued": pool.queued,
                "granted": granted,
            }
        }

    return step


STEPPERS: dict[str, Callable[[dict[str, Any]], Step]] = {
    "metadata": _metadata_stepper, "partitioner": _partitioner_stepper, "pool": _pool_stepper,
}  # fmt: skip
