"""A real member of a real consumer group, asked where it begins."""

from __future__ import annotations

import time
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from kitlib.errors import LabError
from kitlib.experiments.backend import Topic
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.processes import wait_until
from kitlib.mechanisms.positions import ResetPolicy, start_position

ADVICE = "Look at `kit status`; start a broker with `kit up`."
DEADLINE_S = 30.0  # how long any one call waits for the broker


def wait_until_led(admin: AdminClient, topic: str, partitions: int) -> None:
    """Wait until the topic has so many partitions, and the leader of each answers for it. LabError after DEADLINE_S.

    A broker tells in its metadata that it leads a partition a moment before it does, and refuses what comes in between.
    """

    def is_led() -> bool:
        try:
            topics = admin.list_topics(topic, timeout=DEADLINE_S).topics
            found = topics[topic].partitions if topic in topics else {}
            if len(found) != partitions or any(each.leader < 0 for each in found.values()):
                return False
            ends = {TopicPartition(topic, number): OffsetSpec.latest() for number in found}  # type: ignore[no-untyped-call]
            for end in admin.list_offsets(ends, request_timeout=DEADLINE_S).values():
                end.result(DEADLINE_S)
        except KafkaException:  # nobody answers; the deadline is this function's
            return False
        return True

    wait_until(is_led, DEADLINE_S, f"all {partitions} partitions of topic {topic} have a leader")


def first_position(cluster: Cluster, group: str, topic: Topic, policy: ResetPolicy) -> int:
    """The offset at which a consumer of this group begins under this policy, by a real one that joins it.

    It waits for the first record, the end of the partition or an error. NoOffsetForPartitionError or
    OffsetOutOfRangeError under the policy "none"; LabError after DEADLINE_S.
    """
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error" if policy == "none" else policy,  # librdkafka's word for none
        "enable.partition.eof": True,
    }
    deadline = time.monotonic() + DEADLINE_S
    with closing(Consumer(client_config(cluster, **settings))) as member:
        member.subscribe([topic.name])
        while time.monotonic() < deadline:
            message = member.poll(0.5)
            error = message.error() if message is not None else None
            if message is None:
                continue
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return int(message.offset() or 0)
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                committed = member.committed([TopicPartition(topic.name, 0)], timeout=DEADLINE_S)[0].offset
                start_position(committed if committed >= 0 else None, topic.start, topic.end, "none")
                raise LabError(f"{topic.name}-0: the consumer refused to start: {error.str()}. {ADVICE}")
    raise LabError(f"{topic.name}-0: the group's consumer got no position within {DEADLINE_S:g} s. {ADVICE}")
