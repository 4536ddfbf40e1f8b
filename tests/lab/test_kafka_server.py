"""One broker for all: found by everybody, started once, on ports and data of its own, ended without a trace."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.experiments.cluster_audit.group_reader import GroupWatch
from kitlib.lab import clients, kafka_server, state, workspace
from kitlib.lab.brokers import warden
from kitlib.lab.processes import find_all, wait_until
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from tests.conftest import check_loopback, describe, listening, make_home, wait_for
from tests.lab.conftest import all_gone, processes_of
from tests.lab.records import check_nothing_lost, create_topic, produce

pytestmark = pytest.mark.kafka

ENSURE = "import sys; from kitlib.lab import kafka_server; sys.stdin.readline(); print(kafka_server.ensure().bootstrap)"


def quiet(_text: str) -> None:
    """Progress nobody looks at."""


def starters(homes: list[Path]) -> list[subprocess.Popen[str]]:
    """One process per home, each about to call ensure as soon as a line comes."""
    return [
        subprocess.Popen(
            [sys.executable, "-c", ENSURE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "KIT_HOME": str(home)},
        )
        for home in homes
    ]  # fmt: skip


def answers_of(callers: list[subprocess.Popen[str]]) -> list[str]:
    """Let all of them go at once, and return what they printed."""
    for caller in callers:
        assert caller.stdin is not None
        caller.stdin.write("go\n")
        caller.stdin.flush()
    answers = []
    for caller in callers:
        output, errors = caller.communicate(timeout=120)
        assert caller.returncode == 0, errors
        answers.append(output.strip())
    return answers


def brokers_of(home: Path) -> list[psutil.Process]:
    return find_all(f"-Dkit.home={home}")


@contextmanager
def stranger_on(port: int) -> Iterator[None]:
    """A web server, as somebody leaves one running, on a port of 127.0.0.1."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_callers_at_the_same_instant_start_one_broker(bare_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six processes that need a broker at the same moment get the same one, and one java runs; who comes by a link ends it."""
    answers = answers_of(starters([bare_home] * 6))
    assert len(set(answers)) == 1
    assert len(brokers_of(bare_home)) == 1
    assert kafka_server.ensure(progress=pytest.fail).bootstrap == answers[0]
    (tmp_path / "link").symlink_to(bare_home)
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "link"))  # another spelling of the same workspace
    assert kafka_server.ensure(progress=pytest.fail).bootstrap == answers[0] and kafka_server.down(quiet)
    assert all_gone(bare_home, 15)


def test_workspaces_side_by_side_have_ports_and_clusters_of_their_own(own_home: Path, tmp_path: Path) -> None:
    """Workspaces started at once run clusters of their own on different ports, and each client meets its own."""
    jars = (own_home / "jars").resolve()
    homes = [make_home(tmp_path / f"home-{number}", jars) for number in range(2)]
    try:
        bootstraps = answers_of(starters(homes))
        assert len(set(bootstraps)) == 2
        written = [json.loads((home / "run" / "kafka.json").read_text())["cluster_id"] for home in homes]
        met = [clients.describe(bootstrap)[0] for bootstrap in bootstraps]
        assert met == written and len(set(met)) == 2
    finally:
        for home in homes:
            os.environ["KIT_HOME"] = str(home)
            kafka_server.down(quiet)
    assert all(all_gone(home, 15) for home in homes)


def test_restart_keeps_port_cluster_and_records(own_home: Path) -> None:
    """After an orderly end and a new start, address, cluster id and records are the same, and no file lies in between."""
    before = kafka_server.ensure(progress=quiet)
    create_topic(before)
    books = produce(before, range(500))
    assert len(books.acknowledged) == 500
    assert kafka_server.down(quiet)
    assert all_gone(own_home, 15)
    assert not (own_home / "run" / "kafka.json").exists()
    assert kafka_server.status().phase == "stopped"
    assert not kafka_server.down(quiet)
    after = kafka_server.ensure(progress=quiet)
    assert (after.bootstrap, after.cluster_id) == (before.bootstrap, before.cluster_id)
    check_nothing_lost(after, books)


def test_port_taken_by_a_stranger_moves_the_broker_and_says_so(own_home: Path) -> None:
    """A stranger on the broker's port is left alone; the broker takes another port, and the start says which."""
    before = kafka_server.ensure(progress=quiet)
    kafka_server.down(quiet)
    port = int(before.bootstrap.rsplit(":", 1)[1])
    said: list[str] = []
    with stranger_on(port):
        after = kafka_server.ensure(progress=said.append)
        assert after.bootstrap != before.bootstrap and after.cluster_id == before.cluster_id
        assert any(f"Port {port} is taken" in line and after.bootstrap[-5:] in line for line in said)
        assert any(f"Port {port} is taken" in note for note in kafka_server.status().notes)
    kafka_server.down(quiet)
    assert kafka_server.ensure(progress=quiet).bootstrap == after.bootstrap


def test_recycled_process_id_is_neither_believed_nor_killed(own_home: Path) -> None:
    """A state file that names a stranger's process is not believed; the stranger lives on, and a broker is started."""
    workspace.ensure()
    with subprocess.Popen(["sleep", "300"]) as stranger:
        stale = state.ClusterState(
            stranger.pid, "0123456789abcdef0123", 1, "running", time.time() - 9e5,
            nodes=(state.NodeState(1, 20001, 20002, stranger.pid, "running"),),
        )  # fmt: skip
        state.write_json(warden.state_file(own_home / "run"), asdict(stale))
        assert kafka_server.status().phase == "stopped"
        assert not kafka_server.down(quiet)
        state.write_json(warden.state_file(own_home / "run"), asdict(stale))
        with pytest.raises(LabError, match="No broker is running"):
            kafka_server.kill_node(1)
        assert kafka_server.ensure(progress=quiet).pids != (stranger.pid,)
        kafka_server.down(quiet)
        assert stranger.poll() is None
        stranger.kill()


def test_start_inside_a_lab_does_not_carry_the_labs_token(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker started from a lab's notebook has none of the lab's token, files, terminal or session."""
    monkeypatch.setenv("KIT_RUN", "a-token-of-the-lab-itself")
    with (own_home / "a file of the notebook").open("w") as file, closing(socket.socket()) as server:
        os.set_inheritable(file.fileno(), True)
        server.listen()
        os.set_inheritable(server.fileno(), True)
        kafka_server.ensure(progress=quiet)
        ours = [process for process in processes_of(own_home) if process.pid != os.getpid()]
        assert len(ours) == 2
        for process in ours:
            assert "KIT_RUN" not in process.environ()
            assert os.getsid(process.pid) != os.getsid(0) and process.terminal() is None
            opened = {Path(f"/proc/{process.pid}/fd/{number}").resolve() for number in fds(process)}
            assert Path(file.name) not in opened
    check_loopback(ours)


def fds(process: psutil.Process) -> list[str]:
    return os.listdir(f"/proc/{process.pid}/fd")


def test_ctrl_c_during_the_start_takes_everything_back(bare_home: Path) -> None:
    """Ctrl-C while formatting ends with 130 and no process; the next start is whole (while starting: test_endings)."""
    command = [sys.executable, "-m", "kitlib", "up"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as caller:
        assert wait_for((bare_home / "run/node-1.properties").exists, 30)  # it appears just before the format tool is started
        caller.send_signal(signal.SIGINT)
        _, errors = caller.communicate(timeout=30)
    assert caller.returncode == 130, errors
    assert b"Traceback" not in errors
    assert all_gone(bare_home, 15)
    assert kafka_server.ensure(progress=quiet).brokers == 1
    assert not list((bare_home / "data").glob("*/*.broken"))


def test_caller_killed_during_the_start_leaves_a_broker_that_others_find_and_end(bare_home: Path) -> None:
    """A starter that is killed outright does not stop the start: the next caller finds that broker, and `down` ends it."""
    with subprocess.Popen([sys.executable, "-m", "kitlib", "up"], stderr=subprocess.DEVNULL) as caller:
        assert wait_for((bare_home / "data" / "kafka-1" / "node-1").exists, 30)
        caller.kill()
    started = [process.pid for process in brokers_of(bare_home)]
    cluster = kafka_server.ensure(progress=quiet)
    assert set(started) <= set(cluster.pids)
    assert kafka_server.down(quiet)
    assert all_gone(bare_home, 15)


def test_down_during_the_start_ends_it_and_tells_the_starter(own_home: Path) -> None:
    """Whoever ends a broker that is just being started leaves nothing, and the one who started it hears why."""
    with subprocess.Popen([sys.executable, "-m", "kitlib", "up"], stderr=subprocess.PIPE) as caller:
        assert wait_for((own_home / "run" / "kafka.json").exists, 30)
        assert kafka_server.down(quiet)
        _, errors = caller.communicate(timeout=30)
    assert caller.returncode == 3 and b"stopped while it was starting" in errors, errors
    assert all_gone(own_home, 15)


def test_three_brokers_listen_on_loopback_only_and_survive_the_loss_of_one(own_home: Path) -> None:
    """Three brokers: every listening socket is on 127.0.0.1, records outlive a killed broker, a held one stays away."""
    cluster = kafka_server.ensure(3, progress=quiet)
    assert cluster.brokers == 3 and len(cluster.pids) == 3
    ours = processes_of(own_home)
    sockets = listening([process for process in ours if process.pid != os.getpid()])
    check_loopback(ours)
    assert len(sockets) == 4, [describe(process) for _, _, process in sockets]  # one each, and the controller
    create_topic(cluster, partitions=2, copies=3, **{"min.insync.replicas": "2"})
    books = produce(cluster, range(300), acks="all")
    with ChaosProxy.before(cluster, [Rule("cut_after_answer", skip=1, count=2)]) as proxy:
        through = produce(proxy.cluster, range(400, 700), acks="all")
        assert len(through.acknowledged) == 300 and proxy.counts()["opened"] >= 1
        books.acknowledged |= through.acknowledged
    kafka_server.kill_node(3, hold=True)
    later = produce(cluster, range(300, 400), acks="all")
    wait_until(lambda: "broker 3 is held dead" in kafka_server.status().sentence, 20, "the warden has noticed")
    assert kafka_server.status().is_running
    assert len(kafka_server.ensure().pids) == 2
    kafka_server.start_node(3)
    books.acknowledged |= later.acknowledged
    assert len(books.acknowledged) == 700
    check_nothing_lost(kafka_server.ensure(3), books)
    with pytest.raises(LabError, match=r"A set of 3 is running.*kit down"):
        kafka_server.ensure(1)
    with pytest.raises(LabError, match="no broker 4: this set has 1, 2, 3"):
        kafka_server.kill_node(4)
    check_loopback(processes_of(own_home))
    began = time.monotonic()
    kafka_server.down(quiet)
    assert time.monotonic() - began < 20


def test_number_of_brokers_other_than_1_or_3_is_refused(own_home: Path) -> None:
    """Two brokers are refused before anything is started."""
    with pytest.raises(KnobError, match="1 or 3"):
        kafka_server.ensure(2)
    assert not (own_home / "run").exists()


def test_external_cluster_is_used_and_left_alone(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With KIT_KAFKA_BOOTSTRAP the kit finds that cluster, starts, ends and (looking at offsets) makes nothing; nobody there is told."""
    real = kafka_server.ensure(progress=quiet)
    monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", real.bootstrap)
    cluster = kafka_server.ensure()
    assert (cluster.source, cluster.cluster_id, cluster.brokers) == ("external", real.cluster_id, 1)
    assert kafka_server.status().is_running
    assert not kafka_server.down()
    assert read_commit_log(cluster).records == 0
    with pytest.raises(LabError, match="there is no group 'g'"), GroupWatch.open(cluster, "g"):
        pass
    admin = AdminClient(clients.client_config(cluster))
    assert not admin.list_topics(timeout=20).topics and not admin.list_consumer_groups().result(20).valid
    with pytest.raises(LabError, match="not the kit's to kill"):
        kafka_server.kill_node(1)
    with pytest.raises(LabError, match=r"127\.0\.0\.1:1: no Kafka answers within 1 s"):
        clients.describe("127.0.0.1:1", 1.0)
    monkeypatch.delenv("KIT_KAFKA_BOOTSTRAP")
    assert kafka_server.ensure(progress=pytest.fail).pids == real.pids


def test_settings_file_for_an_external_cluster_must_be_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passwords live in a file that others cannot read; its settings reach external clusters only."""
    path = tmp_path / "client.properties"
    path.write_text("# ours\nsecurity.protocol = SASL_SSL\nsasl.password=a=b\n\n")
    monkeypatch.setenv("KIT_KAFKA_CONFIG", str(path))
    path.chmod(0o644)
    external = kafka_server.Cluster("kafka.example:9092", None, 3, "external")
    with pytest.raises(Exception, match=r"mode 644.*chmod 600"):
        kafka_server.client_config(external)
    path.chmod(0o600)
    config = kafka_server.client_config(external, acks="all")
    assert (config["security.protocol"], config["sasl.password"], config["acks"]) == ("SASL_SSL", "a=b", "all")
    own = kafka_server.client_config(kafka_server.Cluster("127.0.0.1:20000", "c", 1, "kit"))
    assert "sasl.password" not in own and own["bootstrap.servers"].startswith("127.0.0.1:")
