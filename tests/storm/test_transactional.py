"""Batches with a transaction id: what they stand for, their order, and what each kind of state makes of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.errors import KitError
from kitlib.storm.offset_store import MemoryOffsetStore
from kitlib.storm.transactional import (
    AttemptStatus,
    Batch,
    EmitBatch,
    EmitCommit,
    OpaqueTransactionalSpout,
    TransactionalSpout,
    TransactionalSpoutCoordinator,
    TransactionAttempt,
    UnreadableTransactionError,
)
from kitlib.storm.transactional_state import (
    CountState,
    MemoryTable,
    OpaqueValue,
    PlainValue,
    StateKind,
    TransactionalValue,
    TransactionOrderError,
    UnreadableCountError,
    parse_count,
)

LOG_END = 12
SPOUTS = [TransactionalSpout, OpaqueTransactionalSpout]
KINDS: tuple[StateKind, ...] = ("plain", "transactional", "opaque")


def coordinator(
    spout: type[Any] = TransactionalSpout, in_flight: int = 3, store: MemoryOffsetStore | None = None, records: Any = lambda attempt: 4
) -> TransactionalSpoutCoordinator:
    return TransactionalSpoutCoordinator(spout(records), store or MemoryOffsetStore(), "/words", in_flight)


def out(effects: Sequence[EmitBatch | EmitCommit]) -> list[tuple[str, str, int, int]]:
    return [(type(e).__name__, str(e.attempt), e.batch.first, e.batch.last) for e in effects]


# -- batches and their order ------------------------------------------------------------------------


@pytest.mark.parametrize("spout", SPOUTS)
def test_next_hands_out_as_many_batches_as_may_be_out(spout: type[Any]) -> None:
    """At most max_spout_pending batches are out at once; they follow one another in the log, the last one is what is left."""
    two = coordinator(spout, in_flight=2)
    assert out(two.next(LOG_END)) == [("EmitBatch", "1:1", 0, 3), ("EmitBatch", "2:1", 4, 7)]
    assert two.next(LOG_END) == []
    assert out(coordinator(spout).next(6)) == [("EmitBatch", "1:1", 0, 3), ("EmitBatch", "2:1", 4, 5)]
    assert coordinator(spout).next(0) == []


@pytest.mark.parametrize("spout", SPOUTS)
def test_commits_come_in_order_however_the_batches_finish(spout: type[Any]) -> None:
    """A batch that is finished early waits until every batch before it is committed, and only one commits at a time."""
    found = coordinator(spout)
    one, two, three = (effect.attempt for effect in found.next(LOG_END))
    assert found.ack(three) and found.ack(two) and found.next(LOG_END) == []
    assert found.ack(one) and out(found.next(LOG_END)) == [("EmitCommit", "1:1", 0, 3)]
    assert found.next(LOG_END) == []
    assert found.ack(one) and found.curr_txid == 2
    assert out(found.next(LOG_END)) == [("EmitCommit", "2:1", 4, 7)]


def test_fail_of_a_batch_ends_the_later_ones_too() -> None:
    """A failed batch comes again with the next attempt, and so do all that are behind it; the ones before stand."""
    found = coordinator()
    one, two, three = (effect.attempt for effect in found.next(LOG_END))
    assert found.ack(one) and found.ack(three)
    assert found.fail(two) == [two, three]
    assert out(found.next(LOG_END)) == [("EmitCommit", "1:1", 0, 3), ("EmitBatch", "2:2", 4, 7), ("EmitBatch", "3:2", 8, 11)]
    assert found.active[1].status is AttemptStatus.COMMITTING


def test_late_answer_of_an_old_attempt_does_nothing() -> None:
    """What an ended attempt still says changes nothing, and neither does an attempt that never was."""
    found = coordinator()
    one, two, _ = (effect.attempt for effect in found.next(LOG_END))
    found.fail(one)
    found.next(LOG_END)
    before = repr(found)
    assert not found.ack(two) and found.fail(two) == [] and found.fail(one) == []
    assert not found.ack(TransactionAttempt(9, 1)) and found.fail(TransactionAttempt(9, 1)) == []
    assert repr(found) == before and "1:2 processing" in before


def test_replay_after_a_crash_has_the_same_content() -> None:
    """A new coordinator hands out the ids that were not committed, with the offsets they stood for and further attempts."""
    store, sizes = MemoryOffsetStore(), iter([4, 3, 2])
    first = coordinator(store=store, records=lambda attempt: next(sizes))
    one, *_ = (effect.attempt for effect in first.next(LOG_END))
    first.ack(one)
    first.next(LOG_END)
    again = coordinator(store=store, records=lambda attempt: 1)
    assert out(again.next(LOG_END)) == [("EmitBatch", "1:2", 0, 3), ("EmitBatch", "2:2", 4, 6), ("EmitBatch", "3:2", 7, 8)]
    for _ in range(2):
        again.ack(TransactionAttempt(1, 2))
        again.next(LOG_END)
    third = coordinator(store=store, records=lambda attempt: 1)
    assert third.curr_txid == 2
    assert out(third.next(LOG_END)) == [("EmitBatch", "2:3", 4, 6), ("EmitBatch", "3:3", 7, 8), ("EmitBatch", "4:2", 9, 9)]


def test_replay_of_an_opaque_spout_begins_where_the_committed_one_ended() -> None:
    """An opaque replay may be cut otherwise, but no record is left out and none is in two committed batches."""
    store = MemoryOffsetStore()
    found = coordinator(OpaqueTransactionalSpout, store=store, records=lambda attempt: 4 if attempt.attempt == 1 else 2)
    found.fail(found.next(LOG_END)[0].attempt)
    assert out(found.next(LOG_END)) == [("EmitBatch", "1:2", 0, 1), ("EmitBatch", "2:2", 2, 3), ("EmitBatch", "3:2", 4, 5)]
    for _ in range(2):
        found.ack(TransactionAttempt(1, 2))
        found.next(LOG_END)
    found = coordinator(OpaqueTransactionalSpout, store=store, records=lambda attempt: 5)
    assert out(found.next(LOG_END)) == [("EmitBatch", "2:3", 2, 6), ("EmitBatch", "3:3", 7, 11)]


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "null", "{}", '{"currtx":"2","currattempts":{},"meta":{}}',
                                  '{"currtx":2,"currattempts":{"x":1},"meta":{}}', '{"currtx":2,"currattempts":{},"meta":{"1":[0]}}',
                                  '{"currtx":true,"currattempts":{},"meta":{}}', "[" * 100_000])  # fmt: skip
def test_stored_text_that_holds_no_transactions_is_refused(text: str) -> None:
    """A start over a damaged text says so: whoever began anew from transaction 1 would count everything again."""
    store = MemoryOffsetStore()
    store.write("/words", text)
    with pytest.raises(UnreadableTransactionError, match=r"coordinator /words: .* Begin under another path"):
        coordinator(store=store)


def test_no_batch_may_be_out_is_refused() -> None:
    """max_spout_pending of 0 would wait for ever."""
    with pytest.raises(KitError, match="max_spout_pending is 0, expected 1 or more"):
        coordinator(in_flight=0)


# -- the three kinds of state -----------------------------------------------------------------------

# B5: batch 5 holds 3, then 1 in its replay; 10 were counted before it -> (after the first writing, after the replay)
REPLAYS: dict[str, tuple[StateKind, int, int, int, int]] = {
    "plain counts the same replay twice": ("plain", 3, 3, 13, 16),
    "transactional skips the same replay": ("transactional", 3, 3, 13, 13),
    "opaque computes the same replay anew": ("opaque", 3, 3, 13, 13),
    "plain adds up both": ("plain", 3, 1, 13, 14),
    "transactional keeps the first content": ("transactional", 3, 1, 13, 13),
    "transactional misses what the replay has more": ("transactional", 3, 7, 13, 13),
    "opaque has the content of the replay": ("opaque", 3, 1, 13, 11),
    "opaque has what the replay has more": ("opaque", 3, 7, 13, 17),
}


@pytest.mark.parametrize("case", REPLAYS)
def test_replay_of_a_transaction_id(case: str) -> None:
    """Only an opaque count is right when the replayed batch has another content; a transactional one when it has the same."""
    kind, first, replayed, after_first, after_replay = REPLAYS[case]
    state = CountState(kind, MemoryTable())

    def commit(txid: int, change: int) -> int:
        for write in state.plan(txid, {"storm": change}):
            state.write(write)
        return state.counts()["storm"]

    assert commit(4, 10) == 10
    assert (commit(5, first), commit(5, replayed)) == (after_first, after_replay)
    assert commit(6, 1) == after_replay + 1


def test_opaque_key_that_the_replay_lacks_keeps_what_the_broken_attempt_wrote() -> None:
    """An opaque state cannot take back a key that is not in the replay: its record counts again in a later batch."""
    state = CountState("opaque", MemoryTable())
    for txid, changes in ((5, {"storm": 1, "bolt": 1}), (5, {"storm": 1}), (6, {"bolt": 1})):
        for write in state.plan(txid, changes):
            state.write(write)
    assert state.counts() == {"storm": 1, "bolt": 2}


def test_stored_texts_are_those_of_storm() -> None:
    """A plain count is a number; the others are JSON lists of id, count and the count before."""
    values = PlainValue(7), TransactionalValue(7, 3), OpaqueValue(7, 3, 5), OpaqueValue(7, 3, None)
    assert [value.to_json() for value in values] == [7, [3, 7], [3, 7, 5], [3, 7, None]]


@given(st.sampled_from(KINDS), st.dictionaries(st.text(max_size=5), st.integers(0, 2**70), max_size=4), st.integers(1, 2**70))
def test_stored_counts_are_read_back(kind: StateKind, changes: dict[str, int], txid: int) -> None:
    """What was written is read, whatever the words, and a new state over the same table goes on from it."""
    table = MemoryTable()
    state = CountState(kind, table)
    planned = state.plan(txid, changes)
    assert table.texts == {} and [write.key for write in planned] == list(changes)
    for write in planned:
        state.write(write)
    again = CountState(kind, table)
    assert again.counts() == changes
    assert [again.read(write.key) for write in planned] == [write.after for write in planned]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text", ["", "x", "null", "1.5", "true", "{}", "[]", "[1]", '["1",2]', "[1,true,null]", "[1,2,3,4]", "[" * 100_000]
)
def test_stored_text_that_is_no_count_is_refused(kind: StateKind, text: str) -> None:
    """A count that is not one of this kind is never taken for 0."""
    with pytest.raises(UnreadableCountError, match=rf"which is no {kind} count"):
        parse_count(kind, "storm", text)


def test_opaque_batch_that_is_behind_the_state_is_refused() -> None:
    """A commit out of order is an error, and nothing is written."""
    state = CountState("opaque", table := MemoryTable({"storm": "[5,3,2]"}))
    with pytest.raises(TransactionOrderError, match="batch 4 is behind batch 5"):
        state.plan(4, {"storm": 1})
    assert table.texts == {"storm": "[5,3,2]"}


def test_transactional_batch_that_is_behind_counts_as_another_batch() -> None:
    """A transactional value compares ids for equality alone: it cannot see that commits came out of order."""
    assert TransactionalValue(3, 5).update(4, 1) == TransactionalValue(4, 4)


def test_restored_spout_forgets_what_was_not_committed() -> None:
    """An opaque spout goes on from the last committed batch, whatever it had handed out before."""
    spout = OpaqueTransactionalSpout(lambda attempt: 4)
    for txid in (1, 2):
        spout.batch(TransactionAttempt(txid, 1), LOG_END)
    spout.restore({1: Batch(0, 1)})
    assert spout.batch(TransactionAttempt(3, 1), LOG_END) == Batch(2, 5)


# -- whatever fails, wherever -----------------------------------------------------------------------


@dataclass
class World:
    """A word count by batches, in which a list of small numbers decides what happens next."""

    lines: list[list[str]]
    kind: StateKind
    spout: type[Any]
    size: int  # records a batch
    replay_size: int  # records a replayed batch, if the spout is opaque
    in_flight: int
    store: MemoryOffsetStore = field(default_factory=MemoryOffsetStore)
    table: MemoryTable = field(default_factory=MemoryTable)
    committed: list[Batch] = field(default_factory=list)
    written: dict[int, set[str]] = field(default_factory=dict)  # txid -> words that broken commits of it wrote
    left_out: int = 0  # words that a broken commit wrote and the committed replay lacks

    def open(self) -> TransactionalSpoutCoordinator:
        spout = self.spout(lambda attempt: self.size if attempt.attempt == 1 else self.replay_size)
        return TransactionalSpoutCoordinator(spout, self.store, "/words", self.in_flight)

    def run(self, choices: Sequence[int]) -> None:
        """Follow the choices, then let everything succeed until nothing is left to do."""
        found, to_do = self.open(), list[EmitBatch | EmitCommit]()
        for choice in [*choices, *[1] * (8 * len(self.lines) + 8)]:
            to_do += found.next(len(self.lines))
            if choice == 0:  # the worker dies
                found, to_do = self.open(), []
            elif to_do:
                effect = to_do.pop(choice % len(to_do))
                ok = self.commit(effect, choice) if isinstance(effect, EmitCommit) else choice % 5 != 3
                found.ack(effect.attempt) if ok else found.fail(effect.attempt)
        assert found.next(len(self.lines)) == [] and not found.active

    def commit(self, effect: EmitCommit, choice: int) -> bool:
        """Write the batch's counts, or only the first few of them; whether it came to its end."""
        state, txid = CountState(self.kind, self.table), effect.attempt.txid
        changes = Counter(word for line in self.lines[effect.batch.first : effect.batch.end] for word in line)
        is_broken = choice % 5 in (2, 3)
        planned = state.plan(txid, changes)
        for write in planned[: choice % (len(planned) + 1)] if is_broken else planned:
            state.write(write)
            self.written.setdefault(txid, set()).add(write.key)
        if not is_broken:
            self.left_out += len(self.written[txid] - set(changes)) if changes else 0
            self.committed.append(effect.batch)
        return not is_broken

    @property
    def counts(self) -> dict[str, int]:
        return CountState(self.kind, self.table).counts()

    @property
    def truth(self) -> dict[str, int]:
        return dict(Counter(word for line in self.lines for word in line))


WORLDS = st.builds(
    World,
    lines=st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), max_size=12),
    kind=st.sampled_from(KINDS),
    spout=st.sampled_from(SPOUTS),
    size=st.integers(1, 5),
    replay_size=st.integers(1, 7),
    in_flight=st.integers(1, 4),
)
CHOICES = st.lists(st.integers(0, 29), max_size=40)


@given(WORLDS, CHOICES)
def test_whatever_fails_every_record_is_committed_once_and_in_order(world: World, choices: list[int]) -> None:
    """The committed batches are the log, cut into pieces: no record is left out, none is in two of them."""
    world.run(choices)
    assert [offset for batch in world.committed for offset in range(batch.first, batch.end)] == list(range(len(world.lines)))


@given(WORLDS, CHOICES)
def test_whatever_fails_counts_are_right_where_their_preconditions_hold(world: World, choices: list[int]) -> None:
    """Plain counts are never too small; transactional ones are right under a transactional spout, opaque ones under any
    spout, as long as no replay lacks a word that a broken commit wrote."""
    world.run(choices)
    if world.kind == "plain":
        assert all(world.counts[word] >= count for word, count in world.truth.items())
    elif world.spout is TransactionalSpout or (world.kind == "opaque" and not world.left_out):
        assert world.counts == world.truth


def test_random_failures_do_break_what_has_no_protection() -> None:
    """The same failures that an opaque count survives make plain and transactional counts wrong (else this file shows nothing)."""
    lines = [["a", "b"], ["a", "c"], ["a", "b", "c"], ["b"], ["c", "a"], ["a", "b"]]
    found = {}
    for kind in KINDS:
        world = World(lines, kind, OpaqueTransactionalSpout, 2, 3, 2)
        world.run([1, 1, 17, 1, 1, 1])
        found[kind] = world.counts == world.truth, world.left_out
    assert found == {"plain": (False, 0), "transactional": (False, 0), "opaque": (True, 0)}
