"""What may happen to a broker: killed, paused, starved of disk, robbed of its data, orphaned. Real java, real records."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from kitlib.errors import KnobError, LabError
from kitlib.lab import kafka_server, state, workspace
from kitlib.lab.brokers import node, ports
from kitlib.lab.processes import find_all, is_alive, wait_until
from tests.clock import slowness
from tests.conftest import wait_for, within
from tests.lab.conftest import all_gone, processes_of
from tests.lab.records import Books, check_nothing_lost, create_topic, produce, send, start_producer

pytestmark = pytest.mark.kafka


def quiet(_text: str) -> None:
    """Progress nobody looks at."""


def port_of(cluster: kafka_server.Cluster) -> int:
    return int(cluster.bootstrap.rsplit(":", 1)[1])


def warden_process() -> psutil.Process:
    found = kafka_server.living_state()
    assert found is not None
    assert found.warden is not None
    return found.warden


def only_node() -> state.NodeState:
    return kafka_server.status().nodes[0]


def test_broker_killed_is_back_on_its_port_with_all_acknowledged_records(own_home: Path) -> None:
    """After SIGKILL it serves again on its port within 5 s; an idempotent producer that works through that loses and doubles nothing."""
    cluster = kafka_server.ensure(progress=quiet)
    create_topic(cluster, partitions=2)
    books = Books()
    producer = start_producer(cluster)
    send(producer, books, range(3000))
    wait_until(lambda: producer.poll(0.05) or len(books.acknowledged) >= 500, 20, "500 are acknowledged")
    os.kill(cluster.pids[0], signal.SIGKILL)
    killed = time.monotonic()
    assert wait_for(lambda: ports.serves_producers(port_of(cluster), 0.3), 20)
    seconds = time.monotonic() - killed
    send(producer, books, range(3000, 6000))
    assert producer.flush(60) == 0
    assert books.acknowledged == set(range(6000)) and not books.unknown
    after = kafka_server.ensure(progress=pytest.fail)
    assert (after.bootstrap, after.cluster_id) == (cluster.bootstrap, cluster.cluster_id)
    assert after.pids != cluster.pids
    check_nothing_lost(after, books)
    assert (only_node().restarts, only_node().last_death) == (1, "killed by SIGKILL")
    assert seconds < within(5) * slowness(), f"back after {seconds:.1f} s"


def test_broker_paused_is_called_silent_and_not_restarted(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is paused is not dead: the status says that it is silent, and continued it goes on; paused it can end in order.

    A warden that a learner's code has stopped (SIGSTOP) is woken by who waits for what it does.
    """
    cluster = kafka_server.ensure(progress=quiet)
    create_topic(cluster)
    books = Books()
    producer = start_producer(cluster)
    send(producer, books, range(1000))
    java = psutil.Process(cluster.pids[0])
    java.suspend()
    status = kafka_server.status()
    assert status.phase == "silent" and not status.is_running
    assert "is not answering: it is paused" in status.sentence and f"kill -CONT {java.pid}" in status.sentence
    with monkeypatch.context() as impatient, pytest.raises(LabError, match="not answering: "):
        impatient.setattr(kafka_server, "SILENCE_TIMEOUT_S", 1.0)
        kafka_server.ensure(progress=pytest.fail)
    assert is_alive(java)
    warden = warden_process()
    warden.suspend()  # so that its word stays what it was
    java.resume()
    wait_until(lambda: ports.answers(port_of(cluster)), 10, "the broker is awake")
    assert kafka_server.status().is_running and f"The warden (process {warden.pid}) is paused" in kafka_server.status().sentence
    send(producer, books, range(1000, 2000))
    assert producer.flush(60) == 0
    assert kafka_server.ensure(progress=pytest.fail).pids == cluster.pids
    assert len(books.acknowledged) == 2000
    check_nothing_lost(cluster, books)
    warden.suspend()
    again = kafka_server.restart("kill", timeout_s=30)
    assert again.pids != cluster.pids
    psutil.Process(again.pids[0]).suspend()
    assert kafka_server.down(quiet)
    assert all_gone(own_home, 15)
    assert (own_home / "data" / "kafka-1" / "node-1" / ".kafka_cleanshutdown").exists()


def test_disk_full_is_named_and_acknowledged_records_survive(own_home: Path) -> None:
    """No room: the broker's death is explained, after the third one the warden gives up; with room all records are there.

    A limit on file sizes stands for the full disk: the broker, and each one started later, may write 12 MB a file.
    """
    cluster = kafka_server.ensure(progress=quiet)
    create_topic(cluster)
    warden = warden_process()
    for pid in (cluster.pids[0], warden.pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (12_000_000, resource.RLIM_INFINITY))
    books = Books()
    producer = start_producer(cluster, **{"message.timeout.ms": 60_000, "linger.ms": 0})
    send(producer, books, range(2000), padding=10_000)
    failed = wait_until(lambda: drive(producer) and status_if("failed"), 60, "the warden gives up")
    assert "3 times within 60 s" in failed.sentence and "a limit on file sizes is reached (`ulimit -f`" in failed.sentence
    producer.purge()
    producer.flush(10)
    assert all_gone(own_home, 15)
    assert 500 < len(books.acknowledged) < 2000
    check_nothing_lost(kafka_server.ensure(progress=quiet), books)


def drive(producer: Producer) -> bool:
    """Let the producer work a little; always true."""
    producer.poll(0.1)
    return True


def status_if(phase: str) -> kafka_server.Status | None:
    status = kafka_server.status()
    return status if status.phase == phase else None


def test_disk_full_at_the_start_ends_with_the_exit_code_for_disks(bare_home: Path) -> None:
    """Under a limit that lets no format through, the start ends with exit code 74 and one line, and no half-made folder stays."""
    code = "import os, resource; os.environ['PYTHONDONTWRITEBYTECODE'] = '1';"  # else modules that are cut would stay for everybody
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)); from kitlib.cli import main; main(['up'])"
    up = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert up.returncode == 74, up.stderr
    assert "Traceback" not in up.stderr and "a limit on file sizes is reached" in up.stderr
    assert all_gone(bare_home, 15)
    assert all(entry.name == "node-1" and node.read_meta(entry) for entry in (bare_home / "data" / "kafka-1").iterdir())


def test_data_folder_removed_while_running_is_noticed(own_home: Path) -> None:
    """When the data folder goes away, the broker ends within 5 s and says why; the next start is a new cluster that says so."""
    cluster = kafka_server.ensure(progress=quiet)
    (own_home / "data").rename(own_home / "data.gone")
    removed = time.monotonic()
    failed = wait_until(lambda: status_if("failed"), 15, "the loss is noticed")
    assert time.monotonic() - removed < within(5) * slowness()
    assert "disappeared while it was running" in failed.sentence and "new, empty cluster" in failed.sentence
    assert all_gone(own_home, 15)
    said: list[str] = []
    after = kafka_server.ensure(progress=said.append)
    assert after.cluster_id != cluster.cluster_id and after.bootstrap == cluster.bootstrap
    assert any(f"The data of cluster {cluster.cluster_id} are gone" in line for line in said)


def test_half_written_format_is_put_aside_and_never_overwritten(own_home: Path) -> None:
    """A data folder whose meta.properties is empty is kept under another name, and a new cluster begins beside it."""
    folder = own_home / "data" / "kafka-1" / "node-1"
    (folder / "orders-0").mkdir()
    before = sorted(entry.name for entry in folder.iterdir())
    os.truncate(folder / "meta.properties", 0)
    said: list[str] = []
    kafka_server.ensure(progress=said.append)
    assert not (folder / "orders-0").exists()
    aside = folder.with_name("node-1.broken")
    assert sorted(entry.name for entry in aside.iterdir()) == before
    assert any("was not whole" in line and str(aside) in line for line in said)


def test_format_tool_killed_leaves_nothing_that_looks_formatted(bare_home: Path) -> None:
    """Killed while it formats, everything of it, the next start is whole and finds no half-made folder."""
    with subprocess.Popen([sys.executable, "-m", "kitlib", "up"], stderr=subprocess.PIPE, start_new_session=True) as up:
        assert wait_for((bare_home / "run" / "node-1.properties").exists, 30)
        for process in processes_of(bare_home):
            if process.pid != os.getpid():
                process.kill()
        up.communicate(timeout=30)
    assert all_gone(bare_home, 15)
    assert not (bare_home / "data" / "kafka-1" / "node-1").exists()
    assert kafka_server.ensure(progress=quiet).brokers == 1
    assert [entry.name for entry in (bare_home / "data" / "kafka-1").iterdir()] == ["node-1"]


@pytest.mark.parametrize(
    ("line", "words"),
    [("version=7", "No readable meta.properties"), ("node.id=2", "Stored node id 2 doesn't match")],
    ids=["newer version", "another node"],
)
def test_foreign_data_are_refused_and_left_alone(bare_home: Path, line: str, words: str) -> None:
    """Data of a newer Kafka or of another node are refused in Kafka's own words, and nothing in them changes."""
    folder = workspace.ensure() / "data" / "kafka-1" / "node-1"
    folder.mkdir(parents=True)
    lines = {"version": "1", "cluster.id": "another-cluster-id", "node.id": "1", **dict([line.split("=")])}
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    (folder / "meta.properties").write_text(text)
    with pytest.raises(LabError, match=words):
        kafka_server.ensure(progress=quiet)
    assert (folder / "meta.properties").read_text() == text
    assert kafka_server.status().phase == "failed" and words in kafka_server.status().sentence


def test_warden_killed_leaves_an_orphan_that_the_next_start_ends(own_home: Path) -> None:
    """A broker whose warden was killed is found by its token and ended before a new one starts on its data."""
    cluster = kafka_server.ensure(progress=quiet)
    create_topic(cluster)
    books = produce(cluster, range(1000))
    orphan = psutil.Process(cluster.pids[0])
    warden_process().kill()
    found = wait_for(lambda: status_if("failed"), 20)
    assert found and f"Kafka (process {orphan.pid}) runs, but what looked after it has ended" in found.sentence
    assert is_alive(orphan)
    said: list[str] = []
    after = kafka_server.ensure(progress=said.append)
    assert not is_alive(orphan)
    assert any("Ended 1 broker" in line for line in said)
    assert len(find_all(f"-Dkit.home={own_home}")) == 1
    assert after.bootstrap == cluster.bootstrap
    check_nothing_lost(after, books)


def test_workspace_that_vanishes_ends_its_broker(own_home: Path) -> None:
    """Deleting the workspace of a running broker ends the warden and the broker; nothing is written there again."""
    kafka_server.ensure(progress=quiet)
    shutil.rmtree(own_home, ignore_errors=True)
    assert all_gone(own_home, 15)
    assert not own_home.exists() or not (own_home / "run" / "kafka.json").exists()


def test_broker_held_dead_starts_when_it_may(own_home: Path) -> None:
    """A broker that an experiment holds dead stays dead, everybody is told so, and it starts when it is let go."""
    cluster = kafka_server.ensure(progress=quiet)
    kafka_server.kill_node(1, hold=True)
    held = wait_until(lambda: status_if("held"), 20, "the warden has noticed")
    assert "held dead by an experiment" in held.sentence
    with pytest.raises(LabError, match="held dead by an experiment"):
        kafka_server.ensure()
    with pytest.raises(LabError, match="Broker 1 does not run"):
        kafka_server.kill_node(1)
    kafka_server.start_node(1)
    assert kafka_server.ensure().bootstrap == cluster.bootstrap


def test_out_of_memory_is_named_with_the_heap_and_its_setting(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with too small a heap ends the start with the size and the variable that changes it."""
    monkeypatch.setenv("KIT_BROKER_HEAP_MB", "16")
    with pytest.raises(LabError, match=r"out of memory \(heap 16 MB; KIT_BROKER_HEAP_MB sets another\)"):
        kafka_server.ensure(progress=quiet)
    assert all_gone(own_home, 15)
    monkeypatch.setenv("KIT_BROKER_HEAP_MB", "lots")
    with pytest.raises(KnobError, match="KIT_BROKER_HEAP_MB=lots"):
        kafka_server.ensure(progress=quiet)


def test_settings_survive_every_character_of_a_path(tmp_path: Path) -> None:
    """A path with a backslash, an umlaut, an emoji and a space comes out of Java's properties format unchanged."""
    text = node.properties_text({"log.dirs": "/a b/ü/\\x/\N{GRINNING FACE}"})
    assert text == "log.dirs=/a b/\\u00fc/\\\\x/\\ud83d\\ude00\n"
