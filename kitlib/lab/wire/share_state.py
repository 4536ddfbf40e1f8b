"""Asks a broker about a share group: who is in it, and what became of each record, as it is written down.

Neither librdkafka nor kafka-python has these questions, so their messages are declared in `messages/`, field by field, and
kafka-python reads and writes them. The state is that of `__share_group_state`: a record that a consumer has locked now is not
written down as such, as no lock outlives the broker that gave it.

Source: Apache Kafka 4.3.1, ReadShareGroupState (84), ShareGroupDescribe (77),
DescribeShareGroupOffsets (90); `ShareCoordinatorService.readState`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.errors import for_code

from kitlib.errors import LabError
from kitlib.lab.clients import Cluster, kafka_python_config
from kitlib.lab.messages import message
from kitlib.lab.wire.connection import NOT_YET, Wire, until_ready
from kitlib.lab.wire.coordinator import find_coordinator

NAMES = {0: "available", 2: "acknowledged", 4: "archived"}  # how states are written down
GROUP_ID_NOT_FOUND = 69
ANSWER_S = 10.0


ASKED = ("ReadShareGroupState", "ShareGroupDescribe", "DescribeShareGroupOffsets")
ReadShareGroupStateRequest, ShareGroupDescribeRequest, DescribeShareGroupOffsetsRequest = (message(f"{name}Request") for name in ASKED)
ANSWERS = [message(f"{name}Response") for name in ASKED]  # the library finds them by their keys


@dataclass(frozen=True, slots=True)
class WrittenState:
    """What is written down of a share partition."""

    start_offset: int  # -1 before the group has begun
    records: dict[int, tuple[str, int]] = field(default_factory=dict)  # offset -> (state, delivery count); offset >= start_offset


class ShareWire(Wire):
    """A connection to the one broker, which leads and coordinates everything."""

    def written_state(self, group: str, topic_id: UUID, partition: int) -> WrittenState:
        """What is written down of this share partition now. LabError when the broker refuses."""
        request = ReadShareGroupStateRequest(group_id=group, topics=[(topic_id, [(partition, 0)])])

        def read(answer: Any) -> WrittenState:
            found = self._one_partition("ReadShareGroupState", answer.results)
            rows = {
                offset: (NAMES[batch.delivery_state], batch.delivery_count)
                for batch in found.state_batches for offset in range(batch.first_offset, batch.last_offset + 1)
            }  # fmt: skip
            return WrittenState(found.start_offset, {offset: row for offset, row in rows.items() if offset >= found.start_offset})

        return self._ask(request, read)

    def assigned(self, group: str) -> set[str]:
        """The client ids of the members with a partition; none before the group has a coordinator. LabError when the broker refuses."""
        found = self.described(group)
        if found.error_code not in (0, GROUP_ID_NOT_FOUND, *NOT_YET):
            raise _refused(group, found)
        return {each.client_id for each in found.members or () if each.assignment.topic_partitions}

    def described(self, group: str) -> Any:
        """The group's row of ShareGroupDescribe."""
        return self._ask(ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), lambda answer: answer.groups[0])

    def start_offsets(self, group: str) -> dict[tuple[str, int], tuple[int, int]]:
        """The start offset of each partition and its lag, -1 before Kafka 4.2; LabError when the broker refuses."""

        def read(answer: Any) -> dict[tuple[str, int], tuple[int, int]]:
            [found] = answer.groups
            if found.error_code:
                raise _refused(group, found)
            rows = [(topic.topic_name, each) for topic in found.topics for each in topic.partitions]
            return {
                (topic, each.partition_index): (each.start_offset, each.lag)
                for topic, each in rows if each.start_offset >= 0 and not each.error_code
            }  # fmt: skip

        return self._ask(DescribeShareGroupOffsetsRequest(groups=[(group, None)]), read)


def _refused(group: str, found: Any) -> LabError:
    trouble = f"error {found.error_code} ({found.error_message or for_code(found.error_code).__name__})"
    return LabError(f"share group {group}: the broker answers {trouble}. Look at `kit status`.")


def share_group(
    cluster: Cluster, group: str
) -> tuple[str, tuple[str, ...], dict[tuple[str, int], str], dict[tuple[str, int], tuple[int, int]]]:
    """(state, members, who holds each partition, start offset and lag of each), from the group's coordinator. LabError when nobody answers.

    A partition of a share group may have several holders; they are told together.
    """
    security, deadline = kafka_python_config(cluster), time.monotonic() + ANSWER_S
    _, host, port = find_coordinator(cluster, group, ANSWER_S)
    with ShareWire.open(host, port, timeout_s=ANSWER_S, **security) as wire:
        told, starts = until_ready(lambda: wire.described(group), lambda found: int(found.error_code), deadline), wire.start_offsets(group)
        if told.error_code not in (0, GROUP_ID_NOT_FOUND):
            raise _refused(group, told)
    held: dict[tuple[str, int], str] = {}
    for member in told.members:
        for topic in member.assignment.topic_partitions:
            for where in ((topic.topic_name, each) for each in topic.partitions):
                held[where] = ", ".join(filter(None, (held.get(where), f"{member.client_id} at {member.client_host.lstrip('/')}")))
    return told.group_state, tuple(f"{each.client_id} at {each.client_host.lstrip('/')}" for each in told.members), held, starts
