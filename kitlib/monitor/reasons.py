"""Why the settings of a run allow what went wrong in it.

An anomaly is *allowed* when a setting explains it. Each function here gets what is known of the record
and answers with the explanation, which names the setting; an empty answer means that none explains it,
and then the anomaly is a violation. Where several could explain it, the first one stands.

`Settings` answers for a spout and a bolt; a run with a group, with committed offsets or with replicas, known by
the state of its steps, has a class of its own here.

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
BEGINS_AGAIN = "a new owner begins at the committed offset, and what was processed above it comes again"
REFUSED = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "COMMIT_FAILED", "_FATAL")  # a commit of no member's
EARLY = ("0.8.2", "2015-04")  # rules by which a coordinator may tell an offset that is not so


@dataclass(frozen=True, slots=True)
class RecordHistory:
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
    is_processed: bool  # at the last of these commits


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

    def unseen(self, record: RecordHistory) -> str:
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

    def reorder(self, record: RecordHistory) -> str:
        """Why a record may be processed after a newer one."""
        if record.times_emitted > 1:
            return "a record that is handed out again comes after newer ones"
        at_once = self.knobs.get("max_spout_pending", 1)
        if at_once is None or at_once > 1:
            return f"max_spout_pending={'unlimited' if at_once is None else at_once} lets tuples finish in any order"
        return self.unseen(record)

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
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


@dataclass(frozen=True, slots=True)
class GroupSettings(Settings):
    """The knobs of a run with a group, asked for explanations.

    A group promises less than most of its users think: that a partition has one owner, and that a new owner
    begins at the committed offset. So records are consumed twice when the old owner had gone further than
    that, and lost when the commit had gone further than the work. The first belongs to every rebalance. The
    second, and a commit that goes back, need a setting that commits what it should not; each is named here.
    """

    def start(self, why: str) -> str:
        """Why a member may begin where it does: empty at the committed offset, else what its policy says."""
        if why == "committed offset":
            return ""
        policy, _, is_out = why.partition(", ")
        return self.reset(policy) if is_out else f"auto.offset.reset={policy}, and no offset is committed"

    def reset(self, why: str = "") -> str:
        """Why a member may jump from an offset that is not in the log."""
        return f"auto.offset.reset={why}, and the offset is out of range"

    def unseen(self, record: RecordHistory) -> str:
        """Why a commit may have passed a record that is not processed; never one that nobody was handed."""
        knobs, rule = self.knobs, self.knobs.get("rule", "")
        library = knobs.get("library")
        if not record.times_emitted:
            return ""
        if rule == "handed to a pool":
            return f"rule=handed to a pool: {library} commits what was handed out, wherever it is worked on"
        if rule == "killed" and library == "librdkafka":
            return "library=librdkafka counts a record as done when it hands it out, and a thread commits that"
        if rule == "closed after an error":
            return f"rule=closed after an error: in close() {library} commits all that was handed out"
        return self._own_commits("a commit claims everything below it")

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed once more: it was handed out once for each time its partition was begun."""
        if not times_processed <= record.times_emitted <= times_begun:
            return ""
        if self.knobs.get("commits") == "offset":
            return "commits=offset names the last record that was read; the committed offset is the next to be read"
        return record.went_back or BEGINS_AGAIN

    def back(self) -> str:
        """Why a commit may be below the one before it."""
        keeper = self.knobs.get("keeper", "librdkafka")
        if keeper != "librdkafka":
            return f"keeper={keeper}: an offset from before the partition was given away is committed when it is back"
        if "zookeeper_session_timeout_ms" in self.knobs:
            return "a member that is none any more still commits: nobody asks whose commit it is"
        return self._own_commits("workers finish in any order, and each commits its own record")

    def reorder(self, record: RecordHistory) -> str:
        """Why a record may be processed after a newer one."""
        if self.knobs.get("workers", 1) > 1:
            return f"workers={self.knobs['workers']} finish in any order"
        return "a record that is handed out again comes after newer ones" if record.times_emitted > 1 else ""

    def stall(self, stall: Stall) -> str:
        """Why commits may stand still."""
        if stall.last_error in REFUSED:
            return "the commits of a consumer that is no member any more are refused"
        if stall.last_error == "REBALANCE_IN_PROGRESS":
            return "a commit in the middle of a rebalance is refused"
        return ""

    def _own_commits(self, why: str) -> str:
        return f"commits=own: {why}" if self.knobs.get("commits") == "own" else ""


@dataclass(frozen=True, slots=True)
class OffsetSettings(GroupSettings):
    """The knobs of a run whose coordinator follows the rules of a release, asked for explanations."""

    @property
    def rules(self) -> str:
        """The rules that explain a wrong answer, as a reason names them; empty when they explain none."""
        rules = str(self.knobs["coordinator_rules"])
        return f"coordinator_rules={rules}" if rules in EARLY else ""

    def start(self, why: str) -> str:
        """Why a member may begin where it does: by what a coordinator of then told it."""
        if not self.rules:
            return GroupSettings.start(self, why)
        if why == "committed offset":
            return f"{self.rules}: what a load that ended early has left in the cache is told, an old offset too"
        policy, _, is_out = why.partition(", ")
        told = "an old offset is told, which is out of range" if is_out else "no offset is told, though one was committed"
        return f"{self.rules}: {told}, and auto.offset.reset={policy}"

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed once more."""
        is_told = times_processed <= record.times_emitted <= times_begun
        return self.rules and f"{self.rules}: the consumer was told an offset that was not its last one" if is_told else ""


@dataclass(frozen=True, slots=True)
class KeptSettings(GroupSettings):
    """The knobs of a run whose coordinator forgets offsets or loads them, asked for explanations."""

    @property
    def cause(self) -> str:
        """Why the consumer was told what it was; empty when nothing explains it."""
        rules = self.knobs.get("rules", "4.3.1")
        if "offsets_retention_ms" in self.knobs:
            return f"offsets_retention_ms={self.knobs['offsets_retention_ms']}: the committed offset has expired"
        if rules != "4.3.1":
            return f"rules={rules}: a load that ended early is answered from"
        told = "a new leader answers from what it knows to be on all copies"
        return "" if self.knobs.get("require_stable", True) else f"require_stable=false: {told}"

    def start(self, why: str) -> str:
        """Why a consumer may begin where it does."""
        if why == "committed offset" and "offsets_retention_ms" in self.knobs:
            return ""
        policy = "" if why == "committed offset" else f", and auto.offset.reset={why}"
        return self.cause and self.cause + policy

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed once more."""
        return self.cause if times_processed <= record.times_emitted <= times_begun else ""


@dataclass(frozen=True, slots=True)
class ReplicaSettings(Settings):
    """The knobs of a run with a replicated partition, asked for explanations.

    An acknowledgement with acks=all says that the in-sync set has the record. It is worth no more than that set
    was large and than what may lead afterwards: `min.insync.replicas` and `unclean.leader.election.enable`. What a
    reader makes of a log that was cut off is up to what it had committed: an offset alone, or its leader epoch too.
    """

    def cut(self, why: str) -> str:
        """Why acknowledged records may vanish from the end of the log."""
        knobs = self.knobs
        if why == "a flipped bit":
            return "replicas=1: no other copy had what was behind the flipped bit" if knobs.get("replicas") == 1 else ""
        if not knobs.get("unclean_leader_election"):
            return ""
        return "unclean.leader.election.enable=true: a copy leads that had not got them"

    def start(self, why: str) -> str:
        """Why a reader may begin where it does."""
        if why in ("earliest", "latest"):
            return f"auto.offset.reset={why}: the committed offset is none of the log's"
        if why != "committed offset":
            return ""
        if not self.knobs.get("leader_epoch"):
            return "leader_epoch=false: the log was cut off below the committed offset and has grown past it, and nothing tells"
        if self.knobs.get("library") == "librdkafka":
            return "library=librdkafka commits the leader epoch and does not ask for its end when it begins"
        return ""

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed once more: the log was read from its start again."""
        policy = self.knobs.get("auto_offset_reset")
        return f"auto.offset.reset={policy} reads the log again" if policy == "earliest" and times_begun >= times_processed else ""

    def reorder(self, record: RecordHistory) -> str:
        """Why a record may be processed after a newer one: never, here."""
        return ""
