"""The signs of an offset that goes back, each a pure function, and what only looks like one.

When a group's committed offset jumps back, four things can be seen from outside: the commit itself is
smaller than the one before it; or it has vanished, and the next one comes from the reset policy; more records are
delivered than arrived or were waiting; the lag rises by more than the log grew. Each has an innocent twin: a late
commit at a rebalance that is corrected at once, a reset by hand, a recreated topic, an expired group, a
backlog that drains, a burst of traffic. Every excused sign names its excuse.

Source: the signs are those of LinkedIn's account of two incidents of 2015 (Kafka 0.8.2 and its successors in use there);
the excuses are the kit's own. That a deleted topic takes every group's offsets with it: Apache Kafka 4.3.1,
`OffsetMetadataManager.onPartitionsDeleted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, takewhile

from kitlib.monitor.commit_history import Committed, GroupSeen

WEEK_MS = 7 * 24 * 3_600_000  # OffsetConfig's offsets.retention.minutes of Kafka 2.0 and later, the broker's default
MADE_GOOD_WITHIN = 1  # commits after a step back, by which a late commit has reached the old offset again
TOGETHER_MS = 10  # between a tombstone and the end of its group, which a deletion writes in one batch
NO_TOPIC = ""  # instead of a topic's id: there is no such topic


class Excuse(Enum):
    """Why a sign need not be a fault."""

    MADE_GOOD = "the commits reached the old offset again"
    BY_HAND = "the group had no members: someone reset it"
    NEW_TOPIC = "the topic was recreated, and its offsets start again"
    EXPIRED = "the group was silent for longer than committed offsets are retained"
    GROUP_GONE = "the group was deleted"
    TOPIC_GONE = "the topic was deleted"
    NONE = "nothing excuses it"


def in_order(commits: Sequence[Committed]) -> list[Committed]:
    """The commits in log order, each once: one that was read late or twice has not gone back."""
    by_order = {each.order: each for each in commits}
    return [by_order[order] for order in sorted(by_order)]


@dataclass(frozen=True, slots=True)
class Rewind:
    """A commit that is smaller than the one before it."""

    before: Committed
    after: Committed
    excuse: Excuse
    made_good_at: Committed | None = None  # the first later commit that reaches `before` again

    @property
    def records(self) -> int:
        return (self.before.offset or 0) - (self.after.offset or 0)

    @property
    def is_fault(self) -> bool:
        return self.excuse is Excuse.NONE

    def __str__(self) -> str:
        who = f", by {self.after.by}" if self.after.by else ""
        return (
            f"at {self.after.at_ms} the offset went back by {self.records}, from {self.before.offset} to {self.after.offset}"
            f"{who}: {self.excuse.value}"
        )


def rewinds(commits: Sequence[Committed]) -> list[Rewind]:
    """Every commit of one partition that goes back, however many there are.

    One that is followed, within `MADE_GOOD_WITHIN` commits, by one that reaches the old offset again is
    a late commit of work in progress. A tombstone between two commits makes a vanished commit, not a rewind.
    """
    history = in_order(commits)
    found = []
    for index, (before, after) in enumerate(pairwise(history), start=1):
        if before.offset is None or after.offset is None or after.offset >= before.offset:
            continue
        kept = takewhile(lambda each: each.offset is not None, history[index:])
        good = next((each for each in kept if (each.offset or 0) >= before.offset), None)
        soon = good is not None and good in history[index : index + 1 + MADE_GOOD_WITHIN]
        found.append(Rewind(before, after, excuse_of(before, after, soon), good))
    return found


def excuse_of(before: Committed, after: Committed, is_made_good: bool) -> Excuse:
    """What excuses a step back, the most certain excuse first."""
    if is_other_topic(before.topic_id, after.topic_id):
        return Excuse.NEW_TOPIC
    if after.members == 0:
        return Excuse.BY_HAND
    return Excuse.MADE_GOOD if is_made_good else Excuse.NONE


def is_other_topic(before: str | None, after: str | None) -> bool:
    """True when both ids are known and differ: the topic was deleted and recreated under its name."""
    return bool(before and after and before != after)


@dataclass(frozen=True, slots=True)
class Vanished:
    """A committed offset that was deleted, and where the group started again."""

    last: Committed
    tombstone: Committed
    excuse: Excuse
    begun_again: Committed | None = None  # the next commit; None while there is none

    @property
    def is_fault(self) -> bool:
        return self.excuse is Excuse.NONE

    def __str__(self) -> str:
        told = f"at {self.tombstone.at_ms} the committed offset {self.last.offset} vanished: {self.excuse.value}"
        if self.begun_again is None:
            return f"{told}; nothing has been committed since"
        step = (self.begun_again.offset or 0) - (self.last.offset or 0)
        what = f", and {-step} records were repeated" if step < 0 else f", and up to {step} records were skipped" if step else ""
        if self.excuse is Excuse.NEW_TOPIC:  # the two numbers count the records of two logs
            what = "" if step else ", the same number: if it was carried over, the records below it in the new log are never read"
        return f"{told}; the next commit is {self.begun_again.offset}{what}"


def vanished(
    commits: Sequence[Committed],
    groups: Sequence[GroupSeen] = (),
    retention_ms: int = WEEK_MS,
    topic_now: str | None = None,
) -> list[Vanished]:
    """Every committed offset of one partition that a tombstone deleted; a tombstone for nothing does not count.

    A deleted topic takes its offsets with it, and a group that has none left ends as well: so the topic's id is asked
    first, that of the next commit or else `topic_now` (the topic's id now, NO_TOPIC if it no longer exists, None if that
    is unknown). Then: a last commit at least `retention_ms` old of a partition that no member held, and an end of the
    group within TOGETHER_MS.
    """
    history = in_order(commits)
    found = []
    for index, (last, tombstone) in enumerate(pairwise(history), start=1):
        if last.offset is None or tombstone.offset is not None:
            continue
        again = next((each for each in history[index + 1 :] if each.offset is not None), None)
        topic = topic_now if again is None else again.topic_id
        excuse = Excuse.NONE
        if topic == NO_TOPIC:
            excuse = Excuse.TOPIC_GONE
        elif is_other_topic(last.topic_id, topic):
            excuse = Excuse.NEW_TOPIC
        elif tombstone.at_ms - last.at_ms >= retention_ms and tombstone.by is None:
            excuse = Excuse.EXPIRED
        elif any(each.is_gone and abs(tombstone.at_ms - each.at_ms) <= TOGETHER_MS for each in groups):
            excuse = Excuse.GROUP_GONE
        found.append(Vanished(last, tombstone, excuse, again))
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a partition and its consumer."""

    at_ms: int
    log_end: int
    committed: int | None
    emitted: int = 0  # how many records the consumer has delivered since the first sample


@dataclass(frozen=True, slots=True)
class Surge:
    """More records were delivered between two samples than arrived or were waiting."""

    since: Sample
    until: Sample
    came_in: int
    waited: int
    went_out: int

    @property
    def repeated(self) -> int:
        return self.went_out - self.came_in - self.waited

    def __str__(self) -> str:
        return (
            f"from {self.since.at_ms} to {self.until.at_ms}, {self.went_out} records were delivered, while {self.came_in} arrived and "
            f"{self.waited} were waiting: at least {self.repeated} were repeated"
        )


def surges(samples: Sequence[Sample]) -> list[Surge]:
    """Every stretch between two samples in which input cannot explain the output.

    went_out > came_in + waited, where `waited` is what lay beyond the highest offset ever committed: a
    backlog that drains is no surge, and a rewind does not create a backlog. Samples that go back in
    time, and a counter that restarts from zero, are ignored.
    """
    found = []
    highest: int | None = None
    for since, until in pairwise(samples):
        if since.committed is not None:
            highest = since.committed if highest is None else max(highest, since.committed)
        went_out = until.emitted - since.emitted
        if highest is None or until.at_ms <= since.at_ms or went_out < 0:
            continue
        came_in = max(0, until.log_end - since.log_end)
        waited = max(0, since.log_end - highest)
        if went_out > came_in + waited:
            found.append(Surge(since, until, came_in, waited, went_out))
    return found


@dataclass(frozen=True, slots=True)
class LagSpike:
    """The lag rose by more than the log grew."""

    since: Sample
    until: Sample
    lag_before: int
    lag_after: int
    grew: int  # the log, in the meantime

    def __str__(self) -> str:
        return (
            f"from {self.since.at_ms} to {self.until.at_ms} the lag rose from {self.lag_before} to {self.lag_after}, while the "
            f"log grew by {self.grew}: the committed offset went from {self.since.committed} to {self.until.committed}"
        )


def lag_spikes(samples: Sequence[Sample]) -> list[LagSpike]:
    """Every rise of the lag by more records than the log grew.

    The lag of a slow or stopped consumer rises by as much as the log grows and no more, and so does that of a burst.
    Lag may be below 0, when a log end was read before the commit: cut off at 0, it would jump.
    Samples without a commit are ignored.
    """
    known = [each for each in samples if each.committed is not None]
    found = []
    for since, until in pairwise(known):
        before, after = since.log_end - (since.committed or 0), until.log_end - (until.committed or 0)
        grew = until.log_end - since.log_end
        if until.at_ms > since.at_ms and after - before > max(0, grew):
            found.append(LagSpike(since, until, before, after, grew))
    return found
