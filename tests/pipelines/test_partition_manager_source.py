"""The PartitionManager as a source of Structured Streaming: options, retries, commits, kills, and what left the log."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kitlib.errors import KnobError, LabError
from kitlib.java.numbers import MAX_LONG
from kitlib.lab.kafka_server import Cluster, client_config
from kitlib.mechanisms.spout_errors import FailedFetchError
from kitlib.more.spout.batches import Batch
from kitlib.pipelines.partition_manager_failures import Failures
from kitlib.pipelines.partition_manager_fetch import PartitionLog
from kitlib.pipelines.partition_manager_reader import PartitionManagerReader
from kitlib.pipelines.partition_manager_source import SourceOptions, partition_manager_stream
from tests.lab.wires import new_topic, open_wire

Where = tuple[int, int]  # partition, offset


def produce(cluster: Cluster, topic: str, records: int, partitions: int = 1) -> None:
    """So many records in each partition."""
    producer = Producer(client_config(cluster, **{"enable.idempotence": True}))
    for number in range(records):
        for partition in range(partitions):
            producer.produce(topic, b"value %d" % number, b"key %d" % number, partition)
    assert producer.flush(20) == 0


def test_options_are_storms_settings_in_sparks_spelling() -> None:
    """Any case of letters; what is not given is Storm 0.9.3's default."""
    assert SourceOptions.parse({"topic": "t", "id": "s"}) == SourceOptions("t", "s")
    given = {
        "TOPIC": "t", "id": "s", "kafka.bootstrap.servers": "127.0.0.1:1", "topologyid": "x", "maxOffsetBehind": "7",
        "forceFromStart": "TRUE", "startOffsetTime": "latest", "useStartOffsetTimeIfOffsetOutOfRange": "false",
        "retryLimit": "3", "maxOffsetsPerTrigger": "9",
    }  # fmt: skip
    assert SourceOptions.parse(given) == SourceOptions("t", "s", "127.0.0.1:1", "x", 7, True, -1, False, 3, 9)
    assert SourceOptions.parse({"topic": "t", "id": "s", "startOffsetTime": "12"}).start_offset_time == 12


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("maxOffsetsBehind", "1", "Did you mean maxOffsetBehind"),
        ("subscribe", "t", "The options are"),
        ("maxOffsetBehind", "-1", f"from 0 to {MAX_LONG}"),
        ("maxOffsetBehind", "9" * 30, "a whole number"),
        ("retryLimit", "two", "from -1"),
        ("maxOffsetsPerTrigger", "0", "from 1"),
        ("forceFromStart", "yes", "expected true or false"),
        ("startOffsetTime", "yesterday", "earliest, latest or a time in ms"),
        ("topic", "", "topic is missing"),
        ("id", "", "id is missing"),
    ],
)
def test_an_option_that_cannot_be_is_told_with_those_there_are(option: str, value: str, told: str) -> None:
    """A KnobError before anything is asked of a broker."""
    with pytest.raises(KnobError, match=told):
        partition_manager_stream(None, **({"topic": "t", "id": "s"} | {option: value}))  # type: ignore[arg-type]


class Killed(Exception):
    """The query is killed here."""


class Query:
    """A query's loop as Spark runs it: offsets, sink, commits. What is in the logs outlives the reader."""

    def __init__(self, cluster: Cluster, topic: str, **options: Any) -> None:
        self.options = {"topic": topic, "id": f"query-{uuid.uuid4().hex[:8]}", "forceFromStart": "true"} | options
        self.offsets: list[dict[str, Any]] = []
        self.committed = 0  # batches
        self.initial: dict[str, Any] = {}
        self.limit = int(options.get("maxOffsetsPerTrigger", 0))

    def new_reader(self) -> PartitionManagerReader:
        return PartitionManagerReader(SourceOptions.parse(self.options))

    def run(self, sink: Callable[[list[tuple[int, int, int]]], None], kill: Callable[[str], bool] = lambda where: False) -> None:
        """Batch after batch until there is nothing to do; Killed where `kill` says so."""

        def here(where: str) -> None:
            if kill(where):
                raise Killed

        reader = self.new_reader()
        try:
            if not self.offsets:
                self.initial = reader.initialOffset()
            while True:
                before = self.offsets[self.committed - 1] if self.committed else self.initial
                if len(self.offsets) == self.committed:
                    end = reader.latestOffset(before, ReadMaxRows(self.limit) if self.limit else ReadAllAvailable())
                    if end == before:
                        return
                    here("planned")
                    self.offsets.append(end)
                    here("offsets")
                end = self.offsets[self.committed]
                rows = [row for task in reader.partitions(before, end) for batch in reader.read(task) for row in _rows(batch)]
                sink(rows)
                here("sink")
                self.committed += 1
                here("commits")
        finally:
            reader.stop()

    def count(self, name: str) -> int:
        return sum(told[name] for told in self.offsets[-1].values())


def _rows(batch: Any) -> Iterator[tuple[int, int, int]]:
    return zip(*(batch.column(name).to_pylist() for name in ("partition", "offset", "retry")), strict=True)


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_any_number_of_times_a_query_loses_nothing(broker: Cluster, seed: int) -> None:
    """Every record succeeds at last, whatever fails at random and wherever the query is killed; the store then has the ends."""
    chance, partitions, records = Random(seed), 2, 60
    topic = new_topic(broker, partitions)
    produce(broker, topic, records, partitions)
    query = Query(broker, topic, maxOffsetsPerTrigger=17)
    succeeded: Counter[Where] = Counter()
    kills = 0
    with Failures.open(topic=topic, id=query.options["id"]) as failures:

        def sink(rows: list[tuple[int, int, int]]) -> None:
            failed = [row for row in rows if chance.random() < 0.2]
            failures.fail(failed)
            succeeded.update((partition, offset) for partition, offset, retry in rows if (partition, offset, retry) not in failed)

        for _ in range(25):
            try:
                query.run(sink, kill=lambda where: chance.random() < 0.15)
                break
            except Killed:
                kills += 1
        else:
            query.run(sink)
    assert set(succeeded) == {(partition, offset) for partition in range(partitions) for offset in range(records)}
    assert kills and [query.count(name) for name in ("dropped", "given_up", "lost")] == [0, 0, 0]
    again = Query(broker, topic, id=query.options["id"], forceFromStart="false")  # its checkpoint is gone, its commits are not
    again.run(lambda rows: pytest.fail(f"{rows} were done"))
    assert {told["end"] for told in again.initial.values()} == {records}


@pytest.mark.kafka
def test_failures_beyond_the_settings_promise_are_dropped_or_given_up_and_counted(broker: Cluster) -> None:
    """maxOffsetBehind=10, batches of 20, retryLimit=2: failures in a batch's first half are dropped, the rest is tried three times."""
    topic = new_topic(broker)
    produce(broker, topic, 40)
    query = Query(broker, topic, maxOffsetsPerTrigger=20, maxOffsetBehind=10, retryLimit=2)
    tried: Counter[int] = Counter()
    with Failures.open(topic=topic, id=query.options["id"]) as failures:

        def sink(rows: list[tuple[int, int, int]]) -> None:
            tried.update(offset for _, offset, _ in rows)
            failures.fail(row for row in rows if row[1] in (3, 15, 38))

        query.run(sink)
        assert tried[3] == 1 and tried[15] == 2 and tried[38] == 3 and sum(tried.values()) == 43
        produce(broker, topic, 1)
        query.run(sink)
    assert (query.count("dropped"), query.count("given_up")) == (2, 1)  # 15 was retried once, and is then too far behind


@pytest.mark.kafka
def test_a_batch_is_finished_once_however_often_spark_asks_what_is_new(broker: Cluster) -> None:
    """While nothing is new, each trigger asks again with the same start: the failure that was dropped counts once."""
    topic = new_topic(broker)
    produce(broker, topic, 20)
    query = Query(broker, topic, maxOffsetBehind=5)
    reader = query.new_reader()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with Failures.open(topic=topic, id=query.options["id"]) as failures:
        failures.fail([(0, 2, 0)])
    assert [reader.latestOffset(end, ReadAllAvailable()) for _ in range(3)] == [end] * 3
    produce(broker, topic, 1)
    assert reader.latestOffset(end, ReadAllAvailable())["0"]["dropped"] == 1
    reader.stop()


@pytest.mark.kafka
def test_what_left_the_log_is_counted_and_passed_over_or_ends_the_query(broker: Cluster) -> None:
    """Retention takes records of a batch that is done again, and unread ones; with the setting off the query ends with a sentence."""
    topic = new_topic(broker)
    produce(broker, topic, 30)
    query = Query(broker, topic, maxOffsetsPerTrigger=10)
    strict = Query(broker, topic, maxOffsetsPerTrigger=10, useStartOffsetTimeIfOffsetOutOfRange="false")
    for each in (query, strict):
        with pytest.raises(Killed):
            each.run(lambda rows: None, kill=lambda where: where == "offsets")
    with open_wire(broker) as wire:
        wire.delete_records(topic, 0, 5)
    seen: list[int] = []
    query.run(lambda rows: seen.extend(offset for _, offset, _ in rows))
    assert seen == list(range(5, 30)) and query.count("lost") == 5
    with pytest.raises(FailedFetchError, match="OFFSET_OUT_OF_RANGE"):
        strict.run(lambda rows: None)


@pytest.mark.kafka
def test_the_starts_rules_are_storms(broker: Cluster) -> None:
    """Without a stored offset it begins at the end, unless it is forced; a stored one too far behind is jumped over."""
    topic = new_topic(broker, 2)
    produce(broker, topic, 30, 2)
    begins = [
        ({"forceFromStart": "false"}, 30), ({"forceFromStart": "true"}, 0), ({"startOffsetTime": "latest"}, 30),
        ({"startOffsetTime": str(2**40)}, 0),  # a time with no record: out of range, and so the earliest
    ]  # fmt: skip
    for options, offset in begins:
        reader = Query(broker, topic, **options).new_reader()
        assert {told["end"] for told in reader.initialOffset().values()} == {offset}, options
        reader.stop()
    stored = Query(broker, topic, maxOffsetsPerTrigger=20)
    with pytest.raises(Killed):
        stored.run(lambda rows: None, kill=lambda where: where == "planned" and bool(stored.committed))
    for bound, begin in ((20, 10), (19, 30)):
        reader = Query(broker, topic, id=stored.options["id"], forceFromStart="false", maxOffsetBehind=bound).new_reader()
        assert {told["end"] for told in reader.initialOffset().values()} == {begin}
        reader.stop()


@pytest.mark.kafka
def test_a_topic_that_is_not_there_and_a_log_that_was_cut_are_told(broker: Cluster) -> None:
    """LabErrors that name the topic, and what to do."""
    reader = Query(broker, "nobody-made-this").new_reader()
    with pytest.raises(LabError, match="no topic nobody-made-this"):
        reader.initialOffset()
    reader.stop()
    topic = new_topic(broker)
    produce(broker, topic, 3)
    reader = Query(broker, topic).new_reader()
    [task] = reader.partitions({}, {"0": Batch(0, 5).to_json()})
    batches = reader.read(task)
    rows = next(batches).to_pylist()
    assert [(row["key"], row["value"], row["topic"], row["retry"]) for row in rows] == [
        (b"key %d" % offset, b"value %d" % offset, topic, 0) for offset in range(3)
    ] and rows[0]["timestamp"].year > 2020
    with pytest.raises(LabError, match="gives nothing from offset 3 on"):
        next(batches)
    with pytest.raises(LabError, match="the next record is 20, but the log ends at 3: the topic was made anew"):
        reader.latestOffset({"0": Batch(20, 20).to_json()}, reader.getDefaultReadLimit())
    reader.stop()
    assert PartitionLog(topic, 0, client_config(broker)).end() == 3
