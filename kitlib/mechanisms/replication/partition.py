"""A replicated partition: its logs, one on each broker, and what they make of each other.

The leader takes records, followers fetch them, and the *high watermark* is the offset below which all of
the in-sync set has everything: readers see no further, and acks=all waits for it. A broker that dies
comes back with what was on its disk. Before it copies on, it asks where its log and the leader's part, and
cuts off the rest: after an unclean election that rest is what had been acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.mechanisms.replication.controller import NO_LEADER, PartitionState, decide
from kitlib.mechanisms.replication.epochs import NO_EPOCH, NO_OFFSET, LeaderEpochs

CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """The settings of a topic that decide what an acknowledgement is worth."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaEvent:
    """One thing that a broker or the controller did, in the words of a trace."""

    actor: str
    what: str
    data: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict, compare=False)  # the partition just after it, as `snapshot` tells


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to a producer: an error's name, or the offsets."""

    error: str = ""
    first: int = NO_OFFSET
    last: int = NO_OFFSET
    happened: tuple[ReplicaEvent, ...] = field(default=(), compare=False)  # what the brokers did


@dataclass(slots=True)
class Replica:
    """One broker's copy. An offset is an index: nothing is deleted or compacted here."""

    broker: int
    records: list[tuple[int, int]] = field(default_factory=list)  # (leader epoch, the record's number) at each offset
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    high_watermark: int = 0  # at the leader: what readers see; at a follower: what it was told last
    is_alive: bool = True
    is_paused: bool = False  # stopped, with its connections open; it neither copies nor tells that it lives
    damaged_at: int | None = None  # a bit of this record is flipped on its disk

    @property
    def end(self) -> int:
        """The offset of its next record."""
        return len(self.records)

    @property
    def works(self) -> bool:
        return self.is_alive and not self.is_paused

    def append(self, epoch: int, number: int) -> None:
        """Write one record of the leader of this epoch."""
        self.epochs.assign(epoch, self.end)
        self.records.append((epoch, number))

    def truncate(self, to: int) -> None:
        """Cut off all records from `to` on."""
        del self.records[to:]
        self.epochs.truncate_from_end(to)
        self.high_watermark = min(self.high_watermark, to)

    def runs(self) -> list[list[int]]:
        """Its log as [first, last, epoch] of each stretch."""
        found: list[list[int]] = []
        for offset, (epoch, _) in enumerate(self.records):
            if found and found[-1][2] == epoch:
                found[-1][1] = offset
            else:
                found.append([offset, offset, epoch])
        return found


@dataclass(slots=True)
class ReplicatedPartition:
    """One partition on several brokers, with the controller's view of it.

    Source: Apache Kafka 4.3.1, `Partition` (`appendRecordsToLeader`, `maybeIncrementLeaderHW`, `isFollowerInSync`,
    `makeLeader`), `ReplicaFetcherThread`/`AbstractFetcherThread` (`getOffsetTruncationState`, diverging epochs
    in fetch answers), `ReplicationControlManager` (`handleBrokerFenced`, `handleBrokerUnfenced`,
    `handleBrokerShutdown`), `LogLoader.recoverSegment`.
    Differs: eligible leader replicas (KIP-966) are on, as in new clusters since 4.1; every batch is one record; copying
    takes no time and happens when `copy` is called; who is fenced is told by the caller, who has the
    clock; nothing is deleted, so logs begin at 0; a broker always dies without writing down that it ends (SIGKILL).
    """

    brokers: Sequence[int]  # the first one is the preferred leader
    config: ReplicationConfig = field(default_factory=ReplicationConfig)
    replicas: dict[int, Replica] = field(init=False)
    state: PartitionState = field(init=False)
    fenced: set[int] = field(default_factory=set)  # brokers that the controller takes for dead

    def __post_init__(self) -> None:
        self.replicas = {broker: Replica(broker) for broker in self.brokers}
        self.state = PartitionState(tuple(self.brokers), tuple(self.brokers), self.brokers[0])

    @property
    def leader(self) -> Replica | None:
        """The leader's copy, when there is a leader and it lives."""
        found = self.replicas.get(self.state.leader)
        return found if found is not None and found.works else None

    @property
    def high_watermark(self) -> int | None:
        """The offset up to which readers see; None without a leader."""
        return None if self.leader is None else self.leader.high_watermark

    def append(self, numbers: Sequence[int]) -> Appended:
        """Append records as a producer's request with acks=all does, and let the followers that work copy them.

        Errors: LEADER_NOT_AVAILABLE without a leader that lives; NOT_ENOUGH_REPLICAS when fewer are in
        sync than min.insync.replicas, and REQUEST_TIMED_OUT when one that is in sync does not copy: the records stay.
        """
        leader = self.leader
        if leader is None:
            return Appended("LEADER_NOT_AVAILABLE")
        if self.is_under_min_isr:
            return Appended("NOT_ENOUGH_REPLICAS")
        first = leader.end
        for number in numbers:
            leader.append(self.state.leader_epoch, number)
        happened = [self._note(f"broker {leader.broker}", "append", first=first, last=leader.end - 1)]
        happened += self.copy()
        return Appended("REQUEST_TIMED_OUT" if leader.high_watermark < leader.end else "", first, leader.end - 1, tuple(happened))

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: (epoch, end) by the leader's log, as `LeaderEpochs.end_offset_for`; (-1, -1) without a leader."""
        leader = self.leader
        return (NO_EPOCH, NO_OFFSET) if leader is None else leader.epochs.end_offset_for(epoch, leader.end)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.state.in_sync) < min(self.config.min_insync_replicas, len(self.brokers))

    def copy(self) -> list[ReplicaEvent]:
        """Every follower that works fetches all there is; one that has caught up joins the in-sync set."""
        leader, happened = self.leader, []
        if leader is None:
            return []
        for follower in self.replicas.values():
            if follower is leader or not follower.works or follower.broker in self.fenced:
                continue
            happened += self._cut_off(leader, follower)
            if follower.end < leader.end:
                for epoch, number in leader.records[follower.end :]:
                    follower.append(epoch, number)
                happened.append(self._note(f"broker {follower.broker}", "copy", to=follower.end))
        self._raise_high_watermark(leader)
        for follower in self.replicas.values():
            joins = follower.works and follower.broker not in self.fenced and follower.broker not in self.state.in_sync
            if joins:  # having copied, it is at the high watermark and past the epoch's begin
                happened += self._decide([*self.state.in_sync, follower.broker])
        self._raise_high_watermark(leader)
        for follower in self.replicas.values():
            if follower.works and follower.broker not in self.fenced:
                follower.high_watermark = min(leader.high_watermark, follower.end)
        return happened

    def _cut_off(self, leader: Replica, follower: Replica) -> list[ReplicaEvent]:
        """Truncate a follower to where its log and the leader's part."""
        before = follower.end
        while follower.epochs.latest != NO_EPOCH:
            epoch, end = leader.epochs.end_offset_for(follower.epochs.latest, leader.end)
            if end != NO_OFFSET and epoch >= follower.epochs.latest and end >= follower.end:
                break
            own_epoch, own_end = follower.epochs.end_offset_for(epoch, follower.end)
            if end == NO_OFFSET:  # the leader knows no epoch so late, so none so early is worth asking for
                to = min(leader.end, follower.end)
            elif own_end == NO_OFFSET:
                to = min(end, follower.end)
            else:
                to = min(own_end, follower.end) if own_epoch != epoch else min(own_end, end, follower.end)
            if to == follower.end:
                break
            follower.truncate(to)
        if follower.end == before:
            return []
        return [self._note(f"broker {follower.broker}", "truncate", **{"to": follower.end, "from": before})]

    def _raise_high_watermark(self, leader: Replica) -> None:
        if not self.is_under_min_isr:
            least = min(self.replicas[broker].end for broker in self.state.in_sync)
            leader.high_watermark = max(leader.high_watermark, least)

    def kill(self, broker: int) -> list[ReplicaEvent]:
        """The broker is dead. Nobody knows it yet."""
        self.replicas[broker].is_alive = False
        return [self._note(f"broker {broker}", "kill")]

    def pause(self, broker: int) -> list[ReplicaEvent]:
        """The broker stands still (SIGSTOP). Nobody knows it yet."""
        self.replicas[broker].is_paused = True
        return [self._note(f"broker {broker}", "pause")]

    def fence(self, broker: int) -> list[ReplicaEvent]:
        """The controller has not heard of the broker for broker.session.timeout.ms: it is out of sync and leads no more."""
        self.fenced.add(broker)
        return self._decide([each for each in self.state.in_sync if each != broker])

    def wake(self, broker: int) -> list[ReplicaEvent]:
        """A paused broker goes on (SIGCONT), is unfenced and copies what it has missed."""
        self.replicas[broker].is_paused = False
        happened = [self._note(f"broker {broker}", "wake")]
        if broker in self.fenced:
            self.fenced.discard(broker)
            happened += self._decide(self.state.in_sync)
        return happened + self.copy()

    def start(self, broker: int) -> list[ReplicaEvent]:
        """A dead broker comes back: it reads its log, registers as one that died, may lead again, and copies."""
        replica = self.replicas[broker]
        replica.is_alive = True
        happened = [self._note(f"broker {broker}", "restart")]
        if replica.damaged_at is not None:
            before, to = replica.end, replica.damaged_at
            replica.truncate(to)
            replica.damaged_at = None
            happened.append(self._note(f"broker {broker}", "recover", **{"to": to, "from": before}))
        rest = [each for each in self.state.in_sync if each != broker]
        happened += self._decide(rest, without=[broker], unclean_shutdown=[broker])
        self.fenced.discard(broker)
        happened += self._decide(self.state.in_sync)
        return happened + self.copy()

    def flip_bit(self, broker: int, offset: int) -> list[ReplicaEvent]:
        """The disk of a dead broker spoils one bit of a record that it has."""
        replica = self.replicas[broker]
        replica.damaged_at = offset if replica.damaged_at is None else min(offset, replica.damaged_at)
        return [self._note(f"broker {broker}", "flip", offset=offset)]

    def _decide(
        self, in_sync: Sequence[int], without: Collection[int] = (), unclean_shutdown: Collection[int] = ()
    ) -> list[ReplicaEvent]:
        """Let the controller decide, and carry it out; what changed."""
        before, config = self.state, self.config
        acceptable = [each for each in self.brokers if each not in self.fenced and each not in without]
        change = decide(
            before, in_sync, acceptable, "unclean" if config.unclean_leader_election else "online",
            min_insync_replicas=config.min_insync_replicas, unclean_shutdown=unclean_shutdown,
        )  # fmt: skip
        self.state = after = change.state
        happened = []
        if after.in_sync != before.in_sync:
            happened.append(self._note(CONTROLLER, "isr", in_sync=list(after.in_sync)))
        if after.leader == before.leader:
            return happened
        if after.leader == NO_LEADER:
            return [*happened, self._note(CONTROLLER, "none", epoch=after.leader_epoch)]
        leader = self.replicas[after.leader]
        leader.epochs.assign(after.leader_epoch, leader.end)
        self._raise_high_watermark(leader)
        elected = {"leader": after.leader, "epoch": after.leader_epoch, "unclean": change.why == "unclean", "why": change.why}
        return [*happened, self._note(CONTROLLER, "elect", **elected)]

    def _note(self, actor: str, what: str, /, **data: Any) -> ReplicaEvent:
        return ReplicaEvent(actor, what, data, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        """The partition as a step's state holds it."""
        roles = {broker: "leader" if broker == self.state.leader else "follower" for broker in self.brokers}
        return {
            "replicas": {
                str(broker): {"log": replica.runs(), "end": replica.end, "alive": replica.works, "role": roles[broker]}
                for broker, replica in self.replicas.items()
            },
            "leader": self.state.leader if self.state.leader != NO_LEADER else None,
            "in_sync": list(self.state.in_sync),
            "epoch": self.state.leader_epoch,
            "high_watermark": self.high_watermark,
        }

    def __repr__(self) -> str:
        ends = ", ".join(f"{broker}: {replica.end}" for broker, replica in self.replicas.items())
        return f"<ReplicatedPartition led by {self.state.leader} in epoch {self.state.leader_epoch}; ends {ends}>"
