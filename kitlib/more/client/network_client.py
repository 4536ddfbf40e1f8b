"""The client's side of all its connections: whom it connects to, when it asks for metadata, how long it sleeps.

One `poll` is one turn of Java's loop up to the moment at which it sleeps: the metadata may be asked for,
then the sleep is the shortest of three times: the caller's own (`poll`), the metadata's and the request
timeout. What the driver's network does comes back through `connected`, `disconnected` and `receive`; waking the
loop earlier is up to the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kitlib.errors import LabError
from kitlib.more.client.backoff import MIDDLE
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node
from kitlib.more.client.connections import MAX_LONG, ClusterConnectionStates, ConnectionState
from kitlib.more.client.metadata import Metadata

MAX_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """Asks a broker which requests it knows; the first thing on a connection since 0.10.2."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection to the broker's address."""

    node: Node


@dataclass(frozen=True, slots=True)
class Send:
    """A request leaves on the broker's connection."""

    node: Node
    number: int  # of this client's requests
    request: object


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The client closes the connection."""

    node: Node
    why: str  # "request timeout" or "connection setup timeout"


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
class InFlight:
    """A request without an answer."""

    number: int
    node: Node
    request: object
    sent_ms: int


@dataclass(slots=True)
class NetworkClient:
    """Connections and what is under way on them. Times are in ms.

    Source: Apache Kafka 4.3.1, `NetworkClient`, `NetworkClient.DefaultMetadataUpdater`; 0.10.1.0 with `release` "0.10".
    Differs: chance is an argument; throttling, telemetry and authentication are left out, and of rebootstrapping
    the rule after metadata.recovery.rebootstrap.trigger.ms. The 0.10 rules have no ApiVersionsRequest (0.10.2 has).
    """

    metadata: Metadata
    release: str = "4.3"
    request_timeout_ms: int = 30_000
    max_in_flight: int = 5
    connections: ClusterConnectionStates = field(default_factory=ClusterConnectionStates)
    luck: Callable[[], float] = lambda: MIDDLE
    in_flight: dict[int, list[InFlight]] = field(default_factory=dict)  # by node, oldest first
    metadata_in_progress: MetadataRequest | None = None
    last_no_node_available_ms: int = 0  # 0.10 only: when a metadata request last found nobody
    requests: int = 0  # made so far
    select: SelectTimeout = field(default_factory=lambda: SelectTimeout(0, 0, 0))  # of the last poll
    effects: list[Effect] = field(default_factory=list)  # not yet taken
    lost: list[InFlight] = field(
        default_factory=list
    )  # requests of the caller's that went with a connection; not yet taken

    # The loop

    def poll(self, poll_timeout_ms: int, now_ms: int) -> SelectTimeout:
        """Ask for metadata if that is due, and say how long to sleep."""
        metadata_ms = self._maybe_update_metadata(now_ms)
        self.select = SelectTimeout(poll_timeout_ms, metadata_ms, self.request_timeout_ms)
        return self.select

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        taken, self.effects = self.effects, []
        return taken

    def take_lost(self) -> list[InFlight]:
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

    def send(self, node: Node, request: object, now_ms: int) -> int:
        """Queue a request; its number. LabError when the broker is not ready."""
        if not self.can_send(node):
            raise LabError(f"broker {node} is not ready for another request. Check `ready` first.")
        return self._send(node, request, now_ms)

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Whom to ask what anyone can answer: a ready broker with the least under way, else one that is being connected."""
        return self._least_loaded_of_0_10(now_ms) if self.release == "0.10" else self._least_loaded(now_ms)[0]

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

    def receive(self, node: Node, number: int, answer: object, now_ms: int) -> InFlight | None:
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

    def complete_without_answer(self, node: Node, number: int) -> None:
        """A request that wants no answer (acks=0) has left."""
        self.in_flight[node.id] = [sent for sent in self.in_flight.get(node.id, []) if sent.number != number]

    def expire(self, now_ms: int) -> None:
        """Give up connections that take too long to come about, and those with a request that is overdue."""
        for number in self.connections.setup_timed_out(now_ms) if self.release != "0.10" else []:
            self.hang_up(number, "connection setup timeout", now_ms)
        for number, out in list(self.in_flight.items()):
            if out and now_ms - out[0].sent_ms > self.request_timeout_ms:
                self.hang_up(number, "request timeout", now_ms)

    def next_expiry_ms(self) -> int | None:
        """When `expire` has something to do at the latest."""
        times = [out[0].sent_ms + self.request_timeout_ms + 1 for out in self.in_flight.values() if out]
        setup_ms = self.connections.next_setup_timeout_ms() if self.release != "0.10" else None
        return min(times + ([] if setup_ms is None else [setup_ms]), default=None)

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
        node, is_any = self._least_loaded(now_ms)
        if not is_any and self.metadata.bootstrap_addresses:  # metadata.recovery.strategy=rebootstrap
            self.metadata.bootstrap(self.metadata.bootstrap_addresses, now_ms)
            node, _ = self._least_loaded(now_ms)
        if node is None:
            return self.connections.reconnect_backoff_ms
        if self.can_send(node):
            self._ask(node, now_ms)
            return self.request_timeout_ms
        if any(self.connections.is_in(known.id, ConnectionState.CONNECTING) for known in self.metadata.cluster.nodes):
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
            node = self._least_loaded_of_0_10(now_ms)
            if node is None:
                self.last_no_node_available_ms = now_ms
            elif self.can_send(node):
                self._ask(node, now_ms)
            elif self.connections.can_connect(node.id, now_ms):
                self._connect(node, now_ms)
            else:
                self.last_no_node_available_ms = now_ms
        return wait_ms

    def _ask(self, node: Node, now_ms: int) -> None:
        self.metadata_in_progress = self.metadata.new_request(now_ms)
        self._send(node, self.metadata_in_progress, now_ms)

    # Inside

    def _least_loaded(self, now_ms: int) -> tuple[Node | None, bool]:
        """The broker, and whether there is one or at least some connection is ready."""
        states, nodes = self.connections, self.metadata.cluster.nodes
        begin = int(self.luck() * len(nodes)) % len(nodes) if nodes else 0
        is_any_ready, best, connecting, can_connect = False, None, None, None
        for node in nodes[begin:] + nodes[:begin]:
            is_any_ready = is_any_ready or states.is_ready(node.id)
            if self.can_send(node):
                under_way = len(self.in_flight.get(node.id, ()))
                if under_way == 0:
                    return node, True
                if best is None or under_way < len(self.in_flight.get(best.id, ())):
                    best = node
            elif states.is_in(node.id, ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS):
                connecting = node
            elif states.can_connect(node.id, now_ms) and (
                can_connect is None or self._tried_ms(can_connect) > self._tried_ms(node)
            ):
                can_connect = node
        found = best or connecting or can_connect
        return found, found is not None or is_any_ready

    def _least_loaded_of_0_10(self, now_ms: int) -> Node | None:
        states, nodes = self.connections, self.metadata.cluster.nodes
        begin = int(self.luck() * len(nodes)) % len(nodes) if nodes else 0
        found: Node | None = None
        least = MAX_INT
        for node in nodes[begin:] + nodes[:begin]:
            under_way = len(self.in_flight.get(node.id, ()))
            if under_way == 0 and states.is_ready(node.id):
                return node
            is_blacked_out = states.is_in(node.id, ConnectionState.DISCONNECTED) and not states.can_connect(
                node.id, now_ms
            )
            if not is_blacked_out and under_way < least:
                least, found = under_way, node
        return found

    def _tried_ms(self, node: Node) -> int:
        found = self.connections.nodes.get(node.id)
        return 0 if found is None else found.last_connect_attempt_ms

    def _connect(self, node: Node, now_ms: int) -> None:
        self.connections.connecting(node.id, node.host, now_ms)
        self.effects.append(Connect(node))

    def _send(self, node: Node, request: object, now_ms: int) -> int:
        number, self.requests = self.requests, self.requests + 1
        self.in_flight.setdefault(node.id, []).append(InFlight(number, node, request, now_ms))
        self.effects.append(Send(node, number, request))
        return number

    def hang_up(self, number: int, why: str, now_ms: int) -> None:
        """Close the connection to the broker with this number, and lose what is under way on it."""
        out = self.in_flight.get(number, [])
        node = out[0].node if out else self.metadata.cluster.node_by_id(number)
        self.effects.append(Disconnect(node or Node(number, "", -1), why))
        self.disconnected(node or Node(number, "", -1), now_ms)
