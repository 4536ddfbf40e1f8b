"""What an experiment with a consumer group needs of a backend: one topic, one group, and members to drive.

The story is one script for both backends, so it drives every member in lockstep: one call to one member
at a time, then the next. What real clients do by themselves goes on behind the calls: heartbeats, and
the commits of a library that commits in the background. Between two calls no time passes in the model;
on a real broker it is whatever the call took.

`kitlib.experiments.groups.model_members` is the model, `kitlib.experiments.groups.kafka_members` the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kitlib.errors import KnobError
from kitlib.experiments.stage import Stage
from kitlib.kafka.positions import ResetPolicyError, reset_since_ms

Library = Literal["librdkafka", "java", "kafka-python"]
GroupProtocol = Literal["classic", "consumer"]
EventKind = Literal["assigned", "revoked", "lost", "committed", "error"]
LIBRARIES: tuple[Library, ...] = ("librdkafka", "java", "kafka-python")


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """How one consumer is set up. The time-outs are short, so that a real run ends in seconds.

    `release` is for the model alone ("" is the newest): librdkafka's rules for stored offsets changed with
    1.4.2 and 1.9.0. A real stage refuses any other with a KnobError.
    """

    library: Library = "librdkafka"
    protocol: GroupProtocol = "classic"
    strategies: tuple[str, ...] = ("range",)  # "range", "roundrobin", "sticky", "cooperative-sticky"; most wanted first
    auto_commit: bool = False
    auto_commit_interval_ms: int = 200
    commit_on_revoke: bool = False  # the user's callback commits his positions before partitions are given up
    auto_store: bool = True  # librdkafka's enable.auto.offset.store: a record counts as done when it is handed out
    max_poll_records: int = 500
    session_timeout_ms: int = 1_500
    heartbeat_interval_ms: int = 300
    max_poll_interval_ms: int = 2_000
    instance_id: str | None = None  # a static member's
    auto_offset_reset: str = "earliest"  # "latest", "none", and Java's "by_duration:PT1H"
    metadata_max_age_ms: int = 300_000  # how often it asks for its topic's partitions
    release: str = ""


def check_reset_policy(settings: MemberSettings) -> None:
    """KnobError for a reset policy that this library does not have."""
    try:
        since_ms = reset_since_ms(settings.auto_offset_reset)
    except ResetPolicyError as error:
        raise KnobError(str(error)) from error
    if since_ms is not None and settings.library != "java":
        raise KnobError(f"{settings.library} has no reset policy {settings.auto_offset_reset}. Use java, or choose earliest or latest.")


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """What a member noticed while it was polled: partitions came or went, a commit of its own was answered.

    `revoked` still allows a commit, `lost` does not: another member may have them already. `committed`
    tells of commits that the library made by itself (`error` when one was refused), `error` of a client
    that cannot go on, or was told so.
    """

    what: EventKind
    partitions: tuple[int, ...] = ()
    generation: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll gave: records as (partition, offset) in the order of delivery, and what happened before them."""

    records: tuple[tuple[int, int], ...] = ()
    events: tuple[GroupEvent, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Happened:
    """One step of the coordinator: "prepare", "sync", "stable", "evict" or "empty", with the data of the trace's step."""

    at_ms: int
    what: str
    data: dict[str, Any] = field(default_factory=dict)


class GroupMember(Protocol):
    """One consumer, subscribed to the group's topic. Every call ends; a real one raises LabError at its deadline."""

    name: str

    def poll(self, max_records: int, timeout_ms: int) -> Polled:
        """Hand out records, or wait up to `timeout_ms` for some. Rebalances are taken part in here.

        With `max_records` 0 it only takes part: nothing is handed out, and no position moves.
        """
        ...

    def commit(self, offsets: dict[int, int] | None = None) -> str:
        """Commit the offsets to be read next, each partition's position when None is given; "NONE" or the error's name.

        It waits for the answer. Errors: REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, and for one that is no member of
        this generation UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION (librdkafka), COMMIT_FAILED (Java, kafka-python).
        """
        ...

    def store(self, partition: int, next_offset: int) -> str:
        """librdkafka: keep an offset for its next commit in the background; "NONE" or "STATE" when it is refused."""
        ...

    def positions(self) -> dict[int, int | None]:
        """The next offset of each partition that it holds, by its own word; None while it has none.

        A real one asks the broker first for what it does not know yet.
        """
        ...

    def close(self) -> None:
        """Leave the group as the library does; one that commits by itself commits first."""
        ...

    def kill(self) -> None:
        """End at once, without a word (SIGKILL)."""
        ...

    def freeze(self) -> None:
        """Stop every thread (SIGSTOP); the connection stays open."""
        ...

    def thaw(self) -> None:
        """Go on where it was frozen (SIGCONT)."""
        ...

    def cut_off(self) -> None:
        """From now on nothing of it reaches the broker and nothing comes back; it runs on."""
        ...

    def reconnect(self) -> None:
        """The network is back."""
        ...


class GroupStage(Protocol):
    """One topic and one group of a run, on the model or on a real broker."""

    backend: str
    topic: str  # the topic's full name
    through_proxy: bool  # to be set before `join`: only a member that joined through it can be cut off later

    @property
    def now_ms(self) -> int:
        """Milliseconds since the run began."""
        ...

    def pass_ms(self, ms: int) -> None:
        """Let time pass; what goes on in the background goes on."""
        ...

    def wait_until(self, condition: Callable[[], bool], most_ms: int) -> bool:
        """Let time pass until the condition holds, or `most_ms` are over; whether it held."""
        ...

    def create(self, partitions: int) -> None:
        """Create the topic."""
        ...

    def add_partitions(self, partitions: int) -> None:
        """Raise the topic's number of partitions to so many. The members find them when they next ask for its metadata."""
        ...

    def append(self, partition: int, count: int, age_ms: int = 0) -> int:
        """Append so many records to a partition, with timestamps so far back; the first one's offset."""
        ...

    def join(self, name: str, settings: MemberSettings) -> GroupMember:
        """Start a consumer and subscribe it; it becomes a member in its polls. A name may be used again after its end."""
        ...

    def committed(self) -> dict[int, int | None]:
        """Each partition's committed offset."""
        ...

    def owners(self) -> dict[int, str | None]:
        """Who holds each partition by the coordinator's last assignment; None when nobody does."""
        ...

    def view(self) -> GroupView:
        """The group as the coordinator describes it now."""
        ...

    def happened(self) -> list[Happened]:
        """The coordinator's steps since the last call, oldest first.

        A real stage compares views; then `why` may be missing, and the run fills it in from what it knows.
        """
        ...

    def beside(self, name: str) -> GroupStage:
        """Another group of this name on the same topic, which has been created. Records are appended here."""
        ...

    def alter(self, offsets: dict[int, int]) -> str:
        """An operator sets committed offsets; "NONE" or the error's name: UNKNOWN_MEMBER_ID while somebody is a member."""
        ...

    def forget(self, partitions: Sequence[int]) -> str:
        """An operator deletes committed offsets, which writes a tombstone for each one there is.

        "NONE" or the error's name: GROUP_SUBSCRIBED_TO_TOPIC while somebody is a member.
        """
        ...

    def delete_before(self, partition: int, offset: int) -> int:
        """An operator has what lies below the offset deleted; where the log begins then."""
        ...

    def roll_after(self, segment_ms: int) -> None:
        """From now on a segment of the topic holds records of so many ms, by their timestamps (`segment.ms`)."""
        ...

    def retain(self, partition: int, retention_ms: int) -> int:
        """Set the topic's `retention.ms`, and wait until the broker has deleted something; where the partition's log begins then.

        A real broker looks every second. LabError when it has not by the stage's deadline.
        """
        ...

    def close(self) -> None:
        """End every member that is left, at once."""
        ...


def open_group(stage: Stage, run: str) -> GroupStage:
    """The group of a run on the backend of its stage."""
    if stage.backend == "kafka":
        from kitlib.experiments.groups.kafka_members import KafkaGroup

        return KafkaGroup.open(stage, run)
    from kitlib.experiments.groups.model_members import ModelGroup

    return ModelGroup(run)
