"""Where answers name brokers, the proxy's addresses come in their place: in every version, for every client, and nothing else changes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.clients import Cluster, addresses, client_config
from kitlib.lab.processes import wait_until
from kitlib.lab.proxy.addresses import NAMING, may_name_brokers, with_doors
from kitlib.lab.proxy.chaos_proxy import ChaosProxy
from kitlib.lab.proxy.frames import GarbageError, Request, decoded, encoded
from kitlib.lab.three_brokers import three_brokers
from kitlib.lab.wire.connection import Wire
from kitlib.lab.wire.records import WireBatch
from tests.lab.chaos_peers import Client
from tests.lab.consumers import poll_until, settings_for

OURS = ("127.0.0.1", 20_001)
KEYS = {"Produce": 0, "Fetch": 1, "Metadata": 3, "FindCoordinator": 10, "DescribeCluster": 60, "ShareFetch": 78, "ShareAcknowledge": 79}


def asked(api: str, version: int) -> Request:
    return Request(0, KEYS[api], version, 7, "a client")


WITH_ENDPOINTS = [
    ("Produce", 10), ("Produce", 13), ("Fetch", 16), ("Fetch", 18), ("ShareFetch", 1), ("ShareFetch", 2), ("ShareAcknowledge", 1),
    ("ShareAcknowledge", 2),
]  # fmt: skip


@pytest.mark.parametrize(("api", "version"), WITH_ENDPOINTS)
def test_endpoints_of_new_leaders_are_replaced(api: str, version: int) -> None:
    """Who leads instead is told with the proxy's address; an answer that names nobody is the same bytes."""
    response = NAMING[api][0]
    nobody = encoded(response[version](responses=[], node_endpoints=[]), 7)
    assert may_name_brokers(asked(api, version)) and with_doors(asked(api, version), nobody, lambda *_: OURS) is nobody
    leader = response.NodeEndpoint(version=version, node_id=2, host="broker.example", port=9092, rack="a rack")
    told = with_doors(asked(api, version), encoded(response[version](responses=[], node_endpoints=[leader]), 7), lambda *_: OURS)
    [found] = decoded(response, version, told).node_endpoints
    assert (found.node_id, found.host, found.port, found.rack) == (2, *OURS, "a rack")


def test_answers_that_name_nobody_are_not_looked_into() -> None:
    """Older versions have no endpoints, and other APIs name no brokers; what cannot be read is said to be so."""
    older = [("Produce", 9), ("Fetch", 15)]
    assert not any(may_name_brokers(asked(api, version)) for api, version in older)
    assert not may_name_brokers(Request(0, 18, 4, 7, "a client"))
    with pytest.raises(GarbageError, match="MetadataResponse of version 14 that cannot be read"):
        with_doors(asked("Metadata", 14), bytes(40), lambda *_: OURS)


@pytest.fixture(scope="module")
def brokers(kit_home: Path) -> Iterator[Cluster]:
    """Three real brokers, whose offsets topic is there."""
    with three_brokers(lambda _: None) as cluster:
        request = QUESTIONS["FindCoordinator"]
        port = addresses(cluster.bootstrap)[0][1]
        wait_until(lambda: decoded(NAMING["FindCoordinator"][0], 3, ask(port, request, 3)).error_code == 0, 30, "groups have coordinators")
        yield cluster


QUESTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Metadata": (MetadataRequest, {"topics": []}),
    "FindCoordinator": (FindCoordinatorRequest, {"key": "a group", "key_type": 0, "coordinator_keys": ["a group", "another group"]}),
    "DescribeCluster": (DescribeClusterRequest, {}),
}
VERSIONS = {"Metadata": 14, "FindCoordinator": 7, "DescribeCluster": 3}  # so many a broker of release 4.3 has


def ask(port: int, question: tuple[Any, dict[str, Any]], version: int) -> bytes:
    """The answer to a request of this version, byte by byte."""
    request = question[0][version](**question[1])
    request.with_header(correlation_id=7, client_id="a client")
    with Client(port) as client:
        client.send(bytes(request.encode(header=True, framed=True)))
        return client.receive()


def named(api: str, version: int, answer: bytes) -> list[tuple[str, int]]:
    """The brokers' addresses in an answer."""
    response, _, name = NAMING[api]
    said = decoded(response, version, answer)
    return [(each.host, each.port) for each in ([said] if api == "FindCoordinator" and version < 4 else getattr(said, name))]


def without_controller(api: str, version: int, answer: bytes) -> bytes:
    """The answer without what a broker of today draws anew for each answer: a controller that clients may ask."""
    said = decoded(NAMING[api][0], version, answer)
    if getattr(said, "controller_id", None) is not None:
        said.controller_id = 1
    return encoded(said, 7)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("api", QUESTIONS)
def test_real_brokers_are_told_with_the_proxys_addresses_in_every_version(brokers: Cluster, api: str) -> None:
    """Each broker has a door of its own; all else in the answer is what the broker said, and one who asks it directly is told the truth."""
    truth = addresses(brokers.bootstrap)
    with ChaosProxy.before(brokers) as proxy:
        doors = dict(zip(truth, addresses(proxy.bootstrap), strict=True))
        assert len({*doors.values(), *truth}) == 6
        for version in range(VERSIONS[api]):
            said, told = (ask(port, QUESTIONS[api], version) for port in (truth[0][1], proxy.port))
            assert encoded(decoded(NAMING[api][0], version, said), 7) == said, "the library reads and writes it as it is"
            real = named(api, version, said)
            assert real and {*real} <= {*truth} and (api == "FindCoordinator" or len(real) == 3), version
            assert named(api, version, told) == [doors[each] for each in real], version
            here = with_doors(asked(api, version), said, lambda host, port: doors[host, port])
            assert without_controller(api, version, told) == without_controller(api, version, here)


@pytest.fixture
def spread(brokers: Cluster) -> str:
    """A topic with a partition on each of the three brokers, and a record in each."""
    name = f"kit.proxy.{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client_config(brokers))
    admin.create_topics([NewTopic(name, 3, replica_assignment=[[1], [2], [3]])])[name].result(10)
    producer = Producer(client_config(brokers))
    for partition in range(3):
        producer.produce(name, b"0", partition=partition)
    assert producer.flush(20) == 0
    return name


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("library", ["librdkafka", "java"])
def test_client_of_each_library_goes_to_no_broker_but_through_the_proxy(brokers: Cluster, spread: str, library: str) -> None:
    """It reads what the three lead, has a connection to each of the proxy's ports, and none to a broker's."""
    before = {*psutil.Process().children(recursive=True)}
    with ChaosProxy.before(brokers) as proxy:
        consumer = ConsumerProcess.start("A", settings_for(proxy.cluster, spread, library))
        try:
            records, _ = poll_until(consumer, lambda records, _: len(records) == 3)
            assert sorted(record[0] for record in records) == [0, 1, 2]
            clients = [process for process in psutil.Process().children(recursive=True) if process not in before]
            ports = {end.raddr.port for process in clients for end in process.net_connections("tcp") if end.raddr}
            doors, real = ({port for _, port in addresses(each.bootstrap)} for each in (proxy.cluster, brokers))
            assert doors <= ports and not real & ports
        finally:
            consumer.kill()
        assert "failures" not in proxy.counts() and "garbage from the broker" not in proxy.counts()


@pytest.mark.kafka
@pytest.mark.slow
def test_broker_that_leads_no_more_sends_clients_to_the_proxy(brokers: Cluster, spread: str) -> None:
    """A Produce and a Fetch at the wrong broker are refused with the address of the right one: the proxy's, who asks through it."""
    with ChaosProxy.before(brokers) as proxy, Wire.open(*addresses(proxy.bootstrap)[0]) as wire:
        nodes = wire.metadata([spread]).brokers
        wrong, right = nodes[1], nodes[3]
        with Wire.open(*wrong) as other:
            asked_at = time.monotonic()
            future = other._send_produce(spread, [WireBatch(2, [b"1"])], -1, 10_000, None, 12)
            refused = other._wait(future, asked_at + 10, "Produce")
            assert [(each.host, each.port) for each in refused.node_endpoints] == [right]
        topic_id = _topic_id(wrong[1], spread)
        of_topic = FetchRequest.FetchTopic
        partition = of_topic.FetchPartition(version=17, partition=2, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1000)
        topics = [of_topic(version=17, topic_id=topic_id, partitions=[partition])]
        fields = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1000, "topics": topics}
        assert named("Fetch", 17, ask(wrong[1], (FetchRequest, fields), 17)) == [right]


def _topic_id(port: int, topic: str) -> uuid.UUID:
    said = decoded(NAMING["Metadata"][0], 12, ask(port, (MetadataRequest, {"topics": None}), 12))
    [found] = [each.topic_id for each in said.topics if each.name == topic]
    return uuid.UUID(str(found))
