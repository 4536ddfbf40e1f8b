"""The verdict: what a run did to its records, and whether its settings explain it.

"At least once" is a claim about every record, so the judge follows each one through the trace: appended,
emitted, processed, acked, passed by the committed offset. Six things can go wrong, and each is counted
with its first witness:

* lost: appended, never processed, and out of reach: the committed offset has passed it, or retention has deleted it
* duplicated: processed more than once (each extra time counts)
* reordered: first processed after a record with a higher offset had been
* skipped: the reading position jumped over it before it was ever emitted
* stalled: a stretch of five or more commits that left the committed offset where it was while records waited
* rewound: the committed offset or the reading position went back

A record may have several effects, its *parts*. If its append says how many (`parts`: one number for
all, or one for each of its offsets), it counts as processed once every part has been, so a record
with 0 parts is processed as soon as it is appended: there was nothing to do. If its append does not say, any one
part makes it processed. "First" always means its first part, whichever that is.

An anomaly is *explained* when a setting of the run accounts for it (`kitlib.monitor.reasons`), and a
*violation* when none does. The words of a trace that are read here, all with `topic` and `partition`:

    log    append {first, last, offsets?, parts?}   delete {to}   compact {offsets}   purge {offsets}
    spout  start {offset, why}   emit {offset}   ack {offset, outstanding?}   fail {offset, retry, why?}
           reset {from, to, asked?, why?}   clear {ranges, by}   give_up {offset}   commit {offset, written, error?}   error {error}
    bolt   process {offset, part}   network  lose_ack {offset}
    operator  alter {offset, before, error?}
    broker (of a share group)  time_out {offset}   hand_back {ranges}   archive {offset, why}   full {offset}

A record that compaction has removed (`compact`) is not lost, even if no one has read it: a later record with its
key replaces it. Nothing replaces a tombstone that is removed (`purge`).

A log whose end is truncated (`log cut {from, to, why}`) loses the records there that were not processed, and reuses
their offsets: from then on, other records are at them.

The members of a consumer group do `start`, `emit`, `process` and `commit` themselves; `kitlib.monitor.reasons`
says which setting explains what. The other words of a topology's tasks are listed in `kitlib.monitor.trees`. A producer's lane
is judged by what was stored instead of what was processed (`kitlib.monitor.producing`), a lane of
transactions by what a reader received (`kitlib.monitor.transactions`).

A run that was cut (`run halt {max_steps}`) has no end to be judged by: a record that was in flight at the cut
is not lost but unfinished.

Left out: the contents of records; the audit on Spark compares them with the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kitlib.errors import TraceError
from kitlib.monitor.producing import ProducerLedger
from kitlib.monitor.reasons import (
    ACK_LOST,
    MAX_OFFSET,
    RETENTION,
    WAITS_FOR_RETRY,
    Begin,
    CheckpointReasons,
    GroupReasons,
    KeptReasons,
    OffsetReasons,
    Reasons,
    RecordHistory,
    ReplicaReasons,
    Stall,
)
from kitlib.monitor.sharing import ShareReasons
from kitlib.monitor.subjects import subject_of
from kitlib.monitor.transactions import TransactionLedger
from kitlib.monitor.verdict import ANOMALIES, Anomaly, LaneVerdict, Tally, Verdict
from kitlib.settings import Settings
from kitlib.trace import Step, Trace, from_ranges

STALL_COMMITS = 5  # this many commits in a row without progress are a stall

Lane = tuple[str, int]  # (topic, partition)

__all__ = ["ANOMALIES", "Anomaly", "LaneVerdict", "Verdict", "judge"]


def judge(trace: Trace) -> Verdict:
    """The verdict on a trace, given the settings it was run with; lanes in the order of their first step.

    TraceError when its steps do not fit together.
    """
    with trace.following("be judged"):
        return _judge(trace)


def _judge(trace: Trace) -> Verdict:
    ledgers: dict[Lane, Ledger] = {}
    judged = {what: trace.vocabulary.judged(what) for what in trace.words()}
    for step in trace.steps:
        if "topic" not in step.data:
            for ledger in ledgers.values():  # it is about all of them
                ledger.follow(step, judged[step.what])
            continue
        lane = (step.data["topic"], step.data.get("partition", 0))
        if lane not in ledgers:
            ledgers[lane] = LEDGERS.get(trace.domain, LEDGERS["spout"])(*lane, trace.settings)
        ledgers[lane].follow(step, judged[step.what])
    lanes = tuple(ledger.verdict(trace.cut_at is not None) for ledger in ledgers.values())
    heading = f"Topic and stored offset: real broker. {trace.simulated.capitalize()}: simulated." if trace.simulated else ""
    return Verdict(lanes, trace.cut_at, "" if lanes else subject_of(trace), heading)


@dataclass(slots=True)
class DeliveryLedger:
    """All that one partition's verdict needs to remember, step by step.

    Why a record was lost is in `given_up`, or else in `refused`, in `dropped`, or in how it came to be
    acked; why a commit stands still is in `fates`, unless `failed_at` shows that a retry never came.
    """

    topic: str
    partition: int
    reasons: Reasons
    appended_at: dict[int, int] = field(default_factory=dict)  # offset -> ms
    parts: dict[int, int] = field(default_factory=dict)  # offset -> effects it should have; if its append says so
    emitted: dict[int, int] = field(default_factory=dict)  # offset -> times
    replays: Counter[int] = field(default_factory=Counter)  # offset -> as `RecordHistory.replays`
    tuples: dict[int, set[int]] = field(default_factory=dict)  # a topology's tuple -> offsets of the records that it comes of
    open_since: dict[int, int] = field(default_factory=dict)  # offset -> ms of its last emit; until acked or failed
    open_tuples: dict[int, int] = field(default_factory=dict)  # offset -> how many of its last emit's tuples are out; if that says so
    acked: set[int] = field(default_factory=set)
    acked_early: set[int] = field(default_factory=set)  # of them, those whose trees were not complete or whose processing had failed
    tracked: set[int] = field(default_factory=set)  # whose last tuple began a tree
    at_work: dict[str, int] = field(default_factory=dict)  # a topology's task -> the tuple that it executes
    loose: set[int] = field(default_factory=set)  # records for which a tuple was sent that is not anchored
    unread: set[int] = field(default_factory=set)  # passed by a commit before they were emitted
    claimed: set[int] = field(default_factory=set)  # passed unprocessed by the commit right behind them
    passed: set[int] = field(default_factory=set)  # passed unprocessed by a commit since the last start, and not overtaken yet
    overtaken: set[int] = field(default_factory=set)  # of those passed so, the ones with a newer record that their reader processed
    newest: dict[str, int] = field(default_factory=dict)  # who processes -> the newest record that it has processed since the last start
    processed: dict[tuple[int, int], int] = field(default_factory=dict)  # (offset, part) -> times
    first_processed: dict[int, int] = field(default_factory=dict)  # offset -> ms
    tops: list[tuple[int, int]] = field(default_factory=list)  # (offset, step) of first processings; later ones are of lower offsets
    out_at: dict[int, int] = field(default_factory=dict)  # offset -> the step of its last emit
    late: set[int] = field(default_factory=set)  # first processed after a newer one
    late_failures: set[int] = field(default_factory=set)  # as `RecordHistory.is_late_failure`
    starts: dict[str, list[int]] = field(default_factory=dict)  # who starts -> where each time
    owner: str = ""  # who has started last
    committer: str = ""  # whose commit was the last one since then
    committed_ms: int | None = None  # the time of the last commit
    damage: set[str] = field(default_factory=set)  # that has happened and may cut the log, in a cut's own words
    tombstones: dict[int, int | None] = field(default_factory=dict)  # offset -> ms when the cleaner first passed over it
    is_cut_below: bool = False  # the log was cut below the committed offset
    is_moved: bool = False  # the group has moved to another coordinator, or an operator did what one of old would do
    set_to: int | str | None = None  # where an operator has put the committed offset since the last commit; "none": deleted
    replaced: set[int] = field(default_factory=set)  # compaction has taken them out, a later record of the key is there
    given_up: dict[int, tuple[int, str]] = field(default_factory=dict)  # offset -> (step, why); the first stands
    dropped: dict[int, str] = field(default_factory=dict)  # offset -> why a start began above it, finished or not
    refused: dict[int, str] = field(default_factory=dict)  # offset -> why its last failure is not retried
    fates: dict[int, str] = field(default_factory=dict)  # offset -> why it is held up; for stalls
    failed_at: dict[int, int] = field(default_factory=dict)  # offset -> commits before its last failure; until emitted
    commits: int = 0
    quiet_commits: int = 0  # in a row, between which a spout with room for more emitted nothing
    is_quiet: bool = True  # nothing was emitted since the last commit
    skipped: set[int] = field(default_factory=set)
    appended_before_cut: int = 0  # records whose offsets were cut off; and of them, the processed ones
    processed_before_cut: int = 0
    begun: list[int] = field(default_factory=list)  # where each start began, and each reset that went back
    given_back: dict[int, str] = field(default_factory=dict)  # offset -> why a share group delivered it once more
    went_back: str | None = None  # why the last start or reset lay below the position before it; None: it did not
    by_hand: str = ""  # why a start at the committed offset may lie elsewhere than the last commit
    position: int | None = None  # the committed offset
    log_end: int = 0
    log_start: int = 0
    idle_commits: int = 0
    stall_begin: Step | None = None
    unheld: int = 0  # idle commits in a row that nothing explained then; stays once it is a stall of its own
    held_by: str = ""  # what explained the last idle commit, as it was then
    last_step: int = 0
    last_error: str = ""
    tallies: dict[str, Tally] = field(default_factory=lambda: {kind: Tally(kind) for kind in ANOMALIES})

    def follow(self, step: Step, judged: str) -> None:
        """Follow one step. `judged` is what its word means to a verdict; "" is ignored."""
        self.last_step = step.number if "topic" in step.data else self.last_step
        if judged:
            getattr(self, f"_on_{judged}")(step)

    def _on_append(self, step: Step) -> None:
        data = step.data
        offsets = data.get("offsets") or range(data["first"], data["last"] + 1)
        parts = data.get("parts")
        if isinstance(parts, list) and len(parts) != len(offsets):
            raise TraceError(
                f"step {step.number}: append to {self.topic}-{self.partition} has parts for {len(parts)} records, "
                f"expected {len(offsets)}, one number for each. Record the trace again."
            )
        for at, offset in enumerate(offsets):
            if offset not in self.appended_at:
                self.appended_at[offset] = step.at_ms
                if parts is not None:
                    self.parts[offset] = parts[at] if isinstance(parts, list) else parts
        values = zip(offsets, data.get("values", ()), strict=False)
        self.tombstones.update(dict.fromkeys(offset for offset, value in values if value is None))
        self.log_end = max(self.log_end, data["last"] + 1)

    def _on_delete(self, step: Step) -> None:
        self.log_start = max(self.log_start, step.data["to"])
        for offset in self.appended_at:
            if offset < self.log_start:
                self.given_up.setdefault(offset, (step.number, RETENTION))

    def _on_compact(self, step: Step) -> None:
        self.replaced.update(step.data["offsets"])

    def _on_pass(self, step: Step) -> None:
        for offset, clean_ms in self.tombstones.items():
            if clean_ms is None and offset < step.data.get("to", 0):
                self.tombstones[offset] = step.at_ms

    def _on_purge(self, step: Step) -> None:
        for offset in step.data["offsets"]:
            clean_ms = self.tombstones.get(offset)
            self.given_up.setdefault(offset, (step.number, self.reasons.purge(None if clean_ms is None else step.at_ms - clean_ms)))

    def _on_elect(self, step: Step) -> None:
        (self.damage.add if step.data["unclean"] else self.damage.discard)("an unclean election")

    def _on_flip(self, step: Step) -> None:
        self.damage.add("a flipped bit")

    def _on_cut(self, step: Step) -> None:
        """The records from `to` on are gone; those already processed stay processed, and the offsets are reused."""
        if "to" not in step.data:
            return  # a network's word: a connection was cut
        to, why = step.data["to"], step.data.get("why", "")
        reason = self.reasons.cut(why) if why in self.damage else ""
        self.damage.discard(why)
        for offset in sorted(each for each in self.appended_at if each >= to):
            if self._is_processed(offset):
                self.processed_before_cut += 1
            else:
                self.tallies["lost"].add(step.number, offset, reason)
            self.appended_before_cut += 1
        by_offset = (self.appended_at, self.parts, self.emitted, self.replays, self.open_since, self.open_tuples, self.first_processed)
        for ledger in (*by_offset, self.out_at, self.given_up, self.dropped):
            for offset in [each for each in ledger if each >= to]:
                del ledger[offset]
        self.processed = {key: times for key, times in self.processed.items() if key[0] < to}
        self.skipped = {offset for offset in self.skipped if offset < to}
        self.replaced = {offset for offset in self.replaced if offset < to}
        self.tops = [(max(self.first_processed), step.number)] if self.first_processed else []
        self.log_end = to
        self.is_cut_below = self.position is not None and self.position > to
        self.position = None if self.position is None else min(self.position, to)  # above, it has passed nothing that is there

    def _on_start(self, step: Step) -> None:
        idle_ms = 0 if self.committed_ms is None else step.at_ms - self.committed_ms
        is_outside = self.is_cut_below or not self._is_in_log(self.set_to if isinstance(self.set_to, int) else self.position or 0)
        begin = Begin(self.committed_ms is not None, is_outside, idle_ms, self.is_moved, self.set_to == "none")
        offset, reason = step.data["offset"], self.reasons.start(str(step.data.get("why", "")), begin) or self.by_hand
        self._jump(step, offset, reason)
        self._begin(offset)
        for below in self.appended_at:
            if below < offset and not self._is_processed(below):
                self.dropped.setdefault(below, reason)
        if self.position is not None and offset < self.position:
            self.tallies["rewound"].add(step.number, offset, reason)
            self.went_back = reason
        self.position = offset
        self.owner, self.committer, self.is_cut_below = step.actor, "", False
        self.starts.setdefault(step.actor, []).append(offset)
        self._end_stall()
        self.last_error = ""
        for ledger in (self.open_since, self.open_tuples, self.newest, self.passed):
            ledger.clear()  # whoever waited for their answers is gone

    def _on_reset(self, step: Step) -> None:
        before, to = step.data["from"], step.data["to"]
        reason = self.reasons.reset(str(step.data.get("why", "")), not self._is_in_log(step.data.get("asked", before)))
        self._jump(step, to, reason)
        if to < before:
            self.tallies["rewound"].add(step.number, to, reason)
            self._begin(to)
            self.went_back = reason

    def _begin(self, offset: int) -> None:
        """The reader goes on from here: what it had emitted at or above is read again."""
        self.begun.append(offset)
        self.replays.update(each for each in self.emitted if each >= offset)

    def _is_in_log(self, offset: int) -> bool:
        return self.log_start <= offset <= self.log_end

    def _on_move(self, step: Step) -> None:
        self.is_moved = True

    def _on_alter(self, step: Step) -> None:
        if "error" not in step.data:
            before, to = step.data.get("before"), step.data.get("offset", "none")
            self.by_hand, self.is_moved = f"an operator, who set the committed offset from {before} to {to} by hand", True
            self.set_to = to

    def _on_emit(self, step: Step) -> None:
        offset = step.data["offset"]
        self.emitted[offset] = self.emitted.get(offset, 0) + 1
        self.open_since[offset], self.out_at[offset] = step.at_ms, step.number
        if offset < (self.position or 0) and self.replays[offset]:
            self.late_failures.add(offset)
        if "parts" in step.data:
            self.open_tuples[offset] = step.data["parts"]
        for number, *_ in step.data.get("tuples", ()):
            self.tuples[number] = {offset}
        self.failed_at.pop(offset, None)
        self.refused.pop(offset, None)
        (self.tracked.discard if step.data.get("root") is None else self.tracked.add)(offset)
        self.last_error, self.is_quiet = "", False

    def _on_execute(self, step: Step) -> None:
        self.at_work[step.actor] = step.data["tuple"]

    def _on_send(self, step: Step) -> None:
        if not step.data["parents"]:
            self.loose |= self.tuples.get(self.at_work.get(step.actor, -1), set())
        self.tuples[step.data["tuple"]] = {offset for parent in step.data["parents"] for offset in self.tuples.get(parent, ())}

    def _on_double(self, step: Step) -> None:
        """What is delivered twice is a record, or a tuple that comes of some."""
        if step.data.get("kind", "double") == "double":
            self.replays.update([step.data["offset"]] if "offset" in step.data else self.tuples.get(step.data["tuple"], ()))

    def _on_take(self, step: Step) -> None:
        """A whole batch is emitted."""
        for offset in range(step.data["first"], step.data["last"] + 1):
            self.emitted[offset], self.out_at[offset] = self.emitted.get(offset, 0) + 1, step.number

    def _on_ack(self, step: Step) -> None:
        offset = step.data["offset"]
        self.acked.add(offset)
        self.open_since.pop(offset, None)
        self.fates.pop(offset, None)
        if step.data.get("outstanding") or step.data.get("failed"):
            self.acked_early.add(offset)

    def _on_process(self, step: Step) -> None:
        offset, part = step.data["offset"], step.data.get("part", 0)
        self._end_tuple(offset)
        times = self.processed[offset, part] = self.processed.get((offset, part), 0) + 1
        if times > 1:
            begun = sum(begin <= offset for begin in self.begun)
            reason = self.reasons.again(self._handled(offset), times, begun)
            self.tallies["duplicated"].add(step.number, offset, reason)
        if offset in self.first_processed:
            return
        self.first_processed[offset] = step.at_ms
        while self.tops and self.tops[-1][0] < offset:
            self.tops.pop()
        if self.tops:
            self.late.add(offset)
            is_together = self.out_at.get(offset, step.number) < self.tops[-1][1]
            history = self._handled(offset, is_behind_its_own=offset < self.newest.get(step.actor, -1), is_together=is_together)
            self.tallies["reordered"].add(step.number, offset, self.reasons.reorder(history))
        self.tops.append((offset, step.number))
        self.newest[step.actor] = max(self.newest.get(step.actor, -1), offset)
        if self.passed:
            self.overtaken |= (now := {each for each in self.passed if each < offset})
            self.passed -= now

    def _on_fail(self, step: Step) -> None:
        offset, will_retry, why = step.data["offset"], step.data.get("retry", True), step.data.get("why")
        self.open_since.pop(offset, None)
        self._end_tuple(offset)
        self.replays[offset] += 1
        if offset < (self.position or 0):
            self.late_failures.add(offset)
        self.fates[offset] = self.reasons.failure(will_retry, why == "timeout", step.state.get("emitted_to_offset", MAX_OFFSET) - offset)
        if not will_retry:
            self.refused[offset] = self.fates[offset]
        elif not self.reasons.retries_wait:
            self.failed_at[offset] = self.commits

    def _end_tuple(self, offset: int) -> None:
        if offset in self.open_tuples:
            self.open_tuples[offset] -= 1

    def _on_clear(self, step: Step) -> None:
        by = step.data.get("by", MAX_OFFSET)
        for offset in from_ranges(step.data["ranges"]):
            self.given_up.setdefault(offset, (step.number, self.reasons.clear(offset, by)))

    def _on_give_up(self, step: Step) -> None:
        self.given_up.setdefault(step.data["offset"], (step.number, self.reasons.give_up(self.replays[step.data["offset"]])))
        self.fates[step.data["offset"]] = WAITS_FOR_RETRY

    def _on_give_back(self, step: Step) -> None:
        """A share group's delivery has ended without an answer that counts."""
        data = step.data
        for offset in from_ranges(data.get("ranges") or [[data["offset"], data["offset"]]]):
            self.open_since.pop(offset, None)
            self.replays[offset] += 1
            self.given_back[offset] = self.reasons.share(step.what)

    def _on_archive(self, step: Step) -> None:
        self.given_up.setdefault(step.data["offset"], (step.number, self.reasons.share(step.what)))

    def _on_full(self, step: Step) -> None:
        self.tallies["stalled"].add(step.number, step.data["offset"], self.reasons.share(step.what))

    def _on_lose_ack(self, step: Step) -> None:
        self.fates[step.data["offset"]] = ACK_LOST

    def _on_error(self, step: Step) -> None:
        self.last_error = str(step.data.get("error", ""))

    def _on_commit(self, step: Step) -> None:
        offset, before = step.data["offset"], self.position
        self.commits += 1
        is_quiet, self.is_quiet = self.is_quiet and self.reasons.has_room(len(self.open_since)), True
        self.quiet_commits = self.quiet_commits + 1 if is_quiet else 0
        if step.data.get("written", True):
            if before is not None and offset < before:
                self.tallies["rewound"].add(step.number, offset, self.reasons.back(self._gone_back(offset, step.actor)))
            self._pass(offset)
            self.late_failures = {each for each in self.late_failures if each >= offset}
            self.position, self.committer, self.committed_ms, self.is_moved = offset, step.actor, step.at_ms, False
            self.set_to = None
        if self.position == before and before is not None and self.log_end > before:
            self.stall_begin = self.stall_begin or step
            self.idle_commits += 1
            self.held_by = self.reasons.stall(self._stall_at(self.stall_begin.data["offset"], step))
            self.unheld = 0 if self.held_by and self.unheld < STALL_COMMITS else self.unheld + 1
        else:
            self._end_stall()

    def _jump(self, step: Step, to: int, reason: str) -> None:
        for offset in self.appended_at:
            if offset < to and offset not in self.emitted and offset not in self.skipped:
                self.skipped.add(offset)
                self.tallies["skipped"].add(step.number, offset, reason)
                self.given_up.setdefault(offset, (step.number, reason))

    def _end_stall(self) -> None:
        """What held it is what held it at its commits; what came afterwards, or was over before, explains nothing."""
        if self.stall_begin is not None and self.idle_commits >= STALL_COMMITS:
            held_by = self.held_by if self.unheld < STALL_COMMITS else ""
            self.tallies["stalled"].add(self.stall_begin.number, self.stall_begin.data["offset"], held_by)
        self.stall_begin, self.idle_commits, self.unheld = None, 0, 0

    def _pass(self, to: int) -> None:
        """A commit has passed the records below `to`: what was read and done by then decides why one is lost."""
        for offset in range(self.log_start if self.position is None else self.position, min(to, self.log_end)):
            if offset not in self.emitted:
                self.unread.add(offset)
            elif not self._is_processed(offset):
                self.unread.discard(offset)
                if offset == to - 1 or not self._is_processed(to - 1):
                    self.claimed.add(offset)
                (self.overtaken if any(offset < newest for newest in self.newest.values()) else self.passed).add(offset)

    def _stall_at(self, offset: int, commit: Step) -> Stall:
        return Stall(
            is_deleted=offset < self.log_start,
            is_forgotten=min(self.quiet_commits, self.commits - self.failed_at.get(offset, self.commits)) >= STALL_COMMITS,
            last_error=str(commit.data.get("error", self.last_error)),
            fate=self.fates.get(offset, ""),
            open_ms=commit.at_ms - self.open_since[offset] if offset in self.open_since else None,
            is_processed=self._is_processed(offset),
        )

    def _handled(self, offset: int, **more: bool) -> RecordHistory:
        went_back = self.given_back.get(offset, self.went_back)
        return RecordHistory(
            self.emitted.get(offset, 0), offset in self.acked, offset in self.acked_early, went_back, self.replays[offset],
            offset in self.tracked, offset in self.loose, offset in self.claimed, offset in self.overtaken,
            is_begun_at=self.begun[-1:] == [offset], **more,
        )  # fmt: skip

    def _gone_back(self, offset: int, who: str) -> RecordHistory:
        """A commit that lies back: what its member had read, whose partition it is, and what the record right before it was."""
        *earlier, last = self.starts.get(who, [0])
        return self._handled(
            offset, is_kept=min(earlier, default=last) <= offset < last, is_behind_its_own=offset - 1 in self.late,
            is_late_failure=offset in self.late_failures, is_former=bool({who, self.committer} - {"", self.owner}),
        )  # fmt: skip

    def _is_processed(self, offset: int) -> bool:
        parts = self.parts.get(offset)
        if parts is None:
            return offset in self.first_processed
        return all((offset, part) in self.processed for part in range(parts))

    def _is_in_flight(self, offset: int) -> bool:
        return self.open_tuples[offset] > 0 if offset in self.open_tuples else offset in self.open_since

    def _lost(self, offset: int) -> tuple[int, int, str]:
        """The step that gave a record up, its offset, and why."""
        if offset in self.given_up:
            step, reason = self.given_up[offset]
            return step, offset, reason
        history = replace(self._handled(offset), times_emitted=0) if offset in self.unread else self._handled(offset)
        reason = self.refused.get(offset) or self.dropped.get(offset) or self.reasons.unseen(history)
        return self.last_step, offset, reason

    def verdict(self, is_cut: bool) -> LaneVerdict:
        """The verdict after the last step; `is_cut` if that is not the end of the story."""
        self._end_stall()
        gone_below = max(self.position or 0, self.log_start)
        for offset in sorted(self.appended_at):
            if offset >= gone_below or offset in self.replaced or self._is_processed(offset):
                continue
            if is_cut and self._is_in_flight(offset):
                continue
            self.tallies["lost"].add(*self._lost(offset))
        late = (ms - self.appended_at[at] for at, ms in self.first_processed.items() if at in self.appended_at)
        return LaneVerdict(
            self.topic,
            self.partition,
            len(self.appended_at) + self.appended_before_cut,
            sum(map(self._is_processed, self.first_processed.keys() | self.parts.keys())) + self.processed_before_cut,
            {kind: tally.done() for kind, tally in self.tallies.items()},
            max(late, default=0),
            replaced=sum(not self._is_processed(each) for each in self.replaced & self.appended_at.keys()),
        )


def _delivered(reasons: type[Reasons]) -> Callable[[str, int, Settings], Ledger]:
    return lambda topic, partition, settings: DeliveryLedger(topic, partition, reasons(settings))


# Which ledger judges a domain's lanes, and by which rules; of any other domain a spout's.
Ledger = DeliveryLedger | ProducerLedger | TransactionLedger  # of one partition
LEDGERS: dict[str, Callable[[str, int, Settings], Ledger]] = {
    "spout": _delivered(Reasons),
    "groups": _delivered(GroupReasons),
    "offsets": _delivered(KeptReasons),
    "incidents": _delivered(OffsetReasons),
    "replication": _delivered(ReplicaReasons),
    "checkpoint": _delivered(CheckpointReasons),
    "share": _delivered(ShareReasons),
    "idempotence": ProducerLedger,
    "send_path": ProducerLedger,
    "source": ProducerLedger,
    "transactions": TransactionLedger,
}
