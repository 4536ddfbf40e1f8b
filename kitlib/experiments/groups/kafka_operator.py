"""What an operator does to a group's committed offsets and to its topic, on a real broker.

The group's members are not asked: the coordinator refuses whoever is none while there are any. The admin
client of kafka-python knows both requests; confluent-kafka's cannot delete an offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import ADVICE, DEADLINE_S, wait_until_led
from kitlib.lab.client_processes.driver import NONE, broker_form
from kitlib.lab.clients import Cluster, answered, kafka_python_admin
from kitlib.lab.log_ends import LogEnds
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.connection import NOT_YET, until_ready


def add_partitions(admin: AdminClient, topic: str, partitions: int) -> None:
    """Raise a topic's number of partitions, and wait until each of them is led. LabError when the broker refuses or is too slow."""
    asked = admin.create_partitions([NewPartitions(topic, partitions)], operation_timeout=DEADLINE_S)[topic]
    answered(asked, f"topic {topic}: it could not be given {partitions} partitions")
    wait_until_led(admin, topic, partitions)


def set_topic(admin: AdminClient, topic: str, name: str, value: int) -> None:
    """Change one of a topic's settings. LabError when the broker refuses."""
    entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    answered(admin.incremental_alter_configs([wanted])[wanted], f"topic {topic}: {name} could not be set to {value}")


def set_group(cluster: Cluster, group: str, wanted: Mapping[str, object]) -> None:
    """Set a group's own settings, which the brokers keep. LabError when they refuse."""
    from kafka.admin import ConfigResource, ConfigResourceType

    values = {name: str(value) for name, value in wanted.items()}
    with kafka_python_admin(cluster, f"group {group}: its settings could not be changed") as admin:
        told = admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, group, values)])["group"][group]
    if told != "OK":
        raise LabError(f"group {group}: the broker refuses the settings {values}: {told}. Choose others, or `kit down; kit up`.")


def wait_for_start(cluster: Cluster, topic: str, partition: int, before: int) -> int:
    """Wait until a partition's log begins after `before`; where it does. LabError after DEADLINE_S."""
    where, ends = (topic, partition), LogEnds.of(cluster)
    found = before

    def is_moved() -> bool:
        nonlocal found
        found = ends.starts([where]).offsets.get(where, before)
        return found > before

    wait_until(is_moved, DEADLINE_S, f"retention deletes records of {topic}-{partition} from {before} on")
    return found


def operate(cluster: Cluster, trouble: str, ask: Callable[[Any], Any]) -> str:
    """Ask kafka-python's admin client until the coordinator is ready: "NONE" or the name of the first error.

    The answer is one error for each partition, or one for all of them. LabError when nobody answers within DEADLINE_S.
    """
    from kafka.errors import KafkaError

    with kafka_python_admin(cluster, trouble) as admin:

        def errors() -> list[Any]:
            try:
                return [each for each in ask(admin).values() if each.errno]
            except KafkaError as error:
                return [type(error)]

        found = until_ready(errors, lambda told: told[0].errno if told else 0, time.monotonic() + DEADLINE_S)
    if not found:
        return NONE
    if found[0].errno in NOT_YET:
        raise LabError(f"{trouble} within {DEADLINE_S:g} s: {found[0].__name__}. {ADVICE}")
    return str(getattr(found[0], "message", "") or broker_form(found[0].__name__))
