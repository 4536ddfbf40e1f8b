"""The health figures of a real cluster's offsets: asked of the brokers where they still tell, else reckoned from the topic.

Each figure says where it comes from, and what the broker calls it over JMX. One more is looked at that no gauge
shows: whether the coordinators answer what the topic says last. A cache that was loaded wrongly answers an
offset that the log has long replaced, or none, and every consumer of the group believes it.

Left out: how long the last load took; a broker tells it in its log alone, at a level that the kit's have off.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from kitlib.experiments.cluster_audit.commit_log import CommitLog, add_records, watched
from kitlib.lab.brokers.health import (
    Answers,
    Cached,
    PartitionFiles,
    cached_offsets,
    files_of,
    list_groups,
    unseen_topics,
)
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, OffsetsTopic, RawRecord
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.health import THRESHOLDS, Alarm, Health, Threshold, not_judged, ringing
from kitlib.more.hashes import group_partition
from kitlib.text import LONG, html_table, plain_text, text_table

RATE_MS = 600_000  # the commit rate is that of the last ten minutes
MINUTE_MS = 60_000
HEAD = ("figure", "value", "read from", "over JMX")
TRIM_EACH = 50_000  # records
SKEW_MS = 5_000  # by which the brokers' clocks may differ from this one
MOST_TOLD = 20  # wrong answers that are told one by one
NAMES_TOLD = 3  # groups or topics that a note names


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A coordinator answers something else than what the topic says last."""

    where: GroupPartition
    answered: int | None  # None: that there is no committed offset
    logged: int | None  # None: the topic's last record is a tombstone, or there is none

    def __str__(self) -> str:
        answered = "no offset" if self.answered is None else str(self.answered)
        logged = "none" if self.logged is None else str(self.logged)
        return f"{self.where}: the coordinator answers {answered}, and the last record of the topic says {logged}"


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    """One look: the figures, the alarms that ring, and the answers that are wrong."""

    health: Health
    alarms: tuple[Alarm, ...]
    wrong: tuple[WrongAnswer, ...]
    sources: Mapping[str, str]  # of each figure
    notes: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        return not self.alarms and not self.wrong

    def rows(self) -> list[tuple[str, str, str, str]]:
        """A row for each figure; one that is not known says so."""
        now = self.health
        told = {
            "dirty ratio": None if now.dirty_ratio is None else f"{now.dirty_ratio:.2f}",
            "since the cleaner's last pass": None if now.since_cleaned_ms is None else f"{now.since_cleaned_ms / 1000:,.0f} s",
            "records before the active segment": None if now.records is None else f"{now.records:,}",
            "keys with a value": None if now.keys is None else f"{now.keys:,}",
            "offset cache size": None if now.cached_offsets is None else f"{now.cached_offsets:,}",
            "group count": None if now.groups is None else f"{now.groups:,}",
            "commits a minute": None if now.commits_a_minute is None else f"{now.commits_a_minute:,.1f}",
        }
        return [(name, value or "not known", self.sources.get(name, ""), JMX.get(name, "")) for name, value in told.items()]

    def lines(self) -> list[str]:
        """What stands below the table."""
        told = [f"alarm: {_rung(each)}" for each in self.alarms]
        told += [f"wrong answer: {each}." for each in self.wrong[:MOST_TOLD]]
        if len(self.wrong) > MOST_TOLD:
            told.append(f"and {len(self.wrong) - MOST_TOLD} more wrong answers.")
        told = told or ["No alarm rings, and every coordinator answers what the topic says."]
        return [*told, *(f"note: {each}" for each in self.notes)]

    def __repr__(self) -> str:
        table = text_table([HEAD, *self.rows()], left=len(HEAD))
        return "\n".join([*table, *(plain_text(line, LONG) for line in self.lines())])

    def _repr_html_(self) -> str:
        return html_table(HEAD, self.rows()) + html_table(["what it tells"], [[line] for line in self.lines()])


def _rung(alarm: Alarm) -> str:
    return f"{alarm.threshold.name} is {alarm.value:g}, above {alarm.threshold.bound:g}: {alarm.threshold.why}."


JMX = {  # time-since-last-run-ms is no sign of a pass: it is that of the cleaner's last look, whether it cleaned or not
    "dirty ratio": "mechanisms.log:type=LogCleanerManager,name=max-dirty-percent",
    "offset cache size": "kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets",
    "group count": "kafka.server:type=group-coordinator-metrics,protocol=...: group-count",
    "commits a minute": "kafka.server:type=group-coordinator-metrics: offset-commit-rate",
}


def look_at_health(
    cluster: Cluster, before: Health | None = None, thresholds: tuple[Threshold, ...] = THRESHOLDS, topic: str = OFFSETS_TOPIC
) -> HealthSnapshot:
    """The figures now, and the alarms they ring after those of the look `before`. LabError when the brokers do not answer."""
    admin = AdminClient(client_config(cluster))
    files = files_of(cluster, topic)
    asked_ms = round(time.time() * 1000) - SKEW_MS
    groups = list_groups(admin)
    answers = cached_offsets(cluster, admin, groups)
    log, closed = read_all(cluster, topic, {each.partition: each.active for each in files}, asked_ms - RATE_MS)
    now_ms = round(time.time() * 1000)
    wrong = wrong_answers(answers.offsets, log, asked_ms)
    again = cached_offsets(cluster, admin, sorted({each.where.group for each in wrong}))
    unseen = unseen_topics(admin, (each.where.topic for each in wrong if each.answered is None))
    wrong = [each for each in wrong if each.where.topic not in unseen and is_answered_again(each, again.offsets)]
    live = [where for where, commits in log.history.commits.items() if commits[-1].offset is not None]
    commits = [each for of_one in log.history.commits.values() for each in of_one if each.offset is not None]
    found = Health(
        now_ms,
        dirty_ratio=max((each.dirty_ratio for each in files), default=None),
        since_cleaned_ms=_since_cleaned(files, now_ms),
        records=closed if files else None,
        keys=len(live),
        cached_offsets=sum(map(len, answers.offsets.values())),
        groups=len(groups),
        commits_a_minute=sum(now_ms - each.at_ms <= RATE_MS for each in commits) / (RATE_MS / MINUTE_MS),
        keys_asked=sum(each.group in answers.offsets and each.topic not in unseen for each in live),
    )
    looks = [found] if before is None else [before, found]
    disk = "the broker's files" if files else "only the kit's own brokers let their files be read"
    sources = {
        "dirty ratio": f"{disk}: segments, and where the last pass ended", "since the cleaner's last pass": disk,
        "records before the active segment": "the topic, and the broker's files" if files else disk, "keys with a value": "the topic",
        "offset cache size": "the coordinators: OffsetFetch for each group", "group count": "the coordinators: ListGroups",
        "commits a minute": "the topic: its last ten minutes",
    }  # fmt: skip
    notes = [*log.notes(), *notes_of(answers, unseen, log), *_unjudged(not_judged(looks, thresholds))]
    return HealthSnapshot(found, tuple(ringing(looks, thresholds)), tuple(wrong), sources, tuple(notes))


def notes_of(answers: Answers, unseen: Collection[str], log: CommitLog) -> list[str]:
    """What was left out of the check, and why."""
    told = []
    if answers.silent:
        why = "; ".join(f"{name}: {reason}" for name, reason in list(answers.silent.items())[:NAMES_TOLD])
        told.append(f"{len(answers.silent)} groups were left out, their coordinators did not answer: {why}.")
    if unseen:
        names = ", ".join(sorted(unseen)[:NAMES_TOLD])
        told.append(f"{len(unseen)} topics were left out, one may not describe them, so no coordinator tells of them: {names}.")
    if hidden := {where.group for where in log.history.commits if _is_hidden(log, where.group)}:
        told.append(f"{len(hidden)} groups were not compared: their newest commits lie behind a transaction that is still open.")
    return told


def _unjudged(names: list[str]) -> list[str]:
    return [f"not judged: {', '.join(names)}; the figure is not known, or it takes an earlier look to judge it."] if names else []


def read_all(cluster: Cluster, topic: str, active: Mapping[int, int], since_ms: int) -> tuple[CommitLog, int]:
    """Each partition's commits since a time and the one before them; the records before the active segments, which begin at these offsets.

    All is read, and older commits are let go of: memory is filled by the keys, not by the history.
    """
    log, closed, seen = CommitLog(), 0, 0

    def counted(records: Iterator[RawRecord]) -> Iterator[RawRecord]:
        nonlocal closed, seen
        for record in records:
            closed += record.offset < active.get(record.partition, 0)
            seen += 1
            if seen % TRIM_EACH == 0:
                trim(log, since_ms)
            yield record

    with OffsetsTopic.open(cluster, topic) as source:
        for partition in range(source.partitions()):
            add_records(log, watched(counted(source.read(partition)), log))
        log.bounds = dict(source.bounds)
    return log, closed


def trim(log: CommitLog, since_ms: int) -> None:
    """Let go of all but the commits since then and the one before them, and of all but the last word of each group."""
    for commits in log.history.commits.values():
        del commits[: -1 - sum(each.at_ms >= since_ms for each in commits)]
    for told in log.history.groups.values():
        del told[:-1]


def wrong_answers(answers: Mapping[str, Cached], log: CommitLog, asked_ms: int) -> list[WrongAnswer]:
    """Where a coordinator's answer is not what the topic says last.

    The coordinators were asked first, at `asked_ms`, and the topic was read after that: an answer may also be
    one of the records since then, or the one before them. A group whose newest records lie behind an open
    transaction is not compared: its coordinator knows them already.
    """
    found = []
    for where, commits in log.history.commits.items():
        if where.group not in answers or _is_hidden(log, where.group):
            continue
        answered = answers[where.group].get((where.topic, where.partition))
        since = sum(each.at_ms >= asked_ms for each in commits)
        if answered not in {each.offset for each in commits[-1 - since :]}:
            found.append(WrongAnswer(where, answered, commits[-1].offset))
    return found


def is_answered_again(wrong: WrongAnswer, answers: Mapping[str, Cached]) -> bool:
    """Whether the coordinator stands by it now that the topic has been read: a transaction may have ended meanwhile."""
    where = wrong.where
    return where.group in answers and answers[where.group].get((where.topic, where.partition)) == wrong.answered


def _is_hidden(log: CommitLog, group: str) -> bool:
    """Whether the group's partition of the topic ends behind an open transaction."""
    bounds = log.bounds.get(group_partition(group, len(log.bounds))) if log.bounds else None
    return bounds is not None and bounds.hidden > 0


def _since_cleaned(files: list[PartitionFiles], now_ms: int) -> int | None:
    """None before the first pass: the broker writes the file when it starts, too."""
    passes = [each.checkpoint_ms for each in files if each.first_dirty is not None and each.checkpoint_ms is not None]
    return max(0, now_ms - max(passes)) if passes else None
