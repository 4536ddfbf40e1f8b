"""A group without a coordinator, in virtual time: members that watch ZooKeeper, decide alone, read, and commit.

The words of such a trace: `kitlib.words.groups`.

There is no group state and no generation. `holders` in each state is what the members believe: a partition
with two of them has two readers. `owners` is what ZooKeeper's nodes say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from string import ascii_uppercase
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger
from kitlib.experiments.world import World
from kitlib.monitor.figures import TWO_OWNERS
from kitlib.more.zookeeper import (
    SESSION_TIMEOUT_MS,
    OldConsumer,
    ZooKeeper,
    coordinator_messages,
    messages,
)

NOTIFY_MS = 20  # from a change in ZooKeeper until a member hears of it
READ_MS = 40  # how long a member reads ZooKeeper before it takes its share
NOTICE_MS = 300  # a member that comes to itself learns so much later that its session has ended


@dataclass(slots=True)
class Member(OldConsumer):
    """One consumer process: its view of the group, where it reads, and what it would commit."""

    position: dict[int, int] = field(default_factory=dict)  # partition -> next offset to be read
    written: dict[int, int] = field(default_factory=dict)  # partition -> the offset it last read or wrote
    is_frozen: bool = False
    is_rebalancing: bool = False
    heard_again: bool = False  # woken while it was at it
    sessions: int = 0
    turn: int = 0  # which of its partitions it reads from next


@dataclass(slots=True)
class ZooKeeperRun(World):
    """One run: the members and ZooKeeper."""

    domain: ClassVar[str] = "groups"

    zookeeper: ZooKeeper = field(default_factory=ZooKeeper)
    members: dict[str, Member] = field(default_factory=dict)
    topic: str = "orders"
    ledgers: dict[int, PartitionLedger] = field(default_factory=dict)

    def create(self) -> None:
        """The topic with its records."""
        records = self.settings.records
        self.ledgers = {each: PartitionLedger(self.topic, each, log_end=records) for each in range(self.settings.partitions)}
        for partition in self.ledgers:
            self._lane("log", "append", partition, first=0, last=records - 1)

    def join(self, name: str) -> None:
        """A consumer starts: it makes its node, and decides for the first time."""
        member = self.members[name] = Member(name, "g", self.topic, self.settings.partitions)
        self.record(name, "join", strategies=["range"])
        self._register(member)
        self._rebalance(member)
        self.after(self.settings.process_ms, lambda: self._work(member))
        self.after(self.settings.auto_commit_interval_ms, lambda: self._auto_commit(member))

    def freeze(self, name: str) -> None:
        """The process stands still; when that lasts longer than its session, ZooKeeper ends the session."""
        member = self.members[name]
        member.is_frozen, session = True, member.session
        self.record(name, "freeze")
        self.after(self.settings.zookeeper_session_timeout_ms, lambda: self._expire(member, session))

    def thaw(self, name: str) -> None:
        """The process goes on as if nothing had been; overdue commits are made at once."""
        member = self.members[name]
        member.is_frozen = False
        self.record(name, "thaw")
        self._commit(member)
        session = member.session
        self.after(NOTICE_MS, lambda: self._notice(member, session))

    def is_settled(self) -> bool:
        """Whether nobody rebalances, and each partition has exactly one reader."""
        return not any(each.is_rebalancing or each.is_frozen for each in self.members.values()) and all(
            len(names) == 1 for names in self.holders().values()
        )

    def all_done(self) -> bool:
        """Whether every record was processed and committed."""
        return all(self.committed(partition) == ledger.log_end for partition, ledger in self.ledgers.items())

    def tell_traffic(self, before: Counter[str]) -> None:
        """What ZooKeeper was asked since it had counted so much, and what a coordinator would have been."""
        told = self.zookeeper.traffic - before
        counts = {name: told[name] for name in ("reads", "writes", "notifications")}
        self.record(
            "zookeeper", "traffic", members=len(self.members), **counts, messages=messages(told),
            coordinator_messages=coordinator_messages(len(self.members) - 1),
        )  # fmt: skip

    def holders(self) -> dict[int, list[str]]:
        """Partition -> who reads it."""
        return {
            partition: [name for name, each in self.members.items() if partition in each.holds]
            for partition in self.ledgers
        }

    def _register(self, member: Member) -> None:
        member.sessions += 1
        woken = member.register(self.zookeeper, f"{member.name}/{member.sessions}")
        self._wake(woken)

    def _wake(self, names: list[str]) -> None:
        """Each of them hears of the change a little later, and rebalances."""
        if names:
            self.record("zookeeper", "notify", members=names)
        for name in names:
            self.after(NOTIFY_MS, partial(self._hear, self.members[name]))

    def _hear(self, member: Member) -> None:
        if member.is_frozen:  # it lies in the socket until then
            self.after(NOTIFY_MS, lambda: self._hear(member))
            return
        self.record(member.name, "heard")
        if member.is_rebalancing:
            member.heard_again = True
        else:
            self._rebalance(member)

    def _rebalance(self, member: Member) -> None:
        """Commit, give everything up, read who is there, and take the share a little later."""
        member.is_rebalancing = True
        self._commit(member)
        given_up = member.give_up(self.zookeeper)
        member.position.clear()
        if given_up:
            self.record(member.name, "revoked", partitions=self._named(given_up))
        member.decide(self.zookeeper)
        self.after(READ_MS, lambda: self._take(member))

    def _take(self, member: Member) -> None:
        if member.is_frozen:
            self.after(READ_MS, lambda: self._take(member))
            return
        offsets = {partition: member.committed(self.zookeeper, partition) for partition in member.share}
        member.take(self.zookeeper)
        member.is_rebalancing = False
        member.position, member.written = dict(offsets), dict(offsets)
        self.record(member.name, "assigned", partitions=self._named(member.holds))
        for partition, offset in offsets.items():
            self._lane(member.name, "start", partition, offset=offset, why="committed offset")
        if member.heard_again:
            member.heard_again = False
            self._rebalance(member)

    def _expire(self, member: Member, session: str) -> None:
        if member.is_frozen and member.session == session:
            woken = self.zookeeper.expire(session)
            self.record("zookeeper", "evict", member=member.name, why="session")
            self._wake([name for name in woken if name != member.name])

    def _notice(self, member: Member, session: str) -> None:
        """It learns that its session has ended: it drops what it read, without a commit, and begins anew."""
        path = f"{member.ids}/{member.name}"
        if self.zookeeper.nodes.get(path, ("", None))[1] == session:
            return  # it was not away for too long
        self.record(member.name, "expired")
        if member.holds:
            self.record(member.name, "revoked", partitions=self._named(member.holds))
        member.holds, member.position = [], {}
        self._register(member)
        self._rebalance(member)

    def _work(self, member: Member) -> None:
        """One record of one of its partitions, each in turn; then the next, a little later."""
        self.after(self.settings.process_ms, lambda: self._work(member))
        ready = [each for each in sorted(member.position) if member.position[each] < self.ledgers[each].log_end]
        if member.is_frozen or not ready:
            return
        partition = ready[member.turn % len(ready)]
        member.turn += 1
        offset = member.position[partition]
        member.position[partition] = offset + 1
        self._lane(member.name, "emit", partition, offset=offset)
        self.ledgers[partition].process(offset)
        self._lane(member.name, "process", partition, offset=offset)

    def _auto_commit(self, member: Member) -> None:
        self.after(self.settings.auto_commit_interval_ms, lambda: self._auto_commit(member))
        if not member.is_frozen:
            self._commit(member)

    def _commit(self, member: Member) -> None:
        """Write what has changed since it last did; nobody asks whether the partition is still its own."""
        for partition, offset in member.position.items():
            if member.written.get(partition) != offset:
                member.written[partition] = offset
                self.zookeeper.put(member.offset_path(partition), str(offset))
                self._lane(member.name, "commit", partition, offset=offset, written=True)

    def committed(self, partition: int) -> int:
        """A partition's offset in ZooKeeper; looked at from outside, so it is not counted."""
        return int(self.zookeeper.nodes.get(f"/consumers/g/offsets/{self.topic}/{partition}", ("0", None))[0])

    def _named(self, partitions: list[int]) -> list[list[Any]]:
        return [[self.topic, partition] for partition in partitions]

    def _lane(self, actor: str, what: str, partition: int, **data: Any) -> None:
        ledger = self.ledgers[partition]
        ledger.committed_to = self.committed(partition)
        ledger.emitted_to_offset = max((each.position.get(partition, 0) for each in self.members.values()), default=0)
        self.record_in(ledger, actor, what, **data)

    def state(self) -> dict[str, Any]:
        """Who takes part, who reads what by its own belief, and who does by ZooKeeper's nodes."""
        holders = {f"{self.topic}-{partition}": names for partition, names in self.holders().items()}
        nodes = (self.zookeeper.nodes.get(f"/consumers/g/owners/{self.topic}/{partition}") for partition in self.ledgers)
        owners = {lane: None if node is None else node[0] for lane, node in zip(holders, nodes, strict=True)}
        is_moving = any(each.is_rebalancing for each in self.members.values())
        state = "Rebalancing" if is_moving else "Stable" if self.members else "Empty"
        unknown = dict.fromkeys(("generation", "leader", "protocol"))
        return {"group": {"state": state, **unknown, "members": list(self.members), "owners": owners, "holders": holders}}


SessionMs = Annotated[int, Knob("How long ZooKeeper waits for a silent member.", "ms", 500, 60_000, live=True)]

SETTLE_MS = 120_000  # virtual
MODEL_ONLY = "Kafka has no ZooKeeper any more, and its clients left it with 0.9"


@experiment(
    "A group without a coordinator", ZooKeeperRun, model_only=MODEL_ONLY,
    figure=TWO_OWNERS, front=("happens", "away_ms", "zookeeper_session_timeout_ms", "auto_commit_interval_ms"),
)
def zookeeper_group(
    run: ZooKeeperRun,
    members: Annotated[int, Knob("How many consumers the group has before anything happens.", "members", 1, 12)] = 2,
    partitions: Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 24)] = 4,
    records: Annotated[int, Knob("How many records each partition holds.", "records", 1, 200)] = 25,
    happens: Annotated[
        Literal["a member joins", "a member stalls"], Knob("What happens to the group: a member joins, or a member pauses."),
    ] = "a member stalls",
    away_ms: Annotated[int, Knob("How long a member pauses.", "ms", 0, 60_000, live=True)] = 8_000,
    zookeeper_session_timeout_ms: SessionMs = SESSION_TIMEOUT_MS,
    auto_commit_interval_ms: Annotated[int, Knob("How often a member commits.", "ms", 50, 60_000, live=True)] = 1_000,
    process_ms: Annotated[int, Knob("How long a member takes to process a record.", "ms", 5, 5_000, live=True)] = 100,
) -> None:
    """Every member watches ZooKeeper and works out its own share. What ensures that no two of them read the same partition?"""
    # The first members settle and read a while; then it happens; then all is read to the end, or nobody reads any more.
    run.create()
    names = list(ascii_uppercase[: members + 1])
    for name in names[:-1]:
        run.join(name)
        run.run_for(SETTLE_MS, until=run.is_settled)
    run.run_for(5 * run.settings.process_ms)
    first, before = names[0], run.zookeeper.traffic.copy()
    if happens == "a member stalls":
        run.freeze(first)
        run.run_for(run.settings.away_ms)
        run.thaw(first)
    else:
        run.join(names[-1])
    run.run_for(SETTLE_MS, until=run.is_settled)
    run.tell_traffic(before)
    run.run_for(SETTLE_MS, until=run.all_done)
