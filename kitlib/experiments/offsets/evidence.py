"""A group of one's own in the real offsets topic, to look for its traces there."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import closing
from functools import partial

from confluent_kafka import TopicPartition

from kitlib.experiments.kafka_backend import KafkaBackend, asked, reader_of
from kitlib.experiments.kafka_group import DEADLINE_S
from kitlib.lab import created_resources


def leave_commits(backend: KafkaBackend, offsets: Sequence[int]) -> str:
    """Commit these offsets of a topic of its own, one after the other, and then delete the group; the group's name.

    LabError when the broker refuses.
    """
    topic, group = backend.create_topic("evidence", 1), f"kit.evidence-{uuid.uuid4().hex[:8]}"
    created_resources.remember("group", group)
    with closing(reader_of(backend.cluster, group)) as member:
        for offset in offsets:
            place = [TopicPartition(topic.name, 0, offset)]
            asked(partial(member.commit, offsets=place, asynchronous=False), f"group {group}: offset {offset} was refused")
    asked(lambda: backend.admin.delete_consumer_groups([group])[group].result(DEADLINE_S), f"group {group} could not be deleted")
    return group
