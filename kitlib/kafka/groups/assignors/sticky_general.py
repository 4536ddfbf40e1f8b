"""Sticky when members read different topics: start from what is owned, then move what makes it more even.

First everybody keeps all that it still may read. What nobody has goes to the member with the least that
reads its topic. Then partitions are moved, one by one, from who has at least two more to who has less,
until no move helps; when all that was not more even in the end, it is undone.

Source: Apache Kafka 4.3.1, `AbstractStickyAssignor.GeneralAssignmentBuilder`.
Differs: racks are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

from kitlib.kafka.groups.assignors.movements import Movements
from kitlib.kafka.groups.assignors.subscription import (
    Assignment,
    AssignorFailedError,
    Partitions,
    Subscription,
    TopicPartition,
    all_partitions,
    by_java_order,
    partitions_of,
)


@dataclass(slots=True)
class General:
    """One run of the algorithm: `build` gives the assignment."""

    partitions: Partitions
    assignment: Assignment  # at first what the members own; becomes the result
    subscriptions: dict[str, Subscription]  # member -> what it said, in the order in which members are gone through
    readers: dict[str, list[str]] = field(default_factory=dict)  # topic -> who may get it
    topics: dict[str, list[str]] = field(default_factory=dict)  # member -> what it may get
    owner: dict[TopicPartition, str] = field(default_factory=dict)  # who has a partition now
    previous: dict[TopicPartition, tuple[str, int]] = field(default_factory=dict)  # claimed in an older generation
    movable: list[TopicPartition] = field(default_factory=list)  # all, those of topics with fewest readers first
    balancing: set[str] = field(default_factory=set)  # members among whom partitions may still move
    revocation_required: bool = False  # somebody owned what it does not read any more
    movements: Movements = field(default_factory=Movements)

    def __post_init__(self) -> None:
        self.topics = {
            member: [topic for topic in each.topics if topic in self.partitions]
            for member, each in self.subscriptions.items()
        }
        self.readers = {
            topic: [member for member, wanted in self.topics.items() for each in wanted if each == topic]
            for topic in self.partitions
        }
        self.owner = {partition: member for member, owned in self.assignment.items() for partition in owned}
        self.movable = all_partitions(sorted(self.partitions, key=self.topic_order), self.partitions)
        self.balancing = set(self.assignment)

    def build(self) -> Assignment:
        """The assignment. AssignorFailedError for a group at which the real one fails."""
        self.remember_older_claims()
        unassigned = self.unassigned_partitions(self.keep_owned())
        self.balance(unassigned)
        return self.assignment

    # -- what is owned --------------------------------------------------------------------------

    def remember_older_claims(self) -> None:
        """What members say they owned before the last generation: it may go back there."""
        newest = max(each.generation for each in self.subscriptions.values())
        for member, each in self.subscriptions.items():
            if each.generation < newest:
                for partition in each.owned:
                    if partition not in self.previous or each.generation > self.previous[partition][1]:
                        self.previous[partition] = (member, each.generation)

    def keep_owned(self) -> list[TopicPartition]:
        """Everybody keeps what it still reads; all that is kept, in order."""
        kept = []
        for member, owned in self.assignment.items():
            still = [each for each in owned if each.topic in self.subscriptions[member].topics]
            self.revocation_required |= len(still) < len(owned)
            owned[:] = still
            kept += still
        return sorted(kept, key=lambda each: (*self.topic_order(each.topic), each.partition))

    def unassigned_partitions(self, kept: list[TopicPartition]) -> list[TopicPartition]:
        """All that nobody keeps. A kept partition that is no more hides those that come after it."""
        if not kept:
            return self.movable
        rest = iter(kept)
        next_kept, unassigned = next(rest, None), []
        for each in self.movable:
            if each == next_kept:
                next_kept = next(rest, None)
            else:
                unassigned.append(each)
        return unassigned

    # -- balance --------------------------------------------------------------------------------

    def balance(self, unassigned: list[TopicPartition]) -> None:
        """Give out what nobody has, then even it out among those to whom something can move."""
        initializing = not self.assignment[self.by_count()[-1]]
        for partition in unassigned:
            self.give_to_least(partition)
        fixed = {
            each
            for topic, readers in self.readers.items()
            if len(readers) < 2
            for each in partitions_of(topic, self.partitions)
        }
        self.movable = [each for each in self.movable if each not in fixed]
        unassigned = [each for each in unassigned if each not in fixed]
        out_of_it = [member for member in self.assignment if not self.can_take_part(member)]
        fixed_assignments = {member: self.assignment.pop(member) for member in out_of_it}
        self.balancing -= set(out_of_it)

        before = {member: list(has) for member, has in self.assignment.items()}
        if not self.revocation_required:
            self.reassign(unassigned)
        if self.reassign(self.movable) and not initializing and score(self.assignment) >= score(before):
            self.assignment = before
        self.assignment |= fixed_assignments

    def give_to_least(self, partition: TopicPartition) -> None:
        """To the member with the fewest partitions that reads the topic."""
        for member in self.by_count():
            if partition.topic in self.topics[member]:
                self.assignment[member].append(partition)
                self.owner[partition] = member
                return

    def can_take_part(self, member: str) -> bool:
        """Whether something can move to the member or away from it."""
        has = self.assignment[member]
        return len(has) < self.most(member) or any(len(self.readers[each.topic]) >= 2 for each in has)

    def most(self, member: str) -> int:
        """How many partitions the member could have at most."""
        return sum(self.partitions[topic] for topic in self.topics[member])

    def reassign(self, movable: Iterable[TopicPartition]) -> bool:
        """Move partitions until none can be moved, or all is even; whether one was moved."""
        partitions, moved, modified = list(movable), False, True
        while modified:
            modified = False
            for partition in partitions:
                if self.is_balanced():
                    break
                member = self.owner[partition]
                has = self.count(member)
                if partition in self.previous and has > self.count(self.previous[partition][0]) + 1:
                    self.move(partition, self.previous[partition][0])
                    moved = modified = True
                elif any(has > self.count(other) + 1 for other in self.readers[partition.topic]):
                    taker = next(each for each in self.by_count() if partition.topic in self.topics[each])
                    self.move(partition, taker)
                    moved = modified = True
        return moved

    def move(self, partition: TopicPartition, taker: str) -> None:
        """Hand over the partition, or in its place one of its topic that went the other way."""
        partition = self.movements.actual_partition(partition, self.owner[partition], taker)
        giver = self.owner[partition]
        self.movements.move(partition, giver, taker)
        if partition in self.assignment[giver]:
            self.assignment[giver].remove(partition)
        self.assignment[taker].append(partition)
        self.owner[partition] = taker

    def is_balanced(self) -> bool:
        """Whether no member could get a partition from another that has at least two more."""
        by_count = self.by_count()
        if self.count(by_count[0]) >= self.count(by_count[-1]) - 1:
            return True
        holder = {partition: member for member, has in self.assignment.items() for partition in has}
        for member in by_count:
            has = self.assignment[member]
            if len(has) == self.most(member):
                continue
            for each in all_partitions(self.topics[member], self.partitions):
                if each not in has and len(has) + 1 < self.count(holder.get(each)):
                    return False
        return True

    # -- orders and counts ----------------------------------------------------------------------

    def topic_order(self, topic: str) -> tuple[int, bytes]:
        """The key of topics: those with fewest readers first."""
        return len(self.readers[topic]), by_java_order(topic)

    def by_count(self) -> list[str]:
        """The members among whom partitions may move, those with the fewest first."""
        return sorted(self.balancing, key=lambda member: (len(self.assignment[member]), by_java_order(member)))

    def count(self, member: str | None) -> int:
        """How many partitions the member has. AssignorFailedError for one that takes no part in the balance."""
        has = self.assignment.get(member) if member is not None else None
        if has is None:
            why = f"the sticky assignor looks for {member or 'the owner of a partition'} among those that take part in the balance"
            raise AssignorFailedError(why, "NullPointerException")
        return len(has)


def score(assignment: Assignment) -> int:
    """How uneven an assignment is: the differences of all pairs of members, summed; 0 when all have the same."""
    return sum(abs(len(one) - len(other)) for one, other in combinations(assignment.values(), 2))
