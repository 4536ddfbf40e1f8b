"""The offsets topic and the lag of a group of the real broker: read, judged, and clear where nothing can be read."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments.cluster_audit.commit_log import CommitLog, read_commit_log
from kitlib.experiments.cluster_audit.commit_report import report_of
from kitlib.experiments.cluster_audit.lag_watch import GroupSnapshot, LagWatch, is_well
from kitlib.experiments.cluster_audit.topic_health import look_at_health
from kitlib.experiments.groups.kafka_members import find_coordinator
from kitlib.experiments.kafka_backend import create_topic
from kitlib.lab import log_ends as log_ends_module
from kitlib.lab.brokers.health import cached_offsets, unseen_topics
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.log_ends import LogEnds
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, OffsetsTopic
from kitlib.lab.processes import wait_until

pytestmark = pytest.mark.kafka
RECORDS = 10  # in the group's topic
# A group that is left without an offset may be deleted by the coordinator's next look, within the second.
GONE = ("excused: the topic was deleted", "excused: the group was deleted")


@dataclass
class Group:
    """A topic of two partitions, and a group that commits by hand, without members."""

    cluster: Cluster
    topic: str
    name: str
    consumer: Consumer

    def commit(self, offset: int, partition: int = 0) -> None:
        self.consumer.commit(offsets=[TopicPartition(self.topic, partition, offset)], asynchronous=False)


@pytest.fixture
def group(broker: Cluster) -> Any:
    """A group of the test's own, gone with the test."""
    run = uuid.uuid4().hex[:8]
    topic, name = f"kit.lag-watch-{run}", f"kit.lag-watch-{run}"
    admin, producer = AdminClient(client_config(broker)), Producer(client_config(broker))
    create_topic(admin, topic, 1, shared=True, partitions=2)
    for _ in range(RECORDS):
        producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    find_coordinator(broker, topic, name)
    consumer = Consumer(client_config(broker, **{"group.id": name, "enable.auto.commit": False}))
    yield Group(broker, topic, name, consumer)
    consumer.close()
    with suppress(KafkaException):  # a test may have deleted it
        admin.delete_topics([topic])[topic].result(30)


def word_of(look: GroupSnapshot, group: Group) -> str:
    return look.partition(group.topic, 0).word


def test_history_has_each_commit_and_the_step_back(group: Group) -> None:
    """What was committed is read back from the topic, and the step back is told with its size."""
    for offset in (4, 8, 3):
        group.commit(offset)
    group.commit(0, 1)
    log = read_commit_log(group.cluster, group.name)
    found = {where.partition: [each.offset for each in commits] for where, commits in log.partitions(group.name).items()}
    assert found == {0: [4, 8, 3], 1: [0]} and log.reading.broken == 0
    report = report_of(group.cluster, log, group.name)
    assert report.faults == 1 and "went back by 5, from 8 to 3" in report.signs[0]
    assert report.rows[0][5:7] == (str(RECORDS), str(RECORDS - 3))
    since_ms = log.partitions(group.name)[next(iter(log.history.commits))][-1].at_ms + 3_600_000
    later = read_commit_log(group.cluster, group.name, since_ms=since_ms)
    assert (later.records, later.history.commits) == (0, {})
    admin = AdminClient(client_config(group.cluster))
    admin.delete_topics([group.topic])[group.topic].result(30)

    def taken() -> CommitLog | None:
        """The history once the coordinator has written its tombstones for the deleted topic."""
        log = read_commit_log(group.cluster, group.name)
        return log if all(commits[-1].offset is None for commits in log.partitions(group.name).values()) else None

    after = wait_until(taken, 20, "the offsets have gone with their topic")
    for of in (group.name, None):
        gone = [line for line in report_of(group.cluster, after, of).signs if f"{group.topic}-" in line and "vanished" in line]
        assert len(gone) == 2 and all(any(why in line for why in GONE) for line in gone), gone


def test_watch_begins_with_the_topic_s_past_and_follows_it(group: Group) -> None:
    """A window is there at the first look; a commit that comes later is seen, and so is a group that has stopped."""
    group.commit(3)
    group.commit(5)
    with LagWatch.open(group.cluster, group.name) as watch:
        first = watch.look().partition(group.topic, 0)
        assert (first.committed, first.log_end, first.lag) == (5, RECORDS, RECORDS - 5)
        assert first.window is not None and [each.offset for each in first.window.commits if each] == [3, 5]
        stopped = wait_until(lambda: (look := watch.look()) and word_of(look, group) == "STOP" and look, 20, "it is told to have stopped")
        assert stopped.status.status.name == "ERR" and not is_well(stopped)
        group.commit(RECORDS)
        well = wait_until(lambda: (look := watch.look()) and word_of(look, group) == "OK" and look, 20, "the group has caught up")
        assert well.status.total_lag == 0 and is_well(well)
        group.commit(2, 1)
        wait_until(lambda: len(watch.look().partitions) == 2, 20, "a partition that is new to the group is seen")
        forgotten = watch._told(watch.now_ms() + 8 * 24 * 3_600_000)  # Burrow forgets a group that is silent for a week
        assert forgotten.status.status.name == "NOTFOUND" and not is_well(forgotten)
        assert "would have forgotten it" in forgotten.partition(group.topic, 0).why


def test_watch_tells_a_vanished_commit_and_a_topic_that_is_gone(group: Group) -> None:
    """A deleted group's commits end by tombstones; a partition that is not there cannot be judged, and says why."""
    group.commit(6)
    group.consumer.commit(offsets=[TopicPartition(group.topic, 0, 7)], asynchronous=False)
    with LagWatch.open(group.cluster, group.name) as watch:
        watch.skipped = {(group.topic, 0): "there is no such topic"}
        assert watch._told(watch.now_ms()).partition(group.topic, 0).why == "its log end cannot be read: there is no such topic"
        admin = AdminClient(client_config(group.cluster))
        admin.delete_consumer_groups([group.name], request_timeout=20)[group.name].result(20)
        gone = wait_until(lambda: (look := watch.look().partition(group.topic, 0)).committed is None and look, 20, "the tombstone is read")
        assert (gone.word, gone.lag) == ("NONE", None) and gone.why.startswith("the committed offset has vanished")
        with pytest.raises(KnobError, match="has no commit for nowhere-7"):
            watch.look().partition("nowhere", 7)


def test_commit_in_a_transaction_is_hidden_while_it_is_open_and_never_told_when_it_is_aborted(group: Group) -> None:
    """What lies behind an open transaction is counted; its own commit counts from its end, if at all."""

    def read() -> tuple[list[int | None], int]:
        log = read_commit_log(group.cluster, group.name)
        return [each.offset for commits in log.partitions(group.name).values() for each in commits], log.hidden

    group.commit(2)
    producer = Producer(client_config(group.cluster, **{"transactional.id": group.name}))
    producer.init_transactions(30)
    for offset, end, before in ((4, producer.commit_transaction, [2]), (9, producer.abort_transaction, [2, 4])):
        # The end of a transaction reaches the partition a moment after the producer is told.
        wait_until(lambda expected=before: read() == (expected, 0), 20, "the transaction before has ended")  # type: ignore[misc]
        producer.begin_transaction()
        member = group.consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(group.topic, 0, offset)], member, 30)
        during, hidden = read()
        assert during == before and hidden >= 1
        end(30)
    wait_until(lambda: read() == ([2, 4], 0), 20, "nothing is hidden any more, and only the committed one is told")
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(group.topic, 0, 9)], group.consumer.consumer_group_metadata(), 30)
    group.commit(5)  # the coordinator answers it, and no reader sees it yet
    found = look_at_health(group.cluster)
    producer.abort_transaction(30)
    assert read()[0] in ([2, 4], [2, 4, 5]) and [each for each in found.wrong if each.where.group == group.name] == []
    assert any("groups were not compared" in line for line in found.lines())


def test_group_that_does_not_exist_is_told_with_some_that_do(group: Group) -> None:
    """Nothing is watched in vain."""
    group.commit(1)
    nobody = r"there is no group 'kit\.nobody'.*Groups that there are: "
    with pytest.raises(LabError, match=nobody), LagWatch.open(group.cluster, "kit.nobody"):
        pass


def test_health_of_the_real_topic_is_told_with_its_sources(group: Group) -> None:
    """The group's offset is in the coordinator's cache as the topic says it; every figure says where it comes from."""
    group.commit(4)
    found = look_at_health(group.cluster)
    assert found.health.groups and found.health.cached_offsets and found.health.keys and found.health.dirty_ratio is not None
    assert [each for each in found.wrong if each.where.group == group.name] == []
    admin = AdminClient(client_config(group.cluster))
    by_wire, by_client = (cached_offsets(each, admin, [group.name]) for each in (group.cluster, replace(group.cluster, source="external")))
    assert by_wire.offsets == by_client.offsets == {group.name: {(group.topic, 0): 4}} and by_wire.silent == by_client.silent == {}
    assert unseen_topics(admin, [group.topic, "kit.nowhere"]) == set()
    assert any(line.startswith("note: not judged: ") and "commit rate" in line for line in found.lines())
    assert {name for name, _, source, _ in found.rows() if source} == set(found.sources)
    assert "offset cache size" in repr(found) and "<td>dirty ratio</td>" in found._repr_html_()


def test_log_ends_of_what_is_not_there_are_skipped_with_the_reason(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for many partitions, or a few; none of the partitions spoils it."""
    monkeypatch.setattr(log_ends_module, "TOGETHER", 1)
    asked = LogEnds.of(group.cluster)
    found = asked.ends([(group.topic, 0), (group.topic, 1), (group.topic, 9), ("kit.nowhere", 0)])
    assert found.offsets == {(group.topic, 0): RECORDS, (group.topic, 1): 0}
    assert found.skipped == {(group.topic, 9): "the topic has no such partition", ("kit.nowhere", 0): "there is no such topic"}
    assert asked.ends([]).offsets == {} and asked.starts([(group.topic, 0)]).offsets == {(group.topic, 0): 0}
    assert asked.ends_at({(group.topic, 0): 0, (group.topic, 1): 5}).offsets == {(group.topic, 0): 0, (group.topic, 1): 0}


class Refusing:
    """An admin client that may not see the topic, or hears of it too late; a consumer whose group is not allowed."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> Any:
        asked: Future[Any] = Future()
        asked.set_exception(KafkaException(KafkaError(self.codes.pop(0))))
        return {OFFSETS_TOPIC: asked}

    def consume(self, count: int, timeout: float) -> Any:
        code = self.codes.pop(0)
        return [SimpleNamespace(error=lambda: KafkaError(code))]


def test_topic_without_permission_is_told_with_what_to_ask_for() -> None:
    """A refusal is final: who may not read is told at once. What the reader's own group may not do is no matter."""
    for codes in ([KafkaError.TOPIC_AUTHORIZATION_FAILED], [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED]):
        with pytest.raises(LabError, match=r"may not be read.*Ask its owner for the right"):
            OffsetsTopic(Refusing(*codes), pytest.fail).partitions()  # type: ignore[arg-type]
    denied: Any = Refusing(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    source = OffsetsTopic(denied, lambda: denied)
    assert source.more() == []
    with pytest.raises(LabError, match="may not be read"):
        source.more()


def test_topic_that_is_not_there_makes_no_client_that_would_make_it() -> None:
    """A consumer asks for its coordinator as soon as it is made, and a broker that is asked makes the topic."""
    assert OffsetsTopic(Refusing(KafkaError.UNKNOWN_TOPIC_OR_PART), pytest.fail).partitions() == 0  # type: ignore[arg-type]


def test_brokers_that_do_not_answer_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at that port."""
    monkeypatch.setattr(log_ends_module, "DEADLINE_S", 0.3)
    with pytest.raises(LabError, match=r"no Kafka answers at 127\.0\.0\.1:1 within 0\.3 s"):
        LogEnds.of(Cluster("127.0.0.1:1", None, 1, "kit")).ends([("t", 0)])
