"""What the settings of a share group explain: a loss by its delivery limit, a second time by its lock, and any order."""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.monitor.reasons import Reasons, RecordHistory


@dataclass(frozen=True, slots=True)
class ShareReasons(Reasons):
    """The settings of a run with a share group, and what they explain.

    A share group promises that each record is delivered until somebody accepts it, as often as its limit says: at least once
    each, and in no order. So a record is lost when the limit is reached or a consumer gives it up, and processed twice when a lock
    runs out, or a consumer dies, between the effect and the answer.
    """

    def share(self, what: str) -> str:
        limit, lock_ms, locks = self.settings.delivery_limit, self.settings.lock_ms, self.settings.max_locks
        return {
            "reject": "a consumer that rejected it: a record that is rejected is archived",
            "archive": f"share.delivery.count.limit={limit}: a record that comes back from so many deliveries is archived",
            "time_out": f"share.record.lock.duration.ms={lock_ms}: the lock ran out before the answer came",
            "hand_back": "a consumer that died before it had answered",
            "full": f"share.partition.max.record.locks={locks}: that many records lie between the start offset and the end offset",
        }[what]

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed again: its delivery ended, and it was delivered once more."""
        return record.went_back or "" if times_processed <= 1 + record.replays else ""

    def unseen(self, record: RecordHistory) -> str:
        if self.settings.acknowledge != "implicit" or not record.is_acked_early:
            return ""
        return "share.acknowledgement.mode=implicit: the next poll accepts what failed as well"

    def reorder(self, record: RecordHistory) -> str:
        """Why a record may be processed after a newer one: a share group promises no order."""
        if record.replays and record.times_emitted > 1:
            return "a share group: a record that comes back is delivered after newer ones"
        consumers = self.settings.consumers
        if consumers == 1 or record.is_behind_its_own or not record.is_together:
            return ""
        return f"consumers={consumers}: records of one partition go to several consumers at once"
