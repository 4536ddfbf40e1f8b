"""The kit's metadata, partitioner and memory pool against Kafka 4.3.1's own, and against bugs planted by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kitlib.conformance.client import replay
from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.errors import TraceError
from kitlib.kafka.client.cluster import Cluster, MetadataRequest, MetadataResponse, PartitionMetadata
from kitlib.kafka.client.metadata import Metadata, ProducerMetadata
from kitlib.kafka.producer.buffer_pool import Allocation, BufferPool
from kitlib.kafka.producer.partitioner import BuiltInPartitioner

FILES = {name: list(read_traces(bundled("client", f"{name}.jsonl.gz"))) for name in ("metadata", "partitioner", "pool")}


class NewTopicsWait(ProducerMetadata):
    """A new topic waits for the backoff."""

    def request_update_for_new_topics(self) -> int:
        last_ms = self.last_refresh_ms
        version = ProducerMetadata.request_update_for_new_topics(self)
        self.last_refresh_ms = last_ms
        return version


class PartialClearsAll(ProducerMetadata):
    """An answer about new topics counts as one about everything."""

    def update(self, request: MetadataRequest, response: MetadataResponse, now_ms: int) -> None:
        ProducerMetadata.update(self, request, response, now_ms)
        self.need_full_update = False


class BelievesOldLeaders(ProducerMetadata):
    """An older leader epoch is believed."""

    def _newest(self, told: PartitionMetadata, is_reliable: bool, topic_id: str | None) -> PartitionMetadata | None:
        self.last_seen_leader_epochs.pop(told.key, None)
        return Metadata._newest(self, told, is_reliable, topic_id)


class FailureIsForgotten(ProducerMetadata):
    """Failures do not add up."""

    def failed_update(self, now_ms: int) -> None:
        ProducerMetadata.failed_update(self, now_ms)
        self.attempts = 1


class IdleTopicsStay(ProducerMetadata):
    """A topic is kept for good."""

    def retains(self, topic: str, now_ms: int) -> bool:
        return topic in self.topics


class NewsIsNoNews(ProducerMetadata):
    """Answers are counted as without news whatever they bring."""

    def update(self, request: MetadataRequest, response: MetadataResponse, now_ms: int) -> None:
        count = self.equivalent_response_count
        ProducerMetadata.update(self, request, response, now_ms)
        self.equivalent_response_count = count + 1


class SwitchesAtOnce(BuiltInPartitioner):
    """The partition is changed while its batch is open."""

    def update(self, appended_bytes: int, cluster: Cluster, enable_switch: bool = True) -> bool:
        return BuiltInPartitioner.update(self, appended_bytes, cluster, True)


class IgnoresQueues(BuiltInPartitioner):
    """Long queues are as likely as short ones."""

    def update_load_stats(self, *arguments: Any) -> None:
        self.load_stats = None


class CollectsNothing(BufferPool):
    """A waiter takes all or nothing."""

    def _serve(self) -> None:
        while self.waiters and self.available >= self.waiters[0].size:
            first = self.waiters.popleft()
            self._free_up(first.size)
            self.non_pooled_available -= first.size
            first.is_granted = True


class KeepsNoBuffers(BufferPool):
    """Buffers of the usual size are not kept."""

    def deallocate(self, size: int) -> None:
        self.non_pooled_available += size
        self._serve()


class LastComeFirstServed(BufferPool):
    """The last one that came is served first."""

    def allocate(self, size: int, max_block_ms: int, now_ms: int) -> Allocation:
        asked = BufferPool.allocate(self, size, max_block_ms, now_ms)
        if asked in self.waiters:
            self.waiters.rotate(1)
        return asked


BUGS: list[tuple[str, Callable[..., Any]]] = [
    ("metadata", NewTopicsWait),
    ("metadata", PartialClearsAll),
    ("metadata", BelievesOldLeaders),
    ("metadata", FailureIsForgotten),
    ("metadata", IdleTopicsStay),
    ("metadata", NewsIsNoNews),
    ("partitioner", SwitchesAtOnce),
    ("partitioner", IgnoresQueues),
    ("pool", CollectsNothing),
    ("pool", KeepsNoBuffers),
    ("pool", LastComeFirstServed),
]


@pytest.mark.parametrize("kind, planted", BUGS, ids=[planted.__name__ for _, planted in BUGS])
def test_client_with_a_planted_bug_is_caught(kind: str, planted: Callable[..., Any]) -> None:
    """Each of these mistakes is found by some recorded script."""
    found = conform(partial(replay, builds={kind: planted}), iter(FILES[kind]))
    assert not found.agrees


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"kind": "consumer"}},
        {"config": {"kind": "pool", "total_memory": 10, "poolable_size": 4}, "steps": [{"op": "borrow", "args": {}}]},
        {"config": {"kind": "pool", "total_memory": 10, "poolable_size": 4}, "steps": [{"op": "allocate", "args": {"size": "x"}}]},
        {"config": {"kind": "pool", "total_memory": 10, "poolable_size": 4}, "steps": [{"op": "allocate"}]},
    ],
    ids=["another class", "another operation", "no number", "no argument"],
)
def test_client_with_a_script_that_is_none_says_so(change: dict[str, Any]) -> None:
    """A file that the recorder never wrote ends with a TraceError that tells what is wrong."""
    script = json.loads(json.dumps(FILES["pool"][0])) | change
    with pytest.raises(TraceError, match=r"\w+"):
        list(replay(script))
