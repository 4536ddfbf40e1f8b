"""Sticky when all members read the same topics: a quota for each, keep what fits, deal out the rest.

With p partitions and m members everybody gets p // m, and p % m of them one more. Who has more than its
quota gives up the highest partition numbers. Who of several may keep the one more is decided by the order
in which the members are gone through.

Source: Apache Kafka 4.3.1, `AbstractStickyAssignor.ConstrainedAssignmentBuilder`.
Differs: racks are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.kafka.groups.assignors.subscription import (
    Assignment,
    AssignorFailedError,
    Partitions,
    TopicPartition,
    all_partitions,
    by_java_order,
    by_topic,
)


@dataclass(slots=True)
class Constrained:
    """One run of the algorithm: `build` gives the assignment, `transferring` what changes hands by it."""

    partitions: Partitions
    owned: Assignment  # in the order in which the members are gone through
    void: set[TopicPartition]  # claimed by two members of one generation: nobody keeps them
    assignment: Assignment = field(default_factory=dict)
    revoked: dict[TopicPartition, str] = field(default_factory=dict)  # given up -> by whom
    transferring: dict[TopicPartition, str] = field(default_factory=dict)  # owned by another before -> new owner
    below_min: list[str] = field(default_factory=list)  # members with less than the quota
    at_min: list[str] = field(default_factory=list)  # members with the quota, which may still get one more
    min_quota: int = 0
    max_quota: int = 0  # min_quota, or one more
    over_min_wanted: int = 0  # how many members are to have max_quota; 0 when the quotas are equal
    over_min: int = 0  # how many have it by now

    def __post_init__(self) -> None:
        total, members = sum(self.partitions.values()), len(self.owned)
        self.min_quota, self.over_min_wanted = divmod(total, members)
        self.max_quota = self.min_quota + (self.over_min_wanted > 0)
        self.assignment = {member: [] for member in self.owned}

    def build(self) -> Assignment:
        """The assignment. AssignorFailedError where the real one fails: members own partitions that are no more."""
        for member in self.owned:
            self.keep_owned(member)
        unassigned = self.unassigned_partitions()
        self.below_min.sort(key=by_java_order)
        self.at_min.sort(key=by_java_order)
        self.deal(unassigned)
        self.check_unfilled()
        return self.assignment

    def keep_owned(self, member: str) -> None:
        """What a member keeps: up to a quota, the lowest partition numbers first, across its topics."""
        owned = [each for each in self.owned[member] if each not in self.void]
        owned.sort(key=lambda each: (each.partition, by_java_order(each.topic)))
        if len(owned) < self.min_quota:
            self.below_min.append(member)
            keeps = len(owned)
        elif len(owned) >= self.max_quota and self.over_min < self.over_min_wanted:
            self.over_min += 1
            if self.over_min == self.over_min_wanted:
                self.at_min.clear()
            keeps = self.max_quota
        else:
            keeps = self.min_quota
            if self.over_min < self.over_min_wanted:
                self.at_min.append(member)
        self.assignment[member] += owned[:keeps]
        self.revoked |= dict.fromkeys(owned[keeps:], member)

    def unassigned_partitions(self) -> list[TopicPartition]:
        """What nobody keeps, by topic and number.

        Two sorted rows are compared, so a kept partition that is no more hides all that come after it: they
        are taken for unassigned.
        """
        kept = iter(sorted((each for kept in self.assignment.values() for each in kept), key=by_topic))
        next_kept, unassigned = next(kept, None), []
        for each in all_partitions(sorted(self.partitions, key=by_java_order), self.partitions):
            if each == next_kept:
                next_kept = next(kept, None)
            else:
                unassigned.append(each)
        return unassigned

    def deal(self, unassigned: list[TopicPartition]) -> None:
        """One each in turn to the members below the quota, until all have it; then one more to those who may."""
        turn = 0  # who of `below_min` is next
        for partition in unassigned:
            from_below = turn < len(self.below_min)
            if not from_below and self.below_min:
                turn, from_below = 0, True
            if not from_below and not self.at_min:
                raise AssignorFailedError(
                    f"the sticky assignor has nobody left for {partition}", "IllegalStateException"
                )
            member = self.below_min[turn] if from_below else self.at_min.pop(0)
            count = self.give(partition, member)
            turn += from_below
            if count == self.min_quota:
                turn -= 1
                del self.below_min[turn]
                self.at_min.append(member)
            elif count == self.max_quota:
                self.over_min += 1

    def give(self, partition: TopicPartition, member: str) -> int:
        """Assign it, and note when it had another owner; how many the member has now."""
        self.assignment[member].append(partition)
        if self.revoked.get(partition, member) != member or partition in self.void:
            self.transferring[partition] = member
        return len(self.assignment[member])

    def check_unfilled(self) -> None:
        """Nobody may be left below the quota."""
        short = [member for member in self.below_min if len(self.assignment[member]) != self.min_quota]
        if self.below_min and (short or self.over_min != self.over_min_wanted):
            why = f"the sticky assignor leaves {', '.join(self.below_min)} below {self.min_quota} partitions"
            raise AssignorFailedError(why, "IllegalStateException")
