"""What a consumer adds to its membership: positions, and the rules by which each library commits.

Three cursors belong to a partition: fetched (the position: what poll returned), processed (only
the application knows) and committed. A library that commits automatically cannot know the second, so it commits
something else, and its choice decides what can be lost:

* Java's classic consumer commits the position, from inside `poll` (when the interval is over), before a rebalance
  and in `close`. What `poll` commits was returned by an earlier poll, so an
  application that processes each batch in the polling thread is safe, until it closes after an error;
* librdkafka *stores* a record's offset + 1 when poll returns the record, and a thread commits what is
  stored, whatever the application is doing; or the application stores it after processing (`auto_store` off). From
  1.4.2 stored offsets are forgotten when partitions are given up, from 1.9.0 a store for a partition that
  is not held is refused.

Source: Apache Kafka 4.3.1, `ConsumerCoordinator` (`maybeAutoCommitOffsetsAsync`, `maybeAutoCommitOffsetsSync`,
`sendOffsetCommitRequest`), `SubscriptionState.allConsumed`;
librdkafka, `rd_kafka_offset_store0`, `rd_kafka_cgrp_assigned_offsets_commit`, CHANGELOG 1.4.2 and 1.9.0.
Differs: records are offsets, fetched in no time when poll returns them; a real consumer may hold some that
have been deleted since, and returns them. Java looks at all positions in each poll here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kitlib.mechanisms.groups.group_protocol import (
    UNKNOWN_GENERATION,
    Answer,
    Committed,
    Fetched,
    OffsetCommit,
    OffsetFetch,
    Request,
)
from kitlib.mechanisms.groups.member import GroupMembership, MemberEvent, MemberState
from kitlib.mechanisms.positions import (
    NoOffsetForPartitionError,
    NoRecordSinceError,
    OffsetOutOfRangeError,
    start_position,
)
from kitlib.mechanisms.protocol import ErrorCode

FORGETS_ON_UNASSIGN, REFUSES_STORES = (1, 4, 2), (1, 9, 0)  # librdkafka's releases


@dataclass(slots=True)
class GroupConsumer(GroupMembership):
    """A subscribed consumer of one topic. Time, answers and the logs' ends come in; requests and records go out."""

    topic: str = "topic"
    log_ends: Mapping[int, int] = field(default_factory=dict)  # partition -> next offset
    log_starts: Mapping[int, int] = field(default_factory=dict)  # partition -> first offset; 0 if it is not here
    offset_since: Callable[[int, int], int | None] = lambda _partition, _ms: None  # the first record no older than so many ms
    stored: dict[int, int] = field(default_factory=dict)  # librdkafka: to be committed next
    sent: dict[int, int] = field(default_factory=dict)  # librdkafka: the last commit of each, which is not repeated
    commit_due_ms: int | None = None  # the next commit by itself; None before the first poll or without auto-commit
    answers: dict[int, ErrorCode] = field(default_factory=dict)  # of the user's own commits
    own: set[int] = field(default_factory=set)  # the numbers of these commits
    turn: int = 0  # the partition that hands out first
    stuck: set[int] = field(default_factory=set)  # librdkafka: without a position, of which it has told; it asks no more

    def check_positions(self) -> None:
        """What the answers to its fetches say: a position outside its log is given up, and the reset policy asked.

        Under "none" the user is told in each poll, by librdkafka once. Without a position the committed offset is
        asked for again in each poll, and by librdkafka never.
        """
        unknown = [partition for partition, position in self.held.items() if position is None and partition not in self.stuck]
        asked = {partition for request in self.asked.values() if isinstance(request, OffsetFetch)
                 for _, partition in request.partitions}  # fmt: skip
        is_told = any(event.what == "error" for event in self.events)
        if again := [partition for partition in unknown if partition not in asked and not is_told]:
            self.send(OffsetFetch(self.number(), tuple((self.topic, partition) for partition in again)))
        for partition, position in self.held.items():
            if position is not None and partition not in self.stuck and not self._is_in_log(partition, position):
                self._begin(partition, position)

    def _is_in_log(self, partition: int, position: int) -> bool:
        return self.log_starts.get(partition, 0) <= position <= self.log_ends.get(partition, 0)

    def _begin(self, partition: int, position: int | None) -> None:
        """Begin at the offset if it is one of the log's, else where the policy says."""
        start, end = self.log_starts.get(partition, 0), self.log_ends.get(partition, 0)
        error = ErrorCode.NONE
        try:
            self.held[partition] = start_position(
                position, start, end, self.config.auto_offset_reset, lambda ms: self.offset_since(partition, ms)
            )
        except NoOffsetForPartitionError:
            error = ErrorCode.NO_OFFSET_FOR_PARTITION
        except OffsetOutOfRangeError:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        except NoRecordSinceError:
            self.held[partition] = None
        if error is not ErrorCode.NONE:
            is_librdkafka = self.config.library == "librdkafka"  # which has one name for all that its reset policy forbids
            self.events.append(MemberEvent("error", (partition,), error="_AUTO_OFFSET_RESET" if is_librdkafka else error.name))
            self.stuck |= {partition} if is_librdkafka else set()

    def begin_poll(self, now_ms: int) -> None:
        """As the membership's; then Java commits if the interval is over and no join is in flight."""
        if self.config.auto_commit and self.commit_due_ms is None:
            self.commit_due_ms = now_ms + self.config.auto_commit_interval_ms
        GroupMembership.begin_poll(self, now_ms)
        if not self.config.is_background and self.state is MemberState.STABLE:
            self._maybe_commit_position(now_ms)

    def hand_out(self, max_records: int) -> list[tuple[int, int]]:
        """Up to `max_records` records as (partition, offset) from what it holds; the positions move on.

        An eager member that has given everything up holds nothing; a cooperative one goes on reading what
        it keeps while the group rebalances.
        """
        records: list[tuple[int, int]] = []
        partitions = sorted(self.held) if self.fatal is ErrorCode.NONE else []
        at = next((index for index, partition in enumerate(partitions) if partition >= self.turn), 0)
        for partition in partitions[at:] + partitions[:at]:
            position, end = self.held[partition], self.log_ends.get(partition, 0)
            if position is None or len(records) == max_records or not self._is_in_log(partition, position):
                continue
            count = min(max_records - len(records), max(0, end - position))
            records += [(partition, offset) for offset in range(position, position + count)]
            self.held[partition] = position + count
            if count and self.config.library == "librdkafka" and self.config.auto_store:
                self.stored[partition] = position + count
            self.turn = partition + 1 if position + count == end else partition
        return records

    def has_records(self) -> bool:
        """Whether `hand_out` would give something."""
        return self.fatal is ErrorCode.NONE and any(
            position is not None and self.log_starts.get(partition, 0) <= position < self.log_ends.get(partition, 0)
            for partition, position in self.held.items()
        )

    def commit(self, offsets: Mapping[int, int] | None, now_ms: int) -> int | ErrorCode:
        """The user commits: these offsets, or the positions (librdkafka: what is stored).

        The request's number, to be looked up in `answers`; or at once the error of a client that knows that
        it may not, or NONE when there is nothing to commit.
        """
        if self.fatal is not ErrorCode.NONE:
            return self.fatal
        if offsets is None:
            offsets = self._stored_or_position()
        if not offsets:
            return ErrorCode.NONE
        error = self._may_commit()
        if error is not ErrorCode.NONE:
            return error
        number = self._send_commit(offsets)
        self.own.add(number)
        return number

    def commit_later(self, offsets: Mapping[int, int]) -> None:
        """The user commits and does not wait: what becomes of it is an event, also where the client knows that it may not."""
        error = self.fatal or self._may_commit()
        if error is not ErrorCode.NONE:
            self.events.append(MemberEvent("committed", tuple(offsets), self.generation, error.name))
        elif offsets:
            self._send_commit(offsets)

    def store(self, partition: int, next_offset: int) -> bool:
        """librdkafka: keep an offset for the next commit; False when it is refused as the partition is not held."""
        if partition not in self.held and self.config.release >= REFUSES_STORES:
            return False
        self.stored[partition] = next_offset
        return True

    def close(self, now_ms: int) -> None:
        """Commit what the library commits by itself, let the user's callback commit, then leave."""
        if self.config.auto_commit and self.held and self._may_commit() is ErrorCode.NONE:
            self._commit_by_itself(self._stored_or_position())
        if self.config.commit_on_revoke and self._may_commit() is ErrorCode.NONE:
            self._commit_positions(tuple(self.held))
        self.leave("leave")

    def tick(self, now_ms: int) -> None:
        """As the membership's; librdkafka commits what is stored when the interval is over."""
        GroupMembership.tick(self, now_ms)
        if self.config.is_background and self.commit_due_ms is not None and now_ms >= self.commit_due_ms:
            self.commit_due_ms = now_ms + self.config.auto_commit_interval_ms
            if self._may_commit() is ErrorCode.NONE:
                self._commit_by_itself(self._stored_or_position())

    def next_due(self) -> int | None:
        """When `tick` has something to do."""
        dues = [GroupMembership.next_due(self), self.commit_due_ms if self.config.is_background else None]
        return min((due for due in dues if due is not None), default=None)

    def _may_commit(self) -> ErrorCode:
        """Java asks itself first; librdkafka leaves it to the coordinator, if it knows a generation."""
        if self.generation == UNKNOWN_GENERATION:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.state is MemberState.STABLE or self.config.is_background:
            return ErrorCode.NONE
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _stored_or_position(self) -> dict[int, int]:
        if self.config.library != "librdkafka":
            return {partition: position for partition, position in self.held.items() if position is not None}
        return {
            partition: offset
            for partition, offset in self.stored.items()
            if partition in self.held and self.sent.get(partition) != offset
        }

    def _send_commit(self, offsets: Mapping[int, int]) -> int:
        number = self.number()
        named = tuple(((self.topic, partition), offset) for partition, offset in sorted(offsets.items()))
        self.send(OffsetCommit(number, named, self.member_id, self.generation, self.config.instance_id))
        return number

    def _commit_by_itself(self, offsets: Mapping[int, int]) -> None:
        if offsets:
            self._send_commit(offsets)
            self.sent.update(offsets)

    def _maybe_commit_position(self, now_ms: int) -> None:
        if self.commit_due_ms is not None and now_ms >= self.commit_due_ms:
            self.commit_due_ms = now_ms + self.config.auto_commit_interval_ms
            self._commit_by_itself(self._stored_or_position())

    def before_revoke(self, now_ms: int, is_lost: bool) -> None:
        """A library that commits by itself does so before a rebalance; for lost partitions it is refused.

        The user's callback does the same with what an eager member gives up; a cooperative one keeps it still.
        """
        if self.config.commit_on_revoke and not is_lost and not self.config.is_cooperative:
            self._commit_positions(tuple(self.held))
        if not self.config.auto_commit or not self.held:
            return
        if is_lost or self.generation == UNKNOWN_GENERATION:
            if self._stored_or_position():
                self.events.append(MemberEvent("committed", tuple(sorted(self.held)), error=ErrorCode.UNKNOWN_MEMBER_ID.name))
            return
        if not (self.config.is_background and self.config.is_cooperative):  # librdkafka's keeps them still
            self._commit_by_itself(self._stored_or_position())

    def before_cooperative_revoke(self, partitions: tuple[int, ...]) -> None:
        """librdkafka commits by itself what is about to go, or the user's callback does."""
        if self.config.is_background and self.config.auto_commit:
            stored = self._stored_or_position()
            self._commit_by_itself({partition: stored[partition] for partition in partitions if partition in stored})
        if self.config.commit_on_revoke:
            self._commit_positions(partitions)

    def _commit_positions(self, partitions: tuple[int, ...]) -> None:
        positions = {partition: self.held[partition] for partition in partitions}
        self._commit_by_itself({partition: at for partition, at in positions.items() if at is not None})

    def after_assigned(self, partitions: tuple[int, ...], now_ms: int) -> None:
        """Ask where to begin; Java's interval starts over."""
        if self.config.auto_commit and not self.config.is_background:
            self.commit_due_ms = now_ms + self.config.auto_commit_interval_ms
        unknown = [partition for partition in partitions if self.held[partition] is None]
        if unknown:
            self.send(OffsetFetch(self.number(), tuple((self.topic, partition) for partition in unknown)))

    def after_given_up(self, partitions: tuple[int, ...]) -> None:
        """What was stored for them is forgotten, from librdkafka 1.4.2 on."""
        for partition in partitions:
            self.sent.pop(partition, None)
            self.stuck.discard(partition)
            if self.config.release >= FORGETS_ON_UNASSIGN:
                self.stored.pop(partition, None)

    def other_answer(self, request: Request, answer: Answer, now_ms: int) -> None:
        """An answer to a commit or to the question where to begin."""
        if isinstance(request, OffsetFetch) and isinstance(answer, Fetched):
            for (_, partition), offset in answer.offsets:
                if partition in self.held and self.held[partition] is None:
                    self.held[partition] = offset  # whether it lies in the log is seen when it is fetched
                    if offset is None:
                        self._begin(partition, None)
        elif isinstance(request, OffsetCommit) and isinstance(answer, Committed):
            self._committed(request, answer.error)

    def _committed(self, request: OffsetCommit, error: ErrorCode) -> None:
        if request.asked in self.own:
            self.own.discard(request.asked)
            self.answers[request.asked] = error
        else:
            partitions = tuple(partition for (_, partition), _ in request.offsets)
            self.events.append(MemberEvent("committed", partitions, request.generation, error.name if error else ""))
        if error is ErrorCode.NONE or request.generation != self.generation:
            return
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.needs_rejoin = self.needs_rejoin or self.state is MemberState.STABLE
        else:
            self.refused(error)
