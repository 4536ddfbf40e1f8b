"""When a committed offset is forgotten.

An offset of an abandoned group must be deleted at some time, or the offsets topic would keep it
forever. At first, each offset aged from its own commit: an idle partition lost its offset
while its group was alive and well. Since KIP-211 (2.1), the offsets of a group with members do not age
while the members subscribe to the topic, and those of an empty group age from the time it became empty.

Source: Apache Kafka 0.8.2.2 `OffsetManager.compact`; 0.9.0.1 `GroupMetadataManager.deleteExpiredOffsets`; 4.3.1
`OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl`, `ClassicGroup.offsetExpirationCondition`,
`ClassicGroup.isSubscribedToTopic`, `ConsumerGroup.offsetExpirationCondition`.
Differs: nothing for classic and consumer groups; others are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.kafka.offsets.offset_rules import Clock
from kitlib.kafka.offsets.records import CONSUMER


@dataclass(slots=True)
class CachedGroup:
    """What expiry has to know of a group. Without a protocol type it is a consumer that only stores offsets."""

    protocol_type: str | None = None
    members: int = 0
    state_since_ms: int | None = None  # when it came into its state; None in records of versions 0 and 1
    subscribed_topics: frozenset[str] | None = None  # None: not known
    modern_members: dict[str, frozenset[str]] | None = None  # of the newer protocol: each one's topics; None: a classic group
    is_rebalancing: bool = False  # members are coming or going; nothing expires meanwhile

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
    """Whether an offset is too old.

    By the commit (0.8.2): now - commit > retention. By an expiry (0.9 to 2.0), which is commit + retention
    unless the commit said otherwise: expiry < now. Since 2.1: now >= expiry if the commit said one, else
    now - since >= retention, where `since` is `expires_since`; never while it is None.
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

    Without a protocol type, and of a group of the newer protocol: from its commit. Of an empty classic group: from
    the time it became empty, or from the commit if the group's record is too old to say. Of a stable consumer group
    whose subscriptions are known: from the commit, and `is_subscribed` keeps all that are read. Otherwise it does
    not age.
    """
    if group.protocol_type is None or group.modern_members is not None:
        return commit_timestamp_ms
    if group.is_rebalancing:
        return None
    if group.is_empty:
        return commit_timestamp_ms if group.state_since_ms is None else group.state_since_ms
    if group.protocol_type == CONSUMER and group.subscribed_topics is not None:
        return commit_timestamp_ms
    return None
