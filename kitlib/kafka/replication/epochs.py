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
