"""What a producer knows about the cluster, how old that is, and when it asks again.

No one notifies a client that a leader has moved: it holds an answer that was once true. It asks again when
requested (`need_full_update`: an error, a disconnect; `need_partial_update`: a new topic), when
what it knows is older than `metadata_expire_ms`, and in both cases not too soon after the last time: a
*refresh backoff* lies between two requests. In the releases of today that backoff grows with each
request that failed, and also with each answer that brought nothing new.

Nothing here waits or reads a clock: `await_update` gives a `MetadataWait`, and the caller asks it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.client.cluster import (
    Cluster,
    MetadataRequest,
    MetadataResponse,
    Node,
    PartitionMetadata,
    TopicPartition,
)


def exponential_backoff_ms(initial_ms: int, max_ms: int, attempts: int) -> int:
    """The wait after `attempts` retries: twice as long each time, up to a limit.

    Source: Apache Kafka 4.3.1, `ExponentialBackoff`.
    Differs: without the random fifth that keeps a crowd of clients that failed together from coming back together.
    """
    if max_ms <= initial_ms:
        return max_ms
    exp_max = math.log(max_ms / max(initial_ms, 1)) / math.log(2)  # from so many attempts on the wait does not grow
    grown: float = initial_ms * 2 ** min(attempts, exp_max)
    return min(int(grown), max_ms)


@dataclass(frozen=True, slots=True)
class MetadataWait:
    """Someone waits for an answer that comes after version `last_version`, up to `deadline_ms`."""

    last_version: int
    deadline_ms: int

    def is_over(self, metadata: Metadata) -> bool:
        """Whether a newer answer woke the waiting; what it says is another matter."""
        return metadata.notified_version > self.last_version


@dataclass(slots=True)
class Metadata:
    """A producer's knowledge of the topics that it sends to, its age, and the rules of asking again. Times are in ms.

    It forgets a topic that it has not sent to for a while.

    Source: Apache Kafka 4.3.1, `Metadata` and `ProducerMetadata`.
    Differs: listeners and closing are left out, and of an answer: topics that may not be written or cannot be, topics
    made anew under their name, answers of brokers that know no epochs.
    """

    refresh_backoff_ms: int = 100  # retry.backoff.ms: at least so long between two requests
    refresh_backoff_max_ms: int = 1_000  # retry.backoff.max.ms: how far the backoff grows
    metadata_expire_ms: int = 300_000  # metadata.max.age.ms: what is older is asked for again without being asked to
    metadata_idle_ms: int = 300_000  # metadata.max.idle.ms
    cluster: Cluster = field(default_factory=Cluster)
    version: int = 0  # grows with each answer (`updateVersion`)
    notified_version: int = 0  # the version when those who wait were last woken: by answers, not by a new beginning
    request_version: int = 0  # grows with each new topic: tells whether an answer was asked for before it
    last_refresh_ms: int = 0  # of the last answer or failure; 0 after a new topic, so that it need not wait
    last_successful_refresh_ms: int = 0  # of the last full answer
    attempts: int = 0  # failures in a row
    equivalent_response_count: int = 0  # answers in a row that brought no newer leader
    need_full_update: bool = False
    need_partial_update: bool = False  # topics are new: it is enough to ask for those
    topics: dict[str, int] = field(default_factory=dict)  # -> when it is forgotten unless it is sent to before
    new_topics: set[str] = field(default_factory=set)  # of them, those that no answer has named yet
    errors: dict[str, ErrorCode] = field(default_factory=dict)  # of the last answer
    last_seen_leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)  # never falls
    bootstrap_addresses: tuple[tuple[str, int], ...] = ()

    # When

    @property
    def need_update(self) -> bool:
        """Whether an update has been asked for (`updateRequested`)."""
        return self.need_full_update or self.need_partial_update

    def time_to_expire(self, now_ms: int) -> int:
        """In how long an update is wanted: 0 when one was asked for or what is known is too old."""
        return 0 if self.need_update else self._time_to_age(now_ms)

    def time_to_allow_update(self, now_ms: int) -> int:
        """In how long a request is allowed: the longer of the two backoffs, each counted from the last refresh.

        Asking forgets the answers that brought nothing new once what is known has expired.
        """
        for_attempts = self.last_refresh_ms + self._backoff(max(self.attempts - 1, 0)) - now_ms
        if self._time_to_age(now_ms) == 0:
            self.equivalent_response_count = 0
        equivalent = self.equivalent_response_count
        for_equivalent = self.last_refresh_ms + (self._backoff(equivalent - 1) if equivalent else 0) - now_ms
        return max(for_attempts, for_equivalent, 0)

    def time_to_next_update(self, now_ms: int) -> int:
        """In how long the client asks: when it both wants to and may. 0 is now."""
        return max(self.time_to_expire(now_ms), self.time_to_allow_update(now_ms))

    def _time_to_age(self, now_ms: int) -> int:
        return max(self.last_successful_refresh_ms + self.metadata_expire_ms - now_ms, 0)

    def _backoff(self, attempts: int) -> int:
        return exponential_backoff_ms(self.refresh_backoff_ms, self.refresh_backoff_max_ms, attempts)

    # Asking

    def add(self, topic: str, now_ms: int) -> None:
        """The topic is about to be sent to; one that is not known asks for an update at once."""
        is_new = topic not in self.topics
        self.topics[topic] = now_ms + self.metadata_idle_ms
        if is_new:
            self.new_topics.add(topic)
            self.request_update_for_new_topics()

    def request_update(self) -> int:
        """Someone wants news of everything; the present version, to wait with."""
        self.need_full_update = True
        return self.version

    def request_update_for_new_topics(self) -> int:
        """Someone wants to know of a topic for the first time: no backoff applies, and only that topic is asked for."""
        self.last_refresh_ms = 0
        self.need_partial_update = True
        self.equivalent_response_count = 0
        self.request_version += 1
        return self.version

    def request_update_for_topic(self, topic: str) -> int:
        """Someone waits for news of this topic."""
        return self.request_update_for_new_topics() if topic in self.new_topics else self.request_update()

    def new_request(self, now_ms: int) -> MetadataRequest:
        """The request to send now: of new topics only, unless all is wanted or too old."""
        if not self.need_full_update and self.last_successful_refresh_ms + self.metadata_expire_ms > now_ms:
            new = tuple(topic for topic in self.topics if topic in self.new_topics)
            return MetadataRequest(new, self.request_version, is_partial=True)
        return MetadataRequest(tuple(self.topics), self.request_version)

    def await_update(self, last_version: int, timeout_ms: int, now_ms: int) -> MetadataWait:
        """Wait for an answer after `last_version`, for `timeout_ms` at most."""
        return MetadataWait(last_version, now_ms + timeout_ms)

    # Answers

    def bootstrap(self, addresses: Iterable[tuple[str, int]], now_ms: int = 0) -> None:
        """Begin with nothing but addresses, and want a first answer."""
        self.bootstrap_addresses = tuple(addresses)
        self.need_full_update = True
        self.version += 1
        self.cluster = Cluster.bootstrap(self.bootstrap_addresses)

    def update(self, request: MetadataRequest, response: MetadataResponse, now_ms: int) -> None:
        """An answer came. New topics that were added since its request was made are still to be asked for."""
        self.need_partial_update = request.request_version < self.request_version
        self.last_refresh_ms = now_ms
        self.attempts = 0
        self.version += 1
        self.notified_version = self.version
        if not request.is_partial:
            self.need_full_update = False
            self.last_successful_refresh_ms = now_ms
        self.equivalent_response_count += 1  # unless `_newest` finds news
        self.cluster = self._cluster_of(response, request.is_partial, now_ms)
        for partition in list(self.last_seen_leader_epochs):
            if not self.retains(partition[0], now_ms):
                del self.last_seen_leader_epochs[partition]
        self.errors = response.errors
        self.new_topics -= {topic.name for topic in response.topics}

    def retains(self, topic: str, now_ms: int) -> bool:
        """Whether the topic is still wanted; one that has been idle for too long is forgotten here."""
        if topic not in self.topics:
            return False
        if topic not in self.new_topics and self.topics[topic] <= now_ms:
            del self.topics[topic]
            return False
        return True

    def update_partition_leadership(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]
    ) -> set[TopicPartition]:
        """A broker's answer named new leaders as (id, epoch); the partitions for which that was news.

        Older epochs, brokers without an address and partitions that are not known are passed over.
        """
        known = {node.id: node for node in nodes}
        addresses = known | {node.id: node for node in self.cluster.nodes if node.id not in known}
        moved: dict[TopicPartition, PartitionMetadata] = {}
        for key, (leader_id, epoch) in leaders.items():
            before = self.cluster.partitions.get(key)
            seen = self.last_seen_leader_epochs.get(key)
            if (seen is not None and epoch <= seen) or leader_id not in addresses or before is None:
                continue
            moved[key] = replace(before, leader_id=leader_id, leader_epoch=epoch)
            self.last_seen_leader_epochs[key] = epoch
        if moved:
            self.cluster = Cluster(tuple(addresses.values()), {**self.cluster.partitions, **moved})
        return set(moved)

    def failed_update(self, now_ms: int) -> None:
        """A request was lost, or its answer named no broker. The next one waits longer."""
        self.last_refresh_ms = now_ms
        self.attempts += 1
        self.equivalent_response_count = 0

    def _cluster_of(self, response: MetadataResponse, is_partial: bool, now_ms: int) -> Cluster:
        """The answer, and beside a partial one what is known of other topics."""
        kept: dict[TopicPartition, PartitionMetadata] = {}
        for topic in response.topics:
            if not self.retains(topic.name, now_ms):
                continue
            if topic.error.wants_new_metadata:
                self.request_update()
            for told in topic.partitions if topic.error is ErrorCode.NONE else ():
                newest = self._newest(told)
                if newest is not None:
                    kept[told.key] = newest
        if is_partial:
            named = {topic.name for topic in response.topics}
            others = ((key, known) for key, known in self.cluster.partitions.items() if key[0] not in named)
            kept |= {key: known for key, known in others if self.retains(key[0], now_ms)}
        return Cluster(response.brokers, kept)

    def _newest(self, told: PartitionMetadata) -> PartitionMetadata | None:
        """The newer of what is told and what is known: a leader of an older epoch is not believed."""
        seen = self.last_seen_leader_epochs.get(told.key)
        if seen is not None and told.leader_epoch < seen:
            return self.cluster.partitions.get(told.key)
        if seen != told.leader_epoch:
            self.equivalent_response_count = 0
        self.last_seen_leader_epochs[told.key] = told.leader_epoch
        return told


TOPIC_EXPIRY_MS = 300_000  # after the first answer since it was last sent to; no setting
EXPIRY_NEEDS_UPDATE = -1


@dataclass(slots=True)
class EarlierMetadata(Metadata):
    """A producer's metadata by the rules of 0.10.1: one flag, one backoff that never grows, and always all topics at once.

    The rules of today differ in three ways: a new topic need not wait for the backoff and is asked for alone; failures,
    and answers without news, are waited for longer and longer; and an answer that says that a leader is missing asks for
    the next update by itself.

    Source: Apache Kafka 0.10.1.0, `Metadata`.
    Differs: listeners are left out; `need_full_update` is its `needUpdate`, and `need_partial_update` is never set. Of
    `topics` EXPIRY_NEEDS_UPDATE means that the next answer says when it is forgotten.
    """

    def time_to_allow_update(self, now_ms: int) -> int:
        """In how long a request is allowed; below 0 when that has been so for a while."""
        return self.last_refresh_ms + self.refresh_backoff_ms - now_ms

    def add(self, topic: str, now_ms: int) -> None:
        """The topic is about to be sent to."""
        self.topics[topic] = EXPIRY_NEEDS_UPDATE

    def request_update_for_topic(self, topic: str) -> int:
        """Someone waits for news of this topic: whatever it is, everything is asked for."""
        return self.request_update()

    def new_request(self, now_ms: int) -> MetadataRequest:
        """The request to send now: of all topics."""
        return MetadataRequest(tuple(self.topics))

    def bootstrap(self, addresses: Iterable[tuple[str, int]], now_ms: int = 0) -> None:
        """Begin with nothing but addresses. That counts as an answer: the next one is due when this one expires."""
        self.bootstrap_addresses = tuple(addresses)
        self._take(Cluster.bootstrap(self.bootstrap_addresses), now_ms)

    def update(self, request: MetadataRequest, response: MetadataResponse, now_ms: int) -> None:
        """An answer came, whatever it says; topics that were idle for too long are forgotten."""
        self.errors = response.errors
        told = (partition for topic in response.topics if topic.name in self.topics for partition in topic.partitions)
        self._take(Cluster(response.brokers, {partition.key: partition for partition in told}), now_ms)

    def _take(self, cluster: Cluster, now_ms: int) -> None:
        self.need_full_update = False
        self.last_refresh_ms = self.last_successful_refresh_ms = now_ms
        self.version += 1
        self.notified_version = self.version
        for topic, expires_ms in list(self.topics.items()):
            if expires_ms == EXPIRY_NEEDS_UPDATE:
                self.topics[topic] = now_ms + TOPIC_EXPIRY_MS
            elif expires_ms <= now_ms:
                del self.topics[topic]
        self.cluster = cluster

    def failed_update(self, now_ms: int) -> None:
        """An answer named no broker; the next request waits as long as any other."""
        self.last_refresh_ms = now_ms
