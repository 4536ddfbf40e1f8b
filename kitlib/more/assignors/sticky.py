"""Sticky: as balanced as possible, and each member keeps what it owned as far as that allows.

Two algorithms. When all members read the same topics (`share_equally`), everyone keeps up to a quota and the
rest is assigned. Otherwise, the general one (`General`) starts from what is owned and moves partitions until
the balance no longer improves. The cooperative assignor takes the same assignment in two rebalances.

Members say themselves what they owned, and in which generation of the group; a member that was away for a
while may claim what another member owns by now. The higher generation wins. Two claims of one generation
are both void.

Source: Apache Kafka 4.3.1, `AbstractStickyAssignor`, `StickyAssignor`, `CooperativeStickyAssignor`.
Differs: racks are left out. The real object remembers the highest generation that it ever saw; here it
is that of the current members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from kitlib.java.hash_codes import text_hash_code
from kitlib.java.hash_tables import HashOrder, in_computed_order
from kitlib.java.numbers import to_int
from kitlib.more.assignors.subscription import (
    NO_GENERATION,
    Assignment,
    AssignorFailedError,
    Partitions,
    Subscription,
    TopicPartition,
    all_partitions,
    by_java_order,
    by_topic,
)


@dataclass(slots=True)
class Claims:
    """What the members own, after the claims of all were compared."""

    owned: Assignment = field(default_factory=dict)  # each partition under one member at most
    void: set[TopicPartition] = field(default_factory=set)  # claimed twice in one generation
    owner: dict[TopicPartition, str] = field(default_factory=dict)  # who claimed it last

    def add(self, partition: TopicPartition, claimant: Subscription, others: dict[str, Subscription]) -> None:
        """One more claim: of a free partition it is granted, else generations decide."""
        owner = self.owner.get(partition)
        other = None if owner is None else others[owner]
        if other is not None and claimant.generation < other.generation:
            return
        if other is not None:
            if partition in self.owned[other.member]:
                self.owned[other.member].remove(partition)
            if claimant.generation == other.generation:
                self.void.add(partition)
        if other is None or claimant.generation > other.generation:
            self.owned[claimant.member].append(partition)
        self.owner[partition] = claimant.member


def claims_of(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Claims:
    """Who owns what; topics without metadata are left out, partitions that are no more are not."""
    claims, members = Claims(), {each.member: each for each in subscriptions}
    for each in subscriptions:
        claims.owned[each.member] = []
        for partition in each.owned:
            if partition.topic in partitions:
                claims.add(partition, each, members)
    return claims


def all_subscriptions_equal(subscriptions: Sequence[Subscription]) -> bool:
    """Whether all members want the same topics.

    A bug of the real one is kept: as long as no topic has been seen, a member counts as the first one. So
    members that want nothing pass as equal to all when they come first, and are given partitions of topics
    that they never asked for.
    """
    topics: set[str] = set()
    for each in subscriptions:
        if not topics:
            topics |= set(each.topics)
        elif len(each.topics) != len(topics) or not topics.issuperset(each.topics):
            return False
    return True


def decide(
    partitions: Partitions, subscriptions: Sequence[Subscription]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and which partitions change hands (partition -> new owner); None where that was not kept."""
    claims = claims_of(partitions, subscriptions)
    if all_subscriptions_equal(subscriptions):
        return share_equally(partitions, claims)
    return General(partitions, claims.owned, {each.member: each for each in subscriptions}).build(), None


def assign_sticky(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """What an eager group gets: partitions change hands at once.

    The members have given everything up before they joined, so what they owned comes as data of the
    assignor, topic by topic; a member without a generation has none to tell.
    """
    return decide(partitions, [as_user_data(each) for each in subscriptions])[0]


def as_user_data(subscription: Subscription) -> Subscription:
    """The subscription as it comes out of the sticky assignor's user data."""
    if subscription.generation <= NO_GENERATION:
        return replace(subscription, owned=())
    topics = in_computed_order(each.topic for each in subscription.owned)
    return replace(
        subscription, owned=tuple(each for topic in topics for each in subscription.owned if each.topic == topic)
    )


Pair = tuple[str, str]  # from which member, to which


@dataclass(slots=True)
class Movements:
    """The moves of one run of the general algorithm; a partition that is back where it was has none.

    Two moves of one topic in opposite directions undo each other and only cost. So before a partition of a
    topic goes from A to B, one that went from B to A is looked for, and sent back in its place.

    Source: Apache Kafka 4.3.1, `AbstractStickyAssignor.PartitionMovements`, `TopicPartition.hashCode`.
    Differs: `isSticky` with its search for cycles is left out; no assignment depends on it.
    """

    pair_of: dict[TopicPartition, Pair] = field(default_factory=dict)
    by_topic: dict[str, dict[Pair, HashOrder[TopicPartition]]] = field(default_factory=dict)  # no empty ones

    def actual_partition(self, partition: TopicPartition, giver: str, taker: str) -> TopicPartition:
        """What is to move in the place of this partition: one that went the other way, or the partition itself."""
        moves = self.by_topic.get(partition.topic)
        if moves is None:
            return partition
        if partition in self.pair_of:
            giver = self.pair_of[partition][0]
        went_back = moves.get((taker, giver))
        return partition if went_back is None else next(iter(went_back))

    def move(self, partition: TopicPartition, giver: str, taker: str) -> None:
        """Note a move; of several moves of one partition only where it came from and where it is now."""
        source = giver
        if partition in self.pair_of:
            source = self.forget(partition)[0]
            if source == taker:
                return
        pair = self.pair_of[partition] = (source, taker)
        moves = self.by_topic.setdefault(partition.topic, {})
        moves.setdefault(pair, HashOrder(partition_hash_code)).add(partition)

    def forget(self, partition: TopicPartition) -> Pair:
        """Take a partition's move out; the pair that it was between."""
        pair = self.pair_of.pop(partition)
        moves = self.by_topic[partition.topic]
        moves[pair].discard(partition)
        if not moves[pair]:
            del moves[pair]
        if not moves:
            del self.by_topic[partition.topic]
        return pair


def partition_hash_code(partition: TopicPartition) -> int:
    """Java's hash code of a TopicPartition."""
    return to_int(31 * (31 + partition.partition) + text_hash_code(partition.topic))


def not_kept(partitions: Iterable[TopicPartition], kept: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those that nobody keeps; both come in the same order.

    Two sorted rows are compared, so a kept partition that is no more hides all that come after it: they
    are taken for unassigned.
    """
    rest = iter(kept)
    next_kept, found = next(rest, None), []
    for each in partitions:
        if each == next_kept:
            next_kept = next(rest, None)
        else:
            found.append(each)
    return found


def share_equally(partitions: Partitions, claims: Claims) -> tuple[Assignment, dict[TopicPartition, str]]:
    """When all members read the same topics: the assignment, and what changes hands by it (partition -> new owner).

    With p partitions and m members everybody gets p // m, and p % m of them one more. A member with more than its
    quota gives up the highest partition numbers. Which of several may keep the one more is decided by the order
    in which the members are gone through. AssignorFailedError where the real one fails: members own partitions that are no more.

    Source: Apache Kafka 4.3.1, `AbstractStickyAssignor.ConstrainedAssignmentBuilder`.
    Differs: racks are left out.
    """
    quota, extras = divmod(sum(partitions.values()), len(claims.owned))
    most, with_extra = quota + (extras > 0), 0  # with_extra: how many members have one more by now
    assignment: Assignment = {}
    revoked: dict[TopicPartition, str] = {}  # given up -> by whom
    below: list[str] = []  # members with less than the quota
    at_quota: list[str] = []  # members with the quota, which may still get one more
    for member, claimed in claims.owned.items():  # each keeps the lowest partition numbers, across its topics
        owned = [each for each in claimed if each not in claims.void]
        owned.sort(key=lambda each: (each.partition, by_java_order(each.topic)))
        keeps = quota
        if len(owned) < quota:
            below.append(member)
        elif len(owned) >= most and with_extra < extras:
            keeps, with_extra = most, with_extra + 1
            if with_extra == extras:
                at_quota.clear()
        elif with_extra < extras:
            at_quota.append(member)
        assignment[member] = owned[:keeps]
        revoked |= dict.fromkeys(owned[keeps:], member)

    kept = sorted((each for has in assignment.values() for each in has), key=by_topic)
    below.sort(key=by_java_order)
    at_quota.sort(key=by_java_order)
    transferring: dict[TopicPartition, str] = {}
    turn = 0  # who of `below` is next: one each in turn, until all have the quota; then one more to those who may
    for partition in not_kept(all_partitions(sorted(partitions, key=by_java_order), partitions), kept):
        if not below and not at_quota:
            raise AssignorFailedError(f"the sticky assignor has no member left for {partition}", "IllegalStateException")
        turn %= max(1, len(below))
        member = below[turn] if below else at_quota.pop(0)
        assignment[member].append(partition)
        if revoked.get(partition, member) != member or partition in claims.void:
            transferring[partition] = member
        if not below:
            with_extra += len(assignment[member]) == most
        elif len(assignment[member]) < quota:
            turn += 1
        else:
            at_quota.append(below.pop(turn))
    if below:
        why = f"the sticky assignor leaves {', '.join(below)} below {quota} partitions"
        raise AssignorFailedError(why, "IllegalStateException")
    return assignment, transferring


@dataclass(slots=True)
class General:
    """When members read different topics: `build` starts from what is owned, then moves what makes it more even.

    First everybody keeps all that it still may read. A partition without an owner goes to the member with the
    least that reads its topic. Then partitions are moved, one by one, from a member with at least two more to one
    with less, until no move helps; when all that was not more even in the end, it is undone.

    Source: Apache Kafka 4.3.1, `AbstractStickyAssignor.GeneralAssignmentBuilder`.
    Differs: racks are left out.
    """

    partitions: Partitions
    assignment: Assignment  # at first what the members own; becomes the result
    subscriptions: dict[str, Subscription]  # member -> what it said, in the order in which members are gone through
    readers: dict[str, list[str]] = field(default_factory=dict)  # topic -> who may get it
    topics: dict[str, list[str]] = field(default_factory=dict)  # member -> what it may get
    owner: dict[TopicPartition, str] = field(default_factory=dict)  # who has a partition now
    previous: dict[TopicPartition, tuple[str, int]] = field(default_factory=dict)  # claimed in an older generation
    movements: Movements = field(default_factory=Movements)

    def __post_init__(self) -> None:
        self.topics = {
            member: [topic for topic in each.topics if topic in self.partitions] for member, each in self.subscriptions.items()
        }
        self.readers = {
            topic: [member for member, wanted in self.topics.items() for each in wanted if each == topic] for topic in self.partitions
        }
        self.owner = {partition: member for member, owned in self.assignment.items() for partition in owned}
        newest = max(each.generation for each in self.subscriptions.values())
        for member, each in self.subscriptions.items():  # what was owned before the last generation may go back there
            for partition in each.owned if each.generation < newest else ():
                if partition not in self.previous or each.generation > self.previous[partition][1]:
                    self.previous[partition] = member, each.generation

    def build(self) -> Assignment:
        """The assignment. AssignorFailedError for a group at which the real one fails."""
        movable = all_partitions(sorted(self.partitions, key=self.topic_order), self.partitions)  # topics with fewest readers first
        kept, owned = [], sum(map(len, self.assignment.values()))
        for member, has in self.assignment.items():
            has[:] = [each for each in has if each.topic in self.subscriptions[member].topics]
            kept += has
        unassigned = not_kept(movable, sorted(kept, key=lambda each: (*self.topic_order(each.topic), each.partition)))
        initializing = not self.assignment[self.by_count()[-1]]
        for partition in unassigned:
            taker = next((member for member in self.by_count() if partition.topic in self.topics[member]), None)
            if taker is not None:
                self.assignment[taker].append(partition)
                self.owner[partition] = taker

        is_shared = {topic: len(readers) >= 2 for topic, readers in self.readers.items()}
        out_of_it = [member for member in self.assignment if not self.can_take_part(member)]
        fixed = {member: self.assignment.pop(member) for member in out_of_it}
        before = {member: list(has) for member, has in self.assignment.items()}
        if len(kept) == owned:  # nobody had what it does not read any more
            self.reassign(each for each in unassigned if is_shared[each.topic])
        has_moved = self.reassign(each for each in movable if is_shared[each.topic])
        if has_moved and not initializing and score(self.assignment) >= score(before):
            self.assignment = before
        return self.assignment | fixed

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
                has = self.count(self.owner[partition])
                before = self.previous.get(partition)
                if before is not None and has > self.count(before[0]) + 1:
                    taker = before[0]
                elif any(has > self.count(other) + 1 for other in self.readers[partition.topic]):
                    taker = next(each for each in self.by_count() if partition.topic in self.topics[each])
                else:
                    continue
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
        return not any(
            len(self.assignment[member]) + 1 < self.count(holder.get(each))
            for member in by_count
            if len(self.assignment[member]) != self.most(member)
            for each in all_partitions(self.topics[member], self.partitions)
            if each not in self.assignment[member]
        )

    def topic_order(self, topic: str) -> tuple[int, bytes]:
        """The key of topics: those with fewest readers first."""
        return len(self.readers[topic]), by_java_order(topic)

    def by_count(self) -> list[str]:
        """The members among whom partitions may move, those with the fewest first."""
        return sorted(self.assignment, key=lambda member: (len(self.assignment[member]), by_java_order(member)))

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


def assign_cooperative_sticky(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """The sticky assignment without what someone else still owns, as the members' lists come over the wire: sorted.

    A partition that changes hands is given to nobody at first. Its owner sees that it has lost it, stops, and
    joins again; only the next rebalance gives it to the new owner. So no two members ever have it, and no
    member had to give up everything to make sure of that.
    """
    subscriptions = [replace(each, owned=tuple(sorted(each.owned, key=by_topic))) for each in subscriptions]
    assignment, transferring = decide(partitions, subscriptions)
    if transferring is None:
        transferring = changing_hands(subscriptions, assignment)
    for partition, taker in transferring.items():
        assignment[taker].remove(partition)
    return assignment


def changing_hands(subscriptions: Sequence[Subscription], assignment: Assignment) -> dict[TopicPartition, str]:
    """What a member gets and another one, who owned it, loses: partition -> new owner."""
    added: dict[TopicPartition, str] = {}
    lost: set[TopicPartition] = set()
    for each in subscriptions:
        owned, assigned = set(each.owned), set(assignment[each.member])
        added |= {partition: each.member for partition in assignment[each.member] if partition not in owned}
        lost |= owned - assigned
    return {partition: member for partition, member in added.items() if partition in lost}


Assign = Callable[[Partitions, Sequence[Subscription]], Assignment]


def rounds(
    partitions: Partitions, subscriptions: Sequence[Subscription], most: int = 20, assign: Assign = assign_cooperative_sticky
) -> list[Assignment]:
    """The assignments of a rebalance and of those that follow from it, until nothing changes any more, `most` at most.

    It plays the members, who own what they were given and join again.
    """
    found = [assign(partitions, subscriptions)]
    generation = max((each.generation for each in subscriptions), default=NO_GENERATION)
    while len(found) < most:
        generation += 1
        now = [replace(each, owned=tuple(found[-1][each.member]), generation=generation) for each in subscriptions]
        following = assign(partitions, now)
        if all(sorted(has) == sorted(found[-1][member]) for member, has in following.items()):
            break
        found.append(following)
    return found
