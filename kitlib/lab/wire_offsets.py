"""Speaks to a group's coordinator about committed offsets: commit them with a life of their own, fetch them, find who coordinates.

Versions 2 to 4 of OffsetCommit let the client say how long the offsets shall be kept; the brokers of today still take
them. Each question is asked once, so its caller sees every error that a consumer would only retry: that the coordinator
is loading, or that it is another one.

Source: Apache Kafka 4.3.1, OffsetCommit version 4, OffsetFetch version 7, FindCoordinator version 4.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kitlib.errors import LabError
from kitlib.lab.clients import Cluster
from kitlib.lab.wire_group import ASK_AGAIN_S, NOT_YET, GroupWire
from kitlib.lab.wire_library import (  # first: it keeps the library's warnings away
    FindCoordinatorRequest,
    OffsetFetchRequest,
)

from kafka.protocol.consumer import OffsetCommitRequest  # isort: skip

__all__ = ["OffsetsWire", "find_coordinator"]

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 4, 7, 4
GROUP = 0  # the kind of key that FindCoordinator is asked for
NO_RETENTION = -1  # the broker's own

TopicPartition = tuple[str, int]
Coordinator = tuple[int, str, int]  # node, host, port


class OffsetsWire(GroupWire):
    """One connection to a broker, which may or may not be the coordinator of the groups it is asked for."""

    def find(self, group: str) -> Coordinator | None:
        """Who coordinates the group, by this broker's word; None when it does not know yet."""
        request = self._request(FindCoordinatorRequest, FIND_COORDINATOR, key_type=GROUP, coordinator_keys=[group])

        def read(answer: Any) -> Coordinator | None:
            (found,) = answer.coordinators
            return None if found.error_code else (int(found.node_id), str(found.host), int(found.port))

        return self._ask(request, self._deadline(None), read)

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], retention_ms: int = NO_RETENTION
    ) -> dict[TopicPartition, int]:
        """Commit as the member that has joined here, or as nobody; each partition's error code."""
        request = self._request(
            OffsetCommitRequest, OFFSET_COMMIT, group_id=group, generation_id_or_member_epoch=self.generation,
            member_id=self.member_id, retention_time_ms=retention_ms,
            topics=[(topic, [(partition, offset, "")]) for (topic, partition), offset in offsets.items()],
        )  # fmt: skip
        return self._ask(
            request,
            self._deadline(None),
            lambda answer: {
                (str(topic.name), int(each.partition_index)): int(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            },
        )

    def fetch_offsets(
        self, group: str, partitions: Sequence[TopicPartition] | None, require_stable: bool = True
    ) -> tuple[int, dict[TopicPartition, int]]:
        """(the group's error code, each partition's committed offset, -1 for none); no offsets with an error.

        Partitions None asks for all that the group has, of the topics that one may describe.
        Without `require_stable` a broker of 4.0 or later answers from what it knows to be on all copies.
        """
        topics = None if partitions is None else [(topic, [partition]) for topic, partition in partitions]
        request = self._request(OffsetFetchRequest, OFFSET_FETCH, group_id=group, topics=topics, require_stable=require_stable)

        def read(answer: Any) -> tuple[int, dict[TopicPartition, int]]:
            found = {
                (str(topic.name), int(each.partition_index)): int(each.committed_offset)
                for topic in answer.topics
                for each in topic.partitions
            }
            return int(answer.error_code), found if not answer.error_code else {}

        return self._ask(request, self._deadline(None), read)


def find_coordinator(cluster: Cluster, group: str, timeout_s: float) -> Coordinator:
    """Who coordinates a group and answers for it: asked of all brokers, again until it does. LabError after `timeout_s`.

    Asking also makes the brokers create the offsets topic, if it is not there yet.
    """
    deadline = time.monotonic() + timeout_s
    told = "nobody knows one"
    while True:
        for where in cluster.bootstrap.split(","):
            host, _, port = where.rpartition(":")
            with contextlib.suppress(LabError), OffsetsWire.open(host, int(port), timeout_s=5.0) as asked:
                found = asked.find(group)
                if found is None:
                    continue
                with OffsetsWire.open(found[1], found[2], timeout_s=5.0) as coordinator:
                    error, _ = coordinator.fetch_offsets(group, [("none", 0)])
                if error not in NOT_YET:
                    return found
                told = f"broker {found[0]} answers error {error}"
        if time.monotonic() > deadline:
            raise LabError(f"group {group}: no coordinator within {timeout_s:g} s: {told}. Look at `kit status`.")
        time.sleep(ASK_AGAIN_S)
