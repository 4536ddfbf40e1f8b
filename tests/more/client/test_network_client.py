"""Whom the client connects to, when it asks for metadata, and what a lost connection costs."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node, PartitionMetadata, TopicMetadata
from kitlib.more.client.connections import ClusterConnectionStates
from kitlib.more.client.metadata import Metadata
from kitlib.more.client.network_client import ApiVersionsRequest, Connect, Disconnect, NetworkClient, Send

BOOTSTRAP = Node(-1, "bootstrap", 9092)
NODES = (Node(0, "zero", 9092), Node(1, "one", 9092))
ANSWER = MetadataResponse(NODES, (TopicMetadata("t", partitions=(PartitionMetadata("t", 0, 0),)),))


def asking(**settings: Any) -> tuple[NetworkClient, Send]:
    """A client that has connected to its bootstrap address and asked for metadata, and that request."""
    made = NetworkClient(Metadata(), request_timeout_ms=1_000, **settings)
    made.metadata.bootstrap([("bootstrap", 9092)], 0)
    made.poll(0, 1_000)
    assert made.take_effects() == [Connect(BOOTSTRAP)]
    connect(made, BOOTSTRAP)
    made.poll(0, 1_000)
    (sent,) = made.take_effects()
    assert isinstance(sent, Send) and sent.request == MetadataRequest((), 0)
    return made, sent


def knowing(**settings: Any) -> NetworkClient:
    """A client that knows both brokers."""
    made, sent = asking(**settings)
    made.receive(BOOTSTRAP, sent.number, ANSWER, 1_000)
    return made


def connect(made: NetworkClient, node: Node) -> None:
    """Let a connection stand that was begun; the broker is asked first which requests it knows."""
    made.take_effects()
    made.connected(node, 1_000)
    (sent,) = made.take_effects()
    assert isinstance(sent, Send) and sent.request == ApiVersionsRequest() and not made.can_send(node)
    made.receive(node, sent.number, None, 1_000)


def with_a_connection() -> NetworkClient:
    """A client that knows both brokers, with a connection to the first."""
    made = knowing()
    made.ready(NODES[0], 1_000)
    connect(made, NODES[0])
    return made


def test_select_is_the_least_of_three() -> None:
    """The sender's wish, the metadata's time, the request timeout; while metadata is asked for it is waited for."""
    made = knowing()
    assert [made.poll(poll_ms, 1_000).least_ms for poll_ms in (7, 999, 1_001)] == [7, 999, 1_000]
    made, _ = asking()
    assert made.poll(5_000, 1_030).metadata_ms == 1_000 and made.take_effects() == [], "one request at a time"


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
    made = knowing(max_in_flight=2)
    made.ready(NODES[1], 1_000)
    assert made.least_loaded_node(1_000) == NODES[1], "one that is being connected"
    connect(made, NODES[1])
    made.send(NODES[1], "a", 1_000)
    assert made.least_loaded_node(1_000) == NODES[1], "busy, and can take one more"
    made.send(NODES[1], "b", 1_000)
    assert made.least_loaded_node(1_000) == NODES[0], "full: another one is worth a connection"


def test_disconnected_loses_what_was_under_way_and_wants_metadata() -> None:
    """The caller's requests are named; a metadata request that went with its connection is a failed update."""
    made = with_a_connection()
    made.send(NODES[0], "produce", 1_000)
    (sent,) = made.take_effects()
    made.disconnected(NODES[0], 1_010)
    assert made.take_lost() == [sent] and made.metadata.need_full_update and made.metadata.attempts == 0
    assert isinstance(sent, Send) and made.receive(NODES[0], sent.number, "late", 1_020) is None
    made, _ = asking()
    made.disconnected(BOOTSTRAP, 1_050)
    assert (made.metadata.attempts, made.metadata_in_progress, made.take_lost()) == (1, None, [])


@pytest.mark.parametrize("late_ms, hangs_up", [(1_000, False), (1_001, True)])
def test_expire_hangs_up_on_a_request_that_is_overdue(late_ms: int, hangs_up: bool) -> None:
    """Longer than request.timeout.ms, not as long."""
    made = with_a_connection()
    made.send(NODES[0], "produce", 1_000)
    assert made.next_expiry_ms() == 2_001
    made.expire(1_000 + late_ms)
    assert (Disconnect(NODES[0]) in made.take_effects()) is hangs_up


def test_connections_to_a_broker_that_is_gone_are_tried_less_and_less() -> None:
    """50, 100, 200, 400, 800, then every 1,000 ms; a connection that stands begins anew."""
    states = ClusterConnectionStates()
    waits, now_ms = [], 0
    for _ in range(7):
        assert states.can_connect(0, now_ms)
        states.connecting(0, now_ms)
        states.disconnected(0, now_ms)
        waits.append(states.connection_delay_ms(0, now_ms))
        assert not states.can_connect(0, now_ms + waits[-1] - 1)
        now_ms += waits[-1]
    assert waits == [50, 100, 200, 400, 800, 1_000, 1_000]
    states.connecting(0, now_ms)
    states.ready(0)
    assert states.is_ready(0) and states.nodes[0].reconnect_backoff_ms == 50


def test_poll_with_nobody_left_begins_with_the_given_addresses_again() -> None:
    """metadata.recovery.strategy=rebootstrap: the only broker that is known is in its backoff."""
    made = knowing()
    for node in NODES:
        made.connections.connecting(node.id, 1_990)
        made.disconnected(node, 1_990)
    made.metadata.last_refresh_ms = 0
    made.poll(0, 2_000)
    assert made.metadata.cluster.nodes == (BOOTSTRAP,)


def test_receive_of_an_answer_that_names_no_broker_is_a_failure() -> None:
    """A broker that has only just started knows nobody."""
    made, sent = asking()
    made.receive(BOOTSTRAP, sent.number, MetadataResponse(()), 1_020)
    assert (made.metadata.attempts, made.metadata.version, made.metadata_in_progress) == (1, 1, None)
