"""A cluster of one's own that wants TLS, and a password or a certificate: who is let in, also through the proxy, and what others are told.

One real broker, whose certificate and users the tests make, for all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner

from kitlib import experiments
from kitlib.cli import app, load
from kitlib.desk.settings import deeds_of
from kitlib.errors import LabError
from kitlib.experiments.idempotence.client_run import run_client
from kitlib.experiments.kafka_backend import TopicReader
from kitlib.lab import clients, kafka_server
from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.clients import client_config, kafka_python_admin, kafka_python_config
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.lab.proxy.rules import ACTIONS
from kitlib.lab.wire.connection import Wire
from kitlib.lab.wire.records import WireBatch
from kitlib.monitor.delivery import judge
from kitlib.pipelines.audit import audit
from tests.conftest import within
from tests.lab.consumers import poll_until, settings_for
from tests.lab.own_broker import Settings, own_broker
from tests.lab.test_chaos_on_kafka import Writer, check, create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CERTIFY = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=kit -addext subjectAltName=IP:127.0.0.1"
PASSWORD = 'a "secret", with = and \\'
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required user_kit={};"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True)
class Secured:
    """A broker with a door for passwords and one for certificates."""

    password_port: int
    certificate_port: int
    bare_port: int  # for passwords, without TLS
    home: Path

    def settings(self, how: str) -> dict[str, str]:
        """What its user writes into the file that KIT_KAFKA_CONFIG names."""
        trusted = {"ssl.ca.location": str(self.home / "cert.pem")}
        if how == "certificate":
            own = {"ssl.certificate.location": str(self.home / "cert.pem"), "ssl.key.location": str(self.home / "key.pem")}
            return {"security.protocol": "ssl", **trusted, **own}
        return {"security.protocol": "sasl_ssl", **trusted, "sasl.mechanisms": how, "sasl.username": "kit", "sasl.password": PASSWORD}


@pytest.fixture(scope="module")
def secured(kit_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The broker, whose user "kit" has the same password for PLAIN and for SCRAM."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes the certificate")
    home = tmp_path_factory.mktemp("secured")
    subprocess.run(CERTIFY.split(), cwd=home, check=True, capture_output=True)
    found: list[int] = []

    def change(values: Settings, more: list[int]) -> Settings:
        found.extend(more)
        return with_doors(values, more, home)

    with own_broker(home, change, 3) as broker:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 2})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("kit", info, PASSWORD.encode())])
        made["kit"].result(10)
        yield Secured(*found, home)


def with_doors(values: Settings, more: list[int], home: Path) -> Settings:
    """The settings with a door for passwords, one for certificates, and one for passwords without TLS."""
    doors = zip(("SECURE", "MUTUAL", "BARE"), more, ("SASL_SSL", "SSL", "SASL_PLAINTEXT"), strict=True)
    for name, port, protocol in doors:
        values["listeners"] += f",{name}://127.0.0.1:{port}"
        values["advertised.listeners"] += f",{name}://127.0.0.1:{port}"
        values["listener.security.protocol.map"] += f",{name}:{protocol}"
    cert, key = ((home / name).read_text().replace("\n", "\\n") for name in ("cert.pem", "key.pem"))
    own_cert = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": cert, "ssl.keystore.key": key}
    written = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    login = LOGIN.format(f'"{written}"').replace("\\", "\\\\")
    logins = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512", "plain.sasl.jaas.config": login,
        "scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
    }  # fmt: skip
    asks = {"ssl.client.auth": "required", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": cert}
    values |= {f"listener.name.secure.{name}": value for name, value in (own_cert | logins).items()}
    values |= {f"listener.name.mutual.{name}": value for name, value in (own_cert | asks).items()}
    values |= {f"listener.name.bare.{name}": value for name, value in logins.items()}
    return values


Enter = Callable[..., None]


@pytest.fixture
def enter(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Point the kit at the broker: "PLAIN", "SCRAM-SHA-512" or "certificate", with some settings changed (None: left out)."""

    def point(how: str, **change: str | None) -> None:
        settings = secured.settings(how) | {name.replace("_", "."): value for name, value in change.items()}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value is not None))
        file.chmod(0o600)
        port = secured.certificate_port if how == "certificate" else secured.password_port
        monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", f"127.0.0.1:{port}")
        monkeypatch.setenv("KIT_KAFKA_CONFIG", str(file))

    return point


@pytest.mark.parametrize(
    ("door", "says"),
    [
        ("bare_port", "asks for a password. Set security.protocol=SASL_PLAINTEXT, sasl.mechanisms=PLAIN or SCRAM-SHA-512, sasl.username"),
        ("password_port", "speaks TLS. Set security.protocol=SSL or SASL_SSL"),
        ("certificate_port", "speaks TLS. Set security.protocol=SSL or SASL_SSL"),
    ],
)
def test_a_listener_that_drops_plain_requests_is_asked_what_it_wants(
    door: str, says: str, secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without KIT_KAFKA_CONFIG the error names the settings, long before the time-out; it does not say that no Kafka is there."""
    monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", f"127.0.0.1:{getattr(secured, door)}")
    monkeypatch.delenv("KIT_KAFKA_CONFIG", raising=False)
    with pytest.raises(LabError) as told:
        clients.describe(os.environ["KIT_KAFKA_BOOTSTRAP"], timeout_s=600)
    assert says in str(told.value) and str(told.value).endswith("in the file that KIT_KAFKA_CONFIG names.")


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-512", "certificate"])
def test_each_kind_of_client_is_let_in(how: str, enter: Enter) -> None:
    """librdkafka, the wire and kafka-python's admin are let in with the user's one file, and see each other's work."""
    enter(how)
    cluster = kafka_server.ensure()
    topic = create_topic(cluster)
    with TopicReader.open(cluster, topic) as reader:
        producer = Producer(client_config(cluster))
        producer.produce(topic, b"librdkafka", partition=0)
        assert producer.flush(10) == 0
        assert reader.wire.produce(topic, [WireBatch(0, [b"wire"])])[0][0] == 0
        assert reader.read() == (0, [b"librdkafka", b"wire"])
        port = int(cluster.bootstrap.rpartition(":")[2])
        assert reader.wire.metadata([]).brokers == {1: ("127.0.0.1", port)}
    with kafka_python_admin(cluster, "a test") as admin:
        assert topic in admin.list_topics()


@pytest.mark.parametrize("library", ["librdkafka", "java"])
@pytest.mark.parametrize("is_proxied", [False, True], ids=["directly", "through the proxy"])
def test_a_member_of_each_library_is_let_in(library: str, is_proxied: bool, enter: Enter) -> None:
    """A consumer process is told its library's own names, and reads; through the proxy without TLS, with the same password."""
    enter("certificate" if library == "java" and not is_proxied else "SCRAM-SHA-512")
    direct = kafka_server.ensure()
    topic = create_topic(direct)
    producer = Producer(client_config(direct))
    producer.produce(topic, b"0", partition=0)
    assert producer.flush(10) == 0
    with ChaosProxy.before(direct) if is_proxied else nullcontext() as proxy:
        cluster = direct if proxy is None else proxy.cluster
        consumer = ConsumerProcess.start("A", settings_for(cluster, topic, library, more=clients.LIBRARY_CONFIGS[library](cluster)))
        try:
            records, _ = poll_until(consumer, lambda records, _: len(records) == 1)
            assert [tuple(each[:2]) for each in records] == [(0, 0)]
        finally:
            consumer.kill()


KINDS = [action for action in ACTIONS if action not in ("answer_error", "replace_answer", "stop_reading", "withhold")]


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-512", "certificate"])
def test_the_proxy_stands_before_it_and_does_each_of_its_deeds(how: str, enter: Enter) -> None:
    """Its clients speak no TLS and give the password that the cluster wants; whatever it does, each record is stored once, in order."""
    enter(how)
    cluster = kafka_server.ensure()
    with ChaosProxy.before(cluster) as proxy:
        assert client_config(proxy.cluster).get("security.protocol") == ("PLAINTEXT" if how == "certificate" else "SASL_PLAINTEXT")
        topic = create_topic(proxy.cluster)
        for action in KINDS:
            proxy.add(Rule(action, count=1, ms=100 if "delay" in action else 0))
        for action in ("withhold", "stop_reading"):
            proxy.add(Rule(action, count=1, ms=100))
        proxy.add(Rule("answer_error", count=1, error="NOT_ENOUGH_REPLICAS"))
        proxy.add(Rule("replace_answer", count=1, error="REQUEST_TIMED_OUT"))
        more = {"socket.timeout.ms": 1500, "reconnect.backoff.max.ms": 300}
        check(Writer(proxy.cluster, topic, more=more).send(range(6000)).finish(60), 0, cluster)
        counts = proxy.counts()
        assert {action: counts.get(action) for action in ACTIONS} == dict.fromkeys(ACTIONS, 1) and "failures" not in counts
        with kafka_python_admin(proxy.cluster, "a test") as admin:
            assert topic in admin.list_topics()


def test_who_is_not_let_in_is_told_so_through_the_proxy_too(enter: Enter, secured: Secured) -> None:
    """A wrong password is the broker's word; a broker that nobody vouches for is not spoken to at all."""
    enter("PLAIN", sasl_password="other")
    port = secured.password_port
    with ChaosProxy.before(Cluster(f"127.0.0.1:{port}", None, 1, "external")) as proxy:
        with pytest.raises(LabError, match="Authentication failed"):
            Wire.open("127.0.0.1", proxy.port, timeout_s=5, **kafka_python_config(proxy.cluster))
        assert "unreachable" not in proxy.counts()
    enter("PLAIN", ssl_ca_location=None)
    with ChaosProxy.before(Cluster(f"127.0.0.1:{port}", None, 1, "external")) as proxy:
        with pytest.raises(LabError, match="No Kafka broker answers"):
            Wire.open("127.0.0.1", proxy.port, timeout_s=5, **kafka_python_config(proxy.cluster))
        assert proxy.counts()["unreachable"] >= 1


def test_an_experiment_and_its_audit_by_spark_need_no_more_than_the_file(enter: Enter, spark: Any) -> None:
    """A run on that cluster comes to the model's verdict, and Spark's audit agrees."""
    enter("SCRAM-SHA-512")
    trace = experiments.get("out_of_range").run(backend="kafka")
    assert judge(trace).counts == judge(experiments.get("out_of_range").run(backend="model")).counts
    assert audit(trace.run).differences(judge(trace)) == ()


PARTITION_MANAGER_QUERY = """
import sys
from kitlib.spark import sessions as kit_spark
from kitlib.pipelines.partition_manager_source import partition_manager_stream
topic, folder = sys.argv[1:]
spark = kit_spark.session()
stream = partition_manager_stream(spark, topic=topic, id=topic, forceFromStart="true")
found = []
def sink(batch, _):
    found.extend((row.offset, int(row.value.split(b":")[0])) for row in batch.collect())
query = kit_spark.start(stream.writeStream.option("checkpointLocation", folder).trigger(availableNow=True), sink)
assert query.awaitTermination(60)
print([number for _, number in sorted(found)])
"""


def test_the_partition_manager_reads_it_with_spark(enter: Enter, tmp_path: Path) -> None:
    """Planner, ledgers and tasks are let in, though Spark was started by somebody who did not know the cluster."""
    enter("SCRAM-SHA-512")
    cluster = kafka_server.ensure()
    topic = create_topic(cluster)
    check(Writer(cluster, topic).send(range(1000)).finish(), 0, cluster)
    command = [sys.executable, "-c", PARTITION_MANAGER_QUERY, topic, str(tmp_path / "checkpoint")]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert asked.stdout.splitlines()[-1:] == [str(list(range(1000)))], asked.stderr[-3000:]


def test_offsets_and_lag_are_read_there_too(enter: Enter) -> None:
    """`kit offsets` finds a group's commit in the cluster's log, and `kit watch` how far behind the group is."""
    enter("PLAIN")
    cluster = kafka_server.ensure()
    topic = create_topic(cluster)
    producer = Producer(client_config(cluster))
    for _ in range(3):
        producer.produce(topic, b"0", partition=0)
    assert producer.flush(10) == 0
    with closing(Consumer(client_config(cluster, **{"group.id": topic}))) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    load(["offsets"])
    offsets = CliRunner().invoke(app, ["offsets", topic, "--json"])
    assert offsets.exit_code == 0, offsets.output
    [found] = json.loads(offsets.stdout)["partitions"]
    assert (found["topic"], found["committed"], len(found["commits"])) == (topic, 2, 1)
    watched = CliRunner().invoke(app, ["watch", topic, "--once", "--json"])
    [partition] = json.loads(watched.stdout)["partitions"]
    assert (watched.exit_code, partition["committed"], partition["lag"], partition["finding"]) == (2, 2, 1, "without membership")


def test_what_needs_the_kits_own_brokers_says_so_before_it_begins(enter: Enter) -> None:
    """A restart and a broker's setting are refused before the run has a topic."""
    enter("PLAIN")
    cluster = kafka_server.ensure()
    admin = AdminClient(client_config(cluster))
    before = {*admin.list_topics(timeout=10).topics}
    with pytest.raises(LabError, match=r"^a run in which the broker is killed: the brokers at .* Unset KIT_KAFKA_BOOTSTRAP"):
        run_client(fault="broker_killed")
    with pytest.raises(LabError, match=r"^a run with verification=false.* are not the kit's"):
        experiments.get("hanging_transaction").run(backend="kafka", verification=False)
    for name in ("broker_restart", "producer_id_expired"):
        with pytest.raises(LabError, match=r"^a run that restarts the broker .* are not the kit's"):
            experiments.get(name).run(backend="kafka")
    with pytest.raises(LabError, match="not the kit's to kill"):
        kafka_server.restart()
    load(["desk"])
    told = CliRunner().invoke(app, ["desk", "--at", "5=kill-broker"])
    assert isinstance(told.exception, LabError) and str(told.exception).startswith("--at kill-broker: the brokers at "), told.output
    assert deeds_of(cluster) == ["database away", "kill spout"]
    # A backend's store and the broker's own topics are there before any run.
    assert {*admin.list_topics(timeout=10).topics} - before <= {"kit.offsets", "__consumer_offsets", "__transaction_state"}
    trace = run_client(rules=[Rule("withhold")], ending="cut", records=5, batch_records=1, linger_ms=0)
    assert [step.data["offset"] for step in trace if step.what == "delivered"] == list(range(5))


WRONG = [
    pytest.param({"sasl_password": "other"}, "Authentication failed", id="a wrong password"),
    pytest.param({"ssl_ca_location": None}, "certificate verify failed", id="a certificate that nobody vouches for"),
]


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("change", "said"), WRONG)
def test_who_is_not_let_in_is_told_why_at_once(change: dict[str, str | None], said: str, how: str, enter: Enter) -> None:
    """A wrong password and an unknown certificate are one sentence with the reason, long before anything times out."""
    enter(how, **change)
    began = time.monotonic()
    with pytest.raises(LabError, match=f"the cluster refuses the kit .*{said}.*Correct KIT_KAFKA_CONFIG"):
        kafka_server.ensure()
    assert time.monotonic() - began < within(3)


WRONG_WIRE = [
    pytest.param({"sasl_plain_password": "other"}, "Authentication failed", id="a wrong password"),
    pytest.param({"ssl_cafile": None}, "CERTIFICATE_VERIFY_FAILED", id="a certificate that nobody vouches for"),
    pytest.param({"security_protocol": "PLAINTEXT"}, "Invalid frame length|disconnected", id="no TLS"),
]


@pytest.mark.parametrize(("change", "said"), WRONG_WIRE)
def test_wire_that_is_not_let_in_is_told_why(change: dict[str, Any], said: str, enter: Enter, secured: Secured) -> None:
    """A wrong password, an unknown certificate and a connection without TLS are a LabError with the reason."""
    enter("PLAIN")
    security = kafka_python_config(Cluster("", None, 1, "external"))
    with pytest.raises(LabError, match=f"No Kafka broker answers .*({said})"):
        Wire.open("127.0.0.1", secured.password_port, timeout_s=5, **security | change)
