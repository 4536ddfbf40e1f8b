"""The producer's settings, under Kafka's names with underscores. Times are in ms, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.errors import KnobError

MAX_INT = 2**31 - 1
RELEASES = ("4.3", "2.0")

# The smallest and the largest value that means something to the kit's own client.
BOUNDS = {
    "acks": (-1, 1),
    "max_in_flight_requests_per_connection": (1, MAX_INT),
    "retries": (0, MAX_INT),
    "request_timeout_ms": (0, MAX_INT),
    "delivery_timeout_ms": (0, MAX_INT),
    "linger_ms": (0, MAX_INT),
    "retry_backoff_ms": (0, MAX_INT),
    "retry_backoff_max_ms": (0, MAX_INT),
    "batch_size": (0, MAX_INT),
    "max_request_size": (0, MAX_INT),
}


class ConfigError(KnobError):
    """Settings with which a producer does not start."""


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """What a `Sender` is made with. It accepts much that the real clients refuse.

    Raises ConfigError when a number is outside its range or the release is none of RELEASES.

    Source: Apache Kafka 4.3.1, `ProducerConfig`.
    Differs: linger is 0 unless it is given (4.x waits 5 ms); settings of what the model leaves out
    (memory, compression, partitioner) are not there.
    """

    acks: int = -1  # -1: all replicas in sync have it before the leader answers, 1: the leader, 0: no answer
    enable_idempotence: bool = True
    max_in_flight_requests_per_connection: int = 5
    retries: int = MAX_INT  # further attempts for a batch after its first one
    request_timeout_ms: int = 30_000  # an answer that takes this long costs the connection
    delivery_timeout_ms: int = 120_000  # from send to the user's answer at the latest (2.0 has none)
    linger_ms: int = 0  # a batch that is not full waits this long for more records
    retry_backoff_ms: int = 100  # before the first retry; doubles each time (2.0: always the same)
    retry_backoff_max_ms: int = 1_000
    batch_size: int = 16_384  # an open batch is closed when the next record would not fit
    max_request_size: int = 1_048_576
    release: str = "4.3"  # whose rules the client follows

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"{name} is {value!r}. Give a whole number from {low} to {high}.")
        if self.release not in RELEASES:
            raise ConfigError(f"release is {self.release!r}. Give one of {', '.join(RELEASES)}.")
