"""What a Connect worker is set up with, as far as it decides who runs what and what is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kitlib.kafka.connect.work import ConnectError

ConnectProtocol = Literal["sessioned", "compatible", "eager"]  # connect.protocol
EAGER: ConnectProtocol = "eager"


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """The settings of every worker of one cluster, all times in ms."""

    scheduled_rebalance_max_delay_ms: int = 300_000  # Source: Kafka 4.3.1, DistributedConfig
    session_timeout_ms: int = 10_000  # Source: Kafka 4.3.1, DistributedConfig; a worker's own, not a consumer's
    join_ms: int = 1_000  # until all workers have joined again; at most a heartbeat, if none is dead
    protocol: ConnectProtocol = "sessioned"

    def __post_init__(self) -> None:
        for name in ("scheduled_rebalance_max_delay_ms", "session_timeout_ms", "join_ms"):
            if getattr(self, name) < 0:
                raise ConnectError(f"{name} is {getattr(self, name)}, expected 0 or more.")
        if self.protocol not in ("sessioned", "compatible", "eager"):
            raise ConnectError(f"connect.protocol is {self.protocol!r:.40}, expected sessioned, compatible or eager.")
