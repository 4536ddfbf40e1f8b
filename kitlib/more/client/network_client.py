"""The client's side of all its connections: whom it connects to, when it asks for metadata, how long it sleeps.

One `poll` is one turn of Java's loop up to the moment at which it sleeps: the metadata may be asked for,
then the sleep is the shortest of three times: the caller's own (`poll`), the metadata's and the request
timeout. What the driver's network does comes back through `connected`, `disconnected` and `receive`; waking the
loop earlier is up to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.errors import LabError
from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.producer.config import MAX_INT
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node
from kitlib.more.client.connections import ClusterConnectionStates, ConnectionState
from kitlib.more.client.metadata import Metadata


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """Asks a broker which requests it knows; the first thing on a connection since 0.10.2."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection to the broker's address."""

    node: Node


@dataclass(frozen=True, slots=True)
class Send:
    """A request leaves on the broker's connection, and is in flight until its answer comes."""

    node: Node
    number: int  # of this client's requests
    request: object
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The client closes the connection: a request on it is overdue."""

    node: Node


Effect = Connect | Send | Disconnect


@dataclass(frozen=True, slots=True)
class SelectTimeout:
    """How long the loop sleeps if nothing happens: the least of the three, in ms."""

    poll_ms: int  # what the sender wants to do next, see `KafkaProducer.poll_timeout_ms`
    metadata_ms: int  # until metadata is asked for; 0: now
    request_ms: int  # request.timeout.ms

    @property
    def least_ms(self) -> int:
        """The sleep."""
        return min(self.poll_ms, self.metadata_ms, self.request_ms)


@dataclass(slots=True)
class NetworkClient:
    """Connections and what is under way on them. Times are in ms.

    Source: Apache Kafka 4.3.1, `NetworkClient`, `NetworkClient.DefaultMetadataUpdater`; 0.10.1.0 with `release` "0.10".
    Differs: where Java begins to look at a broker by chance, it begins in the middle; throttling, telemetry and
    authentication are left out, and of rebootstrapping the rule after metadata.recovery.rebootstrap.trigger.ms. The 0.10
    rules have no ApiVersionsRequest (0.10.2 has), and ask the broker that today's ask.
    """

    metadata: Metadata
    release: str = "4.3"
    request_timeout_ms: int = 30_000
    max_in_flight: int = 5
    connections: ClusterConnectionStates = field(default_factory=ClusterConnectionStates)
    in_flight: dict[int, list[Send]] = field(default_factory=dict)  # by node, oldest first
    metadata_in_progress: MetadataRequest | None = None
    last_no_node_available_ms: int = 0  # 0.10 only: when a metadata request last found nobody
    requests: int = 0  # made so far
    effects: list[Effect] = field(default_factory=list)  # not yet taken
    lost: list[Send] = field(default_factory=list)  # requests of the caller's that went with a connection; not yet taken

    # The loop

    def poll(self, poll_timeout_ms: int, now_ms: int) -> SelectTimeout:
        """Ask for metadata if that is due, and say how long to sleep."""
        return SelectTimeout(poll_timeout_ms, self._maybe_update_metadata(now_ms), self.request_timeout_ms)

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        taken, self.effects = self.effects, []
        return taken

    def take_lost(self) -> list[Send]:
        """The caller's requests whose answers will not come any more."""
        taken, self.lost = self.lost, []
        return taken

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether the caller may send to this broker; if there is no connection, one is begun.

        While metadata is due nobody may send: it goes first.
        """
        if not self.is_update_due(now_ms) and self.can_send(node):
            return True
        if self.connections.can_connect(node.id, now_ms):
            self._connect(node, now_ms)
        return False

    def can_send(self, node: Node) -> bool:
        """Whether the connection takes another request."""
        return self.connections.is_ready(node.id) and len(self.in_flight.get(node.id, ())) < self.max_in_flight

    def send(self, node: Node, request: object, now_ms: int) -> None:
        """Queue a request. LabError when the broker is not ready."""
        if not self.can_send(node):
            raise LabError(f"broker {node} is not ready for another request. Check `ready` first.")
        self._send(node, request, now_ms)

    # What the network does

    def connected(self, node: Node, now_ms: int) -> None:
        """A connection stands; today's clients ask which requests the broker knows before they use it."""
        if not self.connections.is_in(node.id, ConnectionState.CONNECTING):
            return
        if self.release == "0.10":
            self.connections.ready(node.id)
        else:
            self.connections.checking_api_versions(node.id)
            self._send(node, ApiVersionsRequest(), now_ms)

    def disconnected(self, node: Node, now_ms: int) -> None:
        """A connection is gone or could not be had: what was under way is lost, and the metadata may be to blame."""
        self.connections.disconnected(node.id, now_ms)
        earlier = self.release == "0.10"
        for lost in self.in_flight.pop(node.id, []):
            if isinstance(lost.request, MetadataRequest):
                self.metadata_in_progress = None
                if not earlier:
                    self.metadata.failed_update(now_ms)
            elif not isinstance(lost.request, ApiVersionsRequest):
                self.lost.append(lost)
        if not earlier and self.is_update_due(now_ms):
            self.metadata.failed_update(now_ms)
        self.metadata.request_update()

    def receive(self, node: Node, number: int, answer: object, now_ms: int) -> Send | None:
        """An answer came; the request if it was the caller's, None otherwise."""
        out = self.in_flight.get(node.id, [])
        found = next((sent for sent in out if sent.number == number), None)
        if found is None:
            return None
        out.remove(found)
        if isinstance(found.request, ApiVersionsRequest):
            self.connections.ready(node.id)
        elif isinstance(found.request, MetadataRequest) and isinstance(answer, MetadataResponse):
            self.metadata_in_progress = None
            if answer.brokers:
                self.metadata.update(found.request, answer, now_ms)
            else:
                self.metadata.failed_update(now_ms)  # a broker that has only just started
        else:
            return found
        return None

    def expire(self, now_ms: int) -> None:
        """Give up connections with a request that is overdue."""
        for out in list(self.in_flight.values()):
            if out and now_ms - out[0].sent_ms > self.request_timeout_ms:
                node = out[0].node
                self.effects.append(Disconnect(node))
                self.disconnected(node, now_ms)

    def next_expiry_ms(self) -> int | None:
        """When `expire` has something to do at the latest."""
        return min((out[0].sent_ms + self.request_timeout_ms + 1 for out in self.in_flight.values() if out), default=None)

    # Metadata

    def is_update_due(self, now_ms: int) -> bool:
        """Whether metadata is to be asked for now."""
        return self.metadata_in_progress is None and self.metadata.time_to_next_update(now_ms) == 0

    def _maybe_update_metadata(self, now_ms: int) -> int:
        """Ask for metadata if it is time to, or connect to someone who can be asked; until when to sleep."""
        if self.release == "0.10":
            return self._maybe_update_of_0_10(now_ms)
        fetching_ms = self.request_timeout_ms if self.metadata_in_progress is not None else 0
        wait_ms = max(self.metadata.time_to_next_update(now_ms), fetching_ms)
        if wait_ms > 0:
            return wait_ms
        node, nodes = self.least_loaded_node(now_ms), self.metadata.cluster.nodes
        is_any_ready = any(self.connections.is_ready(known.id) for known in nodes)  # if only for a later request
        if node is None and not is_any_ready and self.metadata.bootstrap_addresses:  # metadata.recovery.strategy=rebootstrap
            self.metadata.bootstrap(self.metadata.bootstrap_addresses, now_ms)
            node = self.least_loaded_node(now_ms)
        if node is None:
            return self.connections.reconnect_backoff_ms
        if self.can_send(node):
            self._ask(node, now_ms)
            return self.request_timeout_ms
        if any(self.connections.is_in(known.id, ConnectionState.CONNECTING) for known in nodes):
            return self.connections.reconnect_backoff_ms
        if self.connections.can_connect(node.id, now_ms):
            self._connect(node, now_ms)
            return self.connections.reconnect_backoff_ms
        return MAX_LONG

    def _maybe_update_of_0_10(self, now_ms: int) -> int:
        """As above; the 0 that led to a request is returned all the same, so that the loop turns once more."""
        reconnect_ms = max(self.last_no_node_available_ms + self.metadata.refresh_backoff_ms - now_ms, 0)
        fetching_ms = MAX_INT if self.metadata_in_progress is not None else 0
        wait_ms = max(self.metadata.time_to_next_update(now_ms), reconnect_ms, fetching_ms)
        if wait_ms == 0:
            node = self.least_loaded_node(now_ms)
            if node is not None and self.can_send(node):
                self._ask(node, now_ms)
            elif node is not None and self.connections.can_connect(node.id, now_ms):
                self._connect(node, now_ms)
            else:
                self.last_no_node_available_ms = now_ms
        return wait_ms

    def _ask(self, node: Node, now_ms: int) -> None:
        self.metadata_in_progress = self.metadata.new_request(now_ms)
        self._send(node, self.metadata_in_progress, now_ms)

    # Inside

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Whom to ask what anyone can answer: a ready broker with the least under way, else one that is being connected."""
        states, nodes = self.connections, self.metadata.cluster.nodes
        begin = len(nodes) // 2
        nodes = nodes[begin:] + nodes[:begin]
        if able := [node for node in nodes if self.can_send(node)]:
            return min(able, key=lambda node: len(self.in_flight.get(node.id, ())))
        begun = (ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS)
        if connecting := [node for node in nodes if states.is_in(node.id, *begun)]:
            return connecting[-1]
        return min((node for node in nodes if states.can_connect(node.id, now_ms)), key=self._tried_ms, default=None)

    def _tried_ms(self, node: Node) -> int:
        found = self.connections.nodes.get(node.id)
        return 0 if found is None else found.last_connect_attempt_ms

    def _connect(self, node: Node, now_ms: int) -> None:
        self.connections.connecting(node.id, now_ms)
        self.effects.append(Connect(node))

    def _send(self, node: Node, request: object, now_ms: int) -> None:
        sent = Send(node, self.requests, request, now_ms)
        self.requests += 1
        self.in_flight.setdefault(node.id, []).append(sent)
        self.effects.append(sent)
