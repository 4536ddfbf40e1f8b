"""Real consumers in processes of their own: three libraries, and every way in which such a process can end or stand still."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

from kitlib.errors import LabError
from kitlib.lab.client_processes import consumer as consumer_process
from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.client_processes.driver import Refused
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.processes import is_alive
from tests.conftest import has_ended, wait_for
from tests.lab.consumers import SECONDS, poll_until, settings_for, topic_with_records

pytestmark = pytest.mark.kafka

LIBRARIES = ("librdkafka", "java")
OWNER = """
import json, sys
from kitlib.lab.client_processes.consumer import ConsumerProcess
consumer = ConsumerProcess.start("A", json.loads(sys.argv[1]))
if sys.argv[2] == "frozen":
    consumer.freeze()
print(*consumer.pids, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def topic(broker: Cluster) -> str:
    return topic_with_records(broker, f"kit.consumers-{uuid.uuid4().hex[:8]}", 2, 5)


@pytest.fixture
def group() -> str:
    return f"kit.consumers-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def librdkafka(broker: Cluster, topic: str, group: str) -> Iterator[ConsumerProcess]:
    consumer = ConsumerProcess.start("A", settings_for(broker, topic, group=group))
    yield consumer
    consumer.kill()


@pytest.mark.parametrize(("library", "protocol"), [*((library, "classic") for library in LIBRARIES), ("java", "consumer")])
def test_consumer_of_each_library_reads_commits_and_leaves(
    broker: Cluster, topic: str, group: str, library: str, protocol: str
) -> None:
    """Assigned, all records once, a commit that is taken, revoked at the close, and no process left."""
    consumer = ConsumerProcess.start("A", settings_for(broker, topic, library, group=group, protocol=protocol))
    pids = consumer.pids
    try:
        records, events = poll_until(consumer, lambda records, events: len(records) >= 10)
        assert sorted(records) == [(partition, offset) for partition in (0, 1) for offset in range(5)]
        assert [event["partitions"] for event in events if event["what"] == "assigned"][-1] == [0, 1]
        assert consumer.member and (consumer.generation or 0) > 0
        assert consumer.commit({0: 3}) == "NONE"
        closing = consumer.close()
        assert [(event["what"], event["partitions"]) for event in closing] == [("revoked", [0, 1])]
    finally:
        consumer.kill()
    assert wait_for(lambda: all(map(has_ended, pids)), SECONDS)
    again = ConsumerProcess.start("A", settings_for(broker, topic, group=group))  # another library goes on where it committed
    try:
        records, _ = poll_until(again, lambda records, events: len(records) >= 7)
        assert min(offset for partition, offset in records if partition == 0) == 3
    finally:
        again.kill()


@pytest.mark.parametrize(("library", "state"), [("librdkafka", "running"), ("librdkafka", "frozen"), ("java", "frozen")])
def test_owner_killed_ends_the_consumer(broker: Cluster, topic: str, group: str, library: str, state: str) -> None:
    """kill -9 of the owner: the consumer is gone within seconds, a frozen one and Java's JVM too."""
    settings = json.dumps(settings_for(broker, topic, library, group=group))
    owner = subprocess.Popen([sys.executable, "-c", OWNER, settings, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdout is not None and owner.stdin is not None
    try:
        consumers = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
        assert len(consumers) == 1 + (library == "java") and all(map(is_alive, consumers))
        if state == "frozen":
            assert wait_for(lambda: all(each.status() == psutil.STATUS_STOPPED for each in consumers), SECONDS)
        owner.kill()
        owner.wait()
        assert wait_for(lambda: not any(map(is_alive, consumers)), SECONDS), consumers
    finally:
        owner.kill()
        owner.stdin.close()
        owner.stdout.close()


def test_frozen_consumer_refuses_every_order_and_goes_on_when_thawed(librdkafka: ConsumerProcess) -> None:
    """Each order is a sentence at once; after SIGCONT it takes orders as before. What is not frozen cannot be thawed."""
    poll_until(librdkafka, lambda records, events: bool(records))
    librdkafka.freeze()
    for order in (lambda: librdkafka.poll(1, 10), librdkafka.commit, librdkafka.close, librdkafka.freeze, lambda: librdkafka.store(0, 1)):
        with pytest.raises(LabError, match=r"consumer A \(librdkafka, process \d+\): it is frozen and cannot .* Thaw it first\."):
            order()
    librdkafka.thaw()
    assert librdkafka.commit({0: 1}) == "NONE"
    with pytest.raises(LabError, match="it is not frozen, so it cannot be thawed"):
        librdkafka.thaw()


def test_killed_consumer_says_so(librdkafka: ConsumerProcess) -> None:
    """SIGKILL from here or from elsewhere: the next order is a sentence with the exit code; a second kill does nothing."""
    os.kill(librdkafka.process.pid, signal.SIGKILL)
    with pytest.raises(LabError, match=r"ended.*exit code -9"):
        librdkafka.poll(1, 2_000)
    librdkafka.kill()
    with pytest.raises(LabError, match=r"it has ended \(exit code -9\), commit is too late"):
        librdkafka.commit()


def test_events_that_come_with_the_answer_to_a_commit_are_told_by_the_next_poll(broker: Cluster, topic: str, group: str) -> None:
    """Java tells of a refused commit that nobody waited for within the next commit that somebody waits for."""
    consumer = ConsumerProcess.start("A", settings_for(broker, topic, "java", group=group))
    try:
        poll_until(consumer, lambda records, events: bool(records))
        assert consumer.commit({7: 1}, waits=False) == "NONE"
        assert consumer.commit({0: 1}) == "NONE"
        _, events = poll_until(consumer, lambda records, events: bool(events))
        assert [(event["what"], event["partitions"]) for event in events] == [("committed", [7])]
    finally:
        consumer.kill()


def test_answer_to_an_order_that_was_given_up_is_not_the_next_ones(librdkafka: ConsumerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll's answer comes when nobody waits for it any more; the commit after it is told its own."""
    poll_until(librdkafka, lambda records, events: len(records) >= 10)
    with monkeypatch.context() as short:
        short.setattr(consumer_process, "ANSWER_S", 0.0)
        os.kill(librdkafka.process.pid, signal.SIGSTOP)
        with pytest.raises(LabError, match=r"consumer A .* no answer to poll within 0\.01 s"):
            librdkafka.poll(1, 10)
        os.kill(librdkafka.process.pid, signal.SIGCONT)
    assert librdkafka.commit({7: 1}) != "NONE"  # a partition that is not there; a poll's error is NONE
    assert librdkafka.commit({0: 4}) == "NONE"


def test_process_that_does_not_end_is_a_sentence(librdkafka: ConsumerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill that does not come through in time is a LabError, and leaves no guard; the next one finds it gone."""
    librdkafka.freeze()
    guard = librdkafka._guard
    assert guard is not None
    with monkeypatch.context() as lost:
        lost.setattr(consumer_process, "KILL_S", 0.01)
        lost.setattr(librdkafka, "_signal", lambda number: None)
        with pytest.raises(LabError, match=r"consumer A .* killed, but still there after 0\.01 s"):
            librdkafka.kill()
    assert guard.wait(SECONDS) == 0
    os.kill(librdkafka.process.pid, signal.SIGKILL)
    librdkafka.kill()


def test_settings_that_a_library_refuses_are_its_own_words(broker: Cluster, topic: str) -> None:
    """What the client says is what the reader sees, and its process is gone."""
    for library, more, words in (
        ("librdkafka", {"max_poll_interval_ms": 100}, "must be >= `session.timeout.ms`"),
        ("java", {"group": ""}, "group.id should not be an empty string"),
    ):
        with pytest.raises(Refused, match=words):
            ConsumerProcess.start("A", settings_for(broker, topic, library, **more))
    with pytest.raises(LabError, match=r"it ended before it answered to its start \(exit code -6|group\.id"):
        ConsumerProcess.start("A", settings_for(broker, topic, group=""))  # confluent_kafka 2.16 aborts its process; a later one may refuse


@pytest.mark.parametrize("library", LIBRARIES)
def test_poll_hands_out_no_more_than_was_asked_for(broker: Cluster, topic: str, group: str, library: str) -> None:
    """A poll for none takes part and hands out nothing, one for two hands out two; nothing is left out or doubled later."""
    consumer = ConsumerProcess.start("A", settings_for(broker, topic, library, group=group))
    try:
        got: list[tuple[int, int]] = []
        events: list[str] = []
        deadline = time.monotonic() + SECONDS
        while not events and time.monotonic() < deadline:
            records, told = consumer.poll(0, 20)
            assert records == []
            events += [event["what"] for event in told if event["partitions"]]
        assert events == ["assigned"]
        for _ in range(20):
            assert consumer.poll(0, 20)[0] == []
        assert consumer.commit() == "NONE"
        while len(got) < 10 and time.monotonic() < deadline + SECONDS:
            records, _ = consumer.poll(2, 100)
            assert len(records) <= 2
            got += records
        assert sorted(got) == [(partition, offset) for partition in (0, 1) for offset in range(5)]
        if library != "librdkafka":
            with pytest.raises(LabError, match="no stored offsets"):
                consumer.store(0, 1)
    finally:
        consumer.kill()


@pytest.mark.parametrize("library", LIBRARIES)
def test_positions_are_committed_when_partitions_are_revoked(broker: Cluster, topic: str, group: str, library: str) -> None:
    """With commit_on_revoke the next owner of a partition goes on where the last one was."""
    settings = settings_for(broker, topic, library, group=group, commit_on_revoke=True)
    first = ConsumerProcess.start("A", settings)
    second = None
    try:
        poll_until(first, lambda records, events: len(records) >= 10)
        second = ConsumerProcess.start("B", settings | {"client_id": "B"})
        got: list[tuple[int, int]] = []
        deadline = time.monotonic() + SECONDS
        while not second.generation or second.generation != first.generation:
            assert time.monotonic() < deadline, (first.generation, second.generation)
            got += first.poll(500, 20)[0] + second.poll(500, 20)[0]
        for _ in range(5):
            got += first.poll(500, 20)[0] + second.poll(500, 20)[0]
        assert got == []
    finally:
        first.kill()
        if second is not None:
            second.kill()
