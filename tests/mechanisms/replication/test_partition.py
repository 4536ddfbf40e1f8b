"""The replicated partition: what an acknowledgement is worth, who may lead, where a follower cuts its log off."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kitlib.mechanisms.replication.partition import Appended, ReplicatedPartition, ReplicationConfig


def partition(least: int = 1, unclean: bool = False, brokers: tuple[int, ...] = (2, 3)) -> ReplicatedPartition:
    return ReplicatedPartition(brokers, ReplicationConfig(least, unclean))


def die(log: ReplicatedPartition, broker: int) -> list[str]:
    return [each.what for each in (*log.kill(broker), *log.fence(broker))]


def numbers(log: ReplicatedPartition, broker: int) -> list[int]:
    return [number for _, number in log.replicas[broker].records]


def with_one_ahead(unclean: bool) -> ReplicatedPartition:
    """Broker 3 died after 4 records, 2 took 2 more alone and died, 3 has come back."""
    log = partition(unclean=unclean)
    log.append(range(4))
    die(log, 3)
    assert log.append(range(4, 6)) == Appended("", 4, 5)
    die(log, 2)
    log.start(3)
    return log


def test_clean_election_waits_for_the_one_that_has_everything() -> None:
    """With the setting off nobody leads until the last leader is back, and nothing is gone."""
    log = with_one_ahead(unclean=False)
    assert log.leader is None and log.append([90]).error == "LEADER_NOT_AVAILABLE"
    elected = [each.data for each in log.start(2) if each.what == "elect"]
    assert elected == [{"leader": 2, "epoch": 2, "unclean": False, "why": "last leader"}]
    assert numbers(log, 2) == numbers(log, 3) == list(range(6)) and set(log.state.in_sync) == {2, 3}


def test_cut_off_by_epochs_where_the_new_leader_has_grown_past_the_old_end() -> None:
    """Also when the new leader's log is longer: an offset does not tell, the epoch does."""
    log = with_one_ahead(unclean=True)
    log.append(range(90, 99))
    assert [each.data for each in log.start(2) if each.what == "truncate"] == [{"to": 4, "from": 6}]
    assert numbers(log, 2) == [0, 1, 2, 3, *range(90, 99)]


def test_leader_that_has_written_nothing_yet_still_tells_where_the_histories_part() -> None:
    """Its epoch is noted when it begins to lead: a follower with records of an epoch in between is told of both."""
    log = with_one_ahead(unclean=True)
    log.append([90, 91])  # 3 has 0 to 3 of epoch 0 and these of epoch 2, and ends where 2 ends
    die(log, 3)
    log.start(2)
    assert log.state.leader == 2 and log.replicas[2].epochs.entries == [(0, 0), (4, 6)]
    assert [each.data for each in log.start(3) if each.what == "truncate"] == [{"to": 4, "from": 6}]
    assert numbers(log, 3) == list(range(6))


def test_too_few_in_sync_refuses() -> None:
    """min.insync.replicas refuses acks=all until the other one is back."""
    log = partition(least=2)
    log.append(range(3))
    die(log, 3)
    assert log.append([3]).error == "NOT_ENOUGH_REPLICAS" and log.replicas[2].end == 3
    log.start(3)
    assert log.append([3]).last == 3 and log.high_watermark == 4 and numbers(log, 3) == [0, 1, 2, 3]


def test_silent_follower_holds_up_acks_all_until_it_is_out_of_sync() -> None:
    """A follower that stands still is waited for as long as it is in sync."""
    log = partition()
    log.pause(3)
    assert log.append([0]).error == "REQUEST_TIMED_OUT" and log.high_watermark == 0
    log.fence(3)
    assert log.append([1]) == Appended("", 1, 1) and log.high_watermark == 2
    assert [each.what for each in log.wake(3)] == ["wake", "copy", "isr"] and numbers(log, 3) == [0, 1]


class Cluster(RuleBasedStateMachine):
    """Brokers die, stand still and come back in any order while a producer sends with acks=all; no unclean election."""

    @initialize(least=st.integers(1, 3), copies=st.integers(1, 3))
    def begin(self, least: int, copies: int) -> None:
        self.log = partition(least, False, tuple(range(1, copies + 1)))
        self.acknowledged: list[int] = []
        self.sent, self.most_seen = 0, 0

    def some(self, index: int) -> int:
        return self.log.brokers[index % len(self.log.brokers)]

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        answer = self.log.append(range(self.sent, self.sent + count))
        if not answer.error:
            self.acknowledged += range(self.sent, self.sent + count)
        self.sent += count

    @rule(index=st.integers(0, 2))
    def ends(self, index: int) -> None:
        replica = self.log.replicas[self.some(index)]
        if replica.works:
            die(self.log, replica.broker)

    @rule(index=st.integers(0, 2))
    def stands_still(self, index: int) -> None:
        replica = self.log.replicas[self.some(index)]
        if replica.works:
            self.log.pause(replica.broker)
            self.log.fence(replica.broker)

    @rule(index=st.integers(0, 2))
    def comes_back(self, index: int) -> None:
        replica = self.log.replicas[self.some(index)]
        if not replica.is_alive:
            self.log.start(replica.broker)
        elif replica.is_paused:
            self.log.wake(replica.broker)

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def nothing_acknowledged_is_gone(self) -> None:
        leader = self.log.leader
        if leader is not None:
            held = numbers(self.log, leader.broker)
            assert set(self.acknowledged) <= set(held)
            assert leader.high_watermark <= leader.end

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def copies_are_beginnings_of_the_leaders_log(self) -> None:
        leader = self.log.leader
        for replica in self.log.replicas.values():
            assert [epoch for epoch, _ in replica.records] == sorted(epoch for epoch, _ in replica.records)
            if leader is not None and replica.works and replica.broker not in self.log.fenced:
                assert leader.records[: replica.end] == replica.records
                assert replica.broker in self.log.state.in_sync


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
