"""Whom the client connects to, when it asks for metadata, how long its loop sleeps, and what a lost connection costs."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node, PartitionMetadata, TopicMetadata
from kitlib.more.client.connections import ClusterConnectionStates, ConnectionState
from kitlib.more.client.metadata import producer_metadata
from kitlib.more.client.network_client import MAX_INT, ApiVersionsRequest, Connect, Disconnect, NetworkClient, Send

BOOTSTRAP = Node(-1, "bootstrap", 9092)
NODES = (Node(0, "zero", 9092), Node(1, "one", 9092))
ANSWER = MetadataResponse(NODES, (TopicMetadata("t", partitions=(PartitionMetadata("t", 0, leader_id=0, leader_epoch=0),)),))


def client(release: str = "4.3", **settings: Any) -> NetworkClient:
    metadata = producer_metadata(release)
    metadata.bootstrap([("bootstrap", 9092)], 0)
    return NetworkClient(metadata, release, request_timeout_ms=1_000, **settings)


def connect(made: NetworkClient, node: Node, now_ms: int) -> None:
    """Let a connection stand that was begun."""
    made.connected(node, now_ms)
    for effect in made.take_effects():
        if isinstance(effect, Send) and isinstance(effect.request, ApiVersionsRequest):
            made.receive(node, effect.number, None, now_ms)


def learn(made: NetworkClient, now_ms: int) -> None:
    """Get the client to know both brokers."""
    made.poll(0, now_ms)
    made.take_effects()
    connect(made, BOOTSTRAP, now_ms)
    made.poll(0, now_ms)
    (sent,) = made.take_effects()
    assert isinstance(sent, Send) and isinstance(sent.request, MetadataRequest)
    made.receive(BOOTSTRAP, sent.number, ANSWER, now_ms)


def with_a_connection() -> NetworkClient:
    """A client that knows both brokers, with a connection to the first."""
    made = client()
    learn(made, 1_000)
    made.ready(NODES[0], 1_000)
    made.take_effects()
    connect(made, NODES[0], 1_000)
    return made


def test_poll_that_wants_metadata_connects_first_and_asks_then() -> None:
    """A connection, then the question which requests the broker knows, then the metadata."""
    made = client()
    assert made.poll(5_000, 100).metadata_ms == 50
    assert made.take_effects() == [Connect(BOOTSTRAP)]
    made.connected(BOOTSTRAP, 110)
    (versions,) = made.take_effects()
    assert isinstance(versions, Send) and versions.request == ApiVersionsRequest()
    assert made.poll(5_000, 115).metadata_ms > 1_000 and made.take_effects() == []
    made.receive(BOOTSTRAP, versions.number, None, 120)
    assert made.poll(5_000, 120).least_ms == 1_000
    (asked,) = made.take_effects()
    assert isinstance(asked, Send) and asked.request == MetadataRequest((), 0)
    assert made.poll(5_000, 130).metadata_ms == 1_000, "one request at a time"


def test_poll_by_the_rules_of_0_10_turns_once_more_after_asking() -> None:
    """The metadata's timeout is 0 in the turn that asks, and without end while the answer is awaited."""
    made = client("0.10")
    made.metadata.request_update()
    assert (made.poll(9_999, 200).least_ms, made.take_effects()) == (0, [Connect(BOOTSTRAP)])
    made.connected(BOOTSTRAP, 210)
    assert made.poll(9_999, 210).least_ms == 0
    assert made.poll(9_999, 211).metadata_ms == MAX_INT


def test_select_is_the_least_of_three() -> None:
    """The sender's wish, the metadata's time, the request timeout."""
    made = client()
    learn(made, 1_000)
    assert [made.poll(poll_ms, 1_000).least_ms for poll_ms in (7, 999, 1_001)] == [7, 999, 1_000]


def test_ready_while_metadata_is_due_is_not() -> None:
    """Metadata goes first, also on a connection that stands."""
    made = with_a_connection()
    assert made.ready(NODES[0], 1_100)
    made.metadata.request_update()
    assert not made.ready(NODES[0], 1_100)
    with pytest.raises(LabError, match="one:9092"):
        made.send(NODES[1], "produce", 1_100)


def test_least_loaded_prefers_a_free_connection_to_a_busy_one_and_that_to_a_new_one() -> None:
    """Nobody connects to a second broker while a first one can be asked."""
    made = client(max_in_flight=2)
    learn(made, 1_000)
    made.ready(NODES[1], 1_000)
    assert made.least_loaded_node(1_000) == NODES[1], "one that is being connected"
    made.take_effects()
    connect(made, NODES[1], 1_000)
    made.send(NODES[1], "a", 1_000)
    assert made.least_loaded_node(1_000) == NODES[1], "busy, and can take one more"
    made.send(NODES[1], "b", 1_000)
    assert made.least_loaded_node(1_000) == NODES[0], "full: another one is worth a connection"


def test_disconnected_loses_what_was_under_way_and_wants_metadata() -> None:
    """The caller's requests are named, the metadata's counts as a failure."""
    made = with_a_connection()
    number = made.send(NODES[0], "produce", 1_000)
    made.disconnected(NODES[0], 1_010)
    assert [lost.number for lost in made.take_lost()] == [number]
    assert made.metadata.need_full_update and made.metadata.attempts == 0
    assert made.receive(NODES[0], number, "late", 1_020) is None


def test_disconnected_while_metadata_was_asked_for_waits_longer() -> None:
    """A metadata request that went with its connection is a failed update."""
    made = client()
    made.poll(0, 100)
    made.take_effects()
    connect(made, BOOTSTRAP, 100)
    made.poll(0, 100)
    made.disconnected(BOOTSTRAP, 150)
    assert (made.metadata.attempts, made.metadata_in_progress) == (1, None)
    assert made.take_lost() == []


@pytest.mark.parametrize("late_ms, hangs_up", [(1_000, False), (1_001, True)])
def test_expire_hangs_up_on_a_request_that_is_overdue(late_ms: int, hangs_up: bool) -> None:
    """Longer than request.timeout.ms, not as long."""
    made = with_a_connection()
    made.send(NODES[0], "produce", 1_000)
    made.take_effects()
    assert made.next_expiry_ms() == 2_001
    made.expire(1_000 + late_ms)
    assert (Disconnect(NODES[0], "request timeout") in made.take_effects()) is hangs_up


def test_expire_gives_up_a_connection_that_never_comes_about() -> None:
    """A broker behind a wall that drops everything: after the setup timeout the client tries again, later."""
    made = client(connections=ClusterConnectionStates(connection_setup_timeout_ms=500, connection_setup_timeout_max_ms=500))
    made.poll(0, 100)
    made.take_effects()
    assert made.next_expiry_ms() == 601
    made.expire(601)
    assert made.take_effects() == [Disconnect(BOOTSTRAP, "connection setup timeout")]


def test_connections_to_a_broker_that_is_gone_are_tried_less_and_less() -> None:
    """50, 100, 200, 400, 800, then every 1,000 ms; a connection that stands begins anew."""
    states = ClusterConnectionStates()
    waits, now_ms = [], 0
    for _ in range(7):
        assert states.can_connect(0, now_ms)
        states.connecting(0, "zero", now_ms)
        states.disconnected(0, now_ms)
        waits.append(states.connection_delay_ms(0, now_ms))
        assert not states.can_connect(0, now_ms + waits[-1] - 1)
        now_ms += waits[-1]
    assert waits == [50, 100, 200, 400, 800, 1_000, 1_000]
    states.connecting(0, "zero", now_ms)
    states.ready(0)
    assert states.is_in(0, ConnectionState.READY) and states.nodes[0].reconnect_backoff_ms == 50


def test_poll_with_nobody_left_begins_with_the_given_addresses_again() -> None:
    """metadata.recovery.strategy=rebootstrap: the only broker that is known is in its backoff."""
    made = client()
    learn(made, 1_000)
    for node in NODES:
        made.connections.connecting(node.id, node.host, 1_990)
        made.disconnected(node, 1_990)
    made.metadata.last_refresh_ms = 0
    made.poll(0, 2_000)
    assert made.metadata.cluster.nodes == (BOOTSTRAP,)


def test_receive_of_an_answer_that_names_no_broker_is_a_failure() -> None:
    """A broker that has only just started knows nobody."""
    made = client()
    made.poll(0, 100)
    made.take_effects()
    connect(made, BOOTSTRAP, 100)
    made.poll(0, 100)
    (asked,) = made.take_effects()
    assert isinstance(asked, Send)
    made.receive(BOOTSTRAP, asked.number, MetadataResponse(()), 120)
    assert (made.metadata.attempts, made.metadata.version, made.metadata_in_progress) == (1, 1, None)
