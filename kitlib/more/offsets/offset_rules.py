"""How the releases of Kafka differ in keeping committed offsets.

A broker of 2015 purged its cache while it was still filling it, stopped a load at the first record that it
could not read, and then answered from what it had. It also expired an offset by the age of its commit,
however alive the group was. Each of these is a field here, so that a story can run under either set of rules.

"2015-04" is Kafka's trunk between two commits, 26 March (c5df2a8e3ac, the values of version 1) and 13 April
2015 (157fba84075, KAFKA-2117): it wrote records that its own load could not read. The other fault, the purge
during a load, was fixed a month later (2d5e0f07613, KAFKA-2163).

Source: Apache Kafka 0.8.2.2 and trunk of April 2015 `OffsetManager`; 0.9.0.1 `GroupMetadataManager`; 4.3.1
`OffsetMetadataManager`, `CoordinatorLoaderImpl`, `CoordinatorRuntime`.
Differs: a log here holds only records that 4.3.1 can read, and all of it is replicated at once. So the load of 4.3.1 never fails, and
who asks for offsets that need not be stable is told the same. Of the releases between them, 2.0 has the clock of 0.9.0, and 2.1 that
of 4.3.1 (KIP-211).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kitlib.more.offsets.records import CONSUMER

NO_OFFSET = -1  # what a fetch answers for a partition that has no committed offset


class Clock(Enum):
    """From when on an offset ages."""

    COMMIT = "from its commit"
    COMMIT_OR_EXPIRY = "from its commit, unless the commit said when it expires"
    GROUP_EMPTY = "from the time its group became empty"


@dataclass(frozen=True, slots=True)
class OffsetRules:
    """How one release keeps offsets."""

    release: str
    clock: Clock
    written_type: int  # of the keys that it writes
    written_version: int  # of the values that it writes
    known_types: tuple[int, ...] | None  # of records, that it can read; None: all
    known_version: int  # the highest version of a commit's value that it can read
    load_is_exclusive: bool  # commits are refused and the purge waits while a load runs

    def __str__(self) -> str:
        return self.release


KAFKA_0_8_2 = OffsetRules("0.8.2", Clock.COMMIT, 0, 0, (0,), 0, False)
KAFKA_2015_04 = OffsetRules("2015-04", Clock.COMMIT_OR_EXPIRY, 1, 1, (0, 1), 0, False)
KAFKA_0_9_0 = OffsetRules("0.9.0", Clock.COMMIT_OR_EXPIRY, 1, 1, (0, 1, 2), 1, True)
KAFKA_4_3_1 = OffsetRules("4.3.1", Clock.GROUP_EMPTY, 1, 4, None, 4, True)
RULES: dict[str, OffsetRules] = {
    each.release: each for each in (KAFKA_0_8_2, KAFKA_2015_04, KAFKA_0_9_0, KAFKA_4_3_1)
}


@dataclass(frozen=True, slots=True)
class OffsetConfig:
    """A broker's settings for committed offsets, and how fast it reads them."""

    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes of 4.3.1
    retention_check_interval_ms: int = 600_000
    load_records_per_s: int = 100_000
    load_chunk_records: int = 100  # so many are read at a time; a reader sees nothing of it before the load has ended


@dataclass(frozen=True, slots=True)
class OffsetEvent:
    """What happened, in the words of a trace: write, load_begin, load, load_end, load_failed, cache, evict."""

    what: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class CachedGroup:
    """What expiry has to know of a group. Without a protocol type it is a consumer that only stores offsets."""

    protocol_type: str | None = None
    members: int = 0
    state_since_ms: int | None = None  # when it came into its state; None in records of versions 0 and 1
    subscribed_topics: frozenset[str] | None = None  # None: not known

    @property
    def is_empty(self) -> bool:
        """True when nobody is in it."""
        return self.members == 0

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads the topic; a consumer group of which it is not known is taken to read all."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics


def is_expired(
    clock: Clock,
    group: CachedGroup,
    topic: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None,
    now_ms: int,
    retention_ms: int,
) -> bool:
    """Whether an offset is too old: one of a group that nobody runs any more must go at some time.

    At first each offset aged from its own commit: a partition on which nothing happened lost its offset while its group
    was alive and well. Since KIP-211 (2.1), the offsets of a group with members do not age while the members
    subscribe to the topic, and those of an empty group age from the time it became empty.

    By the commit (0.8.2): now - commit > retention. By an expiry (0.9 to 2.0), which is commit + retention
    unless the commit said otherwise: expiry < now. Since 2.1: now >= expiry if the commit said one, else
    now - since >= retention, where `since` is `expires_since`; never while it is None.

    Source: Apache Kafka 0.8.2.2 `OffsetManager.compact`; 0.9.0.1 `GroupMetadataManager.deleteExpiredOffsets`; 4.3.1
    `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl`, `ClassicGroup.offsetExpirationCondition`,
    `ClassicGroup.isSubscribedToTopic`, `ConsumerGroup.offsetExpirationCondition`.
    Differs: nothing for classic and consumer groups; others are left out, and so is a rebalance, while which nothing expires.
    """
    if clock is Clock.COMMIT:
        return now_ms - commit_timestamp_ms > retention_ms
    if clock is Clock.COMMIT_OR_EXPIRY:
        expires_ms = commit_timestamp_ms + retention_ms if expire_timestamp_ms is None else expire_timestamp_ms
        return expires_ms < now_ms
    since_ms = expires_since(group, commit_timestamp_ms)
    if since_ms is None or group.is_subscribed(topic):
        return False
    if expire_timestamp_ms is not None:
        return now_ms >= expire_timestamp_ms
    return now_ms - since_ms >= retention_ms


def expires_since(group: CachedGroup, commit_timestamp_ms: int) -> int | None:
    """From when on an offset ages since KIP-211; None while it does not.

    Without a protocol type: from its commit. Of an empty group: from the time it became empty, or from the commit
    if the group's record is too old to say. Of a stable consumer group whose subscriptions are known: from the
    commit, and `is_subscribed` keeps all that are read. Otherwise it does not age.
    """
    if group.protocol_type is None:
        return commit_timestamp_ms
    if group.is_empty:
        return commit_timestamp_ms if group.state_since_ms is None else group.state_since_ms
    if group.protocol_type == CONSUMER and group.subscribed_topics is not None:
        return commit_timestamp_ms
    return None
