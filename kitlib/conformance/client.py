"""Replays recorded scripts of the real client's classes on the kit's: metadata and the memory pool.

A script's `kind` says which class it drives. The recordings are of Kafka 4.3.1's own classes; the random part of the
metadata's backoff was set to 0 for them. A script ends where it came to something that the kit's class leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kitlib.conformance.golden import unknown
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.client.buffer_pool import Allocation, BufferPool
from kitlib.more.client.cluster import (
    MetadataRequest,
    MetadataResponse,
    Node,
    PartitionMetadata,
    TopicMetadata,
)
from kitlib.more.client.metadata import Metadata

Step = Callable[[str, dict[str, Any]], dict[str, Any]]  # operation, arguments -> result and state


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the class did at each step of one recorded script: its result, and its state."""
    step = STEPPERS[trace["config"]["kind"]](trace["config"])
    for each in trace["steps"]:
        yield step(each["op"], each["args"])


def _metadata_stepper(config: dict[str, Any]) -> Step:
    names = ("refresh_backoff_ms", "refresh_backoff_max_ms", "metadata_expire_ms", "metadata_idle_ms")
    metadata = Metadata(**{name: config[name] for name in names})

    def step(op: str, args: dict[str, Any]) -> dict[str, Any]:
        return {"result": _metadata_result(metadata, op, args), "state": metadata_state(metadata)}

    return step


CALLS = {  # operations that are the method of that name, with these arguments
    "add": "topic now_ms", "request_update": "", "request_update_for_topic": "topic",
    "time_to_next_update": "now_ms", "time_to_allow_update": "now_ms", "failed_update": "now_ms",
}  # fmt: skip
SHOWN = (  # of the state, fields that the recording calls by the same names
    "version", "request_version", "last_refresh_ms", "last_successful_refresh_ms", "attempts", "equivalent_response_count",
    "need_full_update", "need_partial_update",
)  # fmt: skip


def _metadata_result(metadata: Metadata, op: str, args: dict[str, Any]) -> Any:
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
        case "bootstrap":
            metadata.bootstrap([("127.0.0.1", 9092)])
        case "update_partition_leadership":
            leaders = {(topic, partition): (leader, epoch) for topic, partition, leader, epoch in args["leaders"]}
            moved = metadata.update_partition_leadership(leaders, [_node(number) for number in args["nodes"]])
            return sorted([topic, partition] for topic, partition in moved)
        case "update":
            request = MetadataRequest((), args["request_version"], args["is_partial"])
            metadata.update(request, response_of(args), args["now_ms"])
        case _:
            raise unknown(op)
    return None


def response_of(args: dict[str, Any]) -> MetadataResponse:
    """The answer in an update's arguments."""
    topics = []
    for topic in args["topics"]:
        told = (PartitionMetadata(topic["name"], number, leader, epoch) for number, leader, epoch in topic["partitions"])
        topics.append(TopicMetadata(topic["name"], ErrorCode[topic["error"]], tuple(told)))
    return MetadataResponse(tuple(_node(number) for number in args["brokers"]), tuple(topics))


def metadata_state(metadata: Metadata) -> dict[str, Any]:
    """All that the client knows, in the recording's words."""
    cluster = metadata.cluster
    epochs = {f"{topic}-{number}": epoch for (topic, number), epoch in metadata.last_seen_leader_epochs.items()}
    partitions = sorted([found.topic, found.partition, found.leader_id, found.leader_epoch] for found in cluster.partitions.values())
    return {name: getattr(metadata, name) for name in SHOWN} | {
        "topics": dict(metadata.topics),
        "new_topics": sorted(metadata.new_topics),
        "last_seen_leader_epochs": epochs,
        "partitions": partitions,
        "nodes": sorted(node.id for node in cluster.nodes),
        "errors": {name: error.name for name, error in metadata.errors.items()},
    }


def _node(number: int) -> Node:
    return Node(number, f"n{number}", 9)


def _pool_stepper(config: dict[str, Any]) -> Step:
    pool = BufferPool(config["total_memory"])
    asked: list[Allocation] = []

    def step(op: str, args: dict[str, Any]) -> dict[str, Any]:
        if op == "allocate":
            asked.append(pool.allocate(args["size"]))
        elif op == "deallocate":
            pool.deallocate(asked[args["allocation"]].size)
        else:
            raise unknown(op)
        granted = "".join("g" if each.is_granted else "w" for each in asked)
        return {"state": {"available": pool.available, "queued": pool.queued, "granted": granted}}

    return step


STEPPERS: dict[str, Callable[[dict[str, Any]], Step]] = {"metadata": _metadata_stepper, "pool": _pool_stepper}
