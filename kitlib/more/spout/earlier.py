"""The PartitionManager one release before: what Storm 0.9.3 fixed, for comparison.

In 0.9.2 one pending offset that lay too far behind made an ack forget *everything* below the acked
offset, however young, and leave the acked offset itself pending. Its default bound was 100,000
offsets, and the same bound ruled the start: a topology whose stored offset lay further behind the
log's end jumped there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kitlib.mechanisms.log import Fetch, FetchError
from kitlib.mechanisms.partition_manager import PartitionManager

DEFAULT_MAX_OFFSET_BEHIND = 100_000  # 0.9.3 made it unlimited


@dataclass(slots=True)
class EarlierPartitionManager(PartitionManager):
    """The PartitionManager of Storm 0.9.2.

    Source: Storm 0.9.2-incubating, `storm.kafka.PartitionManager.ack`, `KafkaUtils.fetchMessages`.
    Differs: as PartitionManager; the rest of its rules are those of 0.9.3.
    """

    def ack(self, offset: int) -> Sequence[int]:
        """As in 0.9.3, but a clearing takes everything below `offset` and leaves `offset` pending."""
        pending = self.pending
        self.number_acked += 1
        if pending and pending.first() < offset - self.config.max_offset_behind:
            return pending.clear_below(offset)
        pending.discard(offset)
        return ()

    def fetch(self, offset: int) -> Fetch:
        """As in 0.9.3, but out of range is fetched again at once from `start_offset_time`, forced or not.

        The position moves with what that second fetch brings. Raises FailedFetchError when the second
        one is out of range too.
        """
        fetched = PartitionManager.fetch(self, offset)
        if fetched.error is not FetchError.OFFSET_OUT_OF_RANGE:
            return fetched
        begin = self.offset_at(self.config.start_offset_time)
        again = PartitionManager.fetch(self, begin)
        if again.error is FetchError.OFFSET_OUT_OF_RANGE:
            raise self.failed_fetch(begin, again.error)
        return again
