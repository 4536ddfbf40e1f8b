"""Interactive queries: which instance holds a key, and what a query gets while tasks move.

Every instance can say who holds a key: the key's partition is computed as a producer computes it, and
the last assignment says who runs that task and who keeps standbys. Asking is the application's own
affair. A query of the local store looks through all threads of the instance. If one of them is still
restoring, the whole query fails, unless it accepts stale stores; then standbys and restoring copies
answer, with what they have. An instance that does not hold the key but another partition of the store
says nothing at all: the answer is null, as for a key that does not exist.

Left out: range queries, window stores, and the network between the instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kitlib.kafka.hashes import partition_of_key
from kitlib.kafka.streams.app import Instance, StreamsApp
from kitlib.kafka.streams.topology import StreamsTaskId, TopologyError

Outcome = Literal["value", "null", "InvalidStateStoreException", "no answer"]


@dataclass(frozen=True, slots=True)
class KeyMetadata:
    """Who holds a key by the last assignment. `active` is None before the first one."""

    task: StreamsTaskId
    active: str | None
    standby: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query of one instance gives. `behind` counts the changes that the copy has not seen yet."""

    outcome: Outcome
    value: int | None = None  # how many records of this key the copy has counted
    behind: int = 0
    why: str = ""


def metadata_for_key(app: StreamsApp, store: str, key: str) -> KeyMetadata:
    """Which instance runs the key's task and which keep standbys. TopologyError for an unknown store.

    A dead instance is named until the next assignment.

    Source: Kafka 4.3.1, KafkaStreams.queryMetadataForKey, StreamsMetadataState.getKeyQueryMetadataForKey.
    Differs: the answer is read from the instances and not from what the last rebalance spread.
    """
    task = task_of_key(app, store, key)
    members = [found for found in app.instances.values() if found.is_member]
    active = next((found.name for found in members if task in found.active), None)
    if active is None:  # the last owner has died, and no rebalance has named another
        active = next((found.name for found in members if not found.is_up and found.thread_of.get(task)), None)
    return KeyMetadata(task, active, tuple(found.name for found in members if task in found.standby))


def task_of_key(app: StreamsApp, store: str, key: str) -> StreamsTaskId:
    """The task whose copy of the store has the key."""
    for sub in app.topology.sub_topologies():
        if store in sub.stores:
            width = sum(task[0] == sub.number for task in app.tasks)
            return sub.number, partition_of_key(key.encode(), width)
    raise TopologyError(f"there is no store {store:.60}. Name one of the topology's own.")


def query(app: StreamsApp, instance: str, store: str, key: str, *, stale: bool = False) -> Answer:
    """What this instance's own store says of the key; `stale` is enableStaleStores. TopologyError for an unknown store.

    Source: Kafka 4.3.1, QueryableStoreProvider.getStore, StreamThreadStateStoreProvider.stores,
    CompositeReadOnlyKeyValueStore.get. Differs: a store counts the records of each key.
    """
    task, found = task_of_key(app, store, key), app.instances.get(instance)
    if found is None or not found.is_up:
        return Answer("no answer", why=f"{instance} is not up")
    if not stale:
        for thread in found.thread_names:
            if (state := found.thread_state(thread)) != "RUNNING":
                return Answer("InvalidStateStoreException", why=f"stream thread {thread} is {state}, not RUNNING")
    readable = found.running | (set(found.restoring) | found.standby if stale else set())
    if task in readable:
        return _counted(app, found, task, key)
    if any(each[0] == task[0] for each in readable):
        return Answer("null", why=f"{instance} has other partitions of {store}, not the key's")
    return Answer("InvalidStateStoreException", why=f"the state store, {store}, may have migrated to another instance")


def count_of_key(app: StreamsApp, task: StreamsTaskId, key: str, position: int) -> int:
    """How many of a task's first `position` records have this key, when its keys take turns."""
    turn = sum(key.encode()) % TURNS
    return (position - turn + TURNS - 1) // TURNS if position > turn else 0


TURNS = 10  # keys of one partition, which take turns


def _counted(app: StreamsApp, found: Instance, task: StreamsTaskId, key: str) -> Answer:
    position = found.positions.get(task, 0)
    return Answer("value", count_of_key(app, task, key, position), app.processed[task] - position)
