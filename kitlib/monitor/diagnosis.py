"""What is wrong with a group now, and why: rules over what was observed, and over nothing else.

A `GroupSnapshot` holds the facts of one moment: what the coordinator answers, where each log begins and ends, which members
hold what, and the group's own records in __consumer_offsets. A fact that was not observed is None and never counts as good.
Lag alone says little, because a group that is caught up looks the same dead or alive. So the rules ask in turn: can the
offset be used, does a member hold the partition, does anything wait, behind what, and since when has nothing moved?

`NOW` has these questions in order, and the first that applies decides about a partition. `history` tells what the group's
records say of its past. Burrow's rules judge the shape of a window, which takes several looks; `burrow` has their answer,
and only their "slow" decides anything here.

Left out: Kafka Streams' own protocol, and who wrote a commit: the offsets topic does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise
from statistics import median

from kitlib.mechanisms.lag import Commit, Judgement, Window, calculate
from kitlib.monitor.commit_history import Committed, GroupSeen
from kitlib.monitor.rewinds import (
    NO_TOPIC,
    WEEK_MS,
    Excuse,
    Rewind,
    Vanished,
    in_order,
    is_other_topic,
    rewinds,
    vanished,
)

PATIENCE_MS = 10_000  # twice auto.commit.interval.ms: by then a consumer at work has committed
LONGEST_PATIENCE_MS = 300_000  # max.poll.interval.ms: by then a Java consumer that does not poll has left
AGAIN = 3  # commits of one offset while a record waits at it: the consumer fails on that record
FROM_LOGS = ("no lag", "rewound", "stalled")  # those of Burrow's rules that need no earlier log end
ONE_LOOK = "it cannot be judged from one look"
STABLE = ("STABLE", "Stable")
DELETED = "topic deleted"


class Grade(IntEnum):
    """What a finding means for the group, the worst last."""

    WELL = 0
    NOTE = 1  # worth knowing, and nothing wrong
    UNKNOWN = 2
    WRONG = 3


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction at which a read_committed reader has to stop."""

    first_offset: int
    producer_id: int
    transactional_id: str | None = None  # None: no coordinator knows it as open, so it will never end by itself
    since_ms: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What an earlier look saw of a partition."""

    at_ms: int
    done: int | None  # as `PartitionSeen.done`
    end: int


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """One partition as the group has it."""

    topic: str
    partition: int
    committed: int | None  # the coordinator's answer, for a share group the start offset; None: it has none
    start: int | None = None  # of the log; None: not observed, as for the next two
    end: int | None = None  # the high watermark
    stable: int | None = None  # the last stable offset, where read_committed readers stop; <= end
    trouble: str = ""  # why the log was not observed
    held_by: str | None = None  # the member that it is assigned to
    topic_id: str | None = None  # now; NO_TOPIC: there is none
    commits: Sequence[Committed] = ()  # the group's own records, in the order of the log
    asked_ms: int | None = None  # when the coordinator was asked, before its log was read
    waiting_since_ms: int | None = None  # the time of the first record at or above `committed` that may be read
    is_producer_time: bool = False  # that time is its producer's word, not the broker's
    is_unread: bool = False  # whether a record lies there could not be read
    first_at_ms: int | None = None  # the time of the log's first record, if it lies below `committed`
    transaction: OpenTransaction | None = None
    looks: Sequence[Look] = ()  # earlier ones, oldest first
    told_lag: int | None = None  # of a share group, which finishes records in any order: its coordinator's count

    @property
    def lag(self) -> int | None:
        """Offsets between the committed one and the end; below 0 outside the log, None when either is not known."""
        return self.told_lag if self.told_lag is not None or self.done is None or self.end is None else self.end - self.done

    @property
    def done(self) -> int | None:
        """How far it has come: the committed offset, or for a share group the end less what waits."""
        return self.committed if self.told_lag is None or self.end is None else self.end - self.told_lag

    @property
    def last_commit(self) -> Committed | None:
        """The last record about this partition; a tombstone counts."""
        return self.commits[-1] if self.commits else None

    @property
    def has_moved(self) -> bool:
        """Whether the group has come further since an earlier look."""
        return any(each.done is not None and self.done is not None and each.done < self.done for each in self.looks)


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The group at one moment."""

    group: str
    at_ms: int
    partitions: Sequence[PartitionSeen] = ()
    protocol: str = "classic"  # or "consumer", "share"
    state: str | None = None  # the coordinator's word for it
    members: Sequence[str] | None = None  # None: not observed
    seen: Sequence[GroupSeen] = ()  # how the group stood over time, by its own records
    retention_ms: int = WEEK_MS
    notes: Sequence[str] = ()

    @property
    def assigned_since_ms(self) -> int | None:
        """When the present members got their partitions, by the group's own records."""
        return self.seen[-1].at_ms if self.seen and self.seen[-1].members else None


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says: its name, what that means, the sentence with the numbers, and what to do."""

    rule: str
    grade: Grade
    why: str
    todo: str = ""
    where: tuple[str, int] | None = None  # None: the whole group

    def __str__(self) -> str:
        place = "" if self.where is None else f"{self.where[0]}-{self.where[1]}: "
        return f"{place}{self.rule}: {self.why} {self.todo}".rstrip()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, worst first, and the one verdict that title, sentence and exit code share."""

    snapshot: GroupSnapshot
    findings: tuple[Finding, ...]
    decided: dict[tuple[str, int], Finding] = field(default_factory=dict)  # by partition: the answer of `NOW`

    @property
    def verdict(self) -> str:
        """What the worst finding makes of the group."""
        return ("healthy", "healthy", "cannot be judged", "not healthy")[self.findings[0].grade]

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 not, 2 could not be judged."""
        return (0, 0, 2, 1)[self.findings[0].grade]

    @property
    def sentence(self) -> str:
        """The verdict and its first reason."""
        alike = sum(each.grade == self.findings[0].grade for each in self.findings) - 1 if self.exit_code else 0
        return f"Group {self.snapshot.group}: {self.verdict}. {self.findings[0]}" + (f" And {alike} more like this." if alike else "")

    @property
    def total_lag(self) -> int:
        """The sum over partitions in which it is known; an offset beyond the end counts as 0."""
        return sum(max(0, each.lag or 0) for each in self.snapshot.partitions)

    @property
    def lag_told(self) -> str:
        """The same, with what is known of it."""
        is_more = any(each.topic_id != NO_TOPIC and (each.lag is None or each.lag < 0) for each in self.snapshot.partitions)
        return f"{self.total_lag:,}" + (" or more" if is_more else "")


def diagnose(group: GroupSnapshot) -> Diagnosis:
    """What is wrong with this group."""
    findings, decided = list[Finding](), dict[tuple[str, int], Finding]()
    for part in group.partitions:
        where = (part.topic, part.partition)
        now = next(each for rule in NOW if (each := rule(group, part)))
        told = [replace(each, where=where) for each in (now, why_answer_differs(part), *history(group, part)) if each]
        decided[where], findings = told[0], findings + told
    if all(each.rule == DELETED for each in decided.values()):
        findings.append(why_nothing_is_left(group))
    return Diagnosis(group, tuple(sorted(findings, key=lambda each: -each.grade)), decided)


def why_nothing_is_left(group: GroupSnapshot) -> Finding:
    """The group has committed nothing and holds no partition, in any topic that there is."""
    why = "of the topics that exist, the group has committed nothing and holds no partition"
    if group.members is None:
        return unknown("nothing committed", f"{why}; its members, of the protocol {group.protocol}, were not observed.")
    if not group.members:
        return wrong("no member", f"{why}, and it has no member.", "Start its consumers.")
    if group.state not in STABLE:
        return unknown("rebalancing", f"{why}; it has {len(group.members)} members and is {group.state}.")
    todo = "Look whether the topics that they subscribe to exist, and whether the members may see them."
    return wrong("nothing assigned", f"{why}, although it has {len(group.members)} members.", todo)


def well(rule: str, why: str) -> Finding:
    """Observed, and good."""
    return Finding(rule, Grade.WELL, why)


def unknown(rule: str, why: str) -> Finding:
    """Not observed, or not for long enough."""
    return Finding(rule, Grade.UNKNOWN, why)


def wrong(rule: str, why: str, todo: str = "") -> Finding:
    """Observed, and bad."""
    return Finding(rule, Grade.WRONG, why, todo)


def told_starts(part: PartitionSeen) -> str:
    """Where a consumer begins that cannot use its committed offset, by auto.offset.reset."""
    start, end = part.start or 0, part.end or 0
    count = f"{end - start:,} records"
    return (
        f"The next start by auto.offset.reset: earliest starts at {start} and reads {count}, whether they have been processed or not; "
        f"latest starts at {end} and never reads the {count} before it; none stops with an error; by_duration starts at the first "
        "record within its span."
    )


def told_reset(group: GroupSnapshot, part: PartitionSeen) -> str:
    """How to choose the place by hand."""
    what = f"--group {group.group} --topic {part.topic}:{part.partition} --to-offset N --execute"
    return f"To choose the place yourself, stop the members and run kafka-consumer-groups.sh --reset-offsets {what}."


Rule = Callable[[GroupSnapshot, PartitionSeen], Finding | None]


def why_not_observed(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """Where the log begins and ends is not known; that the topic, or its partition, is gone is known."""
    if part.topic_id == NO_TOPIC:
        return Finding(DELETED, Grade.NOTE, f"{part.trouble or 'there is no such topic'} any more, and its committed offsets went with it.")
    if part.start is None or part.end is None:
        return unknown("not observed", f"where the log begins and ends is not known: {part.trouble or 'it was not asked'}.")
    return None


def why_made_anew(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """The committed offset counts the records of another log: the topic's id has changed, or the log is younger than the commit."""
    last, first_ms = part.last_commit, part.first_at_ms or 0
    if last is None or last.offset is None or part.committed is None:
        return None
    if is_other_topic(last.topic_id, part.topic_id):
        why = f"offset {last.offset} was committed for topic id {last.topic_id}, and the topic's id is now {part.topic_id}"
    elif not (last.topic_id and part.topic_id) and first_ms > last.at_ms and (part.start or 0) < part.committed:
        why = f"offset {part.committed} was committed {span(first_ms - last.at_ms)} before the first record of the log was written"
    else:
        return None
    told = f"{why}: the number means nothing in this log, which has offsets {part.start} to {part.end}. {told_starts(part)}"
    return wrong("topic made anew", told, told_reset(group, part))


def why_outside(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """The log does not have the committed offset."""
    committed, start, end = part.committed, part.start or 0, part.end or 0
    if committed is not None and committed > end:
        why = f"committed is {committed}, {committed - end:,} beyond the end of the log, {end}. {told_starts(part)} Once the log has grown"
        why += f" past {committed} no policy applies: the {committed - end:,} records from {end} on are skipped in silence."
        return wrong("outside the log, beyond its end", why, told_reset(group, part))
    if committed is not None and committed < start and group.protocol == "share":  # it stays there until someone answers
        lag, held = part.told_lag or 0, end - start
        why = f"{lag:,} records wait, and the log, {start} to {end}, has {held:,}: {lag - held:,} were deleted before the group was done."
        return wrong("outside the log, below its start", f"{why} It goes on at {start}.") if lag > held else None
    if committed is not None and committed < start:
        why = f"committed is {committed}, {start - committed:,} below the start of the log, {start}: these records are gone."
        return wrong("outside the log, below its start", f"{why} {told_starts(part)}", told_reset(group, part))
    return None


def why_no_commit(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """There is no committed offset: never, or no longer."""
    count, starts = (part.end or 0) - (part.start or 0), told_starts(part)
    is_open = part.held_by is None and (not count or group.members is None or (group.members and group.state not in STABLE))
    if part.committed is not None or is_open:  # who holds it is asked next
        return None
    gone = [each for each in signs(group, part) if isinstance(each, Vanished) and each.begun_again is None]
    if gone and count:
        rule = "topic made anew" if gone[-1].excuse is Excuse.NEW_TOPIC else "offset vanished"
        return wrong(rule, f"{gone[-1]}. {starts}", told_reset(group, part))
    if group.protocol == "share" and (count or part.held_by is None):
        why = "its coordinator has no start offset here before the first answer for a record, so what waits is not known"
        return unknown("no answer yet", f"{why}; {ONE_LOOK}.")
    if not count:
        return well("nothing to read", f"{part.held_by} holds it, the log is empty, and nothing was committed.")
    if part.held_by is None and never_joined(group):
        why = f"the group commits without members and has committed nothing here; whether it is to read the {count:,} records is not known"
        return unknown("without membership", f"{why}.")
    if part.held_by is None:
        return wrong("never committed", f"no offset is committed, no member holds it, and {count:,} records wait. {starts}")
    since_ms = group.assigned_since_ms
    why = f"{part.held_by} holds it and has never committed, with {count:,} records in the log"
    if since_ms is None or group.at_ms - since_ms < PATIENCE_MS:
        how = "since when is not known" if since_ms is None else f"only for {span(group.at_ms - since_ms)}"
        return unknown("never committed", f"{why}; {how}, so {ONE_LOOK}. {starts}")
    todo = "Check that the program commits (enable.auto.commit, commitSync) and that it polls."
    return wrong("assigned and never committed", f"{why}, for {span(group.at_ms - since_ms)}. {starts}", todo)


def why_not_held(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """No member holds the partition: there is none, or it reads something else, or a rebalance goes on."""
    if part.held_by is not None:
        return None
    if group.members is None:
        return unknown("members not observed", "who is a member was not observed, so whether anyone reads is not known.")
    lag, last = part.lag or 0, part.last_commit
    waits = f"{lag:,} offsets wait" if lag else "nothing waits now"
    if group.members and group.state not in STABLE:
        return unknown("rebalancing", f"the group is {group.state}: its partitions are being assigned, and {waits}.")
    if group.members and not any(each.held_by for each in group.partitions if each.topic == part.topic):
        why = f"the group has {len(group.members)} members, and none of them has a partition of {part.topic}: {waits}."
        drop = f"kafka-consumer-groups.sh --delete-offsets --group {group.group} --topic {part.topic}"
        todo = f"If this is intended, {drop}; otherwise subscribe to it again."
        return Finding("no longer subscribed", Grade.WRONG if lag else Grade.NOTE, why, todo)
    if group.members:
        return wrong("not assigned", f"members hold other partitions of {part.topic}, but not this one: {waits}.")
    silent_ms = None if last is None else group.at_ms - last.at_ms
    ago = "" if last is None or silent_ms is None else f"; the last commit, of {last.offset}, is {span(silent_ms)} old"
    if never_joined(group) and last is None:
        return Finding("nothing to read", Grade.NOTE, "the log is empty, and the group, which has no members, has committed nothing here.")
    if never_joined(group) and silent_ms is not None:
        why = f"whoever commits here has never been a member (a consumer with assign(), or a tool), and {waits}{ago}"
        if part.has_moved:
            return well("without membership", f"{why}; the offset has moved between two looks.")
        if not lag or silent_ms < PATIENCE_MS:
            return unknown("without membership", f"{why}; whether anyone reads, {ONE_LOOK}.")
    if lag and last and silent_ms is not None and last.at_ms < (part.waiting_since_ms or 0) <= group.at_ms:
        why = f"the group had read everything at its last commit, of {last.offset}, {span(silent_ms)} ago. Since then {lag:,} records came"
        return wrong("died while caught up", f"{why}, and there is no member to read them.", "Start its consumers.")
    after = waits if lag else f"{waits}, and what comes will not be read"
    return wrong("no member", f"the group has no member: {after}{ago}.", "Start its consumers.")


def never_joined(group: GroupSnapshot) -> bool:
    """Whether the group has commits and no record of a membership; one whose members have left has it."""
    return not any(not each.is_gone for each in group.seen) and any(each.commits for each in group.partitions)


def why_nothing_waits(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """A member holds it, and everything is committed, or only markers and aborted records are left."""
    if not part.lag:
        given_up = "" if part.told_lag is None else ", be it accepted or given up, which the coordinator does not tell"
        return well("caught up", f"{part.held_by} holds it, and nothing waits{given_up}.")
    if part.is_unread:
        return unknown("not observed", f"whether a record is among the {part.lag:,} offsets that are left could not be read.")
    if part.waiting_since_ms is None and part.stable == part.end and part.told_lag is None:
        what = "markers, and records of aborted transactions or that were compacted away"
        return well("caught up", f"the {part.lag:,} offsets left hold no record to read: {what}.")
    return None


def why_transaction(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """Everything in front of an open transaction is read."""
    stable, end, found = part.stable, part.end or 0, part.transaction
    if stable is None or stable >= end or (part.committed or 0) > stable or part.waiting_since_ms is not None:
        return None
    rule, behind = "stands before an open transaction", f"{end - stable:,} offsets lie behind it"
    if found is None:
        return unknown(rule, f"it begins at {stable}, and {behind}; no broker says whose it is.")
    who = f"producer {found.producer_id}" + (f" ({found.transactional_id!r})" if found.transactional_id else "")
    since = "" if found.since_ms is None else f", open for {span(group.at_ms - found.since_ms)}"
    why = f"a read_committed consumer stops at {stable}: there begins the transaction of {who}{since}; {behind}."
    abort = f"kafka-transactions.sh abort --topic {part.topic} --partition {part.partition} --start-offset {found.first_offset}"
    if found.transactional_id is None:
        why += " No coordinator knows it, so it never ends by itself."
        return wrong("stands before a hanging transaction", why, f"End it: {abort}.")
    if found.since_ms is not None and group.at_ms - found.since_ms < PATIENCE_MS:
        return unknown(rule, f"{why} That is not long yet; {ONE_LOOK}.")
    ends = "" if found.timeout_ms is None else f" Its coordinator aborts it {found.timeout_ms / 1_000:g} s after it began."
    return wrong(rule, why, f"Let its producer commit or abort. To end it, start a producer with that transactional id, or {abort}.{ends}")


def why_slow(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """Burrow's rule for a consumer that works and never gets closer to the end, and the lag has grown as well."""
    judged = burrow(group, part)
    if judged is None or judged.rule != "slow" or (part.lag or 0) <= max(0, part.looks[0].end - (part.looks[0].done or 0)):
        return None
    return wrong("slow", f"Burrow's rule: {judged.why}; it is {part.lag} now.", "Add members, or do less work for each record.")


def why_stuck(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """The same offset is committed again and again while a record waits at it: by an earlier look, or by the broker's time of it."""
    came_ms = next((each.at_ms for each in part.looks if each.end > (part.committed or 0)), None)
    if not part.is_producer_time:
        came_ms = part.waiting_since_ms
    again = [each.at_ms for each in part.commits if came_ms is not None and each.at_ms >= came_ms and each.offset == part.committed]
    if len(again) < AGAIN:
        return None
    why = f"offset {part.committed} was committed {len(again)} times within {span(again[-1] - again[0])}, while the record there waits"
    return wrong("stuck", f"{why}; {part.lag:,} offsets wait behind it.", "Look at that record, and at the consumer's errors.")


def why_moving(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """The group has come further between two looks; or its commits go forward in a rhythm, and the last one is in time."""
    offsets = [each.offset for each in part.commits if each.offset is not None][-2:]
    still_ms, gap_ms = still_for_ms(group, part), usual_gap_ms(part)
    is_moving = part.has_moved and still_ms is not None and still_ms < patience_ms(part)
    if gap_ms is not None and len(offsets) == 2 and offsets[0] < offsets[1]:
        is_moving = is_moving or group.at_ms - part.commits[-1].at_ms <= 2 * gap_ms
    return well("reads", f"{part.held_by} holds it and moves forward; {part.lag:,} offsets wait.") if is_moving else None


def why_silent(group: GroupSnapshot, part: PartitionSeen) -> Finding | None:
    """A member holds the partition, a record waits, and nothing was committed for longer than the group ever takes."""
    still_ms, most_ms = still_for_ms(group, part), patience_ms(part)
    if still_ms is None or still_ms < most_ms:
        return None
    is_old = part.is_producer_time and part.last_commit and (part.waiting_since_ms or 0) < part.last_commit.at_ms
    there = ", by its producer's clock since before the last commit" if is_old else ""
    why = f"{part.held_by} holds it, a record waits at {part.committed}{there}, and nothing was committed for {span(still_ms)}, longer than"
    why += f" the {span(most_ms)} that this group may take; {part.lag:,} offsets wait."
    others = [each.commits[-1].at_ms for each in group.partitions if each.held_by == part.held_by and each.commits]
    if max(others, default=0) > group.at_ms - still_ms + PATIENCE_MS // 2:
        todo = "Other partitions of it were committed since, so it polls: look whether this one is paused, and whether that record fails."
        return wrong("assigned and not read", why, todo)
    todo = "Its heartbeats come from a thread of their own: look whether the application polls, and what its last batch does."
    return wrong("assigned and nobody polls", why, todo)


def why_unknown(group: GroupSnapshot, part: PartitionSeen) -> Finding:
    """A record waits, and it is too early to tell."""
    still_ms = still_for_ms(group, part)
    how = "since when is not known" if still_ms is None else f"for {span(still_ms)}"
    return unknown("waits", f"{part.held_by} holds it, and {part.lag:,} offsets wait, {how}; whether it reads, {ONE_LOOK}.")


NOW: tuple[Rule, ...] = (
    why_not_observed, why_made_anew, why_outside, why_no_commit, why_not_held, why_nothing_waits, why_transaction, why_slow,
    why_stuck, why_moving, why_silent, why_unknown,
)  # fmt: skip


def still_for_ms(group: GroupSnapshot, part: PartitionSeen) -> int | None:
    """For how long a reader has had something to do and has not moved; None when nothing tells since when."""
    moved = [each.at_ms for each in part.looks if each.done != part.done or each.end <= (each.done or 0)][-1:]
    came_ms = part.waiting_since_ms
    if came_ms is not None and part.is_producer_time and came_ms > group.at_ms:
        came_ms = None  # a producer's clock that is ahead, or a time of its own choice
    if (part.last_commit is None or came_ms is None) and part.looks:
        moved = moved or [part.looks[0].at_ms]
    if not moved and (part.last_commit is None or came_ms is None):
        return None
    committed_ms = None if part.last_commit is None else part.last_commit.at_ms
    since = [committed_ms, came_ms, group.assigned_since_ms, *moved]
    return max(0, group.at_ms - max(each for each in since if each is not None))


def usual_gap_ms(part: PartitionSeen) -> int | None:
    """The time between two commits; None before the second."""
    gaps = [after.at_ms - before.at_ms for before, after in pairwise(part.commits)]
    return round(median(gaps)) if gaps else None


def patience_ms(part: PartitionSeen) -> int:
    """How long the group may take: three times as long as between two of its commits, within bounds."""
    return min(LONGEST_PATIENCE_MS, max(PATIENCE_MS, 3 * (usual_gap_ms(part) or 0)))


def span(duration_ms: int) -> str:
    """A duration as people say it."""
    seconds = max(0, duration_ms) / 1_000
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:,.0f} h"


def why_answer_differs(part: PartitionSeen) -> Finding | None:
    """The coordinator answers neither the last record of its own log nor one written since it was asked."""
    if part.asked_ms is None or not part.commits:
        return None
    since = sum(each.at_ms >= part.asked_ms for each in part.commits)
    if part.committed in {each.offset for each in part.commits[-1 - since :]}:
        return None
    answered, logged = ("no offset" if each is None else str(each) for each in (part.committed, part.commits[-1].offset))
    why = f"the coordinator answers {answered}, and the last record of its log says {logged}: its cache was loaded wrongly."
    return wrong("coordinator differs from its log", why, "Move the coordinator: restart the broker that leads the group's partition.")


def signs(group: GroupSnapshot, part: PartitionSeen) -> list[Rewind | Vanished]:
    """Every step back and every offset that vanished, in the order of the log."""
    gone = vanished(part.commits, group.seen, group.retention_ms, topic_now=part.topic_id)
    return sorted([*rewinds(part.commits), *gone], key=lambda each: seen_at(each).order)


def seen_at(sign: Rewind | Vanished) -> Committed:
    """The commit or the tombstone that shows a sign."""
    return sign.after if isinstance(sign, Rewind) else sign.tombstone


def history(group: GroupSnapshot, part: PartitionSeen) -> list[Finding]:
    """What the group's records say of its past; only what still holds is wrong."""
    found, names = [], {Excuse.NEW_TOPIC: "topic made anew", Excuse.BY_HAND: "reset by hand"}
    for sign in signs(group, part):
        if sign.excuse is Excuse.MADE_GOOD or (isinstance(sign, Vanished) and sign.begun_again is None):
            continue  # a late commit; or an offset that is still gone, which is a fact of the moment
        rule = names.get(sign.excuse, "rewound" if isinstance(sign, Rewind) else "offset vanished")
        if isinstance(sign, Rewind) and sign.is_fault and sign.made_good_at is None:
            todo = "These records are processed again: look for a member that was given an old offset."
            found.append(wrong(rule, f"{sign}.", todo))
        else:
            over = " It has been reached again since." if isinstance(sign, Rewind) and sign.is_fault else ""
            found.append(Finding(rule, Grade.NOTE, f"{sign}.{over}"))
    for before, after in pairwise(in_order(part.commits) if any(each.members for each in group.seen) else ()):
        if after.members == 0 and before.offset is not None and after.offset is not None and after.offset > before.offset:
            why = f"at {after.at_ms} the offset was set from {before.offset} to {after.offset} while the group had no members"
            found.append(Finding("reset by hand", Grade.NOTE, f"{why}: up to {after.offset - before.offset:,} records were skipped."))
    return found


def burrow(group: GroupSnapshot, part: PartitionSeen, slots: int = 10) -> Judgement | None:
    """What Burrow's rules say of the last commits; None without a commit, or where they need more looks than there were.

    A commit's lag is known only if a look came before it: where a log ended earlier cannot be asked afterwards.
    """
    last_tombstone = max((index for index, each in enumerate(part.commits) if each.offset is None), default=-1)
    commits = part.commits[last_tombstone + 1 :][-slots:]
    if not commits or part.lag is None:
        return None

    def told(commit: Committed) -> Commit:
        ends = [each.end for each in part.looks if each.at_ms <= commit.at_ms]
        return Commit(commit.offset or 0, commit.at_ms, max(0, ends[-1] - (commit.offset or 0)) if ends else None, commit.order)

    window, ends = [told(each) for each in commits], [*(each.end for each in part.looks), part.end or 0][-slots:]
    judged = calculate(Window(window, ends, max(0, part.lag), group.at_ms // 1000))
    is_known = len(part.looks) > 1 and (judged.rule != "slow" or sum(each.lag is not None for each in window) >= AGAIN)
    return judged if is_known or judged.rule in FROM_LOGS else None
