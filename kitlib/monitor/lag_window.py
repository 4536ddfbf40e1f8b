"""Keeps the last commits of every group's partitions, as Burrow's storage does, for the rules of `lag`.

A window is a ring of a few slots. Commits arrive in the order of the offsets topic, which is their `order`;
a late one is inserted in its place, with an unknown lag, because the log end of its time is gone. A group
that commits too often would shorten its own window, so a commit that follows the one before it by less than
`min_distance_s` takes over that one's slot and time. Memory: intervals x (commits + log ends), whatever the history.

Source: Burrow v1.9.5, core/internal/storage/inmemory.go.
Differs: one cluster, no owners and no lists of allowed groups. A partition that was
never committed is no part of its group here; Burrow counts it among the group's partitions as one that is not complete.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from kitlib.mechanisms.lag import Commit, GroupStatus, Window, evaluate_group


@dataclass(slots=True)
class CommitRing:
    """The slots of one partition of one group, oldest first; as many as `intervals`."""

    intervals: int
    slots: list[Commit | None] = field(init=False)

    def __post_init__(self) -> None:
        self.slots = [None] * self.intervals

    def place(self, order: int) -> tuple[int, bool] | None:
        """The slot for a commit of this order, and whether those before it move on; None for one that is dropped.

        (0, True) is an append: the oldest slot is given up and becomes the newest. Dropped is what is older than a full window,
        and a record that was met before.
        """
        oldest, newest = self.slots[0], self.slots[-1]
        if newest is None or (newest.order < order and (oldest is None or oldest.order < order)):
            return 0, True
        if oldest is not None and oldest.order >= order:
            return None
        for slot in range(self.intervals - 1, -1, -1):
            met = self.slots[slot]
            if met is None or slot == 0:
                return slot, False
            if met.order < order:
                return slot + 1, True
            if met.order == order:
                return None
        return 0, False

    def add(self, commit: Commit, log_end: int, min_distance_s: int = 0) -> None:
        """Put a commit into the window; `log_end` is the newest known one, for the lag of a commit that is appended."""
        placed = self.place(commit.order)
        if placed is None:
            return
        slot, is_extending = placed
        is_append = slot == 0 and is_extending
        kept = replace(commit, lag=max(0, log_end - commit.offset) if is_append else None)
        before = self.slots[slot - 1]
        is_soon = before is not None and kept.timestamp_ms - before.timestamp_ms < min_distance_s * 1000
        if before is not None and before.order < commit.order and is_soon:
            self.slots[slot - 1] = replace(kept, timestamp_ms=before.timestamp_ms)
        elif is_append:
            self.slots = [*self.slots[1:], kept]
        elif is_extending:
            self.slots = [*self.slots[1:slot], kept, *self.slots[slot:]]
        else:
            self.slots[slot] = kept


@dataclass(slots=True)
class GroupOffsets:
    """One group: its windows, and when it was last seen."""

    windows: dict[tuple[str, int], CommitRing] = field(default_factory=dict)
    last_commit_ms: int = 0  # the commit timestamp of the last append, which need not be the newest


@dataclass(slots=True)
class LagStorage:
    """What is known of one cluster: log ends of its partitions, and windows of its groups."""

    intervals: int = 10
    min_distance_s: int = 0
    expire_group_s: int = 604_800
    log_ends: dict[tuple[str, int], deque[int]] = field(default_factory=dict)  # newest last
    groups: dict[str, GroupOffsets] = field(default_factory=dict)

    def add_log_end(self, topic: str, partition: int, offset: int) -> None:
        self.log_ends.setdefault((topic, partition), deque(maxlen=self.intervals)).append(offset)

    def add_commit(self, group: str, topic: str, partition: int, commit: Commit, now_ms: int) -> None:
        """A commit has come by; one that is older than `expire_group_s`, or of a partition whose log end is not known, is dropped."""
        now_s, ends = now_ms // 1000, self.log_ends.get((topic, partition))
        if not ends or commit.timestamp_ms < (now_s - self.expire_group_s) * 1000:
            return
        known = self.groups.setdefault(group, GroupOffsets())
        ring = known.windows.setdefault((topic, partition), CommitRing(self.intervals))
        if ring.place(commit.order) == (0, True):
            known.last_commit_ms = commit.timestamp_ms
        ring.add(replace(commit, observed_at_ms=now_s * 1000), ends[-1], self.min_distance_s)

    def windows(self, group: str, now_ms: int, allowed_lag: int = 0) -> dict[tuple[str, int], Window] | None:
        """The windows of a group as they look now; None for a group that is not known or has been silent for too long.

        A group whose last append is older than `expire_group_s` is forgotten by this look.
        """
        known = self.groups.get(group)
        if known is None:
            return None
        now_s = now_ms // 1000
        if (now_s - self.expire_group_s) * 1000 > known.last_commit_ms:
            del self.groups[group]
            return None
        found = {}
        for where, ring in known.windows.items():
            ends, newest = tuple(self.log_ends[where]), ring.slots[-1]
            lag = 0 if newest is None else max(0, ends[-1] - newest.offset)
            found[where] = Window(tuple(ring.slots), ends, lag, now_s, allowed_lag)
        return found

    def status(self, group: str, now_ms: int, allowed_lag: int = 0, minimum_complete: float = 0.0) -> GroupStatus:
        """The group's judgement now; NOTFOUND as in `windows`."""
        return evaluate_group(self.windows(group, now_ms, allowed_lag), minimum_complete)
