"""The experiments on a real broker: the model's verdict, kept traces and offsets, and a broker that dies."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kitlib import experiments
from kitlib.errors import KitError, LabError
from kitlib.experiments import get, kafka_backend
from kitlib.experiments.kafka_backend import KafkaBackend, KafkaTopic, create_topic, publish
from kitlib.experiments.storm.spout_run import FROM_THE_EARLIEST, SpoutRun
from kitlib.experiments.storm.tree_stories import TopologyStory
from kitlib.lab import kafka_server
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.wire.connection import Wire
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME, FetchError
from kitlib.mechanisms.offset_store import read_stored_offset
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.mechanisms.spout_errors import FailedFetchError
from kitlib.monitor.delivery import judge
from kitlib.trace import Step, Trace
from tests.experiments.knob_values import case_id
from tests.lab.records import bounds

pytestmark = pytest.mark.kafka

FOLLOW = "use_start_offset_time_if_offset_out_of_range"
STEP_BY_STEP = (SpoutRun, TopologyStory)  # the other kinds of runs are held against the broker in tests of their own
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in experiments.names() if get(name).kind in STEP_BY_STEP),
    ("happy_path", {"max_spout_pending": 1, "fetch_records": 1, "records": 10}),
    ("happy_path", {"fail_percent": 30}),
    ("small_max_offset_behind", {"max_offset_behind": "unlimited"}),
    ("poison_record", {"max_offset_behind": 5}),
    ("poison_record", {"release": "0.9.2", "max_offset_behind": 5}),
    ("poison_record", {"release": "1.1.0"}),
    ("retry_with_backoff", {"retry_limit": -1}),
    *(("out_of_range", {FOLLOW: follow, "force_from_start": not follow}) for follow in (True, False)),
    ("out_of_range", {"release": "0.9.2"}),
    ("out_of_range", {"delete_before": 10_000}),
    ("restart", {"same_topology_id": False, "force_from_start": True, "records_while_down": 50}),
    ("restart", {"stuck_offset": 0, "crash_at_ms": 400}),
    ("same_id_other_topic", {"same_id": False}),
    ("same_id_other_topic", {"force_from_start": True}),
    ("several_tuples", {"failures": 3}),
    ("failed_offset_deleted", {"release": "1.1.0"}),
    ("failed_offset_deleted", {FOLLOW: False}),
    ("failed_offset_deleted", {"force_from_start": True}),
    ("uncommitted_cap", {"retries_may_poll": True}),
    ("tuple_tree", {"join": True, "fault": "lose", "topology_ackers": 3}),
    ("tuple_tree", {"fail_percent": 30, "acker_release": "2.4.0", "id_bits": 64}),
    ("reliability_off", {"topology_ackers": 1, "anchored": False}),
    ("reliability_off", {"topology_ackers": 1, "message_ids": False}),
    *((name, {"source": source}) for name in ("bolt_crash", "acker_crash") for source in ("kafka", "kestrel")),
    ("spout_crash", {"source": "kafka"}),
    *(("word_count", {"crash": crash}) for crash in ("count", "spout")),
]  # fmt: skip


def plain(steps: list[Step], run: str) -> list[tuple[Any, ...]]:
    """Steps without the run's name in their topics."""
    return [
        (step.at_ms, step.actor, step.what, step.data | {"topic": str(step.data.get("topic")).removeprefix(f"kit.{run}.")}, step.state)
        for step in steps
    ]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_experiment_on_the_broker_does_what_the_model_does(broker: Cluster, case: tuple[str, dict[str, Any]]) -> None:
    """The same knobs and seed give the same verdict on a real broker as on the model, and the same steps."""
    name, knobs = case
    model, real = get(name).run(**knobs), get(name).run(backend="kafka", **knobs)
    assert judge(real).counts == judge(model).counts
    assert (judge(real).sentence, judge(real).late_ms) == (judge(model).sentence, judge(model).late_ms)
    assert judge(real).violations == judge(model).violations
    assert plain(real.steps, real.run) == plain(model.steps, model.run)


def read_topic(broker: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of every record of a topic's one partition."""
    consumer = Consumer(client_config(broker, **{"group.id": uuid.uuid4().hex, "enable.auto.commit": False}))
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = bounds(consumer, partition)
        consumer.assign([partition])
        found: list[tuple[bytes | None, bytes | None]] = []
        while len(found) < end:
            messages = consumer.consume(end - len(found), timeout=20)
            assert messages, f"{len(found)} of {end} records of {topic}"
            found += [(message.key(), message.value()) for message in messages]
        return found
    finally:
        consumer.close()


def test_trace_topic_holds_the_traces_lines(broker: Cluster) -> None:
    """kit.trace.<run> holds the JSON lines in order, the header's key is `header`, a step's key its number."""
    trace = get("several_tuples").run(backend="kafka")
    records = read_topic(broker, f"kit.trace.{trace.run}")
    assert [key for key, _ in records] == [b"header", *(b"%d" % number for number in range(len(trace)))]
    lines = [(value or b"").decode() for _, value in records]
    assert lines == list(trace.to_json_lines()) and Trace.from_json_lines(lines) == trace


def test_source_topic_holds_the_appended_records(broker: Cluster) -> None:
    """The records that the trace says were appended are in the topic that it names."""
    trace = get("several_tuples").run(backend="kafka", records=7)
    topic = trace.at(0).data["topic"]
    assert topic == f"kit.{trace.run}.lines"
    assert read_topic(broker, topic) == [(None, b"word0 word1 word2")] * 7


def test_verdict_on_a_run_with_simulated_parts_begins_with_what_was_real(broker: Cluster) -> None:
    """A verdict on a broker run says first which parts were real, also when the trace was read back."""
    trace = get("happy_path").run(backend="kafka", records=2)
    told = repr(judge(Trace.from_json_lines(trace.to_json_lines()))).splitlines()
    assert told == ["Topic and stored offset: real broker. Spout, bolt and clock: simulated.", judge(trace).sentence]


def test_fork_on_the_broker_keeps_the_past(broker: Cluster) -> None:
    """A fork of a real run is a real run with topics of its own, the same past and the model's future."""
    parent = get("happy_path").run(backend="kafka")
    fork = get("happy_path").fork(parent, 20, fail_percent=50)
    model = get("happy_path").fork(get("happy_path").run(), 20, fail_percent=50)
    assert fork.run != parent.run and fork.parent == {"run": parent.run, "at": 20}
    assert plain(fork.steps[:21], fork.run) == plain(parent.steps[:21], parent.run)
    assert plain(fork.steps, fork.run) == plain(model.steps, model.run)


def test_two_runs_at_once_do_not_meet(broker: Cluster) -> None:
    """Runs have topics and offset paths of their own, also with the same spout id and seed."""
    first, second = (get("restart").run(backend="kafka") for _ in range(2))
    assert first.run != second.run and plain(first.steps, first.run) == plain(second.steps, second.run)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "verb", "call"), [("out_of_range", "delete_before", 1), ("restart", "fetch", 4)])
def test_broker_killed_in_the_middle_of_a_run_the_run_ends_with_the_same_verdict(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch, name: str, verb: str, call: int
) -> None:
    """After a SIGKILL the run waits for the broker to be back and goes on: same steps, same verdict, same records."""
    ask, calls = getattr(KafkaTopic, verb), itertools.count(1)

    def kill_and_ask(topic: KafkaTopic, offset: int) -> Any:
        if next(calls) == call:
            assert kafka_server.kill_node(1)
        return ask(topic, offset)

    monkeypatch.setattr(KafkaTopic, verb, kill_and_ask)
    real, model = get(name).run(backend="kafka"), get(name).run()
    assert next(calls) > call, "it was killed"
    assert plain(real.steps, real.run) == plain(model.steps, model.run)
    assert judge(real).sentence == judge(model).sentence
    kafka_server.ensure()
    assert len(read_topic(broker, f"kit.trace.{real.run}")) == len(real) + 1


@pytest.fixture
def backend(broker: Cluster) -> Iterator[KafkaBackend]:
    opened = KafkaBackend.open(f"test-{uuid.uuid4().hex[:8]}")
    yield opened
    opened.close()


def spout(backend: KafkaBackend, topic: KafkaTopic, **settings: Any) -> PartitionManager:
    return PartitionManager(SpoutConfig("events", "spout", zk_root=f"/{backend.run}", **settings), topic, backend.store)


@pytest.mark.slow
def test_stored_offsets_survive_the_end_of_the_broker(broker: Cluster) -> None:
    """What a commit wrote into the compacted topic is read back by a new process of everything."""
    run = f"test-{uuid.uuid4().hex[:8]}"
    path = f"/{run}/spout/partition_0"
    before = KafkaBackend.open(run)
    try:
        topic = before.create_topic("events", 5)
        topic.append([b"v"] * 12)
        manager = spout(before, topic, **FROM_THE_EARLIEST)
        for _ in range(7):
            emission = manager.next()
            assert emission.record is not None
            manager.ack(emission.record.offset)
        text = manager.commit()
    finally:
        before.close()
    assert kafka_server.down()
    assert kafka_server.ensure().bootstrap == broker.bootstrap
    after = KafkaBackend.open(run)
    try:
        assert after.store.read(path) == text
        again = KafkaTopic(topic.name, after.offsets.topic.consumer, after.producer, after.admin)
        assert (again.start, again.end) == (0, 12)
        assert spout(after, again).committed_to == 7
    finally:
        after.close()


def test_stored_offset_last_write_of_a_path_counts(backend: KafkaBackend) -> None:
    """A read sees the last write of its path, by whichever store it was made; other paths do not matter."""
    other = KafkaBackend.open(f"test-{uuid.uuid4().hex[:8]}")
    try:
        path = f"/{backend.run}/spout/partition_0"
        assert backend.store.read(path) is None
        for text in ("one", "two"):
            other.store.write(path, text)
            other.store.write(path + "0", "not this")
        assert (backend.store.read(path), other.store.read(path)) == ("two", "two")
        backend.store.write(path, "three")
        assert other.store.read(path) == "three"
    finally:
        other.close()


NOT_OFFSETS = {
    "no text": b"\xff\xfe\x00", "a float": b'{"topology":{"id":"t"},"offset":7.0}', "a million brackets": b"[" * 900_000,
    "a tombstone": None,
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_OFFSETS)
def test_stored_offset_that_is_none_counts_as_nothing_stored(broker: Cluster, backend: KafkaBackend, case: str) -> None:
    """Whatever somebody wrote into the offsets' topic, the start goes on as if nothing were stored."""
    topic = backend.create_topic("events", 5)
    topic.append([b"v"] * 12)
    path = f"/{backend.run}/spout/partition_0"
    backend.store.write(path, '{"topology":{"id":"topology-1"},"offset":5}')
    assert spout(backend, topic).committed_to == 5
    producer = Producer(client_config(broker))
    producer.produce("kit.offsets", key=path.encode(), value=NOT_OFFSETS[case], partition=0)
    assert producer.flush(20) == 0
    assert read_stored_offset(backend.store, path) is None
    assert spout(backend, topic).committed_to == 12
    assert spout(backend, topic, **FROM_THE_EARLIEST).committed_to == 0


def test_topic_fetches_as_the_model_and_tells_out_of_range(backend: KafkaBackend) -> None:
    """At most so many records from the asked offset; the end is an empty answer; beyond the end and below the start are out of range."""
    topic = backend.create_topic("events", 5)
    assert topic.append([b"a", None, b"c"]) == [0, 1, 2] and topic.append([b"v"] * 9) == list(range(3, 12))
    first = topic.fetch(0)
    assert [(record.offset, record.value) for record in first.records] == [(0, b"a"), (1, None), (2, b"c"), (3, b"v"), (4, b"v")]
    assert [record.offset for record in topic.fetch(10).records] == [10, 11]
    assert topic.fetch(12).records == () and topic.fetch(12).error is FetchError.NO_ERROR
    assert topic.fetch(13).error is topic.fetch(-1).error is FetchError.OFFSET_OUT_OF_RANGE
    assert topic.delete_before(6) == 6 == topic.start
    assert topic.fetch(5).error is FetchError.OFFSET_OUT_OF_RANGE
    assert [record.offset for record in topic.fetch(6).records] == [6, 7, 8, 9, 10]
    assert (topic.offset_before(EARLIEST_TIME), topic.offset_before(LATEST_TIME)) == (6, 12)
    stamp = topic.fetch(7).records[0].timestamp_ms
    assert topic.offset_before(stamp) in range(6, 8) and topic.offset_before(stamp + 3_600_000) is None


def test_each_partition_of_a_topic_that_was_made_has_a_leader_that_answers(broker: Cluster) -> None:
    """The metadata name a leader a moment before it leads; what is sent in between would be refused."""
    host, _, port = broker.bootstrap.rpartition(":")
    with Wire.open(host, int(port)) as wire:
        for _ in range(20):
            name = f"led-{uuid.uuid4().hex[:12]}"
            create_topic(AdminClient(client_config(broker)), name, replicas=1, partitions=12, shared=True)
            assert [wire.list_offsets(name, partition) for partition in reversed(range(12))] == [0] * 12


def test_topic_that_does_not_exist_is_a_lab_error(
    broker: Cluster, backend: KafkaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spout on a topic that is not there says so at its start, by name, with what to do."""
    monkeypatch.setattr(kafka_backend, "DEADLINE_S", 2.0)
    missing = KafkaTopic("kit.no-such-topic", backend.offsets.topic.consumer, backend.producer, backend.admin)
    with pytest.raises(LabError, match=r"kit\.no-such-topic.*`kit status`"):
        missing.fetch(0)
    with pytest.raises(KitError):
        spout(backend, missing)
    assert "kit.no-such-topic" not in AdminClient(client_config(broker)).list_topics(timeout=20).topics


@pytest.mark.parametrize("name", ["..", "a b", "x" * 250, "ä", "a/b", ""], ids=["dots", "blank", "long", "umlaut", "slash", "empty"])
def test_topic_with_a_bad_name_is_a_kit_error(broker: Cluster, name: str) -> None:
    """A name that the broker refuses is told in a sentence, and nothing is made."""
    run = Trace(name, "happy_path", "kafka")
    with pytest.raises(KitError):
        publish(run, broker) if name not in ("..", "") else create_topic(AdminClient(client_config(broker)), name, 1)


def test_fetch_failing_over_the_network_is_a_failed_fetch(backend: KafkaBackend) -> None:
    """A spout whose reader raises an OSError tells it as a failed fetch and keeps its ledgers."""
    topic = backend.create_topic("events", 5)
    topic.append([b"v"])
    manager = spout(backend, topic, **FROM_THE_EARLIEST)

    class Silent:
        offset_before = topic.offset_before

        def fetch(self, offset: int) -> Any:
            raise TimeoutError("no records")

    manager.log = Silent()
    with pytest.raises(FailedFetchError, match="TimeoutError: no records"):
        manager.next()
    manager.log = topic
    assert manager.next().record is not None
