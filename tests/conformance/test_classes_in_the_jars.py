"""What a group decides and stores, against Kafka's own classes in the jars, asked as the tests run.

The recordings are of one release, and of the groups and bytes that somebody thought of. Here examples are drawn, and whatever
release the jars are of has to agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.offsets_topic import told
from kitlib.java.texts import text_of
from kitlib.lab.client_processes import java as java_consumer
from kitlib.lab.java_client import JavaClient
from kitlib.more.assignors import ASSIGNORS, COOPERATIVE, AssignorFailedError, Subscription, TopicPartition, assign

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = ("orders", "clicks.1", "clicks.2", "t10", "Ärger", "AaAa", "BBBB", "AaBB")  # the last three have one hash code
MEMBERS = ("m0", "m1", "consumer-10-8c44ad1b", "é", "AaAa", "BBBB", "AaBB")
ASKED = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

Group = tuple[dict[str, int], list[Subscription]]
Jvm = Callable[[], JavaClient]  # a function, because Hypothesis prints a test's arguments and Py4J takes that for a question to Java


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    with JavaClient.open() as client:
        yield lambda: client


@st.composite
def groups(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Group:
    """Topics, and members with what they read and say that they own: all alike or not, right or not."""
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1))
    some_topics = st.lists(st.sampled_from([*partitions, "gone"]), unique=True)
    there = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    some_partitions = st.lists(st.sampled_from([*there, TopicPartition("gone", 0)]), unique=True, max_size=12)
    of_all = draw(st.none() | some_topics)
    members = []
    for name in draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True)):
        topics = draw(some_topics) if of_all is None else of_all
        instance = draw(st.sampled_from([None, None, f"i-{name}"]))
        members.append(Subscription(name, tuple(topics), tuple(draw(some_partitions)), draw(st.integers(-1, 3)), instance))
    return partitions, members


def decided(java: JavaClient, strategy: str, partitions: Mapping[str, int], members: Sequence[Subscription]) -> Any:
    """What the leader's assignor gives each member, or the class of what it throws; subscriptions travel as bytes, as in a group."""
    jvm, clients = java.jvm, java.jvm.org.apache.kafka.clients.consumer
    common, nothing = jvm.org.apache.kafka.common, jvm.java.util.Optional.empty()
    assignor, protocol = getattr(clients, java_consumer.ASSIGNORS[strategy]), clients.internals.ConsumerProtocol
    plan, told_in = (getattr(clients, f"ConsumerPartitionAssignor${name}") for name in ("Assignment", "Subscription"))
    subscriptions = jvm.java.util.HashMap()
    for each in members:
        owned, topics = jvm.java.util.ArrayList(), jvm.java.util.HashSet()
        for partition in each.owned:
            owned.add(common.TopicPartition(*partition))
        for topic in each.topics:
            topics.add(topic)
        own = assignor()
        if each.generation >= 0:
            own.onAssignment(plan(owned, None), clients.ConsumerGroupMetadata("g", each.generation, each.member, nothing))
        kept = owned if strategy in COOPERATIVE else jvm.java.util.ArrayList()  # others have given up all when they join
        sent = told_in(jvm.java.util.ArrayList(topics), own.subscriptionUserData(topics), kept, each.generation, nothing)
        got = protocol.deserializeSubscription(protocol.serializeSubscription(sent))
        if each.instance_id is not None:
            got.setGroupInstanceId(jvm.java.util.Optional.of(each.instance_id))
        subscriptions.put(each.member, got)
    node, replicas = common.Node(1, "h", 1), java.gateway.new_array(common.Node, 1)
    nodes, infos = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    replicas[0] = node
    nodes.add(node)
    for topic, count in partitions.items():
        for number in range(count):
            infos.add(common.PartitionInfo(topic, number, node, replicas, replicas))
    cluster = common.Cluster("c", nodes, infos, jvm.java.util.HashSet(), jvm.java.util.HashSet())
    try:
        given = assignor().assign(cluster, getattr(clients, "ConsumerPartitionAssignor$GroupSubscription")(subscriptions)).groupAssignment()
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getSimpleName())
    return {member: [(each.topic(), each.partition()) for each in given.get(member).partitions()] for member in given.keySet()}


@pytest.mark.parametrize("strategy", ASSIGNORS)
@ASKED
@given(groups())
def test_partitions_are_given_as_the_class_gives_them(jvm: Jvm, strategy: str, group: Group) -> None:
    """To the same members in the same order, and where the class throws, the model does."""
    try:
        ours: Any = {member: [(*each,) for each in has] for member, has in assign(strategy, *group).items()}
    except AssignorFailedError as failed:
        ours = failed.exception
    assert ours == decided(jvm(), strategy, *group)


PIECES = (b"a", b"\x80", b"\xc3\xa4", b"\xc0", b"\xe2\x82", b"\xed\xa0", b"\xed\xbf\xbf", b"\xf0\x9f\x98", b"\xf4\x90", b"\xff")


@settings(ASKED, max_examples=300)
@given(st.lists(st.sampled_from(PIECES)).map(b"".join) | st.binary())
def test_bytes_that_are_no_text_become_the_text_that_java_makes_of_them(jvm: Jvm, raw: bytes) -> None:
    """Cut characters, halves of surrogate pairs, bytes that no character has."""
    assert text_of(raw) == jvm().jvm.java.lang.String(raw, "UTF-8")


ROWS = [row["steps"][0]["args"] for row in read_traces(bundled("groups", "offsets_topic_public.jsonl.gz"))]
CHANGES = st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4))  # where, how many bytes go, which come


def changed(raw: bytes, change: tuple[float, int, bytes]) -> bytes:
    where, gone, come = change
    at = round(where * len(raw))
    return raw[:at] + come + raw[at + gone :]


def read_by_kafka(java: JavaClient, key: bytes, value: bytes | None) -> dict[str, Any]:
    """What the coordinator's reader makes of a record, in the recording's words."""
    buffer, coordinator = java.jvm.java.nio.ByteBuffer, java.jvm.org.apache.kafka.coordinator.group
    serde, as_json = coordinator.GroupCoordinatorRecordSerde(), coordinator.generated.CoordinatorRecordJsonConverters
    try:
        record = serde.deserialize(buffer.wrap(key), None if value is None else buffer.wrap(value))
    except Py4JJavaError as error:
        thrown = error.java_exception
        return {"decoded": None, "error": {"class": thrown.getClass().getName(), "message": thrown.getMessage()}}
    kept, written, said = record.value(), serde.serializeValue(record), None
    if kept is not None:
        fields = as_json.writeRecordValueAsJson(kept.message(), kept.version()).toString()
        said = {"version": kept.version(), "data": json.loads(fields)}
    return {
        "decoded": {"key": json.loads(as_json.writeRecordKeyAsJson(record.key()).toString()), "value": said},
        "reencodes_identically": (bytes(serde.serializeKey(record)), None if written is None else bytes(written)) == (key, value),
    }


@settings(ASKED, max_examples=500)
@given(row=st.sampled_from(ROWS), of_key=st.none() | CHANGES, of_value=st.none() | CHANGES)
def test_bytes_that_were_changed_are_read_as_the_coordinator_reads_them(jvm: Jvm, row: Any, of_key: Any, of_value: Any) -> None:
    """Recorded keys and values, cut, lengthened and overwritten: the same fields come out, or the same error with the same message."""
    key, value = (None if row[name] is None else bytes.fromhex(row[name]) for name in ("key_hex", "value_hex"))
    assert key is not None
    key = key if of_key is None else changed(key, of_key)
    value = value if value is None or of_value is None else changed(value, of_value)
    ours = json.loads(json.dumps(told(key, value)))
    assume("tagged fields" not in str(ours.get("error")))  # 4.4.0, as recorded, looks at their number; the jars are of 4.3.1
    if ours["decoded"]:
        read = ours["decoded"]
        ours["decoded"] = {"key": read["key"]["data"], "value": read.get("value")}
    assert ours == read_by_kafka(jvm(), key, value)
