"""Two members join a real group by hand: the requests of the group protocol, and what each of them carries.

A member's own bytes go to the coordinator with JoinGroup. The coordinator does not read them: it gives all of them to one
member, the leader, who decides; with SyncGroup the leader brings every member's assignment, and the others fetch theirs.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass

from kitlib.experiments.kafka_backend import DEADLINE_S
from kitlib.lab import created_resources
from kitlib.lab.clients import Cluster
from kitlib.lab.wire.coordinator import CoordinatorWire, find_coordinator

SESSION_MS = 10_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of one member, and its answer."""

    member: str
    request: str
    carries: str
    answer: str


def join_by_hand(cluster: Cluster) -> list[Exchange]:
    """A joins, then B, and the partitions are dealt out anew. LabError when a request is refused."""
    group = f"kit.by-hand-{uuid.uuid4().hex[:8]}"
    created_resources.remember("group", group)
    told: list[Exchange] = []
    _, host, port = find_coordinator(cluster, group, DEADLINE_S)
    with ExitStack() as open_wires:
        a, b = (open_wires.enter_context(CoordinatorWire.open(host, port, name, DEADLINE_S)) for name in "AB")
        names: dict[str, str] = {}

        def ask(name: str, wire: CoordinatorWire) -> None:
            wire.send_join(group, "by hand", [("whole", f"{name} wants orders".encode())], SESSION_MS, SESSION_MS)
            names[wire.member_id] = name

        def joined(name: str, wire: CoordinatorWire) -> None:
            found = wire.receive_join(DEADLINE_S)
            sent = ", ".join(sorted(data.decode() for data in found.members.values())) or "nothing of the others"
            leads = f"{names[found.leader]} leads"
            told.append(Exchange(name, "JoinGroup", f"{name} wants orders", f"generation {found.generation}, {leads}; {sent}"))

        def synced(name: str, wire: CoordinatorWire, dealt: dict[str, str]) -> None:
            data = wire.sync({member: dealt[names[member]].encode() for member in names} if dealt else None)
            carries = "; ".join(f"{member}: {share}" for member, share in dealt.items()) or "nothing"
            told.append(Exchange(name, "SyncGroup", carries, data.decode()))

        ask("A", a)
        joined("A", a)
        synced("A", a, {"A": "orders 0 and 1"})
        ask("B", b)  # its answer waits for A
        a.wait_for_rebalance(DEADLINE_S)
        told.append(Exchange("A", "Heartbeat", "generation 1", "a rebalance is in progress"))
        ask("A", a)
        joined("A", a)
        joined("B", b)
        synced("A", a, {"A": "orders 0", "B": "orders 1"})
        synced("B", b, {})
        for wire in (b, a):
            wire.leave()
    return told
