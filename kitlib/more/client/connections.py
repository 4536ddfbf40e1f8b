"""The state of each connection, and how long to leave a broker alone that could not be reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from kitlib.more.client.backoff import MIDDLE, ExponentialBackoff

MAX_LONG = 2**63 - 1  # as a time: until something happens


class ConnectionState(Enum):
    """How far a connection is."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"  # connected, and asking which requests the broker knows
    READY = "ready"


@dataclass(slots=True)
class NodeConnectionState:
    """One broker's connection."""

    host: str
    state: ConnectionState
    last_connect_attempt_ms: int  # of the last attempt, or of the last disconnect
    reconnect_backoff_ms: int  # no new attempt for so long after that
    connection_setup_timeout_ms: int  # an attempt that takes longer is given up
    failed_attempts: int = 0  # in a row
    failed_connect_attempts: int = 0  # of them, those that never got through


@dataclass(slots=True)
class ClusterConnectionStates:
    """All connections of a client, by the broker's number.

    Source: Apache Kafka 4.3.1, `ClusterConnectionStates`; 0.10.1.0 with `reconnect_backoff_max_ms` = `reconnect_backoff_ms`.
    Differs: a host has one address; throttling is left out; chance is an argument.
    """

    reconnect_backoff_ms: int = 50  # reconnect.backoff.ms
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    connection_setup_timeout_max_ms: int = 30_000
    luck: Callable[[], float] = lambda: MIDDLE
    nodes: dict[int, NodeConnectionState] = field(default_factory=dict)
    reconnect_backoff: ExponentialBackoff = field(init=False)
    setup_timeout: ExponentialBackoff = field(init=False)

    def __post_init__(self) -> None:
        self.reconnect_backoff = ExponentialBackoff(self.reconnect_backoff_ms, self.reconnect_backoff_max_ms)
        self.setup_timeout = ExponentialBackoff(self.connection_setup_timeout_ms, self.connection_setup_timeout_max_ms)

    def can_connect(self, node: int, now_ms: int) -> bool:
        """Whether an attempt may begin."""
        found = self.nodes.get(node)
        return found is None or (
            found.state is ConnectionState.DISCONNECTED
            and now_ms - found.last_connect_attempt_ms >= found.reconnect_backoff_ms
        )

    def connection_delay_ms(self, node: int, now_ms: int) -> int:
        """How long the loop may sleep for this broker's sake."""
        found = self.nodes.get(node)
        if found is None:
            return 0
        if found.state is ConnectionState.CONNECTING:
            return found.connection_setup_timeout_ms
        if found.state is ConnectionState.DISCONNECTED:
            return max(found.reconnect_backoff_ms - (now_ms - found.last_connect_attempt_ms), 0)
        return MAX_LONG

    def is_in(self, node: int, *states: ConnectionState) -> bool:
        """Whether the connection is in one of these states."""
        found = self.nodes.get(node)
        return found is not None and found.state in states

    def is_ready(self, node: int) -> bool:
        """Whether requests can be sent."""
        return self.is_in(node, ConnectionState.READY)

    def connecting(self, node: int, host: str, now_ms: int) -> None:
        """An attempt begins."""
        found = self.nodes.get(node)
        if found is not None and found.host == host:
            found.state, found.last_connect_attempt_ms = ConnectionState.CONNECTING, now_ms
            return
        self.nodes[node] = NodeConnectionState(
            host,
            ConnectionState.CONNECTING,
            now_ms,
            self.reconnect_backoff.backoff_ms(0, self.luck()),
            self.setup_timeout.backoff_ms(0, self.luck()),
        )

    def checking_api_versions(self, node: int) -> None:
        """It is connected; what the broker can do is being asked."""
        found = self.nodes[node]
        found.state = ConnectionState.CHECKING_API_VERSIONS
        self._reset_setup_timeout(found)

    def ready(self, node: int) -> None:
        """Requests can be sent."""
        found = self.nodes[node]
        found.state = ConnectionState.READY
        found.failed_attempts = 0
        found.reconnect_backoff_ms = self.reconnect_backoff.backoff_ms(0, self.luck())
        self._reset_setup_timeout(found)

    def disconnected(self, node: int, now_ms: int) -> None:
        """An attempt failed, or the connection is gone."""
        found = self.nodes[node]
        found.last_connect_attempt_ms = now_ms
        found.reconnect_backoff_ms = self.reconnect_backoff.backoff_ms(found.failed_attempts, self.luck())
        found.failed_attempts += 1
        if found.state is ConnectionState.CONNECTING:
            found.failed_connect_attempts += 1
            found.connection_setup_timeout_ms = self.setup_timeout.backoff_ms(
                found.failed_connect_attempts, self.luck()
            )
        else:
            self._reset_setup_timeout(found)
        found.state = ConnectionState.DISCONNECTED

    def setup_timed_out(self, now_ms: int) -> list[int]:
        """The brokers whose attempts take too long."""
        return [
            node
            for node, found in self.nodes.items()
            if found.state is ConnectionState.CONNECTING
            and now_ms - found.last_connect_attempt_ms > found.connection_setup_timeout_ms
        ]

    def next_setup_timeout_ms(self) -> int | None:
        """When the first attempt under way is given up."""
        return min(
            (
                found.last_connect_attempt_ms + found.connection_setup_timeout_ms + 1
                for found in self.nodes.values()
                if found.state is ConnectionState.CONNECTING
            ),
            default=None,
        )

    def _reset_setup_timeout(self, found: NodeConnectionState) -> None:
        found.failed_connect_attempts = 0
        found.connection_setup_timeout_ms = self.setup_timeout.backoff_ms(0, self.luck())
