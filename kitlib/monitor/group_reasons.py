"""Why the settings of a run with a consumer group allow what went wrong in it.

A group promises less than most of its users think: that a partition has one owner, and that a new owner
begins at the committed offset. So records are consumed twice when the old owner had gone further than
that, and lost when the commit had gone further than the work. The first belongs to every rebalance. The
second, and a commit that goes back, need a setting that commits what it should not; each is named here.

A run with a group is known by the state of its steps, which holds the group.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.monitor.reasons import Handled, Settings, Stall

BEGINS_AGAIN = "a new owner begins at the committed offset, and what was processed above it comes again"
REFUSED = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "COMMIT_FAILED", "_FATAL")  # a commit of no member's


@dataclass(frozen=True, slots=True)
class GroupSettings(Settings):
    """The knobs of a run with a group, asked for explanations."""

    def start(self, why: str) -> str:
        """Why a member may begin where it does: empty at the committed offset, else what its policy says."""
        if why == "committed offset":
            return ""
        policy, _, is_out = why.partition(", ")
        return self.reset(policy) if is_out else f"auto.offset.reset={policy}, and no offset is committed"

    def reset(self, why: str = "") -> str:
        """Why a member may jump from an offset that is not in the log."""
        return f"auto.offset.reset={why}, and the offset is out of range"

    def unseen(self, record: Handled) -> str:
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

    def again(self, record: Handled, times_processed: int, times_begun: int) -> str:
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

    def reorder(self, record: Handled) -> str:
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


EARLY = ("0.8.2", "2015-04")  # rules by which a coordinator may tell an offset that is not so


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

    def again(self, record: Handled, times_processed: int, times_begun: int) -> str:
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

    def again(self, record: Handled, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed once more."""
        return self.cause if times_processed <= record.times_emitted <= times_begun else ""
