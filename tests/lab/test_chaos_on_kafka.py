"""What stock clients and a real broker make of a bad network: counted exactly where it can be, nothing acknowledged is lost.

Batches are of 100 records, so a batch that is stored twice shows as 100 duplicates.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import kafka.admin
import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kitlib.lab import kafka_server
from kitlib.lab.client_processes.share_consumer import ShareConsumerProcess
from kitlib.lab.clients import Cluster, client_config, kafka_python_admin
from kitlib.lab.processes import wait_until
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from tests.lab.records import read

pytestmark = pytest.mark.kafka

BATCH = 100
# Cut short, so that a test does not wait for what a client does at leisure.
HASTY = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 100, "topic.metadata.refresh.interval.ms": 1000}


@pytest.fixture
def topic(broker: Cluster) -> str:
    """A new topic of one partition on the session's broker."""
    return create_topic(broker)


@pytest.fixture
def proxy(broker: Cluster) -> Iterator[ChaosProxy]:
    """A proxy before the session's broker, without rules; nothing in it may fail."""
    with ChaosProxy.before(kafka_server.ensure()) as proxy:
        yield proxy
        assert "failures" not in proxy.counts() and "garbage" not in proxy.counts()


def create_topic(cluster: Cluster, partitions: int = 1) -> str:
    name = f"kit.proxy.{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client_config(cluster))
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(10)
    wait_until(lambda: len(admin.list_topics(name, timeout=5).topics[name].partitions) == partitions, 30, "the topic is there")
    return name


@dataclass
class Writer:
    """A real producer that numbers its records, and what it was told of each."""

    cluster: Cluster
    topic: str
    idempotent: bool = True
    in_flight: int = 5
    client_id: str = "writer"
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.acknowledged: list[int] = []
        self.failed: dict[int, str] = {}
        self.fatal: list[str] = []
        self.producer = Producer(client_config(self.cluster, **{
            "enable.idempotence": self.idempotent, "max.in.flight.requests.per.connection": self.in_flight, "acks": "all",
            "linger.ms": 1000, "batch.num.messages": BATCH, "client.id": self.client_id, **HASTY, **self.more,
        }))  # fmt: skip

    def send(self, numbers: range, padding: int = 0) -> Writer:
        for number in numbers:
            self.producer.produce(self.topic, f"{number}:".encode() + b"." * padding, on_delivery=self._told(number))
        return self

    def _told(self, number: int) -> Any:
        def told(error: KafkaError | None, _message: object) -> None:
            if error is None:
                self.acknowledged.append(number)
            else:
                self.failed[number] = error.name()

        return told

    def finish(self, seconds: float = 30) -> Writer:
        try:
            assert self.producer.flush(seconds) == 0, "the producer still waits"
        except KafkaException as error:
            assert error.args[0].fatal()
            self.fatal.append(error.args[0].name())
            self.producer.purge()
            self.producer.poll(1)
        return self


def check(writer: Writer, duplicates: int = 0, cluster: Cluster | None = None) -> None:
    """Everything was acknowledged, everything is there, and so many copies too many; in order, if idempotent."""
    found = read(cluster or kafka_server.ensure(), writer.topic)
    numbers = range(len(writer.acknowledged))
    assert sorted(writer.acknowledged) == list(numbers) and not writer.failed and not writer.fatal
    assert set(found) == set(numbers), "acknowledged and lost"
    assert len(found) - len(set(found)) == duplicates
    if writer.idempotent:
        assert found == list(numbers), "out of order"


@pytest.mark.parametrize(
    ("idempotent", "in_flight"), [(True, 1), (True, 5), (False, 1), (False, 2), (False, 5)],
    ids=["idempotent, 1", "idempotent, 5", "not idempotent, 1", "not idempotent, 2", "not idempotent, 5"],
)  # fmt: skip
def test_answers_lost_are_batches_stored_twice_unless_idempotent(
    proxy: ChaosProxy, topic: str, idempotent: bool, in_flight: int
) -> None:
    """The batches in flight lose their answers: idempotent none is stored twice, otherwise each of them.

    librdkafka 2.16 keeps a single request in flight when idempotent, whatever it may (its pull request 4989).
    """
    under_way = 1 if idempotent else in_flight
    writer = Writer(proxy.cluster, topic, idempotent, in_flight)
    writer.send(range(BATCH)).finish()
    proxy.add(Rule("withhold"))
    writer.send(range(BATCH, 2000))
    proxy.wait_for(lambda: proxy.counts().get("withhold", 0) >= under_way, what="the answers are withheld")
    assert proxy.counts()["withhold"] == under_way
    proxy.clear()
    proxy.cut()
    check(writer.finish(), 0 if idempotent else under_way * BATCH)


def test_broker_killed_before_its_answers_arrive(proxy: ChaosProxy, topic: str) -> None:
    """SIGKILL with one answer under way: idempotent the retry is recognised by the new process, otherwise stored again."""
    proxy.add(Rule("withhold"))
    writers = [
        Writer(proxy.cluster, topic, True, 1, "idempotent").send(range(1000)),
        Writer(proxy.cluster, create_topic(kafka_server.ensure()), False, 1, "plain").send(range(1000)),
    ]
    proxy.wait_for(lambda: proxy.counts().get("withhold") == 2, what="the answers are withheld")
    proxy.clear()
    after = kafka_server.restart("kill")
    proxy.cut()
    check(writers[0].finish(), 0, after)
    check(writers[1].finish(), BATCH, after)


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "not idempotent"])
def test_answer_that_comes_too_late_is_a_lost_answer(proxy: ChaosProxy, topic: str, idempotent: bool) -> None:
    """A client that has given up waiting sends the batch again; the late answer changes nothing."""
    proxy.add(Rule("delay_answer", ms=4000, count=1))
    began = time.monotonic()
    writer = Writer(proxy.cluster, topic, idempotent, 1, more={"socket.timeout.ms": 2000}).send(range(500)).finish()
    assert time.monotonic() - began < 20
    check(writer, 0 if idempotent else BATCH)


def test_black_hole_in_either_direction_ends_with_unknown_fates_and_no_hang(proxy: ChaosProxy, broker: Cluster) -> None:
    """Requests, answers or both vanish: within its timeout the client says that it does not know; what is stored, is stored once."""
    holes = {"up": ["lose_request"], "down": ["lose_answer"], "both": ["lose_request", "lose_answer"]}
    more = {"message.timeout.ms": 5000, "socket.timeout.ms": 1500}
    writers = {name: Writer(proxy.cluster, create_topic(broker), True, 5, name, more) for name in holes}
    for writer in writers.values():
        writer.send(range(100)).finish()
    for name, actions in holes.items():
        for action in actions:
            proxy.add(Rule(action, "any", client_id=name))
    began = time.monotonic()
    for writer in writers.values():
        writer.send(range(100, 600))
    for writer in writers.values():
        writer.finish(15)
    assert time.monotonic() - began < 15
    for name, writer in writers.items():
        assert sorted(writer.acknowledged) == list(range(100))
        assert writer.failed.keys() == set(range(100, 600)) and set(writer.failed.values()) <= {"_MSG_TIMED_OUT", "_PURGE_QUEUE"}
        found = read(broker, writer.topic)
        assert found[:100] == list(range(100)) and len(found) == len(set(found))
        assert (len(found) > 100) == (name == "down"), "told as failed, and stored: a timeout says nothing about a write"


# The rules, the client's settings, and how often which deed is done.
NETWORKS: dict[str, tuple[list[str], dict[str, Any], dict[str, int]]] = {
    "one that breaks after each fourth answer": (["cut_after_answer:percent=25,count=5"], {}, {"cut_after_answer": 5}),
    "resets in requests and answers": (["reset:skip=3,count=2", "reset_answer:skip=4,count=2"], {}, {"reset": 2, "reset_answer": 2}),
    "one that takes nothing any more": (["stop_reading:skip=2,count=1"], {"socket.timeout.ms": 700}, {"stop_reading": 1}),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_bad_network_costs_nothing_but_time(proxy: ChaosProxy, topic: str, network: str) -> None:
    """Nothing is lost, nothing doubled, and all is in order."""
    rules, more, deeds = NETWORKS[network]
    for rule in rules:
        proxy.add(Rule.parse(rule))
    check(Writer(proxy.cluster, topic, more=more).send(range(3000)).finish())
    assert {deed: proxy.counts().get(deed) for deed in deeds} == deeds


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "not idempotent"])
def test_request_sent_twice_is_stored_twice_unless_idempotent(proxy: ChaosProxy, topic: str, idempotent: bool) -> None:
    """A network that repeats a frame with the same id, epoch and sequence is seen through only with idempotence."""
    proxy.add(Rule("duplicate_request", skip=1, count=3))
    writer = Writer(proxy.cluster, topic, idempotent, 1).send(range(1000)).finish()
    check(writer, 0 if idempotent else 3 * BATCH)


# What the client makes of one such answer: on which API, instead of the work or after it, and the duplicates when not
# idempotent; None: the batch is given up with this error.
ERRORS = {
    "NOT_LEADER_OR_FOLLOWER": ("Produce", "answer_error", 0),
    "NOT_ENOUGH_REPLICAS": ("Produce", "answer_error", 0),
    "COORDINATOR_NOT_AVAILABLE": ("InitProducerId", "answer_error", 0),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": ("Produce", "replace_answer", BATCH),
    "REQUEST_TIMED_OUT": ("Produce", "replace_answer", BATCH),
    "TOPIC_AUTHORIZATION_FAILED": ("Produce", "answer_error", None),
    "INVALID_RECORD": ("Produce", "answer_error", None),
    "UNKNOWN_TOPIC_ID": ("Produce", "answer_error", None),
    "INVALID_PRODUCER_EPOCH": ("Produce", "answer_error", None),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": ("Produce", "answer_error", None),
}


@pytest.mark.parametrize("error", ERRORS)
def test_error_is_retried_or_named(proxy: ChaosProxy, topic: str, error: str) -> None:
    """A passing error costs a retry, and a duplicate where the work was done before; a lasting one is told by its name."""
    api, action, duplicates = ERRORS[error]
    for idempotent, name in ((True, topic), (False, create_topic(proxy.cluster))):
        proxy.add(Rule(action, api, count=1, error=error))
        writer = Writer(proxy.cluster, name, idempotent, 1).send(range(500)).finish()
        if duplicates is not None:
            check(writer, 0 if idempotent else duplicates)
            continue
        assert error in {*writer.failed.values(), *writer.fatal}
        assert len(writer.failed) >= BATCH and len(writer.failed) + len(writer.acknowledged) == 500
        assert sorted(read(proxy.cluster, name)) == sorted(writer.acknowledged)
        # Nobody but an idempotent producer can be told that its sequence is broken, and then it stops for good.
        assert writer.fatal == ([error] if idempotent and error == "OUT_OF_ORDER_SEQUENCE_NUMBER" else [])
    proxy.clear()


KIT_PROXY = [sys.executable, "-c", "import sys, kitlib.cli.proxy; kitlib.cli.main(['proxy', *sys.argv[1:]])"]


@contextmanager
def proxy_process(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`kit proxy` as a process of its own, and the address that it prints first."""
    with subprocess.Popen([*KIT_PROXY, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_proxy_killed_under_load_leaves_the_broker_alone_and_comes_back(broker: Cluster, topic: str) -> None:
    """SIGKILL for `kit proxy`: clients are refused, and through a new one on the same port all arrives once."""
    direct = kafka_server.ensure()
    with proxy_process() as (first, address):
        writer = Writer(replace(direct, bootstrap=address), topic)
        writer.send(range(3000))
        wait_until(lambda: writer.producer.poll(0.02) or len(writer.acknowledged) >= 500, 30, "500 are acknowledged")
        first.kill()
        first.wait(5)
    writer.send(range(3000, 4000))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), timeout=5).close()
    assert kafka_server.status().is_running
    with proxy_process("--port", address.rsplit(":", 1)[1]) as (_, again):
        assert again == address
        check(writer.finish(), 0, direct)
    assert kafka_server.ensure().pids == direct.pids


def test_proxy_on_the_command_line_says_what_it_did_and_ends_at_ctrl_c(broker: Cluster, topic: str) -> None:
    """Rules from the command line act, each deed is a line, the counts are the last one; Ctrl-C ends it without a trace."""
    with proxy_process("--rule", "cut_after_answer:skip=1,count=2", "--seed", "3") as (process, address):
        check(Writer(replace(broker, bootstrap=address), topic).send(range(500)).finish())
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors, errors
    lines = output.splitlines()
    assert len([line for line in lines if "cut_after_answer, Produce" in line and "rule 1" in line]) == 2
    assert lines[-1].startswith("counted: ") and "cut_after_answer 2" in lines[-1]
    wrong = subprocess.run([*KIT_PROXY, "--rule", "melt"], capture_output=True, text=True, check=False, timeout=30)
    assert wrong.returncode == 2 and "no action 'melt'" in wrong.stderr


def test_proxy_on_the_command_line_ends_with_its_reader(broker: Cluster) -> None:
    """After `kit proxy | head -1` nothing is left before the brokers, although nothing has happened that could be printed."""
    with proxy_process() as (process, _):
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == ""


def test_one_consumer_cut_off_costs_one_rebalance_and_no_commit(proxy: ChaosProxy, broker: Cluster) -> None:
    """A member that vanishes is left out after its session timeout: the other has all partitions, from the commits on."""
    topic = create_topic(broker, partitions=2)
    producer = Producer(client_config(broker))
    for partition in (0, 1):
        for number in range(50):
            producer.produce(topic, str(number), partition=partition)
    assert producer.flush(10) == 0
    assigned: dict[str, list[list[int]]] = {"victim": [], "other": []}

    def member(name: str) -> Consumer:
        consumer = Consumer(client_config(proxy.cluster, **{  # type: ignore[arg-type]
            "group.id": topic, "client.id": name, "session.timeout.ms": 5000, "heartbeat.interval.ms": 200,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "max.poll.interval.ms": 60_000,
        }))  # fmt: skip
        consumer.subscribe([topic], on_assign=lambda _, parts: assigned[name].append([part.partition for part in parts]))
        return consumer

    def shares() -> list[list[int]]:
        return [each[-1] if each else [] for each in assigned.values()]

    victim, other = member("victim"), member("other")
    try:
        wait_until(lambda: [each.poll(0.05) for each in (victim, other)] and shares() in ([[0], [1]], [[1], [0]]), 30,
                   "each has one partition")
        [lost] = assigned["victim"][-1]
        victim.commit(offsets=[TopicPartition(topic, lost, 30)], asynchronous=False)
        rebalances = len(assigned["other"])
        for action in ("lose_request", "lose_answer"):
            proxy.add(Rule(action, "any", client_id="victim"))
        first: list[int] = []

        def read_on() -> bool:
            for message in other.consume(100, 0.05):
                if message.error() is None and message.partition() == lost:
                    first.append(message.offset())
            return bool(first)

        wait_until(read_on, 30, "the other reads the victim's partition")
        assert sorted(assigned["other"][-1]) == [0, 1] and len(assigned["other"]) == rebalances + 1
        assert first[0] == 30
    finally:
        proxy.clear()
        for each in (victim, other):
            each.close()


def test_share_consumer_reads_and_answers_through_the_proxy_alone(proxy: ChaosProxy, broker: Cluster, topic: str) -> None:
    """A share group's coordinator, its records and its answers: all come through the proxy, and none of its frames is garbage."""
    with kafka_python_admin(broker, "the group cannot be set up") as admin:
        begins = {"share.auto.offset.reset": "earliest"}
        admin.alter_configs([kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.GROUP, topic, begins)])
    Writer(broker, topic).send(range(3)).finish()
    settings = {
        "library": "librdkafka", "bootstrap": proxy.bootstrap, "client_id": "sharer", "group": topic, "topic": topic,
        "max_poll_records": 10, "acknowledge": "explicit", "more": {},
    }  # fmt: skip
    consumer = ShareConsumerProcess.start("A", settings)
    try:
        found: dict[int, int] = {}
        wait_until(lambda: [found.update(consumer.fetch(500))] and len(found) == 3, 60, "three records have come")
        assert found == {0: 1, 1: 1, 2: 1}, "each at its first delivery"
        ports_used = {end.raddr.port for pid in consumer.pids for end in psutil.Process(pid).net_connections("tcp") if end.raddr}
        assert ports_used == {proxy.port}
        assert consumer.answer(dict.fromkeys(found, "accept")) == "NONE"
    finally:
        consumer.kill()
