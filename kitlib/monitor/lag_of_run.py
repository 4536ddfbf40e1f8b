"""What a lag monitor by Burrow's rules would have said of a run, after each commit.

It reads what Burrow reads: commits in their order, and the log's end at the time of each. A tombstone it
passes over, so a commit that vanished is seen by it only in the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.monitor.lag import Commit, PartitionStatus, Status, evaluate
from kitlib.monitor.lag_window import LagStorage
from kitlib.monitor.signs import commits_in, lane_of, samples_in
from kitlib.trace import Trace

GROUP = "group"


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one partition right after one commit."""

    step: int  # the commit's
    at_ms: int
    found: PartitionStatus

    @property
    def status(self) -> Status:
        """The status alone."""
        return self.found.status

    def __str__(self) -> str:
        return f"step {self.step}: {self.found.judgement}"


def judged_commits(trace: Trace, topic: str | None = None, partition: int = 0, intervals: int = 10) -> list[Judged]:
    """Burrow's judgement after each commit of a run's partition; a window has `intervals` slots.

    TraceError when the run has no such partition, KnobError for a window without slots.
    """
    where = lane_of(trace, topic, partition)
    ends = {sample.at_ms: sample.log_end for sample in samples_in(trace, *where)}
    storage = LagStorage(intervals)
    judged = []
    for each in commits_in(trace, *where):
        if each.offset is None:
            continue
        storage.add_log_end(*where, ends[each.at_ms])
        storage.add_commit(GROUP, *where, Commit(each.offset, each.at_ms, order=each.order), each.at_ms)
        windows = storage.windows(GROUP, each.at_ms)
        if windows and where in windows:
            judged.append(Judged(each.order, each.at_ms, evaluate(windows[where])))
    return judged
