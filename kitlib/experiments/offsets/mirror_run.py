"""A run with two groups on one topic: a consumer, and a mirror that copies the topic elsewhere.

Each group is a lane of its own, judged by itself: the same records, handed out twice. The words are those of
`kitlib.experiments.groups.group_run`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kitlib.experiments.groups.group_run import GroupRun

MIRROR = "mirror"


@dataclass(slots=True)
class MirrorRun(GroupRun):
    """The consumer's group; `mirror` is the other one, which is there once the topic is."""

    domain: ClassVar[str] = "groups"

    mirror: GroupRun = field(init=False)

    def create(self, partitions: int, records: int = 0) -> None:
        """Create the topic, and begin with the second group."""
        GroupRun.create(self, partitions)
        self.mirror = _Mirror(self.trace, self.backend, self.knobs, self.fork)
        self.mirror.group = self.group.beside(MIRROR)
        self.mirror.label = MIRROR
        for partition in self.ends:
            self.mirror.ends[partition], self.mirror.committed[partition], self.mirror.processed[partition] = 0, None, []
        self.mirror.twin, self.twin = self, self.mirror
        for partition in self.ends if records else ():
            self.append(partition, records)

    def append(self, partition: int, count: int, age_ms: int = 0) -> None:
        """Append records, which are there for both."""
        GroupRun.append(self, partition, count, age_ms)
        first, end = self.ends[partition] - count, self.ends[partition]
        self.mirror.ends[partition] = end
        self.mirror.record_lane("log", "append", partition, first=first, last=end - 1)

    def keep_time(self) -> None:
        """In the model each group has a clock: the one that is behind catches up."""
        if self.backend.name == "model":
            ahead = self.group.now_ms - self.mirror.group.now_ms
            (self.mirror if ahead > 0 else self).pass_ms(abs(ahead))


@dataclass(slots=True)
class _Mirror(GroupRun):
    """The second group; whoever makes it gives it its backend."""

    def __post_init__(self) -> None:
        """Nothing is opened."""
