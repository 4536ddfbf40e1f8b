"""The state of each connection, and how long to leave a broker alone that could not be reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kitlib.java.numbers import MAX_LONG
from kitlib.more.client.metadata import exponential_backoff_ms


class ConnectionState(Enum):
    """How far a connection is."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"  # connected, and asking which requests the broker knows
    READY = "ready"


@dataclass(slots=True)
class NodeConnectionState:
    """One broker's connection."""

    state: ConnectionState = ConnectionState.CONNECTING
    last_connect_attempt_ms: int = 0  # of the last attempt, or of the last disconnect
    reconnect_backoff_ms: int = 0  # no new attempt for so long after that
    failed_attempts: int = 0  # in a row


@dataclass(slots=True)
class ClusterConnectionStates:
    """All connections of a client, by the broker's number.

    Source: Apache Kafka 4.3.1, `ClusterConnectionStates`; 0.10.1.0 with `reconnect_backoff_max_ms` = `reconnect_backoff_ms`.
    Differs: a broker has one address, which never changes; no attempt takes so long that it is given up; throttling is left
    out, and the backoff's random part.
    """

    reconnect_backoff_ms: int = 50  # reconnect.backoff.ms
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms: how long an attempt may take
    nodes: dict[int, NodeConnectionState] = field(default_factory=dict)

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
            return self.connection_setup_timeout_ms
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

    def connecting(self, node: int, now_ms: int) -> None:
        """An attempt begins."""
        found = self.nodes.setdefault(node, NodeConnectionState(reconnect_backoff_ms=self._backoff_ms(0)))
        found.state, found.last_connect_attempt_ms = ConnectionState.CONNECTING, now_ms

    def checking_api_versions(self, node: int) -> None:
        """It is connected; what the broker can do is being asked."""
        self.nodes[node].state = ConnectionState.CHECKING_API_VERSIONS

    def ready(self, node: int) -> None:
        """Requests can be sent."""
        found = self.nodes[node]
        found.state, found.failed_attempts, found.reconnect_backoff_ms = ConnectionState.READY, 0, self._backoff_ms(0)

    def disconnected(self, node: int, now_ms: int) -> None:
        """An attempt failed, or the connection is gone."""
        found = self.nodes[node]
        found.state, found.last_connect_attempt_ms = ConnectionState.DISCONNECTED, now_ms
        found.reconnect_backoff_ms = self._backoff_ms(found.failed_attempts)
        found.failed_attempts += 1

    def _backoff_ms(self, attempts: int) -> int:
        return exponential_backoff_ms(self.reconnect_backoff_ms, self.reconnect_backoff_max_ms, attempts)
