"""The verdict: what a run did to the records it was given, and whether its settings allow that.

"At least once" is a claim about every record, so the judge follows each one through the trace: it was
appended, handed out, worked on, acknowledged, passed over by the committed offset. Six things can go
wrong, and each is counted with its first witness:

* lost: appended, never processed, and never to be: the committed offset has passed it or retention took it
* duplicated: processed more often than once (each extra time counts)
* reordered: processed for the first time after a higher offset was
* skipped: the reading position jumped over it before it was ever handed out
* stalled: a stretch of five or more commits that left the committed offset where it was while records waited
* rewound: the committed offset or the reading position went back

An anomaly is *allowed* when a setting of the run explains it, and a *violation* when none does. The
words of a trace that are read here, all with `topic` and `partition`:

    log    append {first, last, offsets?}   delete {to}
    spout  start {offset, why}   emit {offset}   reset {from, to}   fail {offset, retry}   clear {ranges, by}
           give_up {offset}   commit {offset, written}   error {error}
    bolt   process {offset, part}

Left out: what the records say; the audit on Spark compares them with the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kitlib.monitor.verdict import ANOMALIES, Anomaly, LaneVerdict, Verdict
from kitlib.trace import Step, Trace, from_ranges

STALL_COMMITS = 5  # so many commits in a row without progress are a stall

MAX_OFFSET = 2**63 - 1  # as a bound: without bound

Lane = tuple[str, int]  # (topic, partition)


__all__ = ["ANOMALIES", "Anomaly", "LaneVerdict", "Verdict", "judge", "judge_steps"]


def judge(trace: Trace) -> Verdict:
    """The verdict on a trace, by the knobs it was run with."""
    return judge_steps(trace.steps, trace.knobs)


def judge_steps(steps: Iterable[Step], knobs: Mapping[str, Any]) -> Verdict:
    """The verdict on steps; lanes in the order of their first step."""
    ledgers: dict[Lane, _Ledger] = {}
    for step in steps:
        if "topic" not in step.data:
            continue
        lane = (step.data["topic"], step.data.get("partition", 0))
        if lane not in ledgers:
            ledgers[lane] = _Ledger(*lane, knobs)
        ledgers[lane].take(step)
    return Verdict(tuple(ledger.verdict() for ledger in ledgers.values()))


@dataclass(slots=True)
class _Tally:
    """A growing Anomaly."""

    kind: str
    count: int = 0
    witness: int | None = None
    offset: int | None = None
    reasons: dict[str, int] = field(default_factory=dict)  # -> how many of `count` it explains
    unexplained: int = 0

    def add(self, step: int, offset: int, reason: str) -> None:
        """One more, seen at `step`; an empty reason makes it a violation."""
        self.count += 1
        if self.witness is None or step < self.witness:
            self.witness, self.offset = step, offset
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        else:
            self.unexplained += 1

    def done(self) -> Anomaly:
        reason, explained = max(self.reasons.items(), key=lambda item: item[1], default=("", 0))
        if 0 < explained < self.count - self.unexplained:
            reason = f"{reason}, for {explained} of {self.count}"
        return Anomaly(self.kind, self.count, self.witness, self.offset, reason, self.unexplained)


@dataclass(slots=True)
class _Ledger:
    """All that one partition's verdict needs to remember, step by step.

    Why a record was lost is in `given_up`, or else in `dropped`; why a commit stands still is in `fates`,
    unless `failed_at` shows that a retry never came.
    """

    topic: str
    partition: int
    knobs: Mapping[str, Any]
    appended_at: dict[int, int] = field(default_factory=dict)  # offset -> ms
    emitted: dict[int, int] = field(default_factory=dict)  # offset -> times
    processed: dict[tuple[int, int], int] = field(default_factory=dict)  # (offset, part) -> times
    first_processed: dict[int, int] = field(default_factory=dict)  # offset -> ms
    highest_processed: int = -1
    given_up: dict[int, tuple[int, str]] = field(default_factory=dict)  # offset -> (step, why); the first stands
    dropped: dict[int, str] = field(default_factory=dict)  # offset -> why a start began above it, finished or not
    fates: dict[int, str] = field(default_factory=dict)  # offset -> why it is held up; for stalls
    failed_at: dict[int, int] = field(default_factory=dict)  # offset -> commits before its last failure; until emitted
    commits: int = 0
    skipped: set[int] = field(default_factory=set)
    position: int | None = None  # the committed offset
    log_end: int = 0
    log_start: int = 0
    idle_commits: int = 0
    stall_begin: Step | None = None
    last_step: int = 0
    last_error: str = ""
    tallies: dict[str, _Tally] = field(default_factory=lambda: {kind: _Tally(kind) for kind in ANOMALIES})

    def take(self, step: Step) -> None:
        """Follow one step. Words without a meaning here are passed over."""
        self.last_step = step.number
        handler = getattr(self, f"_on_{step.what}", None)
        if handler:
            handler(step)

    def _on_append(self, step: Step) -> None:
        data = step.data
        for offset in data.get("offsets") or range(data["first"], data["last"] + 1):
            self.appended_at.setdefault(offset, step.at_ms)
        self.log_end = max(self.log_end, data["last"] + 1)

    def _on_delete(self, step: Step) -> None:
        self.log_start = max(self.log_start, step.data["to"])
        for offset in self.appended_at:
            if offset < self.log_start:
                self.given_up.setdefault(offset, (step.number, "retention deleted records that were not yet processed"))

    def _on_start(self, step: Step) -> None:
        offset = step.data["offset"]
        self._jump(step, offset, self._start_reason(step))
        for below in self.appended_at:
            if below < offset and below not in self.first_processed:
                self.dropped.setdefault(below, self._start_reason(step))
        if self.position is not None and offset < self.position:
            self.tallies["rewound"].add(step.number, offset, self._start_reason(step))
        self.position = offset
        self._end_stall()

    def _on_reset(self, step: Step) -> None:
        before, to = step.data["from"], step.data["to"]
        forced = self.knobs.get("force_from_start", False)
        reason = (
            "out of range, and use_start_offset_time_if_offset_out_of_range=True goes on from "
            f"{'start_offset_time' if forced else 'the log end'} (force_from_start={forced})"
        )
        self._jump(step, to, reason)
        if to < before:
            self.tallies["rewound"].add(step.number, to, reason)

    def _on_emit(self, step: Step) -> None:
        offset = step.data["offset"]
        self.emitted[offset] = self.emitted.get(offset, 0) + 1
        self.failed_at.pop(offset, None)

    def _on_process(self, step: Step) -> None:
        offset, part = step.data["offset"], step.data.get("part", 0)
        times = self.processed[offset, part] = self.processed.get((offset, part), 0) + 1
        if times > 1:
            self.tallies["duplicated"].add(step.number, offset, "at least once hands a record out again")
        if offset in self.first_processed:
            return
        self.first_processed[offset] = step.at_ms
        if offset < self.highest_processed:
            self.tallies["reordered"].add(step.number, offset, self._reorder_reason(offset))
        self.highest_processed = max(self.highest_processed, offset)

    def _on_fail(self, step: Step) -> None:
        offset = step.data["offset"]
        if not step.data.get("retry", True):
            self.fates[offset] = f"{self._bound()} does not retry a failure that far back"
        elif "retry_initial_delay_ms" in self.knobs:
            self.fates[offset] = "a record that keeps failing waits for its next retry"
        else:
            self.fates[offset] = "a record that keeps failing is retried without limit"
            self.failed_at[offset] = self.commits

    def _on_clear(self, step: Step) -> None:
        reason = f"{self._bound()} gives up what lies further back"
        oldest_kept = step.data.get("by", MAX_OFFSET) - self.knobs.get("max_offset_behind", 0)
        for offset in from_ranges(step.data["ranges"]):
            self.given_up.setdefault(offset, (step.number, reason if offset < oldest_kept else ""))

    def _on_give_up(self, step: Step) -> None:
        reason = f"retry_limit={self.knobs.get('retry_limit')} gives up after so many retries"
        self.given_up.setdefault(step.data["offset"], (step.number, reason))
        self.fates[step.data["offset"]] = "a record that keeps failing waits for its next retry"

    def _on_error(self, step: Step) -> None:
        self.last_error = str(step.data.get("error", ""))

    def _on_commit(self, step: Step) -> None:
        offset, before = step.data["offset"], self.position
        self.commits += 1
        if step.data.get("written", True):
            if before is not None and offset < before:
                self.tallies["rewound"].add(step.number, offset, "a record that failed after its ack is pending again")
            self.position = offset
        if self.position == before and before is not None and self.log_end > before:
            self.stall_begin = self.stall_begin or step
            self.idle_commits += 1
        else:
            self._end_stall()

    def _jump(self, step: Step, to: int, reason: str) -> None:
        for offset in self.appended_at:
            if offset < to and offset not in self.emitted and offset not in self.skipped:
                self.skipped.add(offset)
                self.tallies["skipped"].add(step.number, offset, reason)
                self.given_up.setdefault(offset, (step.number, reason))

    def _start_reason(self, step: Step) -> str:
        """Why a start may begin where it does; empty when it simply followed the stored offset."""
        why = str(step.data.get("why", ""))
        if why in ("stored offset", "committed offset"):
            return ""
        forced = self.knobs.get("force_from_start")
        return why if forced is None else f"{why} (force_from_start={forced})"

    def _bound(self) -> str:
        bound = self.knobs.get("max_offset_behind", MAX_OFFSET)
        return f"max_offset_behind={'unlimited' if bound == MAX_OFFSET else bound}"

    def _end_stall(self) -> None:
        begin, commits = self.stall_begin, self.idle_commits
        self.stall_begin, self.idle_commits = None, 0
        if begin is not None and commits >= STALL_COMMITS:
            offset = begin.data["offset"]
            self.tallies["stalled"].add(begin.number, offset, self._stall_reason(offset))

    def _reorder_reason(self, offset: int) -> str:
        if self.emitted.get(offset, 1) > 1:
            return "a record that is handed out again comes after newer ones"
        at_once = self.knobs.get("max_spout_pending", 1)
        return f"max_spout_pending={at_once} lets tuples finish in any order" if at_once > 1 else ""

    def _stall_reason(self, offset: int) -> str:
        if offset < self.log_start:
            return ""  # what is waited for is gone, and nothing will ever finish it
        if self.commits - self.failed_at.get(offset, self.commits) >= STALL_COMMITS:
            return ""  # it failed, and its retry never comes
        if self.last_error == "OFFSET_OUT_OF_RANGE":
            return "use_start_offset_time_if_offset_out_of_range=False stops at an offset that is not there"
        if offset in self.emitted and offset not in self.first_processed and offset not in self.fates:
            return "a tuple that is neither acked nor failed is waited for"
        return self.fates.get(offset, "")

    def verdict(self) -> LaneVerdict:
        """The verdict after the last step."""
        self._end_stall()
        committed = self.position or 0
        for offset in sorted(self.appended_at):
            if offset in self.first_processed or offset >= max(committed, self.log_start):
                continue
            step, reason = self.given_up.get(offset, (self.last_step, self.dropped.get(offset, "")))
            self.tallies["lost"].add(step, offset, reason)
        late = (ms - self.appended_at[at] for at, ms in self.first_processed.items() if at in self.appended_at)
        return LaneVerdict(
            self.topic,
            self.partition,
            len(self.appended_at),
            len(self.first_processed),
            {kind: tally.done() for kind, tally in self.tallies.items()},
            max(late, default=0),
        )
