"""The health of committed offsets before anything goes wrong: a few figures, and the bounds that reveal trouble.

A rewind is visible only once it has happened. Its causes can be seen days before: a dead cleaner leaves
a dirty ratio that only rises, an offsets topic with many records per key, and a load that takes longer at each
move. A load that ended early leaves a cache with fewer offsets than the previous coordinator had. None of these
figures says that an offset is wrong; each says that the next move of the coordinator may make one wrong.

Source: the figures are those that LinkedIn's account of two incidents names (max-dirty-ratio, offset cache size,
commit rate, group count) and the load's time of its log lines; the bounds are the kit's own, derived from what
each figure is in a healthy cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

DAY_MS = 24 * 3_600_000
TOO_DIRTY = 0.75  # a log whose cleaner runs does not stay above it


@dataclass(frozen=True, slots=True)
class Health:
    """One sample of a coordinator, its partition of the offsets topic, and the cleaner. None is an unknown figure."""

    at_ms: int
    dirty_ratio: float | None = None  # the share of the partition's bytes that no pass has covered, 0 to 1
    since_cleaned_ms: int | None = None  # since the last pass, or since the start of the log
    records: int | None = None  # in the partition
    keys: int | None = None  # that have a value in the partition: as many offsets should be in the cache
    cached_offsets: int | None = None
    groups: int | None = None  # in the cache
    commits_a_minute: float | None = None
    load_ms: int | None = None  # of the last load

    @property
    def records_a_key(self) -> float | None:
        """How many records a load reads for each offset that it keeps; None without any."""
        return self.records / self.keys if self.records is not None and self.keys else None


Figure = Callable[[Health, Health | None], float | None]  # of a sample and the one before it; None: unknown


def fewer(name: str) -> Figure:
    """The share of what this figure was at the last look that is gone."""

    def share(now: Health, before: Health | None) -> float | None:
        was, found = getattr(before, name, None), getattr(now, name)
        return None if not was or found is None else max(0.0, 1 - found / was)

    return share


def not_cached(now: Health, before: Health | None) -> float | None:
    """The share of the keys with a value in the log that the cache has no offset of."""
    if not now.keys or now.cached_offsets is None:
        return None
    return max(0.0, 1 - now.cached_offsets / now.keys)


def not_cleaned(now: Health, before: Health | None) -> float | None:
    """For how many days a log that is too dirty has had no pass; 0 while it is not. One sample is enough."""
    if now.dirty_ratio is None or now.since_cleaned_ms is None:
        return None
    return now.since_cleaned_ms / DAY_MS if now.dirty_ratio > TOO_DIRTY else 0


@dataclass(frozen=True, slots=True)
class Threshold:
    """One alarm: it fires at the first sample at which the figure is > bound, and has been for `for_ms`."""

    name: str
    figure: Figure
    bound: float
    why: str
    for_ms: int = 0


THRESHOLDS = (
    Threshold(
        "dirty ratio", lambda now, before: now.dirty_ratio, TOO_DIRTY,
        "a running cleaner cleans a log that reaches min.cleanable.dirty.ratio; one above it for days is no longer cleaned", 2 * DAY_MS,
    ),
    Threshold(
        "days without a pass", not_cleaned, 8,
        "an open segment is not cleaned, and may stay open for a week; a log as dirty as this should be cleaned at once",
    ),
    Threshold(
        "records a key", lambda now, before: now.records_a_key, 12,
        "a compacted log has one record per key, plus its dirty part; more means that it is not being compacted",
    ),
    Threshold(
        "load time", lambda now, before: now.load_ms, 60_000,
        "a compacted partition is read in seconds; until then, its groups cannot start",
    ),
    Threshold(
        "offsets missing in the cache", not_cached, 0.2,
        "after a load, the cache holds an offset for each key with a value in the log; fewer means that the load ended early",
    ),
    Threshold(
        "offset cache size", fewer("cached_offsets"), 0.5,
        "offsets leave the cache one by one, as groups expire; never half of them at once",
    ),
    Threshold("group count", fewer("groups"), 0.5, "groups, too, expire one by one"),
    Threshold(
        "commit rate", fewer("commits_a_minute"), 0.8, "consumers that cannot start do not commit; this one fires when the harm is done",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alarm:
    """One threshold that fired, and when it first did."""

    threshold: Threshold
    at_ms: int
    value: float

    def __str__(self) -> str:
        return f"at {self.at_ms} {self.threshold.name} is {self.value:g}, above {self.threshold.bound:g}: {self.threshold.why}"


def alarms(looks: Sequence[Health]) -> list[Alarm]:
    """The first ring of each threshold that rings at all, in the order of time; looks are taken in their order."""
    found = [each for threshold in THRESHOLDS if (each := first_ring(looks, threshold)) is not None]
    return sorted(found, key=lambda alarm: alarm.at_ms)


def first_ring(looks: Sequence[Health], threshold: Threshold) -> Alarm | None:
    """When this one rings first; None when it never does. A look at which the figure is not known changes nothing."""
    since_ms: int | None = None
    for before, look in zip([None, *looks], looks, strict=False):
        value = threshold.figure(look, before)
        if value is None:
            continue
        if value <= threshold.bound:
            since_ms = None
            continue
        since_ms = look.at_ms if since_ms is None else since_ms
        if look.at_ms - since_ms >= threshold.for_ms:
            return Alarm(threshold, look.at_ms, value)
    return None
