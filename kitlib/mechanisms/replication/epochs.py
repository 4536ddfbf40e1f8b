"""Which leader wrote which part of a log: the table by which a copy finds out where it went another way.

Offsets are used again after an unclean election, so an offset alone does not name a record. Each election
gives the leader a new *leader epoch*, every batch carries the epoch of the leader that took it, and each
log keeps where each epoch began. Whoever has read up to an offset, a follower or a consumer, asks the
leader where the epoch that it saw last has ended. An end below its own offset means: from there on the
records that I have seen are no longer those of the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Literal

from kitlib.mechanisms.positions import ResetPolicy

NO_EPOCH = -1  # on the wire: unknown
NO_OFFSET = -1


@dataclass(slots=True)
class LeaderEpochs:
    """Where each leader epoch began in one log.

    Source: Apache Kafka 4.3.1, `LeaderEpochFileCache` (`assign`, `endOffsetFor`, `truncateFromEndAsyncFlush`,
    `truncateFromStartAsyncFlush`).
    Differs: kept in memory; nothing is written to a checkpoint file.
    """

    entries: list[tuple[int, int]] = field(default_factory=list)  # (epoch, first offset); both rise from one to the next

    @property
    def latest(self) -> int:
        """The epoch of the newest records; NO_EPOCH for a log without any."""
        return self.entries[-1][0] if self.entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """A leader begins to write at `start_offset`; whether that was news.

        What is known of later epochs, or of offsets from there on, is forgotten: it was another history.
        """
        if epoch < 0 or start_offset < 0 or (self.latest == epoch and start_offset >= self.entries[-1][1]):
            return False
        self.entries = [entry for entry in self.entries if entry[0] < epoch and entry[1] < start_offset]
        self.entries.append((epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(epoch, end): the newest epoch up to the one asked for, and the offset after its last record.

        (NO_EPOCH, NO_OFFSET) for an epoch that is later than all that is known here. An epoch from before the
        first one is answered with where the first one begins.
        """
        if epoch == NO_EPOCH or not self.entries:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        after = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if after == len(self.entries):
            return NO_EPOCH, NO_OFFSET
        known = self.entries[after - 1][0] if after else epoch
        return known, self.entries[after][1]

    def epoch_of(self, offset: int) -> int:
        """The epoch of the record at this offset; NO_EPOCH below the first entry."""
        at = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[at - 1][0] if at else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that began at `end_offset` or later."""
        if end_offset >= 0 and self.entries and self.entries[-1][1] >= end_offset:
            del self.entries[bisect_left(self.entries, end_offset, key=lambda entry: entry[1]) :]

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended below `start_offset`; the one that it lies in now begins there."""
        at = bisect_right(self.entries, start_offset, key=lambda entry: entry[1])
        if start_offset >= 0 and at:
            self.entries[:at] = [(self.entries[at - 1][0], start_offset)]

    def __repr__(self) -> str:
        return "<LeaderEpochs " + ", ".join(f"{epoch} from {start}" for epoch, start in self.entries) + ">"


Library = Literal["java", "librdkafka"]

COMMITTED, TRUNCATED = "committed offset", "log truncation"  # besides the policy's names, why a consumer begins where it does


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where it goes on and why; or the error that the application gets, and no offset."""

    offset: int | None
    why: str = ""  # COMMITTED, TRUNCATED, "earliest" or "latest"
    error: str = ""  # "NoOffsetForPartition", "OffsetOutOfRange" or "LogTruncation"


def resume(
    committed: int | None, log_start: int, log_end: int, policy: ResetPolicy, library: Library = "java",
    epoch: int | None = None, epoch_end: tuple[int, int] = (NO_EPOCH, NO_OFFSET),
) -> Resumed:  # fmt: skip
    """Where a consumer that begins with a committed offset reads first.

    When the log was cut off below the committed offset, it lies beyond the end, and the broker says so. When the log has
    grown past it in the meantime, nothing is wrong with the number any more, and the records in between are never read.
    Only the leader epoch committed with it reveals that it belongs to another history.

    `epoch` is the leader epoch that was committed with it, and `epoch_end` what the leader answers when asked where
    that epoch ends. Java's consumer asks before it fetches. With an end below its offset it goes on there whatever
    the policy, unless that is "none": then the application gets the error and the offset. librdkafka commits the epoch
    and does not ask when it begins.

    Source: Apache Kafka 4.3.1, `SubscriptionState.maybeCompleteValidation`, `FetchCollector.handleInitializeErrors`;
    librdkafka 2.16, as observed: a committed offset of a cut-off log that has grown past it is read on from there.
    Differs: nothing is asked or fetched here.
    """
    if committed is None:
        return Resumed(None, error="NoOffsetForPartition") if policy == "none" else _policy(policy, log_start, log_end)
    if library == "java" and epoch is not None:
        if NO_EPOCH in epoch_end or epoch_end[1] == NO_OFFSET:
            return Resumed(None, error="LogTruncation") if policy == "none" else _policy(policy, log_start, log_end)
        if epoch_end[1] < committed:
            return Resumed(None, error="LogTruncation") if policy == "none" else Resumed(epoch_end[1], TRUNCATED)
    if log_start <= committed <= log_end:
        return Resumed(committed, COMMITTED)
    return Resumed(None, error="OffsetOutOfRange") if policy == "none" else _policy(policy, log_start, log_end)


def _policy(policy: ResetPolicy, log_start: int, log_end: int) -> Resumed:
    return Resumed(log_start if policy == "earliest" else log_end, policy)
