"""The signs of a rewind while the commits of one partition arrive one by one, for histories too long to keep.

`rewinds` and `vanished` look at a whole history. This does the same with only the last commit in memory:
findings are counted by their excuse, and the last few are kept. A finding stays open while
a later commit may still change it: whether the old offset is reached again, where the
group starts again, whether the group itself ended in the same second. Memory: `KEPT` findings of each kind,
whatever the history.

Source: `kitlib.monitor.rewinds`, whose answers these are.
Differs: an end of the group excuses only those of the vanished commits that are still kept; whether the topic
still exists is not checked; `lost` says where that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kitlib.errors import KnobError
from kitlib.monitor.commit_history import Committed
from kitlib.monitor.rewinds import TOGETHER_MS, WEEK_MS, Excuse, Rewind, Vanished, excuse_of, is_other_topic

KEPT = 5
ENDS_KEPT = 8  # of a group; they excuse what vanished within a second


@dataclass(slots=True)
class OpenRewind:
    """A rewind, and how many commits have come since."""

    found: Rewind
    later: int = 0
    is_closed: bool = False  # made good, or nothing can make it good any more


@dataclass(slots=True)
class RunningSigns:
    """What has been found of one partition of one group so far."""

    made_good_within: int = 1  # commits, as in `rewinds`
    retention_ms: int = WEEK_MS  # as in `vanished`
    last: Committed | None = None
    rewound: list[OpenRewind] = field(default_factory=list)  # the last of them
    gone: list[Vanished] = field(default_factory=list)  # the last of them
    rewinds: dict[Excuse, int] = field(default_factory=dict)  # all of them, by their excuse
    vanished: dict[Excuse, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.made_good_within < 0 or self.retention_ms < 0:
            raise KnobError(
                f"made_good_within is {self.made_good_within} and retention_ms {self.retention_ms}: give 0 or more."
            )

    @property
    def is_open(self) -> bool:
        """True while the next commit may change what has been found."""
        return any(not each.is_closed for each in self.rewound) or any(each.begun_again is None for each in self.gone)

    @property
    def faults(self) -> tuple[int, int]:
        """Rewinds, and vanished commits, that nothing excuses."""
        return self.rewinds.get(Excuse.NONE, 0), self.vanished.get(Excuse.NONE, 0)

    def add(self, commit: Committed, ends_ms: Sequence[int] = ()) -> None:
        """The next commit, or tombstone, in the order of the log; `ends_ms` is when the group ended, as far as is known."""
        before, self.last = self.last, commit
        self._look_back(commit)
        if before is None or before.offset is None:
            return
        if commit.offset is None:
            self._note_vanished(before, commit, ends_ms)
        elif commit.offset < before.offset:
            found = Rewind(before, commit, excuse_of(before, commit, is_made_good=False))
            self.rewound = [*self.rewound, OpenRewind(found)][-max(KEPT, self.made_good_within + 1) :]
            count(self.rewinds, found.excuse)

    def group_ended(self, at_ms: int) -> None:
        """The group was deleted or has expired: what vanished in the same second is excused."""
        for index, each in enumerate(self.gone):
            if each.is_fault and abs(each.tombstone.at_ms - at_ms) <= TOGETHER_MS:
                self.gone[index] = replace(each, excuse=Excuse.GROUP_GONE)
                count(self.vanished, Excuse.NONE, -1)
                count(self.vanished, Excuse.GROUP_GONE)

    def lost(self) -> Vanished | None:
        """The last finding, if it is a commit that has vanished for good as yet, and nothing that was read excuses it."""
        return self.gone[-1] if self.gone and self.gone[-1].is_fault and self.gone[-1].begun_again is None else None

    def told(self) -> list[str]:
        """The findings that nothing excuses, a sentence each, in the order of the log."""
        faults: list[Rewind | Vanished] = [each.found for each in self.rewound if each.found.is_fault]
        faults += [each for each in self.gone if each.is_fault]
        return [str(each) for each in sorted(faults, key=order_of)]

    # -- inside ------------------------------------------------------------------------------------

    def _look_back(self, commit: Committed) -> None:
        """What this commit says about the findings that are open."""
        for each in self.rewound:
            if each.is_closed:
                continue
            each.later += 1
            each.is_closed = commit.offset is None
            if commit.offset is not None and commit.offset >= (each.found.before.offset or 0):
                each.is_closed = True
                each.found = replace(each.found, made_good_at=commit)
                if each.found.is_fault and each.later <= self.made_good_within:
                    each.found = replace(each.found, excuse=Excuse.MADE_GOOD)
                    count(self.rewinds, Excuse.NONE, -1)
                    count(self.rewinds, Excuse.MADE_GOOD)
        if commit.offset is not None:
            self.gone = [each if each.begun_again else self._begun_again(each, commit) for each in self.gone]

    def _begun_again(self, found: Vanished, commit: Committed) -> Vanished:
        excuse = Excuse.NEW_TOPIC if is_other_topic(found.last.topic_id, commit.topic_id) else found.excuse
        count(self.vanished, found.excuse, -1)
        count(self.vanished, excuse)
        return replace(found, begun_again=commit, excuse=excuse)

    def _note_vanished(self, before: Committed, tombstone: Committed, ends_ms: Sequence[int]) -> None:
        excuse = Excuse.NONE
        if tombstone.at_ms - before.at_ms >= self.retention_ms:
            excuse = Excuse.EXPIRED
        elif any(abs(tombstone.at_ms - end_ms) <= TOGETHER_MS for end_ms in ends_ms):
            excuse = Excuse.GROUP_GONE
        self.gone = [*self.gone, Vanished(before, tombstone, excuse)][-KEPT:]
        count(self.vanished, excuse)


def count(counts: dict[Excuse, int], excuse: Excuse, by: int = 1) -> None:
    """So many more findings with this excuse; one of which there are none is not there."""
    counts[excuse] = counts.get(excuse, 0) + by
    if not counts[excuse]:
        del counts[excuse]


def order_of(finding: Rewind | Vanished) -> int:
    """Where in the log the finding is."""
    return finding.after.order if isinstance(finding, Rewind) else finding.tombstone.order
