"""Why the settings of a run allow what went wrong in it.

An anomaly is *allowed* when a setting explains it. Each function here gets what is known of the record
and answers with the explanation, which names the setting; an empty answer means that none explains it,
and then the anomaly is a violation. Where several could explain it, the first one stands.

Left out: finding the anomalies (see `kitlib.monitor.delivery`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_OFFSET = 2**63 - 1  # as a bound: without bound
ID_BITS = 64  # of Storm's own ids; so many are zero by chance once in 50 million years

RETENTION = "retention deleted records that were not yet processed"
AT_LEAST_ONCE = "at least once hands a record out again"
PENDING_AGAIN = "a record that failed after its ack is pending again"
WAITS_FOR_RETRY = "a record that keeps failing waits for its next retry"


@dataclass(frozen=True, slots=True)
class Handled:
    """What the spout or member knows of one record: how often it was handed out, and what it heard."""

    times_emitted: int
    is_acked: bool
    is_acked_early: bool  # acked while tuples of its tree were not
    went_back: str = ""  # why whoever reads has gone back to it, if that has a reason of its own


@dataclass(frozen=True, slots=True)
class Stall:
    """The record that commits stand still before, at the last of these commits."""

    is_deleted: bool  # it is below the log's start
    is_forgotten: bool  # it failed, and its retry did not come though the spout had nothing else to emit
    last_error: str  # the spout's last error, or ""
    fate: str  # why its last failure holds it up, or "" when it never failed
    open_ms: int | None  # since when its last tuple is out, neither acked nor failed; None when none is
    is_processed: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """The knobs of a run, asked for explanations."""

    knobs: Mapping[str, Any]

    @property
    def retries_wait(self) -> bool:
        """Whether a retry waits longer each time, so that it may come late."""
        return "retry_initial_delay_ms" in self.knobs

    def has_room(self, open_tuples: int) -> bool:
        """Whether the spout may emit another tuple beside so many."""
        at_once = self.knobs.get("max_spout_pending")
        return at_once is None or open_tuples < at_once

    def start(self, why: str) -> str:
        """Why a spout may start where it does; empty when it simply followed the stored offset."""
        if why in ("stored offset", "committed offset"):
            return ""
        forced = self.knobs.get("force_from_start")
        return why if forced is None else f"{why} (force_from_start={forced})"

    def reset(self, why: str = "") -> str:
        """Why a spout may jump from an offset that is not there; `why` is a group's member's reset policy."""
        forced = self.knobs.get("force_from_start", False)
        return (
            "out of range, and use_start_offset_time_if_offset_out_of_range=True goes on from "
            f"{'start_offset_time' if forced else 'the log end'} (force_from_start={forced})"
        )

    def cut(self, why: str) -> str:
        """Why records may vanish from the end of a log: nothing but a run with replicas knows."""
        return ""

    def clear(self, offset: int, by: int) -> str:
        """Why the ack of offset `by` may clear this one from what is pending."""
        return f"{self._bound_told} gives up what lies further back" if offset < by - self._bound else ""

    def purge(self) -> str:
        """Why a tombstone may be taken out of a compacted log before it was read."""
        return f"delete.retention.ms={self.knobs.get('delete_retention_ms')}: so long after it was cleaned a tombstone may go"

    def give_up(self) -> str:
        """Why a record may be given up after retries."""
        return f"retry_limit={self.knobs.get('retry_limit')} gives up after so many retries"

    def failure(self, will_retry: bool, is_timeout: bool) -> str:
        """Why a record that failed may hold up the commit."""
        if not will_retry:
            return f"{self._bound_told} does not retry a failure that far back"
        if self.retries_wait:
            return WAITS_FOR_RETRY
        if is_timeout:
            secs = self.knobs.get("topology_message_timeout_secs")
            return f"a tree that is not complete in topology_message_timeout_secs={secs} is begun again without limit"
        return "a record that keeps failing is retried without limit"

    def unseen(self, record: Handled) -> str:
        """Why the topology may count a record as done before every tuple of its tree is."""
        knobs = self.knobs
        if not record.times_emitted:
            return ""
        if knobs.get("topology_ackers") == 0:
            return "topology_ackers=0 acks each tuple as it is emitted"
        if knobs.get("message_ids") is False:
            return "message_ids=false: a tuple without a message id is never tracked"
        differs = knobs.get("replay_differs", "no")
        if knobs.get("state") == "transactional" and differs != "no":  # also for a line that only the replay had
            return f"state=transactional skips a replayed batch whose content is another (replay_differs={differs})"
        if not record.is_acked:
            return ""
        if record.is_acked_early:
            bits = knobs.get("id_bits", ID_BITS)
            return f"ids of {bits} bits: a ledger was zero by chance" if bits < ID_BITS else ""
        if knobs.get("anchored") is False:
            return "anchored=false: an unanchored child can be lost unseen"
        return ""

    def reorder(self, record: Handled) -> str:
        """Why a record may be processed after a newer one."""
        if record.times_emitted > 1:
            return "a record that is handed out again comes after newer ones"
        at_once = self.knobs.get("max_spout_pending", 1)
        if at_once is None or at_once > 1:
            return f"max_spout_pending={'unlimited' if at_once is None else at_once} lets tuples finish in any order"
        return self.unseen(record)

    def again(self, record: Handled, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed once more; so often was its partition begun at or below it."""
        return AT_LEAST_ONCE

    def back(self) -> str:
        """Why a commit may be below the one before it."""
        return PENDING_AGAIN

    def stall(self, stall: Stall) -> str:
        """Why commits may stand still."""
        if stall.is_deleted or stall.is_forgotten:
            return ""  # nothing will ever finish it
        if stall.last_error == "OFFSET_OUT_OF_RANGE":
            return "use_start_offset_time_if_offset_out_of_range=False stops at an offset that is not there"
        if stall.fate:
            return stall.fate
        if stall.open_ms is None:
            return ""
        if self.knobs.get("topology_enable_message_timeouts") is False:
            return "topology_enable_message_timeouts=false waits for a tree for ever"
        secs = self.knobs.get("topology_message_timeout_secs")
        if secs is None:
            return "" if stall.is_processed else "a tuple that is neither acked nor failed is waited for"
        if stall.open_ms > 2 * secs * 1_000:
            return ""  # by then the spout should have failed it
        return f"topology_message_timeout_secs={secs} waits up to twice that time for a tree to complete"

    @property
    def _bound(self) -> int:
        """How far back the spout looks: without the knob as far as it likes, as in Storm since 0.9.3."""
        bound: int = self.knobs.get("max_offset_behind", MAX_OFFSET)
        return bound

    @property
    def _bound_told(self) -> str:
        return f"max_offset_behind={'unlimited' if self._bound == MAX_OFFSET else self._bound}"
