"""What a commit history says, for people: a line for each partition or group, and a sentence for each sign, with when, by how much and who.

The topic does not say who wrote a commit. The member to which the partition was assigned at that time is
named, when the group's own records tell; of a group without members someone outside has reset it; of the newer
protocols only the number of members is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from confluent_kafka.admin import AdminClient

from kitlib.experiments.cluster_audit.commit_log import CommitLog
from kitlib.lab.brokers.health import broker_value
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.log_ends import LogEnds, Where, topic_ids
from kitlib.monitor.commit_history import Committed, GroupPartition
from kitlib.monitor.rewinds import WEEK_MS, Rewind, Vanished, rewinds, vanished
from kitlib.text import LONG, html_table, plain_text, text_table

Sign = Rewind | Vanished
PARTITION_HEAD = ("partition", "commits", "first", "last", "last at (UTC)", "log end", "lag", "went back", "vanished", "excused", "members")
GROUP_HEAD = ("group", "partitions", "commits", "from (UTC)", "to (UTC)", "members", "went back", "vanished", "excused")
COMMIT_HEAD = ("at (UTC)", "partition", "offset", "step", "by")


def signs_in(
    log: CommitLog, group: str | None = None, retention_ms: int = WEEK_MS, topics: Mapping[str, str] | None = None
) -> dict[GroupPartition, list[Sign]]:
    """The rewinds and vanished commits of each partition of one group or of all; only partitions that have some.

    `retention_ms` is the cluster's own offsets.retention.minutes: what was silent for longer has only expired.
    `topics` are ids of topics as they are now, by name, as `lost_topics` asks for them.
    """
    ids = topics or {}
    found: dict[GroupPartition, list[Sign]] = {}
    for where, commits in log.history.commits.items():
        if group is None or where.group == group:
            signs: list[Sign] = [*rewinds(commits), *vanished(commits, log.seen(where.group), retention_ms, topic_now=ids.get(where.topic))]
            if signs:
                found[where] = sorted(signs, key=lambda sign: seen_at(sign).order)
    return found


def seen_at(sign: Sign) -> Committed:
    """The commit or the tombstone by which a sign was seen."""
    return sign.after if isinstance(sign, Rewind) else sign.tombstone


def who(commit: Committed) -> str:
    """Who wrote a commit, as far as the topic tells."""
    if commit.by is not None:
        return commit.by
    if commit.offset is None:
        return "the coordinator, or who deleted it"
    if commit.members == 0:
        return "somebody outside: the group had no members"
    return "not told" if commit.members is None else f"one of {commit.members} members"


def sentence(where: GroupPartition, sign: Sign) -> str:
    """When, by how much, who, and what excuses it."""
    seen = seen_at(sign)
    if isinstance(sign, Rewind):
        what = f"went back by {sign.records:,}, from {sign.before.offset} to {sign.after.offset}"
    else:
        what = f"vanished at {sign.last.offset}"
        if sign.begun_again is None:
            what += " and has not come again"
        elif step := (sign.begun_again.offset or 0) - (sign.last.offset or 0):
            what += f"; the next commit is {sign.begun_again.offset}, {abs(step):,} {'back' if step < 0 else 'further on'}"
    fault = "" if sign.is_fault else "excused: "
    return f"{at(seen.at_ms)} {where.topic}-{where.partition}: the committed offset {what}; by {who(seen)}; {fault}{sign.excuse.value}."


def at(time_ms: int) -> str:
    """A time of the log for people, in UTC with its milliseconds; the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


@dataclass(frozen=True, slots=True)
class Report:
    """A table, the signs, and what a reader should know; shows itself in a notebook and as text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    signs: tuple[str, ...]
    faults: int  # of the signs those that nothing excuses
    notes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)  # the same for programs

    @property
    def verdict(self) -> str:
        """All of it in a sentence."""
        if not self.signs:
            return "No committed offset went back or vanished."
        what = f"nothing excuses {self.faults} of these" if self.faults else "each has an excuse"
        return f"Committed offsets went back or vanished, so often: {len(self.signs)}; {what}."

    def lines(self) -> list[str]:
        """What stands below the table."""
        return [self.verdict, *(f"  {each}" for each in self.signs), *(f"note: {each}" for each in self.notes)]

    def __repr__(self) -> str:
        table = text_table([self.head, *self.rows], left=len(self.head))
        return "\n".join([plain_text(self.title, LONG), *table, *(plain_text(line, LONG) for line in self.lines())])

    def _repr_html_(self) -> str:
        return html_table(self.head, self.rows) + html_table(["what it tells"], [[line] for line in self.lines()])


def group_report(
    log: CommitLog,
    group: str,
    log_ends: Mapping[Where, int] | None = None,
    skipped: Mapping[Where, str] | None = None,
    retention_ms: int = WEEK_MS,
    topics: Mapping[str, str] | None = None,
) -> Report:
    """One group: a row for each partition. Log ends that are not known leave their cells empty, with the reason as a note."""
    ends, reasons = log_ends or {}, skipped or {}
    signs = signs_in(log, group, retention_ms, topics)
    rows, data = [], []
    for where, commits in log.partitions(group).items():
        place = (where.topic, where.partition)
        known = [each for each in commits if each.offset is not None]
        last, end = commits[-1], ends.get(place)
        lag = None if last.offset is None or end is None else max(0, end - last.offset)
        found = signs.get(where, [])
        rows.append((
            f"{where.topic}-{where.partition}", str(len(known)), _cell(known[0].offset if known else None), _cell(last.offset, "none"),
            at(last.at_ms), _cell(end), _cell(lag), *_counts(found), _cell(last.members),
        ))  # fmt: skip
        data.append({
            "topic": where.topic, "partition": where.partition, "committed": last.offset, "log_end": end, "lag": lag,
            "commits": [_as_json(each) for each in commits], "signs": [_sign_json(each) for each in found],
        })  # fmt: skip
    notes = [*log.notes(), *(f"{topic}-{partition}: {why}" for (topic, partition), why in reasons.items())]
    if log.removed > 0:
        notes.append(f"{log.removed} offsets of the topic have no record any more: compaction has taken them, or they are markers.")
    told = tuple(sentence(where, each) for where, found in signs.items() for each in found)
    faults = sum(each.is_fault for found in signs.values() for each in found)
    return Report(f"group {group}", PARTITION_HEAD, tuple(rows), told, faults, tuple(notes), {"group": group, "partitions": data})


def groups_report(log: CommitLog, retention_ms: int = WEEK_MS, topics: Mapping[str, str] | None = None) -> Report:
    """All groups: a row for each."""
    signs = signs_in(log, None, retention_ms, topics)
    rows, data = [], []
    for group in log.groups():
        commits = [each for found in log.partitions(group).values() for each in found]
        found = [each for where, some in signs.items() if where.group == group for each in some]
        seen = log.seen(group)
        first_ms, last_ms = min(each.at_ms for each in commits), max(each.at_ms for each in commits)
        known = sum(each.offset is not None for each in commits)
        members = seen[-1].members if seen else None
        rows.append((
            group, str(len(log.partitions(group))), str(known), at(first_ms), at(last_ms), _cell(members), *_counts(found),
        ))  # fmt: skip
        data.append({
            "group": group, "partitions": len(log.partitions(group)), "commits": known, "first_ms": first_ms, "last_ms": last_ms,
            "members": members, "signs": [_sign_json(each) for each in found],
        })  # fmt: skip
    told = tuple(f"{where.group}: {sentence(where, each)}" for where, some in signs.items() for each in some)
    faults = sum(each.is_fault for some in signs.values() for each in some)
    return Report("groups", GROUP_HEAD, tuple(rows), told, faults, tuple(log.notes()), {"groups": data})


def commit_rows(log: CommitLog, group: str, last: int) -> list[tuple[str, ...]]:
    """The last commits of a group in the order of the log, each with its step from the one before."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for where, commits in log.partitions(group).items():
        before: int | None = None
        for each in commits:
            step = "" if before is None or each.offset is None else f"{each.offset - before:+d}"
            offset = "none (tombstone)" if each.offset is None else str(each.offset)
            found.append((each.order, (at(each.at_ms), f"{where.topic}-{where.partition}", offset, step, who(each))))
            before = each.offset
    return [row for _, row in sorted(found, key=lambda each: each[0])][-last:] if last > 0 else []


def _counts(signs: Sequence[Sign]) -> tuple[str, str, str]:
    """How often nothing excuses a step back, a vanished commit; how many of both have an excuse."""
    faults = [each for each in signs if each.is_fault]
    back = sum(isinstance(each, Rewind) for each in faults)
    return str(back), str(len(faults) - back), str(len(signs) - len(faults))


def _cell(value: object, nothing: str = "") -> str:
    return nothing if value is None else str(value)


def _as_json(commit: Committed) -> dict[str, Any]:
    return {"order": commit.order, "at_ms": commit.at_ms, "offset": commit.offset, "by": commit.by, "members": commit.members}


def _sign_json(sign: Sign) -> dict[str, Any]:
    seen = seen_at(sign)
    kind = "rewind" if isinstance(sign, Rewind) else "vanished"
    before = sign.before if isinstance(sign, Rewind) else sign.last
    return {
        "kind": kind, "at_ms": seen.at_ms, "order": seen.order, "from": before.offset, "to": seen.offset, "by": who(seen),
        "excuse": sign.excuse.name.lower(), "is_fault": sign.is_fault,
    }  # fmt: skip


# -- what has to be asked ---------------------------------------------------------------------------


def report_of(cluster: Cluster, log: CommitLog, group: str | None, retention_ms: int | None = None) -> Report:
    """A group's report with the log ends of now, or that of all groups; by the cluster's own retention of offsets.

    Topics of which a commit has vanished are looked for: a deleted one takes its offsets with it. LabError when no
    broker answers.
    """
    kept_ms = retention_of(cluster) if retention_ms is None else retention_ms
    topics = lost_topics(cluster, log, group, kept_ms)
    if group is None:
        return groups_report(log, kept_ms, topics)
    found = LogEnds.of(cluster).ends([(where.topic, where.partition) for where in log.partitions(group)])
    return group_report(log, group, found.offsets, found.skipped, kept_ms, topics)


def lost_topics(cluster: Cluster, log: CommitLog, group: str | None, retention_ms: int) -> dict[str, str]:
    """The ids that topics have now of which a commit has vanished without another excuse, as `topic_ids`; others are not asked for."""
    signs = signs_in(log, group, retention_ms)
    names = {where.topic for where, found in signs.items() for each in found if isinstance(each, Vanished) and each.is_fault}
    return topic_ids(AdminClient(client_config(cluster)), names) if names else {}


def retention_of(cluster: Cluster) -> int:
    """How long the cluster keeps the offsets of a group without members, in ms; a week when it does not tell."""
    minutes = broker_value(cluster, "offsets.retention.minutes")
    return int(minutes) * 60_000 if minutes is not None and minutes.isdecimal() else WEEK_MS
