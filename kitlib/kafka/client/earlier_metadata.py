"""The metadata of Kafka 0.10.1: one flag, one backoff that never grows, and always all topics at once.

It is the class that the source prints. The rules of today differ in three ways: a new topic need not
wait for the backoff and is asked for alone, failures (and answers without news) are waited for longer
and longer, and an answer that says that a leader is missing asks for the next update by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kitlib.errors import KnobError
from kitlib.kafka.client.backoff import MIDDLE
from kitlib.kafka.client.cluster import Cluster, MetadataRequest, MetadataResponse
from kitlib.kafka.client.metadata import ProducerMetadata

RELEASES = ("4.3", "0.10")
TOPIC_EXPIRY_MS = 300_000  # after the first answer since it was last sent to; no setting
EXPIRY_NEEDS_UPDATE = -1


@dataclass(slots=True)
class EarlierMetadata(ProducerMetadata):
    """A producer's metadata by the rules of the source's time.

    Source: Apache Kafka 0.10.1.0, `Metadata`.
    Differs: listeners are left out; `need_full_update` is its `needUpdate`, and `need_partial_update` is never set.
    """

    topics: dict[str, int] = field(
        default_factory=dict
    )  # -> when it is forgotten; EXPIRY_NEEDS_UPDATE: the next answer says

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
        self.new_topics = set(self.topics)  # so that the answer is read whole
        cluster = self._cluster_of(response, is_partial=False, now_ms=now_ms)
        self.new_topics = set()
        self.last_seen_leader_epochs.clear()
        self.errors = response.errors
        self.unauthorized_topics = cluster.unauthorized_topics
        self._take(cluster, now_ms)

    def _take(self, cluster: Cluster, now_ms: int) -> None:
        self.need_full_update = self.need_partial_update = False
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


def producer_metadata(
    release: str = "4.3",
    refresh_backoff_ms: int = 100,
    refresh_backoff_max_ms: int = 1_000,
    metadata_expire_ms: int = 300_000,
    metadata_idle_ms: int = 300_000,
    luck: Callable[[], float] = lambda: MIDDLE,
) -> ProducerMetadata:
    """A producer's metadata by the rules of a release. KnobError when it is none of RELEASES or a time is negative."""
    if release not in RELEASES:
        raise KnobError(f"release is {release!r}. Give one of {', '.join(RELEASES)}.")
    times = {
        "refresh_backoff_ms": refresh_backoff_ms,
        "refresh_backoff_max_ms": refresh_backoff_max_ms,
        "metadata_expire_ms": metadata_expire_ms,
        "metadata_idle_ms": metadata_idle_ms,
    }
    for name, value in times.items():
        if value < 0:
            raise KnobError(f"{name} is {value}, expected 0 ms or more.")
    made = EarlierMetadata if release == "0.10" else ProducerMetadata
    return made(refresh_backoff_ms, refresh_backoff_max_ms, metadata_expire_ms, luck, metadata_idle_ms=metadata_idle_ms)
