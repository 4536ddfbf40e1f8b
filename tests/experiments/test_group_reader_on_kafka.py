"""What a diagnosis is made of, read from a real broker: the situation is made, looked at once or twice, and told by its cause.

That each rule tells its case is in `tests.monitor.test_diagnosis`; here is what hangs on a broker's answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka.admin import KafkaAdminClient
from kafka.errors import CoordinatorLoadInProgressError, GroupAuthorizationFailedError

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.experiments.cluster_audit.group_reader import GroupWatch, check_group_exists, snapshots_of, topics_of
from kitlib.experiments.kafka_backend import TopicReader, create_topic
from kitlib.experiments.transactions.kafka_transactions import VERIFICATION
from kitlib.lab import log_ends as log_ends_module
from kitlib.lab.brokers.settings import broker_setting
from kitlib.lab.clients import Cluster, client_config, kafka_python_admin
from kitlib.lab.log_ends import LogEnds
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, OffsetsTopic
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.coordinator import PRODUCE, TRANSACTION, CoordinatorWire, find_coordinator
from kitlib.lab.wire.records import WireBatch
from kitlib.monitor.diagnosis import Diagnosis, Finding, Grade, signs
from kitlib.monitor.rewinds import Excuse
from kitlib.more.hashes import group_partition

pytestmark = pytest.mark.kafka
RECORDS = 10  # in the group's topic, in its first partition
MINUTE_MS = 60_000


@dataclass
class Group:
    """A topic of one or two partitions, and a group that commits by hand, without members."""

    cluster: Cluster
    topic: str
    name: str
    consumer: Consumer
    admin: AdminClient

    def commit(self, offset: int, partition: int = 0) -> None:
        self.consumer.commit(offsets=[TopicPartition(self.topic, partition, offset)], asynchronous=False)

    def append(self, records: int, partition: int = 0) -> None:
        producer = Producer(client_config(self.cluster))
        for _ in range(records):
            producer.produce(self.topic, b"x", partition=partition)
        assert producer.flush(30) == 0

    def looked(self, later_ms: int = 0) -> Diagnosis:
        """One look, as if so much time had passed since."""
        with GroupWatch.open(self.cluster, self.name) as watch:
            now_ms = watch.now_ms
            watch.now_ms = lambda: now_ms() + later_ms
            return watch.look()

    def decided(self, later_ms: int = 0, partition: int = 0) -> Finding:
        return self.looked(later_ms).decided[self.topic, partition]

    @contextmanager
    def member(self, reads: int | None = None, **settings: Any) -> Iterator[Consumer]:
        """A consumer that has its partitions, has read so many records (None: all), and has committed nothing."""
        told = {"group.id": self.name, "enable.auto.commit": False, "auto.offset.reset": "earliest", "client.id": "app"} | settings
        consumer = Consumer(client_config(self.cluster, **told))
        consumer.subscribe([self.topic])
        try:
            for _ in range(RECORDS if reads is None else reads):  # the first poll that gives a record has joined too
                message = consumer.poll(30)
                assert message is not None and message.error() is None
            yield consumer
        finally:
            consumer.close()


@pytest.fixture
def group(broker: Cluster) -> Any:
    """A group of the test's own, gone with the test."""
    run = uuid.uuid4().hex[:8]
    topic, name = f"kit.diagnosis-{run}", f"kit.diagnosis-{run}"
    admin = AdminClient(client_config(broker))
    create_topic(admin, topic, 1, shared=True)
    find_coordinator(broker, name, 30.0)
    consumer = Consumer(client_config(broker, **{"group.id": name, "enable.auto.commit": False}))
    found = Group(broker, topic, name, consumer, admin)
    found.append(RECORDS)
    yield found
    consumer.close()
    with suppress(KafkaException):  # a test may have deleted it
        admin.delete_topics([topic])[topic].result(30)


def is_told(found: Diagnosis, verdict: str, code: int, rule: str, *parts: str) -> None:
    """The verdict, the exit code and the first sentence agree, and name this rule and these numbers."""
    assert (found.verdict, found.exit_code) == (verdict, code), found.sentence
    assert verdict in found.sentence and f"{rule}: " in found.sentence, found.sentence
    assert all(part in found.sentence for part in parts), found.sentence


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_at_work_is_healthy_and_one_that_left_is_not(group: Group, protocol: str) -> None:
    """A member that holds the partition and has committed the end is well; without it, nobody will read what comes."""
    with group.member(**{"group.protocol": protocol}) as member:
        member.commit(asynchronous=False)
        found = group.looked()
        is_told(found, "healthy", 0, "caught up", "app at 127.0.0.1 holds it")
        assert (found.snapshot.protocol, found.total_lag) == (protocol, 0)
    is_told(group.looked(), "not healthy", 1, "no member", "what comes will not be read", f"the last commit, of {RECORDS}")


def test_member_that_does_not_poll_is_told_once_its_time_is_over(group: Group) -> None:
    """Its heartbeats go on. At first, one look cannot tell it from a consumer at work."""
    with group.member(4) as member:
        member.commit(asynchronous=False)
        group.append(3)
        early, late = group.looked(), group.looked(MINUTE_MS)
        is_told(late, "not healthy", 1, "assigned and nobody polls", "app at 127.0.0.1 holds it", "9 offsets wait", "waits at 4")
        assert early.exit_code == 2 and "cannot be judged from one look" in early.sentence


def test_group_with_nothing_left_is_not_healthy_and_one_of_another_kind_cannot_be_judged(group: Group) -> None:
    """Its only topic is deleted: first its member holds nothing, then nobody is there. Connect's workers are no consumers."""
    with group.member() as member:
        member.commit(asynchronous=False)
        group.admin.delete_topics([group.topic])[group.topic].result(30)
        wait_until(lambda: group.looked().findings[0].rule == "nothing assigned", 30, "the topic is gone")
        is_told(group.looked(), "not healthy", 1, "nothing assigned", "although it has 1 members")
    is_told(group.looked(), "not healthy", 1, "no member", "committed nothing")
    name = f"{group.name}-connect"
    _, host, port = find_coordinator(group.cluster, name, 30.0)
    with CoordinatorWire.open(host, port) as worker:
        worker.send_join(name, "connect", [("default", b"x")], 30_000, 30_000)
        worker.receive_join()
        worker.sync({worker.member_id: b"x"})
        other = Group(group.cluster, group.topic, name, group.consumer, group.admin)
        is_told(other.looked(), "cannot be judged", 2, "nothing committed", "of the protocol connect, were not observed")
        worker.leave()


def test_member_that_never_commits_is_told_once_its_time_is_over(group: Group) -> None:
    """It has read everything, and its next start will not know."""
    with group.member():
        early, late = group.looked(), group.looked(MINUTE_MS)
        parts = "10 records in the log", "latest starts at 10 and never reads the 10"
        is_told(late, "not healthy", 1, "assigned and never committed", *parts)
        assert early.exit_code == 2 and "never committed" in early.sentence


def test_coordinator_that_differs_from_its_log_is_told_with_both_numbers(group: Group) -> None:
    """A commit written past the coordinator, as an admin client of Kafka's own may: it answers from its cache what it loaded."""
    with group.member() as member:
        member.commit(asynchronous=False)
        with OffsetsTopic.open(group.cluster) as topic:
            place = group_partition(group.name, topic.partitions())
            record = [each for each in topic.read(place) if group.topic.encode() in (each.key or b"")][-1]
        value, producer = record.value or b"", Producer(client_config(group.cluster, **{"client.id": "__admin_client"}))
        written = iter(range(1, 200))

        def differs() -> Diagnosis | None:
            """Any write of the coordinator in that partition makes it load its log anew, and it does not answer meanwhile."""
            producer.produce(OFFSETS_TOPIC, value[:2] + next(written).to_bytes(8, "big") + value[10:], record.key, partition=place)
            assert producer.flush(30) == 0
            with suppress(LabError):
                found = group.looked(MINUTE_MS)
                return found if found.findings[0].rule.startswith("coordinator") else None
            return None

        found = wait_until(differs, 30, "the coordinator answers what it remembers")
        is_told(found, "not healthy", 1, "coordinator differs from its log", "and the last record of its log says", "restart")


@pytest.mark.parametrize(("where", "policy"), [("beyond", "earliest"), ("beyond", "error"), ("below", "latest")])
def test_offset_outside_the_log_starts_as_each_policy_was_told_to(group: Group, where: str, policy: str) -> None:
    """What the sentence says of the next start is what a real consumer then does."""
    committed, start = (900, 0) if where == "beyond" else (2, 6)
    group.commit(committed)
    if start:
        group.admin.delete_records([TopicPartition(group.topic, 0, start)])[TopicPartition(group.topic, 0)].result(30)
    found = group.looked()
    number = f"890 beyond the end of the log, {RECORDS}" if where == "beyond" else "4 below the start of the log, 6: these records are gone"
    is_told(found, "not healthy", 1, f"outside the log, {'beyond its end' if where == 'beyond' else 'below its start'}", number)
    starts = {"earliest": (start, f"earliest starts at {start}"), "latest": (RECORDS, f"latest starts at {RECORDS}")}
    at, told = starts.get(policy, (None, "none stops with an error"))
    assert told in found.sentence
    settings = {"group.id": group.name, "enable.auto.commit": False, "auto.offset.reset": policy}
    with suppress(KafkaException):
        consumer = Consumer(client_config(group.cluster, **settings))
        consumer.subscribe([group.topic])
        for _ in range(60):
            if policy == "latest" and consumer.assignment():
                group.append(1)
            if (message := consumer.poll(1)) is not None:  # with "error", the first one tells of the offset and comes once
                break
        assert message is not None, "the consumer has got neither a record nor an error"
        got = None if message.error() else message.offset()
        assert (got is None) == (at is None), message.error()
        if at is not None and got is not None:
            assert got == start if policy == "earliest" else got >= RECORDS
        consumer.close()


def test_log_that_grows_past_a_foreign_offset_is_read_from_there_and_nothing_tells(group: Group) -> None:
    """The third end of an offset beyond the log: no policy is asked, and the records between are skipped."""
    group.commit(RECORDS + 5)
    assert "the 5 records from 10 on are skipped in silence" in group.looked().sentence
    group.append(8)
    with group.member(1) as member:
        assert member.position(member.assignment())[0].offset == RECORDS + 6


def test_group_before_an_open_transaction_is_told_whose_it_is(group: Group) -> None:
    """What lies behind it can be read by nobody who reads read_committed, however long they poll."""
    producer = Producer(client_config(group.cluster, **{"transactional.id": f"{group.name}-pays", "transaction.timeout.ms": 120_000}))
    producer.init_transactions(30)
    with group.member() as member:
        member.commit(asynchronous=False)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(group.topic, b"open")
        assert producer.flush(30) == 0
        group.append(4)
        early, late = group.looked(), group.looked(MINUTE_MS)
        parts = (f"'{group.name}-pays'", "stops at 10", "7 offsets lie behind it", "aborts it 120 s", "--start-offset 10")
        is_told(late, "not healthy", 1, "stands before an open transaction", *parts)
        assert early.exit_code == 2 and "stands before an open transaction" in early.sentence
        producer.abort_transaction(30)
        wait_until(lambda: group.decided(MINUTE_MS).rule == "assigned and nobody polls", 20, "it has ended")


def test_hanging_transaction_is_told_with_the_command_that_ends_it(group: Group) -> None:
    """A transactional batch that its coordinator has not heard of, as a zombie's is where leaders do not verify: nobody will end it."""
    name = f"{group.name}-hangs"
    _, host, port = find_coordinator(group.cluster, name, 30.0, TRANSACTION)
    with CoordinatorWire.open(host, port) as coordinator:
        error, producer, epoch = coordinator.init_transactional_id(name, 60_000)
    assert not error
    with group.member() as member, broker_setting(group.cluster, VERIFICATION, "false"):
        member.commit(asynchronous=False)
        wire = TopicReader.open(group.cluster, group.topic).wire
        batch = WireBatch(0, [b"x", b"y"], producer, epoch, 0, is_transactional=True)
        assert wire.produce(group.topic, [batch], transactional_id=name, version=PRODUCE[1])[0][0] == 0
        parts = (f"transaction of producer {producer}", "2 offsets lie behind it", "never ends by itself", "--start-offset 10")
        is_told(group.looked(), "not healthy", 1, "stands before a hanging transaction", *parts)
        assert wire.write_txn_markers(group.topic, 0, producer, epoch, False, 0, 0) == 0  # what that command does
        wire.close()
        is_told(group.looked(), "healthy", 0, "caught up", "hold no record to read")


def made_anew(group: Group, records: int) -> None:
    """The topic is deleted, and another one has its name."""
    admin = group.admin
    admin.delete_topics([group.topic])[group.topic].result(30)

    def create() -> bool:
        with suppress(LabError):
            create_topic(admin, group.topic, 1, shared=True)
        return True

    wait_until(lambda: group.topic not in admin.list_topics(timeout=10).topics, 30, "the topic is gone")
    wait_until(create, 30, "it is made anew")
    group.append(records)


def test_topic_made_anew_is_told_before_the_end_of_the_group(group: Group) -> None:
    """The coordinator takes the offsets away, and then the group that has none left: the cause is the topic."""
    with group.member() as member:
        member.commit(asynchronous=False)
    made_anew(group, 7)
    wait_until(lambda: group.decided().rule == "topic made anew", 30, "its offsets are gone")
    is_told(group.looked(), "not healthy", 1, "topic made anew", f"the committed offset {RECORDS} vanished", "reads 7 records")
    log = read_commit_log(group.cluster, group.name)
    ids = topics_of(group.cluster, log.history.commits)
    [past] = snapshots_of(log, group.name, topics=ids)
    assert [each.excuse for each in signs(past, past.partitions[0])] == [Excuse.NEW_TOPIC]
    with group.member(7) as member:
        member.commit(asynchronous=False)
        again = group.looked()
        is_told(again, "healthy", 0, "topic made anew", "the topic was recreated, and its offsets start again; the next commit is 7.")


def test_commits_without_a_membership_need_two_looks(group: Group) -> None:
    """A consumer with assign() has no members to look at: only a commit that moves shows that it reads."""
    group.commit(3)
    with GroupWatch.open(group.cluster, group.name) as watch:
        first = watch.look()
        group.commit(5)
        second = wait_until(lambda: (look := watch.look()).exit_code != 2 and look, 20, "the commit is seen")
    assert first.exit_code == 2 and "cannot be judged from one look" in first.sentence
    is_told(second, "healthy", 0, "without membership")
    group.admin.create_partitions([NewPartitions(group.topic, 2)])[group.topic].result(30)
    wait_until(lambda: len(look := group.looked().decided) == 2 and look[group.topic, 1].rule == "nothing to read", 20, "it is there")
    group.append(1, partition=1)
    assert group.decided(partition=1).grade is Grade.UNKNOWN  # a program with assign() may be meant to leave a partition out
    is_told(group.looked(MINUTE_MS), "not healthy", 1, "no member", "5 offsets wait")


def test_share_group_is_told_by_its_start_offsets_and_members(group: Group) -> None:
    """It commits nothing into __consumer_offsets; its coordinator tells where it stands."""
    with kafka_python_admin(group.cluster, "set up") as admin:
        from kafka.admin import ConfigResource, ConfigResourceType

        admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, f"{group.name}-s", {"share.auto.offset.reset": "earliest"})])
    sharing = Group(group.cluster, group.topic, f"{group.name}-s", group.consumer, group.admin)
    consumer = ShareConsumer(client_config(group.cluster, **{"group.id": sharing.name, "client.id": "app"}))
    consumer.subscribe([group.topic])
    read = wait_until(lambda: sum(message.error() is None for message in consumer.poll(1.0) or ()), 20, "it acquires records")
    is_told(sharing.looked(), "cannot be judged", 2, "no answer yet", "no start offset here before the first answer")
    with suppress(KafkaException):
        while read < RECORDS:
            read += sum(message.error() is None for message in consumer.poll(1.0) or ())
        consumer.commit_sync()
    found = wait_until(lambda: (look := sharing.looked()).exit_code == 0 and look, 20, "everything is accepted")
    is_told(found, "healthy", 0, "caught up", "app at 127.0.0.1 holds it")
    assert found.snapshot.protocol == "share"
    consumer.close()
    group.append(5)
    is_told(sharing.looked(), "not healthy", 1, "no member", "5 offsets wait")
    group.admin.delete_records([TopicPartition(group.topic, 0, RECORDS + 2)])[TopicPartition(group.topic, 0)].result(20)
    is_told(sharing.looked(), "not healthy", 1, "outside the log, below its start", "2 were deleted before the group was done")


def test_group_that_does_not_exist_is_told_with_some_that_do(group: Group) -> None:
    """Nothing is watched in vain."""
    group.commit(1)
    nobody = r"there is no group 'kit\.nobody'.*Groups that there are: "
    with pytest.raises(LabError, match=nobody), GroupWatch.open(group.cluster, "kit.nobody"):
        pass


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
    with GroupWatch.open(group.cluster, group.name) as watch:
        assert not [each for each in watch.look().findings if "differs" in each.rule]
    producer.abort_transaction(30)
    assert read()[0] in ([2, 4], [2, 4, 5])


def test_log_ends_of_what_is_not_there_are_skipped_with_the_reason(group: Group) -> None:
    """One question for many partitions, or a few; none of the partitions spoils it."""
    asked = LogEnds.of(group.cluster)
    found = asked.ends([(group.topic, 0), (group.topic, 9), ("kit.nowhere", 0)])
    assert found.offsets == {(group.topic, 0): RECORDS}
    assert found.skipped == {(group.topic, 9): "the topic has no such partition", ("kit.nowhere", 0): "there is no such topic"}
    assert asked.ends([]).offsets == {} and asked.starts([(group.topic, 0)]).offsets == {(group.topic, 0): 0}
    assert asked.stable([(group.topic, 0)]).offsets == {(group.topic, 0): RECORDS}


def test_brokers_that_do_not_answer_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at that port."""
    monkeypatch.setattr(log_ends_module, "DEADLINE_S", 0.3)
    with pytest.raises(LabError, match="topic 't' could not be described"):
        LogEnds.of(Cluster("127.0.0.1:1", None, 1, "kit")).ends([("t", 0)])


def test_groups_that_a_broker_still_loads_are_asked_for_again(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has just started knows its groups a moment later; any other refusal is told at once."""
    listed, refusals = KafkaAdminClient.list_groups, [GroupAuthorizationFailedError(), CoordinatorLoadInProgressError()]

    def list_groups(admin: KafkaAdminClient) -> Any:
        if refusals:
            raise refusals.pop()
        return listed(admin)

    monkeypatch.setattr(KafkaAdminClient, "list_groups", list_groups)
    with pytest.raises(LabError, match=r"the groups could not be listed: .*GroupAuthorization"):
        check_group_exists(broker, "nobody")
    refusals.append(CoordinatorLoadInProgressError())
    with pytest.raises(LabError, match="there is no group 'nobody'"):
        check_group_exists(broker, "nobody")
