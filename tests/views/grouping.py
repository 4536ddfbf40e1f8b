"""Small made-up traces of a consumer group, by the words of the group's experiments."""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace


class Grouping:
    """A group that does what its test says, step by step, and keeps the state that its steps tell."""

    def __init__(self, partitions: int = 3, topic: str = "orders") -> None:
        self.trace = Trace("g1", "rebalance", domain="groups")
        self.topic, self.now_ms, self.generation = topic, 0, 0
        self.group_state = "Empty"
        self.members: list[str] = []
        self.owners: dict[int, str | None] = dict.fromkeys(range(partitions))
        self.cursors = {number: [0, 0, 0, 0] for number in range(partitions)}  # committed, processed, fetched, end

    def tell(self, actor: str, what: str, partition: int | None = None, **data: Any) -> None:
        place = {} if partition is None else {"topic": self.topic, "partition": partition}
        state: dict[str, Any] = {
            "group": {
                "state": self.group_state,
                "generation": self.generation,
                "leader": self.members[0] if self.members else None,
                "protocol": "range",
                "members": list(self.members),
                "owners": {f"{self.topic}-{p}": name for p, name in self.owners.items()},
                "standing_still": {},
            },
            "cursors": {f"{self.topic}-{p}": list(row) for p, row in self.cursors.items()},
        }
        if partition is not None:
            committed, _, fetched, end = self.cursors[partition]
            state |= {"log_start": 0, "log_end": end, "committed_to": committed, "emitted_to_offset": fetched}
        self.trace.record(self.now_ms, actor, what, state=state, **place, **data)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def append(self, partition: int, count: int) -> None:
        end = self.cursors[partition][3]
        self.cursors[partition][3] = end + count
        self.tell("log", "append", partition, first=end, last=end + count - 1)

    def deal(self, why: str, **owners: list[int]) -> None:
        """A whole eager rebalance: all give back, all join, and each is given what `owners` says."""
        self.group_state = "PreparingRebalance"
        self.tell("coordinator", "prepare", why=why)
        self.wait(40)
        for name in self.members:
            if held := [p for p, owner in self.owners.items() if owner == name]:
                self.tell(name, "revoked", partitions=[[self.topic, p] for p in held])
        self.owners = dict.fromkeys(self.owners)
        self.members = list(owners)
        self.generation += 1
        self.group_state = "CompletingRebalance"
        self.tell("coordinator", "sync", generation=self.generation, leader=self.members[0], protocol="range")
        self.wait(10)
        for name, held in owners.items():
            for partition in held:
                self.owners[partition] = name
        self.group_state = "Stable"
        rows = [[self.topic, p, owner] for p, owner in self.owners.items()]
        self.tell("coordinator", "stable", generation=self.generation, owners=rows)
        for name, held in owners.items():
            self.tell(name, "assigned", partitions=[[self.topic, p] for p in held], generation=self.generation)
            for partition in held:
                committed = self.cursors[partition][0]
                self.cursors[partition][2] = committed
                self.tell(
                    name, "start", partition, offset=committed, why="committed offset" if committed else "earliest"
                )

    def join(self, name: str) -> None:
        self.tell(name, "join", strategies=["range"], member_id=f"{name}-1")

    def poll(self, name: str, partition: int, count: int, *, works: int | None = None, commits: bool = False) -> None:
        """Hand out `count` records, work on `works` of them, and commit what was worked on."""
        row = self.cursors[partition]
        first = row[2]
        for offset in range(first, min(first + count, row[3])):
            row[2] = offset + 1
            self.tell(name, "emit", partition, offset=offset)
        for offset in range(first, min(first + (count if works is None else works), row[2])):
            self.wait(5)
            row[1] = offset + 1
            self.tell(name, "process", partition, offset=offset)
        if commits:
            row[0] = row[1]
            self.tell(name, "commit", partition, offset=row[0], written=True)


def a_rebalance() -> Trace:
    """A has all; B and C join; B is killed amid its work, is evicted, and A works on two records once more; C is late."""
    group = Grouping()
    for partition in range(3):
        group.append(partition, 8)
    group.join("A")
    group.deal("A joins", A=[0, 1, 2])
    for partition in range(3):
        group.poll("A", partition, 2, commits=True)
    group.wait(200)
    group.join("B")
    group.join("C")
    group.deal("B and C join", A=[0], B=[1], C=[2])
    group.poll("A", 0, 3, commits=True)
    group.poll("C", 2, 3, commits=True)
    group.poll("B", 1, 4, works=2)
    group.tell("B", "kill")
    group.wait(1500)
    group.members.remove("B")
    group.tell("coordinator", "evict", member="B", why="session")
    group.deal("B is gone", A=[0, 1], C=[2])
    group.poll("A", 1, 4, commits=True)
    group.tell("C", "freeze")
    group.wait(1600)
    group.members.remove("C")
    group.tell("coordinator", "evict", member="C", why="session")
    group.deal("C is gone", A=[0, 1, 2])
    group.poll("A", 2, 2)
    group.tell("C", "thaw")
    group.tell("C", "commit", 2, offset=6, written=False, error="UNKNOWN_MEMBER_ID")
    group.tell("C", "lost", partitions=[["orders", 2]])
    group.tell("A", "leave")
    group.tell("A", "revoked", partitions=[["orders", 0], ["orders", 1], ["orders", 2]])
    group.members, group.owners, group.group_state = [], dict.fromkeys(range(3)), "Empty"
    group.tell("coordinator", "empty")
    return group.trace
