"""What hits a broker and those who work with it in the middle of a run. Acknowledged records are counted before and after each."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError
from kitlib.experiments import kafka_backend, run
from kitlib.experiments.kafka_backend import create_topic, write
from kitlib.lab import created_resources, kafka_server
from kitlib.lab.clients import client_config, describe
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.processes import wait_until
from kitlib.monitor.delivery import judge
from tests.conftest import check_loopback, listening
from tests.lab import records
from tests.lab.labs import Lab
from tests.lab.records import check_nothing_lost, produce
from tests.lab.test_endings import assert_all_gone

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


class Kept:
    """A broker of this test's own, and a thousand records that it has acknowledged."""

    def __init__(self) -> None:
        self.cluster = kafka_server.ensure(progress=lambda _: None)
        records.create_topic(self.cluster)
        self.books = produce(self.cluster, range(1_000))
        assert len(self.books.acknowledged) == 1_000


@pytest.fixture
def kept(own_home: Path) -> Iterator[Kept]:
    """Whatever the test does, all that was acknowledged is there afterwards, once."""
    found = Kept()
    yield found
    check_nothing_lost(kafka_server.ensure(progress=lambda _: None), found.books)


def limit_broker(cluster: Cluster, which: int, most: int) -> None:
    """A limit for the running broker; the ones that are started later have it only if the warden has it too."""
    resource.prlimit(cluster.pids[0], which, (most, resource.RLIM_INFINITY))


def test_broker_that_wakes_is_not_called_missing(kept: Kept) -> None:
    """For a moment after a pause the controller takes it for lost: a topic is created all the same, and it is counted."""
    java, admin = psutil.Process(kept.cluster.pids[0]), AdminClient(client_config(kept.cluster))
    for pause in range(4):
        java.suspend()
        until = time.monotonic() + 2
        wait_until(lambda until=until: time.monotonic() > until, 10, "2 s have passed")  # type: ignore[misc]
        with ThreadPoolExecutor(8) as pool:
            asked = [(pool.submit(create_topic, admin, f"kit.awake-{pause}-{number}", 1, shared=True),
                      pool.submit(describe, kept.cluster.bootstrap, 60)) for number in range(16)]  # fmt: skip
            java.resume()
        assert {(made.result(), counted.result()[1]) for made, counted in asked} == {(None, 1)}


def test_disk_that_fills_during_a_run_is_named(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails because its broker cannot write says what to do; a limit on file sizes stands for the full disk."""
    monkeypatch.setattr(kafka_backend, "DEADLINE_S", 3.0)
    limit_broker(kept.cluster, resource.RLIMIT_FSIZE, 3_000_000)
    with pytest.raises(LabError, match=r"The broker is in trouble: a limit on file sizes is reached \(`ulimit -f`"):
        run("happy_path", backend="kafka", records=50)
    kafka_server.kill_node(1)  # the next one may write again


def test_few_files_are_enough_and_too_few_are_named(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `ulimit -n 256` a lab works; a broker that needs more ends, says so, and has everything when it may."""
    subprocess.run(["/bin/sh", "-c", f"ulimit -n 256; '{sys.executable}' -m kitlib up"], check=True, capture_output=True, timeout=60)
    kept = Kept()
    assert resource.prlimit(kept.cluster.pids[0], resource.RLIMIT_NOFILE)[1] == 256
    assert judge(run("answers_lost", backend="kafka", records=20)).violations == ()
    monkeypatch.setattr(kafka_backend, "DEADLINE_S", 3.0)
    with pytest.raises(LabError, match="in trouble: it may open no more files"), kafka_server.telling_troubles():
        for number in range(8):
            create_topic(AdminClient(client_config(kept.cluster)), f"kit.many-{number}", 1, partitions=60, shared=True)
    kafka_server.down()
    check_nothing_lost(kafka_server.ensure(progress=lambda _: None), kept.books)


def test_record_of_50_mb_is_refused_in_a_sentence_and_the_next_is_stored(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client refuses what is larger than its limit; with a higher one the broker does, or its fate is unknown."""
    monkeypatch.setattr(kafka_backend, "DEADLINE_S", 5.0)
    create_topic(AdminClient(client_config(kept.cluster)), "kit.large", 1, shared=True)
    large = [(None, b"x" * 50_000_000)]
    with pytest.raises(LabError, match=r"topic kit\.large: a record of 50,000,000 bytes was refused: .*too large"):
        write(Producer(client_config(kept.cluster)), "kit.large", large)
    with pytest.raises(LabError, match=r"topic kit\.large: 1 of 1 records were not acknowledged"):
        write(Producer(client_config(kept.cluster, **{"message.max.bytes": 100_000_000})), "kit.large", large)
    assert write(Producer(client_config(kept.cluster)), "kit.large", [(None, b"small")]) == [0]


def test_clock_that_goes_back_an_hour_during_a_run_changes_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit measures time by a clock that only goes forward; the broker keeps its own."""
    now, asked = time.time, 0

    def set_back() -> float:
        nonlocal asked
        asked += 1
        return now() - 3_600 * (asked > 1)

    monkeypatch.setattr(time, "time", set_back)
    for name in ("happy_path", "answers_lost"):
        asked = 0
        real, model = (judge(run(name, backend=backend)) for backend in ("kafka", "model"))
        assert (real.counts, real.violations) == (model.counts, ())
    assert kafka_server.status().is_running


# In a process of its own: pytest's holds the clients of other tests, whose brokers come and go.
LEAVES_RUNS = """
import sys
import psutil
from kitlib.experiments import get
from kitlib.experiments.kafka_backend import publish
from kitlib.lab import kafka_server

cluster, me = kafka_server.ensure(), psutil.Process()
trace, held = get("happy_path").run(records=5), []
for number in range(int(sys.argv[1])):
    trace.run = f"left-{number}"
    publish(trace, cluster)
    held.append((me.memory_info().rss, me.num_fds()))
print(*(held[-1][which] - held[len(held) // 4][which] for which in (0, 1)))
"""


def test_two_hundred_runs_left_behind_are_gone_after_one_reset(kept: Kept, kit_home: Path) -> None:
    """Their topics cost little, and `kit reset --all` deletes them and nothing of the user's."""
    admin = AdminClient(client_config(kept.cluster))
    child = subprocess.run([sys.executable, "-c", LEAVES_RUNS, "200"], capture_output=True, text=True, check=True, timeout=120)
    memory, files = map(int, child.stdout.split())
    assert memory < 20_000_000 and files < 40, (memory, files)  # a client opens a few connections anew; one for each run would be 200
    reset = [sys.executable, "-m", "kitlib", "reset", "--all", "--yes"]
    told = subprocess.run(reset, capture_output=True, text=True, check=True, timeout=60)
    assert "200" in told.stdout + told.stderr
    assert not created_resources.notebooks()

    def are_gone() -> bool:
        return not [name for name in admin.list_topics(timeout=10).topics if name.startswith("kit.trace.")]

    wait_until(are_gone, 30, "their topics are gone")


def test_lab_and_all_that_watches_it_killed_together_are_seen_by_status_and_ended_by_down(
    new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 of lab, watcher and warden at once: `kit status` names the broker, JupyterLab, kernel and Spark that are left.

    All of it listens on 127.0.0.1 alone. `kit down` ends it, and the next broker serves what was acknowledged.
    """
    monkeypatch.setenv("KIT_HOME", str(new_home))
    monkeypatch.delenv("KIT_RUN", raising=False)
    lab = Lab(new_home).open()
    spark = int(lab.kernel().run("from kitlib.spark.sessions import session; print(session().server['java'])", 120).split()[-1])
    (server,), (kernel,), (watcher,) = map(lab.find, ("-m jupyterlab", "ipykernel_launcher", "-m kitlib.lab.session"))
    check_loopback(lab.processes())
    assert {spark, server.pid} <= {process.pid for _, _, process in listening(lab.processes())}
    kept, found = Kept(), kafka_server.living_state()
    assert found is not None
    for pid in (watcher.pid, found.pid, lab.process.pid):
        os.kill(pid, signal.SIGKILL)
    lab.wait()
    told = subprocess.run([sys.executable, "-m", "kitlib", "status"], capture_output=True, text=True, check=False).stdout
    assert f"Kafka (process {found.nodes[0].pid}) runs, but what looked after it has ended." in told
    for part in (f"JupyterLab (process {server.pid})", f"a kernel (process {kernel.pid})", f"process {spark}, 1 session(s)"):
        assert part in told
    subprocess.run([sys.executable, "-m", "kitlib", "down"], check=True, capture_output=True)
    assert_all_gone(lab, 0)
    check_nothing_lost(kafka_server.ensure(), kept.books)
    kafka_server.down()
