"""A cluster of one's own with Kafka's own defaults: what the kit does there, and what it says of the cluster's limits."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kitlib import experiments
from kitlib.errors import KnobError, LabError
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.lab import kafka_server
from kitlib.lab.wire.coordinator import DeniedError
from kitlib.monitor.delivery import judge
from tests.conftest import REPOSITORY
from tests.lab.own_broker import Settings, own_broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

# What one broker alone cannot do without; every other setting is Kafka's own default, as group.initial.rebalance.delay.ms=3000.
WHO, ONE = ("process.roles", "node.id", "controller", "listener", "advertised", "log.dir", "inter.broker"), "1"
ALONE = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr")

# A CreateTopicPolicy whose `validate` throws PolicyViolationException("topics are ordered from the platform team"), by javac 17.
REFUSES = (
    "eNqlkt9LG0EQx79rEi9Jk1pjtb/LCYVGX9Y3H2qlEHwoKC1ahD5OL3Pn6mX3urcJ9s/qk1DBvvePKp07QwV9Kl24nZ3d73znczC/fv+4AvAWL7tYQCNCs4cW"
    "FhUenNKMdE420x++nHISFBZ3jDVhV6Ex3DiO0FbYdj7TVFBywvqM0jPSiZtMnNXsvfOl/uhyk3w7Ni6nYJzdO0+4qA5tdBU2gitMUsbkOXZ+zJ7HcerdJA4n"
    "HBdSkTovCdOkiwi9iquvsDrcvyE7Ct7Y7E1Fs6QQHXI6LbmMsKywdQetZD9jr4uaSY88U+BPFcI1pUJz5Mas0EmcTU029XIezLtNg8n1ARXSSgRHJrMUasHr"
    "W4Kdu3Sbu3VVe0a5GUtPhb3h/r/SvTrkr1MuwwEHEhOqLVtJ7krx6723lv0op7L+++cK7/7XX2Hp1g3WcV9GRCZD5qUpUcZE9oFkyxKVxNbmBdR3VEthBQ9F"
    "Xj335Vuo7q6fVut0TSSP8HjusIZGLeleIvo86Fzg3s+5zZO/Xfp1jpsOT6sCic8E6QU6fwBTNLd8"
)


def stock(values: Settings, more: list[int]) -> Settings:
    return {name: value for name, value in values.items() if name.startswith(WHO)} | dict.fromkeys(ALONE, ONE)


@pytest.fixture(scope="module")
def cluster(kit_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where it is; KIT_KAFKA_BOOTSTRAP names it."""
    with own_broker(tmp_path_factory.mktemp("stock"), stock) as broker, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KIT_KAFKA_BOOTSTRAP", f"127.0.0.1:{broker.port}")
        yield os.environ["KIT_KAFKA_BOOTSTRAP"]


def test_a_session_that_nobody_asked_for_is_raised_to_the_clusters_least_one(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The run says so, its trace has it, and its verdict is that of the kit's own broker."""
    trace = experiments.run("auto_commit", backend="kafka")
    assert trace.settings.session_ms == 6_000
    assert "sessions below 6000 ms (group.min.session.timeout.ms of its brokers); session_ms is 6000" in capsys.readouterr().err
    assert judge(trace).counts == judge(experiments.run("auto_commit")).counts


@pytest.mark.parametrize(
    ("name", "knobs", "instead"),
    [("auto_commit", {"session_ms": 1_500}, "run with session_ms=6000"), ("poll_too_late", {}, "use the kit's own broker")],
)
def test_a_session_that_the_cluster_refuses_is_an_error_that_names_the_setting(
    cluster: str, name: str, knobs: dict[str, int], instead: str
) -> None:
    """At once, before anything is made, where it was asked for and where the experiment takes none so long."""
    with pytest.raises(KnobError, match=rf"group\.min\.session\.timeout\.ms of its brokers\), not session_ms=1500.*{instead}\."):
        experiments.run(name, backend="kafka", **knobs)


def test_a_cluster_that_cannot_make_the_groups_topic_says_so(kit_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One broker with every default of Kafka wants three replicas: told at once, and what needs no group runs."""
    with own_broker(tmp_path, lambda values, more: {each: value for each, value in values.items() if each.startswith(WHO)}) as broker:
        monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", f"127.0.0.1:{broker.port}")
        assert judge(experiments.run("happy_path", backend="kafka")).violations == ()
        with pytest.raises(KnobError, match=r"offsets\.topic\.replication\.factor=3, with 1 broker\. Set it to 1"):
            experiments.run("commit_and_abort", backend="kafka")


def test_a_policy_that_refuses_the_kits_topics_is_told_in_its_own_words(
    kit_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster's owner may let no topic be made but their own way: what the policy says, and the setting that has it."""
    (tmp_path / "Refuses.class").write_bytes(zlib.decompress(base64.b64decode(REFUSES)))
    policy = {"create.topic.policy.class.name": "Refuses"}
    with own_broker(tmp_path, lambda values, more: stock(values, more) | policy, plugin=tmp_path) as broker:
        monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", f"127.0.0.1:{broker.port}")
        words = r"could not be created: .*topics are ordered from the platform team.*create\.topic\.policy\.class\.name.*begin with kit\."
        with pytest.raises(LabError, match=words):
            experiments.run("happy_path", backend="kafka")


def test_a_cluster_with_acls_says_which_right_is_missing(kit_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may do nothing is told for which names to ask for an ACL; so is, at once, who has the topics and not the groups."""

    def guarded(values: Settings, more: list[int]) -> Settings:
        door = f"GUEST://127.0.0.1:{more[0]}"
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_guest="guest";'
        return values | {
            "listeners": f"{values['listeners']},{door}", "advertised.listeners": f"{values['advertised.listeners']},{door}",
            "listener.security.protocol.map": f"{values['listener.security.protocol.map']},GUEST:SASL_PLAINTEXT",
            "listener.name.guest.sasl.enabled.mechanisms": "PLAIN", "listener.name.guest.plain.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS",
        }  # fmt: skip

    ports: list[int] = []
    with own_broker(tmp_path, lambda values, more: guarded(values, ports.extend(more) or more), 1) as broker:
        config = tmp_path / "guest.properties"
        config.write_text("security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.username=guest\nsasl.password=guest\n")
        config.chmod(0o600)
        monkeypatch.setenv("KIT_KAFKA_CONFIG", str(config))
        monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", f"127.0.0.1:{ports[0]}")
        with pytest.raises(LabError, match=r"could not be created: .*uthoriz.*ask for an ACL .* on the topics.*that begin with kit\."):
            experiments.run("happy_path", backend="kafka")
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})

        def allow(kind: ResourceType, name: str) -> None:
            rule = AclBinding(kind, name, ResourcePatternType.PREFIXED, "User:guest", "*", AclOperation.ALL, AclPermissionType.ALLOW)
            admin.create_acls([rule])[rule].result(10)

        allow(ResourceType.TOPIC, "kit.")
        for name in ("auto_commit", "commit_and_abort"):
            with pytest.raises(DeniedError, match=r"GroupAuthorizationFailedError, error 30\. .*ask for an ACL .*groups"):
                experiments.run(name, backend="kafka")
        allow(ResourceType.GROUP, "kit.")
        with pytest.raises(DeniedError, match=r"TransactionalIdAuthorizationFailedError, error 53\. .*ask for an ACL .*transactional ids"):
            experiments.run("commit_and_abort", backend="kafka")
        with pytest.raises(LabError, match=r"__consumer_offsets may not be read.*Ask its owner for the right"):
            read_commit_log(kafka_server.ensure())


@pytest.mark.notebooks
@pytest.mark.parametrize("number", ["00", "01a", "07a", "10a", "11a"])
def test_notebooks_for_any_cluster_run_there_without_an_error(number: str, cluster: str, tmp_path: Path) -> None:
    """Every cell runs to its end on a cluster that nobody has prepared; in 11a what looks into a broker's files prints that it cannot."""
    [notebook] = (REPOSITORY / "notebooks").glob(f"{number}_*.ipynb")
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--allow-errors", "--output-dir", str(tmp_path)]
    done = subprocess.run([*command, str(notebook)], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    cells = nbformat.read(tmp_path / notebook.name, as_version=4).cells
    errors = [output.evalue for cell in cells for output in cell.get("outputs", ()) if output.output_type == "error"]
    assert errors == []
    said = [output.text for cell in cells for output in cell.get("outputs", ()) if "the cleaner's files" in output.get("text", "")]
    assert len(said) == (number == "11a") and all("are not the kit's" in each for each in said)
