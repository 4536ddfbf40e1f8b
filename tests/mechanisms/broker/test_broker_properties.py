"""What holds for a broker after any sequence of appends, markers, restarts, failovers, deletions and expiries."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kitlib.mechanisms.broker.append_checks import InvalidTxnStateError
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.unified_log import UnifiedLog
from kitlib.mechanisms.protocol import increment_sequence
from tests.mechanisms.broker.logs import batch, marker, said

PIDS = st.sampled_from([7, 8])
EXPIRATION_MS = 50


class BrokerMachine(RuleBasedStateMachine):
    """A log under random load, beside the plainest thing that could tell what it must remember: its own records."""

    def __init__(self) -> None:
        super().__init__()
        self.log = UnifiedLog(BrokerConfig(producer_id_expiration_ms=EXPIRATION_MS))
        self.now = 0
        self.known_from: dict[int, int] = {}  # producer -> the index in log.batches from which it is remembered

    def knows(self, pid: int) -> list[tuple[int, int, int]]:
        """First and last sequence and first offset of what must be remembered: the newest five of its last epoch."""
        if pid not in self.known_from:
            return []
        own = [each for each in self.log.batches[self.known_from[pid] :] if each.batch.producer_id == pid]
        newest: list[tuple[int, int, int]] = []
        epoch = None
        for each in own:
            if each.batch.producer_epoch != epoch:
                newest, epoch = [], each.batch.producer_epoch
            if each.marker is None:
                newest.append((each.batch.base_sequence, each.batch.last_sequence, each.base_offset))
        return newest[-5:]

    @rule(pid=PIDS, ahead=st.integers(-6, 2), count=st.integers(1, 3), epoch=st.integers(-1, 1), txn=st.booleans())
    def append(self, pid: int, ahead: int, count: int, epoch: int, txn: bool) -> None:
        entry = self.log.state.entries.get(pid)
        expected = increment_sequence(entry.last_seq, 1) if entry else 0
        seq, used = max(0, expected + ahead), max(0, (entry.epoch if entry else 0) + epoch)
        before = copy.deepcopy((self.log.state, self.log.end))
        known = {(first, last): at for first, last, at in self.knows(pid)} if entry and entry.epoch == used else {}
        index = len(self.log.batches)
        word = said(self.log, batch(seq, count, used, pid, txn, at=self.now))
        if (seq, seq + count - 1) in known:
            assert word == f"duplicate {known[seq, seq + count - 1]}"
        if word.startswith("appended"):
            assert self.log.end == before[1] + count
            assert entry is None or used > before[0].entries[pid].epoch or seq == expected
            self.known_from.setdefault(pid, index)
        else:
            assert (self.log.state, self.log.end) == before

    @rule(pid=PIDS, up=st.integers(-1, 1), version=st.sampled_from([1, 2]))
    def mark(self, pid: int, up: int, version: int) -> None:
        entry = self.log.state.entries.get(pid)
        before, index = copy.deepcopy((self.log.state, self.log.end)), len(self.log.batches)
        epoch = max(0, (entry.epoch if entry else 0) + up)
        if said(self.log, marker(epoch, version, pid, at=self.now)).startswith("appended"):
            self.known_from.setdefault(pid, index)
            assert self.log.state.entries[pid].txn_first_offset is None
        else:
            assert (self.log.state, self.log.end) == before

    @rule(ms=st.integers(0, EXPIRATION_MS))
    def expire(self, ms: int) -> None:
        self.now += ms
        for pid in self.log.expire(self.now):
            del self.known_from[pid]

    @rule(how=st.sampled_from(["clean", "kill"]))
    def restart(self, how: str) -> None:
        before = copy.deepcopy(self.log)
        try:
            self.log.restart(how, self.now)
        except InvalidTxnStateError:
            assert how == "kill" and before == self.log
            return
        assert all(len(entry.batches) <= 1 for entry in self.log.state.entries.values())
        newest: dict[int, int] = {}
        for pid, entry in self.log.state.entries.items():
            own = [number for number, each in enumerate(self.log.batches) if each.batch.producer_id == pid]
            at = [
                number
                for number in own
                if entry.batches and self.log.batches[number].base_offset == entry.batches[0].first_offset
            ]
            newest[pid] = at[0] if at else own[-1] if own else len(self.log.batches)
        self.known_from = newest

    @rule()
    def fail_over(self) -> None:
        self.log.fail_over()
        own = {each.batch.producer_id for each in self.log.batches}
        self.known_from = dict.fromkeys(own, 0)
        assert set(self.log.state.entries) == own

    @precondition(lambda self: self.log.end > self.log.start)
    @rule(share=st.integers(1, 10))
    def delete(self, share: int) -> None:
        self.log.delete_before(self.log.start + (self.log.end - self.log.start) * share // 10)

    @invariant()
    def remembers_the_newest_five_of_the_log(self) -> None:
        for pid, entry in self.log.state.entries.items():
            assert [(each.first_seq, each.last_seq, each.first_offset) for each in entry.batches] == self.knows(pid)
            assert entry.last_seq == (entry.batches[-1].last_seq if entry.batches else -1)

    @invariant()
    def offsets_have_no_gap(self) -> None:
        ends = [each.last_offset + 1 for each in self.log.batches]
        assert [each.base_offset for each in self.log.batches[1:]] == ends[:-1]
        assert not ends or ends[-1] == self.log.end

    @invariant()
    def an_open_transaction_holds_the_unstable_offset_back(self) -> None:
        opened = [
            entry.txn_first_offset for entry in self.log.state.entries.values() if entry.txn_first_offset is not None
        ]
        assert sorted(self.log.state.ongoing_txns) == sorted(opened)
        unstable = self.log.first_unstable_offset
        assert (unstable is not None) == bool(opened)
        if unstable is not None and min(opened) >= self.log.start:
            assert unstable == min(opened)


BrokerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_broker_remembers_what_its_log_says = BrokerMachine.TestCase


def delivered(config: BrokerConfig, in_flight: int, lost: list[bool], restarts: list[bool]) -> tuple[bool, list[int]]:
    """Twelve batches, `in_flight` sent at once, then retried in order until answered.

    `lost` says which answers are, `restarts` after which of the rounds the broker is killed. Whether the
    broker took every batch, and the sequences in its log.
    """
    log, acked, answers, kills = UnifiedLog(config), 0, iter(lost), iter(restarts)
    while acked < 12:
        window = range(acked, min(12, acked + in_flight))
        words = [said(log, batch(seq)) for seq in window]
        if any(word.isupper() for word in words):
            return False, [each.batch.base_sequence for each in log.batches]
        for _ in window:
            if next(answers, False):
                break  # the answers after a lost one are lost with the connection
            acked += 1
        if next(kills, False):
            log.restart("kill", 0)
    return True, [each.batch.base_sequence for each in log.batches]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 7), st.integers(0, 3), st.lists(st.booleans(), max_size=30))
def test_as_many_remembered_as_in_flight_is_exactly_once(in_flight: int, more: int, lost: list[bool]) -> None:
    """Why five: what can be unanswered is remembered, so each batch is in the log once and in order, whatever is lost."""
    config = BrokerConfig(remembered_batches=in_flight + more)
    assert delivered(config, in_flight, lost, []) == (True, list(range(12)))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 10), st.lists(st.booleans(), max_size=30), st.lists(st.booleans(), max_size=12))
def test_older_is_duplicate_is_exactly_once_whatever_is_remembered(
    in_flight: int, lost: list[bool], restarts: list[bool]
) -> None:
    """With the article's rule one remembered batch is enough for any number in flight, and for a broker that is killed."""
    config = BrokerConfig(remembered_batches=1, older_is_duplicate=True)
    assert delivered(config, in_flight, lost, restarts) == (True, list(range(12)))


@given(st.integers(2, 5))
def test_restart_while_answers_are_lost_is_not_survived_by_five(in_flight: int) -> None:
    """Two or more in flight, all written, all answers lost, the broker killed: the first retry is refused."""
    assert delivered(BrokerConfig(), in_flight, [True], [True]) == (False, list(range(in_flight)))


@given(st.integers(1, 9))
def test_one_more_in_flight_than_remembered_is_not_enough(remembered: int) -> None:
    """All of them written and all answers lost: the first retry is refused, though its records are in the log."""
    took_all, stored = delivered(BrokerConfig(remembered_batches=remembered), remembered + 1, [True], [])
    assert not took_all and stored == list(range(remembered + 1))
