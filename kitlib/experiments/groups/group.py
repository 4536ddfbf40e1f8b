"""What an experiment with a consumer group needs of a backend: one topic, one group, and members to drive; and its model.

The story is one script for both backends, so it drives every member in lockstep: one call to one member
at a time, then the next. What real clients do by themselves goes on behind the calls: heartbeats, and
the commits of a library that commits in the background. On a real broker, whose half is
`kitlib.experiments.groups.kafka_members`, time between two calls is whatever the call took.

The model is the model of the coordinator, and members of the model, each with its two threads. Requests and
answers take no time on their way, and nothing goes on between two calls; time passes in
`pass_ms` and in a poll that has nothing to hand out. Then the coordinator's timers and the
members' background threads run in the order in which they are due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar, Literal, NamedTuple

from kitlib.errors import KnobError, LabError
from kitlib.experiments.groups.model_topic import ModelTopic
from kitlib.mechanisms.groups.classic_group import GroupState
from kitlib.mechanisms.groups.consumer import GroupConsumer
from kitlib.mechanisms.groups.coordinator import GroupConfig, GroupCoordinator
from kitlib.mechanisms.groups.group_protocol import (
    Answer,
    Answered,
    Committed,
    CoordinatorEvent,
    Effect,
    Heartbeat,
    Joined,
    OffsetCommit,
    Request,
)
from kitlib.mechanisms.groups.member import ConsumerConfig, MemberEvent, MemberMetadata
from kitlib.mechanisms.positions import BY_DURATION
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.assignors import assign
from kitlib.more.assignors.subscription import Subscription, TopicPartition

Library = Literal["librdkafka", "java"]
GroupProtocol = Literal["classic", "consumer"]
# Of the kit's own broker (kitlib.lab.brokers.node), so that a run on it and one of the model are alike.
CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500)
COMMIT_FAILED = "COMMIT_FAILED"  # CommitFailedException, CommitFailedError
FATAL = "_FATAL"  # librdkafka, after an error that it cannot go on from
COMMIT_MS = 60_000  # how long a commit is waited for: default.api.timeout.ms of Java's consumer
TIMED_OUT = "TIMED_OUT"  # a commit whose answer never came
MESSAGES: dict[type, str] = {Heartbeat: "heartbeat", OffsetCommit: "commit"}  # those that a script may lose


@dataclass(frozen=True, slots=True)
class MemberSettings(ConsumerConfig):
    """How one consumer is set up. The timeouts are short, so that a real run ends in seconds.

    `release` is for the model alone: a real backend refuses any but the newest with a KnobError.
    """

    library: Library = "librdkafka"
    auto_commit_interval_ms: int = 200
    session_timeout_ms: int = 1_500
    heartbeat_interval_ms: int = 300
    max_poll_interval_ms: int = 2_000
    protocol: GroupProtocol = "classic"
    max_poll_records: int = 500


def check_settings(name: str, settings: MemberSettings) -> None:
    """KnobError for what librdkafka has not."""
    if settings.library == "librdkafka" and "sticky" in settings.strategies:
        raise KnobError(f"member {name}: librdkafka has no sticky assignor. Use cooperative-sticky, or another library.")
    if settings.library == "librdkafka" and settings.auto_offset_reset.startswith(BY_DURATION):
        raise KnobError(f"librdkafka has no reset policy {settings.auto_offset_reset}. Use java, or choose earliest or latest.")


class Polled(NamedTuple):
    """What one poll gave: records as (partition, offset) in the order of delivery, and what happened before them."""

    records: tuple[tuple[int, int], ...] = ()
    events: tuple[MemberEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupView:
    """The group as its coordinator describes it; members and leader by the run's own names.

    `state` is one of "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead" (and "Assigning",
    "Reconciling" of the newer protocol). What a coordinator does not tell is None.
    """

    state: str
    generation: int | None = None
    leader: str | None = None
    protocol: str | None = None
    members: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class ModelMember:
    """One consumer of the model, and what was done to its process and its network."""

    name: str
    consumer: GroupConsumer
    group: ModelGroup
    is_dead: bool = False
    is_frozen: bool = False
    is_cut_off: bool = False
    partitions: int = 0  # of the topic, as far as it knows
    joined_ms: int = 0
    missed: list[tuple[int, Answer]] = field(default_factory=list)  # answers that came while it was frozen

    def poll(self, max_records: int, timeout_ms: int) -> Polled:
        """Hand out records, or wait up to `timeout_ms` for some. Rebalances are taken part in here.

        With `max_records` 0 it only takes part: nothing is handed out, and no position moves.
        """
        self._check()
        group, consumer = self.group, self.consumer
        deadline = group.now_ms + timeout_ms
        group.polling = self
        try:
            self._look_around(max_records)
            while group.now_ms < deadline and not consumer.events and not (max_records and consumer.has_records()):
                group.step(deadline)
                self._look_around(max_records)
            records = consumer.hand_out(max_records) if max_records else []
        finally:
            group.polling = None
        events, consumer.events = consumer.events, []
        return Polled(tuple(records), tuple(events))

    def _look_around(self, max_records: int) -> None:
        """Take part in the group, and fetch; librdkafka is paused by the kit while no record is wanted, and fetches nothing."""
        self.consumer.begin_poll(self.group.now_ms)
        self.group.pump()
        if max_records or not self.consumer.config.is_background:
            self.consumer.check_positions()
            self.group.pump()

    def positions(self) -> dict[int, int | None]:
        """The next offset of each partition that it holds, by its own word; None while it has none.

        A real one asks the broker first for what it does not know yet.
        """
        self._check()
        self.consumer.check_positions()
        self.group.pump()
        return dict(self.consumer.held)

    def commit(self, offsets: dict[int, int] | None = None) -> str:
        """Commit the offsets to be read next, each partition's position when None is given; "NONE" or the error's name.

        It waits for the answer. Errors: REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, and for one that is no member of
        this generation UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION (librdkafka), COMMIT_FAILED (Java).
        """
        self._check()
        group, consumer = self.group, self.consumer
        if consumer.fatal is not ErrorCode.NONE:
            return FATAL if consumer.config.library == "librdkafka" else COMMIT_FAILED
        number = consumer.commit(offsets, group.now_ms)
        if isinstance(number, ErrorCode):
            return self._named(number)
        group.pump()
        deadline = group.now_ms + (0 if self.is_cut_off or number in group.lost else COMMIT_MS)
        while number not in consumer.answers and group.now_ms < deadline:  # it waits behind a join
            group.step(deadline)
        answer = consumer.answers.pop(number, None)
        return TIMED_OUT if answer is None else self._named(answer)

    def commit_later(self, offsets: dict[int, int]) -> None:
        """Commit without waiting for the answer; a later poll tells of a refusal."""
        self._check()
        self.consumer.commit_later(offsets)
        self.group.pump()

    def _named(self, error: ErrorCode) -> str:
        """The error as the library's user is told it: Java has one exception for several."""
        is_hidden = error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        return COMMIT_FAILED if is_hidden and self.consumer.config.library != "librdkafka" else error.name

    def store(self, partition: int, next_offset: int) -> str:
        """librdkafka: keep an offset for its next commit in the background; "NONE" or "STATE" when it is refused."""
        self._check()
        return "NONE" if self.consumer.store(partition, next_offset) else "STATE"

    def close(self) -> None:
        """Leave the group as the library does; one that commits by itself commits first."""
        self._check()
        self.consumer.close(self.group.now_ms)
        self.group.pump()
        self.is_dead = True

    def kill(self) -> None:
        """End at once, without a word (SIGKILL)."""
        self.is_dead, self.is_frozen = True, False

    def freeze(self) -> None:
        """Stop every thread (SIGSTOP); the connection stays open."""
        self._check()
        self.is_frozen = True

    def thaw(self) -> None:
        """Go on where it was frozen (SIGCONT)."""
        self.is_frozen = False
        missed, self.missed = self.missed, []
        for number, answer in missed:
            self.consumer.receive(number, answer, self.group.now_ms, in_poll=False)

    def cut_off(self) -> None:
        """From now on nothing of it reaches the broker and nothing comes back; it runs on."""
        self._check()
        self.is_cut_off = True

    def reconnect(self) -> None:
        """The network is back."""
        self.is_cut_off = False
        self.group.drop_connection(self)
        self.consumer.disconnected()

    def refresh_due(self) -> int | None:
        """When it next asks for the topic's metadata, if there is news for it."""
        if self.partitions == len(self.group.log.ends):
            return None
        age = self.consumer.config.metadata_max_age_ms
        return self.joined_ms + age * ((self.group.log.grown_ms - self.joined_ms) // age + 1)

    def refresh(self) -> None:
        """It learns how many partitions there are; a leader has them dealt out anew."""
        self.partitions = len(self.group.log.ends)
        self.consumer.needs_rejoin |= self.consumer.is_leader

    @property
    def runs(self) -> bool:
        """Whether its threads run."""
        return not self.is_dead and not self.is_frozen

    def _check(self) -> None:
        if not self.runs:
            how = "ended" if self.is_dead else "frozen"
            raise LabError(f"consumer {self.name} is {how} and cannot be called. Start another one, or thaw it.")

    def __repr__(self) -> str:
        return f"<{self.name}: {self.consumer.state.value}, generation {self.consumer.generation}, holds {self.consumer.held}>"


@dataclass(slots=True)
class ModelGroup:
    """One topic and one group of a run; on a real broker `on_kafka` takes its place."""

    on_kafka: ClassVar[str] = "kitlib.experiments.groups.kafka_members:KafkaGroup"

    run: str
    # To be set before `join`: only a member that joined through it can be cut off later. In the model every one can.
    through_proxy: bool = False
    waits: bool = True  # until a process that joins has subscribed, and one that leaves has closed; in the model both are at once
    topic: str = "orders"  # its full name
    coordinator: GroupCoordinator = field(init=False)
    now_ms: int = 0  # since the run began
    log: ModelTopic = field(default_factory=lambda: ModelTopic("orders"))
    members: list[ModelMember] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # member id -> name
    askers: dict[int, ModelMember] = field(default_factory=dict)  # number of a request -> who asked
    numbers: count[int] = field(default_factory=count)
    polling: ModelMember | None = None
    is_lost: Callable[[str, str, int], bool] = lambda member, thing, number: False  # asked for each of MESSAGES, from 1 on
    sent: dict[tuple[str, str], int] = field(default_factory=dict)  # (member, thing) -> how many
    lost: set[int] = field(default_factory=set)  # numbers of requests
    steps: list[CoordinatorEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.coordinator = GroupCoordinator(f"kit.{self.run}", CONFIG)

    def add_partitions(self, partitions: int) -> None:
        """Raise the topic's number of partitions to so many. The members find them when they next ask for its metadata."""
        self.log.grow(partitions, self.now_ms)

    create = add_partitions

    def append(self, partition: int, count: int, age_ms: int = 0) -> int:
        """Append so many records to a partition, with timestamps so far back; the first one's offset."""
        return self.log.append(partition, count, self.now_ms - age_ms)

    def join(self, name: str, settings: MemberSettings) -> ModelMember:
        """Start a consumer and subscribe it; it becomes a member in its polls. A name may be used again after its end.

        KnobError for what no library has, and for the newer protocol.
        """
        if settings.protocol != "classic":
            raise KnobError("the model has no protocol 'consumer', only a real broker does. Use backend='kafka'.")
        check_settings(name, settings)
        consumer = GroupConsumer(
            name, settings, lambda *asked: self._deal(member.partitions, *asked), lambda: next(self.numbers),
            topic=self.topic, log_ends=self.log.ends, log_starts=self.log.starts,
            offset_since=lambda partition, ms: self.log.offset_since(partition, self.now_ms - ms),
        )  # fmt: skip
        member = ModelMember(name, consumer, self, partitions=len(self.log.ends), joined_ms=self.now_ms)
        self.members.append(member)
        return member

    def pass_ms(self, ms: int) -> None:
        """Let time pass; what goes on in the background goes on."""
        end = self.now_ms + ms
        while self.now_ms < end:
            self.step(end)

    def committed(self) -> dict[int, int | None]:
        """Each partition's committed offset."""
        return {partition: self.coordinator.offsets.get((self.topic, partition)) for partition in self.log.ends}

    def owners(self) -> dict[int, str | None]:
        """Who holds each partition by the coordinator's last assignment; None when nobody does."""
        owners: dict[int, str | None] = dict.fromkeys(self.log.ends)
        group = self.coordinator.group
        for member in group.members.values() if group else ():
            owners.update(dict.fromkeys(member.assignment or (), member.client_id))
        return owners

    def view(self) -> GroupView:
        """The group as the coordinator describes it now."""
        group = self.coordinator.group
        if group is None:
            return GroupView(GroupState.DEAD.value)  # what a broker says of a group that it does not know
        members = tuple(sorted(member.client_id for member in group.members.values()))
        leader = None if group.leader_id is None else group.members[group.leader_id].client_id
        return GroupView(group.state.value, group.generation_id, leader, group.protocol_name, members)

    def happened(self) -> list[CoordinatorEvent]:
        """The coordinator's steps since the last call, oldest first.

        A real backend compares views; then `why` may be missing, and the run fills it in from what it knows.
        """
        steps, self.steps = self.steps, []
        return steps

    def alter(self, offsets: dict[int, int]) -> str:
        """An operator sets committed offsets; "NONE" or the error's name: UNKNOWN_MEMBER_ID while somebody is a member."""
        named = tuple(((self.topic, partition), offset) for partition, offset in sorted(offsets.items()))
        effects = self.coordinator.handle(OffsetCommit(next(self.numbers), named), self.now_ms)
        self._take(effects)
        errors = [effect.answer.error for effect in effects if isinstance(effect, Answered) and isinstance(effect.answer, Committed)]
        return errors[0].name

    def forget(self, partitions: Sequence[int]) -> str:
        """An operator deletes committed offsets, which writes a tombstone for each one there is.

        "NONE" or the error's name: GROUP_SUBSCRIBED_TO_TOPIC while somebody is a member.
        """
        return self.coordinator.delete_offsets((self.topic, partition) for partition in partitions).name

    def delete_before(self, partition: int, offset: int) -> int:
        """An operator has what lies below the offset deleted; where the log begins then."""
        return self.log.delete_before(partition, offset)

    def roll_after(self, segment_ms: int) -> None:
        """From now on a segment of the topic holds records of so many ms, by their timestamps (`segment.ms`)."""
        self.log.segment_ms = segment_ms

    def retain(self, partition: int, retention_ms: int) -> int:
        """Set the topic's `retention.ms`, and wait until the broker has deleted something; where the partition's log begins then.

        A real broker looks every second. LabError when it has not by the backend's deadline.
        """
        return self.log.delete_older(partition, self.now_ms - retention_ms)

    def step(self, end_ms: int) -> None:
        """Go to the next time at which something is due, or to `end_ms`, and let it happen."""
        dues = [due for member in self.members if member.runs for due in (member.consumer.next_due(), member.refresh_due())]
        due = min((at for at in (*dues, self.coordinator.next_due()) if at is not None), default=end_ms)
        self.now_ms = min(max(due, self.now_ms), end_ms)
        self._take(self.coordinator.advance(self.now_ms))
        for member in self.members:
            at = member.consumer.next_due() if member.runs else None
            if at is not None and at <= self.now_ms:
                member.consumer.tick(self.now_ms)
            news = member.refresh_due() if member.runs and not member.is_cut_off else None
            if news is not None and news <= self.now_ms:
                member.refresh()
        self.pump()

    def pump(self) -> None:
        """Carry requests to the coordinator and answers back until nobody says anything more.

        A connection's requests are taken one after the other: while a join or a sync of a member is not
        answered, whatever else it asks waits behind it.
        """
        while True:
            waiting = list(self.askers.values())
            ready = (found for found in self.members if found.runs and found.consumer.outbox)
            member = next((found for found in ready if found.is_cut_off or found not in waiting), None)
            if member is None:
                return
            request = member.consumer.outbox.pop(0)
            if not member.is_cut_off and not self._loses(member.name, request):
                self.askers[request.asked] = member
                self._take(self.coordinator.handle(request, self.now_ms))

    def _loses(self, name: str, request: Request) -> bool:
        """Whether the network loses a request."""
        thing = MESSAGES.get(type(request))
        if thing is None:
            return False
        number = self.sent[name, thing] = self.sent.get((name, thing), 0) + 1
        is_lost = self.is_lost(name, thing, number)
        if is_lost:
            self.lost.add(request.asked)
            self.steps.append(CoordinatorEvent("lose_message", {"member": name, "message": thing, "number": number}))
        return is_lost

    def _take(self, effects: Sequence[Effect]) -> None:
        answered = [effect for effect in effects if isinstance(effect, Answered)]
        for effect in answered:  # names first: a note may tell of a member whose first answer is among these
            asker = self.askers.get(effect.asked)
            if asker is not None and isinstance(effect.answer, Joined) and effect.answer.member_id:
                self.names[effect.answer.member_id] = asker.name
        self.steps += [self._named(effect) for effect in effects if isinstance(effect, CoordinatorEvent)]
        for effect in answered:
            asker = self.askers.pop(effect.asked, None)
            if asker is None or asker.is_dead or asker.is_cut_off:
                continue
            if asker.is_frozen:
                asker.missed.append((effect.asked, effect.answer))
            else:
                asker.consumer.receive(effect.asked, effect.answer, self.now_ms, asker is self.polling)

    def drop_connection(self, member: ModelMember) -> None:
        """Its connection is a new one: nothing that it asked on the old one will reach it."""
        self.askers = {number: asker for number, asker in self.askers.items() if asker is not member}

    def _named(self, note: CoordinatorEvent) -> CoordinatorEvent:
        data = dict(note.data)
        for key in ("member", "leader"):
            if key in data:
                data[key] = self.names.get(data[key], data[key])
        if note.what == "stable":
            owners = self.owners()
            data["owners"] = [[self.topic, partition, owners[partition]] for partition in sorted(owners)]
        return CoordinatorEvent(note.what, data)

    def _deal(
        self, partitions: int, strategy: str, members: Sequence[tuple[str, str | None, MemberMetadata]]
    ) -> dict[str, tuple[int, ...]]:
        """What a leader does with its assignor."""
        subscriptions = [
            Subscription(
                member_id, (self.topic,), tuple(TopicPartition(self.topic, owned) for owned in metadata.owned),
                metadata.generation, instance_id,
            )
            for member_id, instance_id, metadata in members
        ]  # fmt: skip
        dealt = assign(strategy, {self.topic: partitions}, subscriptions)
        return {member_id: tuple(found.partition for found in partitions) for member_id, partitions in dealt.items()}
