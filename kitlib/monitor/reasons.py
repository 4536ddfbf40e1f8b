"""Which setting of a run explains what went wrong in it.

An anomaly is *explained* when a setting accounts for it. Each function here receives what is known about the record
and returns the explanation, which names the setting and completes the words "explained by"; an empty string means
that no setting explains it, and then the anomaly is a violation. If several could explain it, the first one counts.

`Reasons` covers a spout and a bolt; runs with a group, with committed offsets or with replicas have classes of their own.

Left out: finding the anomalies (see `kitlib.monitor.delivery`).
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.settings import Settings

MAX_OFFSET = 2**63 - 1  # as a bound: unlimited
ID_BITS = 64  # of Storm's own ids; an ack value of that many bits is zero by chance once in 50 million years

RETENTION = "retention, which deleted records before they were processed"
AT_LEAST_ONCE = "at-least-once delivery: a record may be delivered again"
PENDING_AGAIN = "a record that failed after its ack and is pending again"
REDELIVERED = "a record that is delivered again, after newer ones"
ACK_LOST = "an ack that was lost, so the spout keeps waiting"
WAITS_FOR_RETRY = "a record that keeps failing and waits for its next retry"
BEGINS_AGAIN = "a new owner, which starts at the committed offset and repeats what was processed above it"
REFUSED = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "COMMIT_FAILED", "_FATAL")  # not a member's commit
NO_OFFSET = ("no stored offset", "no committed offset", "nothing is committed")  # in the words of a reader that starts
AND_POLICY = ", and auto.offset.reset="
EARLY = ("0.8.2", "2015-04")  # rules under which a coordinator may answer with a wrong offset


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """What the spout or member knows about one record: how often it was emitted, and what answers it got."""

    times_emitted: int
    is_acked: bool
    is_acked_early: bool  # acked while tuples of its tree were not, or although its processing had failed
    went_back: str | None = None  # why the reader has gone back below its position; "": nothing explains it, None: it has not
    replays: int = 0  # how often the record itself failed, timed out, or was read again by a start or reset at or below it
    is_tracked: bool = False  # its last tuple began a tree
    has_loose_child: bool = False  # a tuple sent for it was not anchored
    is_claimed: bool = False  # the commit that passed it first stood right behind it: it was the record's own
    is_overtaken: bool = False  # its reader went on to a newer record after that commit, or had done so before
    is_behind_its_own: bool = False  # whoever processes it has processed a newer one before
    is_begun_at: bool = False  # the last start was at this record
    is_together: bool = False  # it was in flight when a newer one was processed
    is_late_failure: bool = False  # a commit had passed it when it failed or was retried, and none has passed it since
    is_kept: bool = False  # of a commit here: its member read this before, lost the partition, and has it back from above
    is_former: bool = False  # of a commit here: it, or the one before it, is of a member after whom another one has started


@dataclass(frozen=True, slots=True)
class Begin:
    """What has happened by the time at which a reader starts."""

    is_committed: bool = True  # there was a commit
    is_outside: bool = True  # the committed offset lies outside the log, or did when the log was cut
    idle_ms: int = MAX_OFFSET  # since the last commit
    is_moved: bool = True  # the group has moved to another coordinator
    is_erased: bool = False  # an operator has deleted the committed offset


@dataclass(frozen=True, slots=True)
class Stall:
    """The record that holds up the commits, as of the last of them."""

    is_deleted: bool  # it is below the log's start
    is_forgotten: bool  # it failed, and its retry never came although the spout had nothing else to emit
    last_error: str  # the spout's last error, or ""
    fate: str  # why its last failure holds it up, or "" if it never failed
    open_ms: int | None  # for how long its last tuple has been in flight, neither acked nor failed; None if none is
    is_processed: bool  # at the last of these commits


@dataclass(frozen=True, slots=True)
class Reasons:
    """The settings of a run, and what they explain."""

    settings: Settings

    @property
    def retries_wait(self) -> bool:
        """Whether each retry waits longer than the one before, so that it may come late."""
        return "retry_initial_delay_ms" in self.settings

    def has_room(self, open_tuples: int) -> bool:
        at_once = self.settings.max_spout_pending
        return at_once is None or open_tuples < at_once

    def start(self, why: str, begin: Begin) -> str:
        """Why a spout may start where it does; empty if it simply used the stored offset."""
        if why in ("stored offset", "committed offset") or (begin.is_committed and any(each in why for each in NO_OFFSET)):
            return ""
        return f"{why} (force_from_start={self.settings.force_from_start})" if "force_from_start" in self.settings else why

    def reset(self, why: str, is_outside: bool) -> str:
        """Why a spout may jump, from an offset that is not in the log; `why` is the reset policy of a group member."""
        forced = self.settings.force_from_start
        if not is_outside or self.settings.use_start_offset_time_if_offset_out_of_range is False:
            return ""
        return (
            "use_start_offset_time_if_offset_out_of_range=True: an offset out of range moves the spout to "
            f"{'start_offset_time' if forced else 'the log end'} (force_from_start={forced})"
        )

    def cut(self, why: str) -> str:
        """Why records may vanish from the end of a log; only a run with replicas can explain that."""
        return ""

    def clear(self, offset: int, by: int) -> str:
        return f"{self._bound_told}: records further back are given up" if offset < by - self._bound else ""

    def purge(self, clean_ms: int | None) -> str:
        """Why a tombstone may be removed that the cleaner first met so long ago; None: it is no tombstone, or was never clean."""
        if clean_ms is None or clean_ms < self.settings.delete_retention_ms:
            return ""
        return f"delete.retention.ms={self.settings.delete_retention_ms}: that long after it was cleaned, a tombstone may be removed"

    def give_up(self, times_failed: int) -> str:
        limit = self.settings.retry_limit
        return f"retry_limit={limit}: a record is given up after that many retries" if limit is None or times_failed >= limit else ""

    def share(self, what: str) -> str:
        """Why a share group gives a record up, has it back, or hands out no new one; only its own reasons tell."""
        return ""

    def failure(self, will_retry: bool, is_timeout: bool, behind: int) -> str:
        """Why a record that failed may hold up the commit; it is so far `behind` the end of what was fetched."""
        if not will_retry:
            return f"{self._bound_told}: a failure that far back is not retried" if behind > self._bound else ""
        if self.retries_wait:
            return WAITS_FOR_RETRY
        if is_timeout:
            secs = self.settings.topology_message_timeout_secs
            return f"topology_message_timeout_secs={secs}: a tree that is not complete by then is replayed, without limit"
        return "a record that keeps failing and is retried without limit"

    def unseen(self, record: RecordHistory) -> str:
        """Why the topology may count a record as done before every tuple of its tree is."""
        settings = self.settings
        if not record.times_emitted:
            return ""
        if settings.topology_ackers == 0 and not record.is_tracked:
            return "topology_ackers=0: each tuple is acked as soon as it is emitted"
        if settings.message_ids is False and not record.is_tracked:
            return "message_ids=false: a tuple without a message id is never tracked"
        if not record.is_acked:
            return ""
        if record.is_acked_early:
            bits = settings.id_bits
            return f"id_bits={bits}: an ack value was zero by chance" if bits < ID_BITS else ""
        if settings.anchored is False and record.has_loose_child:
            return "anchored=false: an unanchored child can be lost unnoticed"
        return ""

    def reorder(self, record: RecordHistory) -> str:
        if record.replays and record.times_emitted > 1:
            return REDELIVERED
        if not record.is_together:
            return record.went_back or ""
        at_once = self.settings.max_spout_pending
        if at_once is None or at_once > 1:
            return f"max_spout_pending={'unlimited' if at_once is None else at_once}: tuples may finish in any order"
        return self.unseen(record)

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed again: by its own history, so often as that says; others' failures explain nothing.

        Its partition was started at or below it `times_begun` times.
        """
        return AT_LEAST_ONCE if times_processed <= 1 + record.replays else ""

    def back(self, record: RecordHistory) -> str:
        """Why a commit may be below the one before it; `record` is the one that it stands before."""
        return PENDING_AGAIN if record.is_late_failure else ""

    def stall(self, stall: Stall) -> str:
        if stall.is_deleted or stall.is_forgotten:
            return ""  # nothing will ever finish it
        if stall.last_error == "OFFSET_OUT_OF_RANGE" and self.settings.use_start_offset_time_if_offset_out_of_range is not True:
            return "use_start_offset_time_if_offset_out_of_range=False: the spout stops at an offset out of range"
        if stall.fate:
            return stall.fate
        if stall.open_ms is None:
            return ""
        if self.settings.topology_enable_message_timeouts is False:
            return "topology_enable_message_timeouts=false: the spout waits for a tree forever"
        secs = self.settings.topology_message_timeout_secs
        if secs is None:
            return "" if stall.is_processed else "a tuple that is neither acked nor failed, so the spout keeps waiting"
        if stall.open_ms > 2 * secs * 1_000:
            return ""  # by then the spout should have failed it
        return f"topology_message_timeout_secs={secs}: the spout waits up to twice that long for a tree to complete"

    @property
    def _bound(self) -> int:
        """How far back the spout looks: without the knob, there is no limit, as in Storm since 0.9.3."""
        bound: int = self.settings.max_offset_behind
        return bound

    @property
    def _bound_told(self) -> str:
        return f"max_offset_behind={'unlimited' if self._bound == MAX_OFFSET else self._bound}"


@dataclass(frozen=True, slots=True)
class GroupReasons(Reasons):
    """The settings of a run with a group, and what they explain.

    A group promises less than most of its users think: that a partition has one owner, and that a new owner
    starts at the committed offset. So records are consumed twice if the old owner had got further than
    that, and lost if the commit had got further than the processing. The first can happen in every rebalance. The
    second, and a commit that goes back, need a setting that commits what it should not; each is named here.
    """

    def start(self, why: str, begin: Begin) -> str:
        """Why a member may start where it does: empty at the committed offset, else what its reset policy says."""
        if why == "committed offset":
            return ""
        policy, _, is_out = why.partition(", ")
        if is_out:
            return self.reset(policy, begin.is_outside)
        return "" if begin.is_committed and not begin.is_erased else f"auto.offset.reset={policy}: no offset is committed"

    def reset(self, why: str, is_outside: bool) -> str:
        return f"auto.offset.reset={why}: the offset is out of range" if is_outside else ""

    def unseen(self, record: RecordHistory) -> str:
        """Why a commit may have passed a record that is not processed; never one that was not delivered to anyone."""
        settings, rule = self.settings, self.settings.rule
        library = settings.library
        if not record.times_emitted:
            return ""
        if rule == "handed to a pool":
            return f"rule=handed to a pool: {library} commits what poll returned, wherever it is processed"
        if rule == "killed" and library == "librdkafka" and not record.is_overtaken:
            return "library=librdkafka: a record counts as done once poll returns it, and a background thread commits that"
        if rule == "closed after an error" and not record.is_overtaken:
            return f"rule=closed after an error: in close(), {library} commits everything that poll returned"
        return "" if record.is_claimed else self._own_commits("a commit claims everything below it")

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed again: it was delivered once for each time its partition was started."""
        if not times_processed <= record.times_emitted <= times_begun:
            return ""
        if self.settings.commits == "offset" and record.is_begun_at:
            return "commits=offset: the commit names the last record read, but a committed offset is the next one to read"
        return BEGINS_AGAIN if record.went_back is None else self.told_back(record.went_back)

    def told_back(self, why: str) -> str:
        """Why the reader was told to go back below its position; `why` is what its start or reset says, "" for nothing."""
        return why

    def back(self, record: RecordHistory) -> str:
        keeper = self.settings.keeper
        if keeper != "librdkafka" and record.is_kept:
            return f"keeper={keeper}: an offset from before the partition was revoked is committed once the partition is back"
        if "zookeeper_session_timeout_ms" in self.settings and record.is_former:
            return "a former member that still commits: nothing checks whose commit it is"
        return self._own_commits("workers finish in any order, and each commits its own record") if record.is_behind_its_own else ""

    def reorder(self, record: RecordHistory) -> str:
        if record.replays and record.times_emitted > 1:
            return REDELIVERED
        return f"workers={self.settings.workers}: they finish in any order" if record.is_together and self.settings.workers > 1 else ""

    def stall(self, stall: Stall) -> str:
        if stall.last_error in REFUSED:
            return "a consumer that is no longer a member: its commits are refused"
        if stall.last_error == "REBALANCE_IN_PROGRESS":
            return "a commit in the middle of a rebalance: it is refused"
        return ""

    def _own_commits(self, why: str) -> str:
        return f"commits=own: {why}" if self.settings.commits == "own" else ""


@dataclass(frozen=True, slots=True)
class OffsetReasons(GroupReasons):
    """The settings of a run whose coordinator follows the rules of a release, and what they explain."""

    @property
    def rules(self) -> str:
        """The rules that explain a wrong answer, as a reason names them; empty if they explain nothing."""
        rules = str(self.settings.coordinator_rules)
        return f"coordinator_rules={rules}" if rules in EARLY else ""

    def start(self, why: str, begin: Begin) -> str:
        """Why a member may start where it does: because of what a coordinator of that time answered once the group was its."""
        if not (self.rules and begin.is_committed and begin.is_moved):
            return GroupReasons.start(self, why, begin)
        if why == "committed offset":
            return f"{self.rules}: after a load that ended early, the coordinator answers from what is in the cache, even an old offset"
        policy, _, is_out = why.partition(", ")
        told = "with an old offset, which is out of range" if is_out else "that no offset is committed, although one was"
        return f"{self.rules}: the coordinator answers {told}, and auto.offset.reset={policy}"

    def told_back(self, why: str) -> str:
        """Why the reader was told to go back: by what a coordinator of that time answered."""
        return self.rules and why and f"{self.rules}: the coordinator answered with an outdated offset"


@dataclass(frozen=True, slots=True)
class KeptReasons(GroupReasons):
    """The settings of a run whose coordinator forgets offsets or loads them, and what they explain."""

    def cause(self, begin: Begin) -> str:
        rules = self.settings.rules
        if "offsets_retention_ms" in self.settings:
            kept_ms = self.settings.offsets_retention_ms
            return f"offsets_retention_ms={kept_ms}: the committed offset has expired" if begin.idle_ms >= kept_ms else ""
        if not begin.is_moved:
            return ""
        return f"rules={rules}: the coordinator answers after a load that ended early" if rules != "4.3.1" else ""

    def start(self, why: str, begin: Begin) -> str:
        if why == "committed offset" and "offsets_retention_ms" in self.settings:
            return ""
        cause, policy = self.cause(begin), "" if why == "committed offset" else f"{AND_POLICY}{why}"
        return cause and cause + policy

    def told_back(self, why: str) -> str:
        return why.partition(AND_POLICY)[0]


@dataclass(frozen=True, slots=True)
class ReplicaReasons(Reasons):
    """The settings of a run with a replicated partition, and what they explain.

    An acknowledgement with acks=all says that the in-sync replicas have the record. What that is worth depends on how
    many they were and on who may become leader: `min.insync.replicas` and `unclean.leader.election.enable`. What a
    reader makes of a truncated log depends on what it had committed: an offset alone, or its leader epoch as well.
    """

    def cut(self, why: str) -> str:
        settings = self.settings
        if why == "a flipped bit":
            return "replicas=1: there was no other copy of the records after the flipped bit" if settings.replicas == 1 else ""
        return "unclean.leader.election.enable=true: the new leader did not have them" if settings.unclean_leader_election else ""

    def start(self, why: str, begin: Begin) -> str:
        """Why a reader may start where it does: never there where its offset had never left the log."""
        if begin.is_committed and not begin.is_outside:
            return ""
        if why in ("earliest", "latest"):
            no_place = "the committed offset is outside the log" if begin.is_committed else "nothing is committed"
            return f"auto.offset.reset={why}: {no_place}"
        if why != "committed offset" or not begin.is_committed:
            return ""
        if not self.settings.leader_epoch:
            return "leader_epoch=false: the log was truncated below the committed offset and has grown past it, and nothing reveals that"
        if self.settings.library == "librdkafka":
            return "library=librdkafka: it commits the leader epoch, but does not ask where that epoch ends when it starts"
        return ""

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        policy = self.settings.auto_offset_reset
        return f"auto.offset.reset={policy}: the log is read again" if policy == "earliest" and times_begun >= times_processed else ""

    def reorder(self, record: RecordHistory) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class CheckpointReasons(Reasons):
    """The settings of a streaming query with a checkpoint, and what they explain: never a lost record."""

    def start(self, why: str, begin: Begin) -> str:
        """Why a query may start where it does: empty where its checkpoint says so, or where it never ran."""
        is_gone = self.settings.checkpoint == "deleted" and "deleted" in why
        return "checkpoint=deleted: a query without one starts over" if is_gone else ""

    def again(self, record: RecordHistory, times_processed: int, times_begun: int) -> str:
        if self.settings.sink != "append" or times_processed > min(record.times_emitted, times_begun):
            return ""
        return "sink=append: the rows of a batch that runs again are added again"

    def reorder(self, record: RecordHistory) -> str:
        return ""
