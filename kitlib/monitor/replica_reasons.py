"""Why the settings of a run with a replicated partition allow what went wrong in it.

An acknowledgement with acks=all says that the in-sync set has the record. It is worth no more than that set
was large and than what may lead afterwards: `min.insync.replicas` and `unclean.leader.election.enable`. What a
reader makes of a log that was cut off is up to what it had committed: an offset alone, or its leader epoch too.

A run with a replicated partition is known by the state of its steps, which holds the replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.monitor.reasons import Handled, Settings


@dataclass(frozen=True, slots=True)
class ReplicaSettings(Settings):
    """The knobs of a run with a replicated partition, asked for explanations."""

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

    def again(self, record: Handled, times_processed: int, times_begun: int) -> str:
        """Why a record may be processed once more: the log was read from its start again."""
        policy = self.knobs.get("auto_offset_reset")
        return f"auto.offset.reset={policy} reads the log again" if policy == "earliest" and times_begun >= times_processed else ""

    def reorder(self, record: Handled) -> str:
        """Why a record may be processed after a newer one: never, here."""
        return ""
