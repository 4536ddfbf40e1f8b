"""The spout after the PartitionManager: a cap on uncommitted offsets, and how it came to a standstill.

The later spout reads with Kafka's own consumer and bounds how many offsets may be emitted and not yet
committed. Offsets that are acked but lie behind a failed one count too. In the first releases a
retry was looked for only when polling was allowed, so a single late failure could fill the cap with
finished work and nothing would ever move again. Later a retry may always be polled for.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.log import FetchError
from kitlib.mechanisms.partition_manager import PartitionManager


@dataclass(slots=True)
class UncommittedCapManager(PartitionManager):
    """One partition of a spout that polls only while fewer than `max_uncommitted_offsets` are open.

    Source: Storm 1.1.0 and 1.2.2, `org.apache.storm.kafka.spout.KafkaSpout` (poll rule, retries, missing
    offsets), storm-kafka-client.
    Differs: retries are due at once; open offsets are counted as emitted_to_offset - committed_to, so
    gaps in the log count too; the offset is stored as the PartitionManager stores it.
    """

    max_uncommitted_offsets: int = 10_000_000
    retries_may_poll: bool = False  # False as in 1.1.0, True as in 1.2.2

    def may_poll(self) -> bool:
        """Whether the next fetch is allowed."""
        is_below_cap = self.emitted_to_offset - self.committed_to < self.max_uncommitted_offsets
        return is_below_cap or (self.retries_may_poll and bool(self.failed))

    def fill(self) -> None:
        """Fetch from the first failed offset, or new ones, if polling is allowed.

        With `retries_may_poll`, a failed offset that the log no longer holds counts as done.
        Raises as PartitionManager.fill.
        """
        if not self.may_poll():
            return
        retrying = bool(self.failed)
        offset = self.failed.first() if retrying else self.emitted_to_offset
        fetched = self.fetch(offset)
        if fetched.error is FetchError.OFFSET_OUT_OF_RANGE:
            self.emitted_to_offset = self.configured_offset()
            return
        for record in fetched.records:
            at = record.offset
            if at in self.failed:
                self.failed.discard(at)
            elif self.emitted_to_offset <= at < MAX_LONG and self._has_room():
                self.pending.add(at)
                self.emitted_to_offset = at + 1
            else:
                continue  # acked, in flight, or beyond the cap
            self.waiting_to_emit.append(record)
        if retrying and self.retries_may_poll and fetched.records:
            for missing in self.failed.clear_below(fetched.records[0].offset):
                self.pending.discard(missing)

    def fail(self, offset: int) -> bool:
        """Schedule a retry of `offset`; always True, there is no bound on how far behind it is."""
        self.failed.add(offset)
        self.number_failed += 1
        return True

    def _has_room(self) -> bool:
        """1.1.0 takes all that a poll brought; 1.2.2 takes new records only below the cap while it retries."""
        if not self.retries_may_poll:
            return True
        return self.emitted_to_offset - self.committed_to < self.max_uncommitted_offsets or not self.failed
