"""One member of a group's run: its client, what it holds, and where the story has come with it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kitlib.experiments.groups.group import MemberSettings, ModelMember
from kitlib.mechanisms.positions import BY_DURATION

Record = tuple[int, int]  # (partition, offset)


@dataclass(slots=True)
class MemberState:
    """One member of the story, and what the run knows of it."""

    client: ModelMember  # or its twin on Kafka
    settings: MemberSettings
    held: set[int] = field(default_factory=set)  # partitions, by its own word
    position: dict[int, int] = field(default_factory=dict)  # of those it holds: the next offset it will be handed
    done: dict[int, int] = field(default_factory=dict)  # of those it holds: everything handed to it below is processed
    unsettled: set[int] = field(default_factory=set)  # of those it holds: where it begins is not known yet
    waiting: deque[Record] = field(default_factory=deque)  # handed out, not processed
    status: str = "runs"  # "runs", "freeze", "cut_off", "kill", "leave", "late": the last thing that was done to it
    polled_ms: int | None = None  # its last poll
    error: str = ""  # why it cannot go on

    @property
    def is_there(self) -> bool:
        """Whether its process lives."""
        return self.status not in ("kill", "leave")

    @property
    def runs(self) -> bool:
        """Whether it can be polled."""
        return self.is_there and self.status != "freeze"

    @property
    def is_placed(self) -> bool:
        """Whether it knows where it reads, or why it cannot; by duration it may have to wait for a young record."""
        return not self.unsettled or bool(self.error) or self.settings.auto_offset_reset.startswith(BY_DURATION)

    def give_up(self, partition: int) -> None:
        """It holds the partition no longer."""
        self.held.discard(partition)
        self.unsettled.discard(partition)
        self.position.pop(partition, None)
        self.done.pop(partition, None)

    def why_evicted(self) -> str:
        """By which of the rules the coordinator must have removed it."""
        if self.settings.instance_id is None and self.status in ("late", "leave"):
            return "poll" if self.status == "late" else "leave"
        return "session"  # a static member goes without a word, and the others could not say one
