"""A real coordinator, looked at again and again: what it does to a group, told as steps.

A broker says what a group is, not what happens to it. So a thread describes the group every few
milliseconds and tells the differences: members that are no longer there, a state that has changed, owners
that are others. What lasts shorter than a look is not seen, and why a member is gone is not told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import DEADLINE_S
from kitlib.lab.clients import answered
from kitlib.mechanisms.groups.group_protocol import CoordinatorEvent

EVERY_S = 0.005  # between two looks; a look takes about a millisecond
# The words of librdkafka for what the protocol calls these.
STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance", "STABLE": "Stable",
    "DEAD": "Dead", "EMPTY": "Empty",
}  # fmt: skip
OF_STATE = {"PreparingRebalance": "prepare", "CompletingRebalance": "sync", "Stable": "stable", "Empty": "empty"}


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """One description of a group: its state, and each member's partitions, by client id."""

    state: str = "Dead"
    strategy: str = ""  # the assignor that its members agreed on
    kind: str = ""  # "classic" or "consumer"
    held: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def owners(self) -> dict[int, str]:
        """Partition -> client id. Of two that claim one (a classic group's description is of one moment) the later name."""
        return {partition: client for client, partitions in sorted(self.held.items()) for partition in partitions}


def describe(admin: AdminClient, group: str) -> GroupSnapshot:
    """Describe the group now. LabError when the broker does not answer."""
    try:
        told = answered(
            admin.describe_consumer_groups([group], request_timeout=DEADLINE_S)[group], f"group {group} could not be described"
        )
    except LabError as error:
        if isinstance(cause := error.__cause__, KafkaException) and cause.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return GroupSnapshot()
        raise
    state = getattr(told.state, "name", str(told.state))
    held = {
        member.client_id: tuple(sorted(each.partition for each in member.assignment.topic_partitions or ()))
        for member in told.members
    }
    kind = getattr(told.type, "name", "").lower()
    if kind == "consumer" and state == "UNKNOWN":  # librdkafka 2.16 has no word for the newer protocol's states
        state = "RECONCILING"
    return GroupSnapshot(STATES.get(state, state.capitalize()), told.partition_assignor or "", kind, held)


@dataclass(slots=True)
class GroupWatch:
    """Looks at a group until it is stopped, and keeps what happened between the looks.

    The thread looks, and so does whoever asks. A look is taken and compared under one lock: an older one
    that were compared after a newer one would tell of a rebalance, or of a member gone, that never was.
    """

    admin: AdminClient
    group: str
    name_of: Callable[[str], str]  # a member's name by its client id
    topic: str
    last: GroupSnapshot = field(default_factory=GroupSnapshot)
    owners: dict[int, str] = field(default_factory=dict)  # by the last stable look, as client ids
    steps: list[CoordinatorEvent] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._run, name=f"watch {self.group}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.over.set()
        if self.thread is not None:
            self.thread.join(DEADLINE_S)

    def take(self) -> list[CoordinatorEvent]:
        """What happened since the last call, after one more look."""
        self.look_now()
        with self.lock:
            steps, self.steps = self.steps, []
        return steps

    def look_now(self) -> GroupSnapshot:
        with self.lock:
            found = describe(self.admin, self.group)
            self._compare(found)
        return found

    def _run(self) -> None:
        while not self.over.wait(EVERY_S):
            try:
                self.look_now()
            except LabError:  # the broker is away; whoever asks it himself is told so
                time.sleep(0.1)

    def _compare(self, found: GroupSnapshot) -> None:
        before, self.last = self.last, found
        # A classic group forgets its assignment while it rebalances, and describes no member without a name.
        for client in before.held:
            if client not in found.held:
                self._tell("evict", member=self.name_of(client))
        owners = found.owners if found.state == "Stable" or found.kind == "consumer" else self.owners
        if found.state in ("Empty", "Dead"):
            owners = {}
        is_new = owners != self.owners
        self.owners = owners
        if (
            found.state != before.state
            and found.state in OF_STATE
            and not (found.state == "Empty" and before.state == "Dead")
        ):
            self._tell(OF_STATE[found.state], **self._data(found))
        elif is_new and found.state == "Stable":
            self._tell("stable", **self._data(found))

    def _data(self, found: GroupSnapshot) -> dict[str, Any]:
        if found.state == "Stable":
            return {"owners": [[self.topic, partition, self.name_of(client)] for partition, client in sorted(self.owners.items())]}
        if found.state == "PreparingRebalance":
            return {"state": found.state}
        return {"protocol": found.strategy} if found.state == "CompletingRebalance" and found.strategy else {}

    def _tell(self, what: str, **data: Any) -> None:
        self.steps.append(CoordinatorEvent(what, data))
