"""The entry of a transactional id, beside Kafka's own class: any calls in any order, in a JVM with the broker's jars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from kitlib.errors import KitError
from kitlib.lab.java_client import JavaClient
from kitlib.mechanisms.producer.transaction_manager import PREVIOUS as CLIENT_PREVIOUS
from kitlib.mechanisms.producer.transaction_manager import ProducerState
from kitlib.mechanisms.transactions.metadata import (
    PREVIOUS,
    TransactionMetadata,
    TransactionRefusedError,
    TransactionState,
    TxnTransitMetadata,
)

S = TransactionState
WALKS = 60
PARTITIONS = [("t", number) for number in range(4)]


class Kafka:
    """Kafka's TransactionMetadata, and what it takes to call it."""

    def __init__(self, java: JavaClient) -> None:
        self.jvm, self.gateway = java.jvm, java.gateway
        kafka = java.jvm.org.apache.kafka
        self.room, self.partition = kafka.coordinator.transaction, kafka.common.TopicPartition
        self.versions = {1: kafka.server.common.TransactionVersion.TV_0, 2: kafka.server.common.TransactionVersion.TV_2}
        self.states = {state: getattr(self.room.TransactionState, state.name) for state in S}
        self.to_short = self._function("java.lang.Integer", "shortValue", self.jvm.java.lang.Short.TYPE)

    def _function(self, kind: str, method: str, gives: Any) -> Any:
        """A Java function that calls this method: Py4J itself hands no Short to a method that takes any object."""
        invoke, of = self.jvm.java.lang.invoke, self.jvm.java.lang.Class.forName
        handle = invoke.MethodHandles.publicLookup().findVirtual(of(kind), method, invoke.MethodType.methodType(gives))
        return invoke.MethodHandleProxies.asInterfaceInstance(of("java.util.function.Function"), handle)

    def epoch(self, epoch: int | None) -> Any:
        optional = self.jvm.java.util.Optional
        return optional.empty() if epoch is None else optional.of(epoch).map(self.to_short)

    def partitions(self, named: frozenset[tuple[str, int]]) -> Any:
        found = self.jvm.java.util.HashSet()
        for topic, number in named:
            found.add(self.partition(topic, number))
        return found

    def entry(self, ours: TransactionMetadata) -> Any:
        return self.room.TransactionMetadata(
            "x", ours.producer_id, ours.prev_producer_id, ours.next_producer_id, ours.producer_epoch, ours.last_producer_epoch,
            ours.txn_timeout_ms, self.states[ours.state], self.partitions(ours.partitions), ours.txn_start_ms,
            ours.last_update_ms, self.versions[ours.client_version],
        )  # fmt: skip


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """One JVM for all."""
    with JavaClient.open() as java:
        yield Kafka(java)


def shown(theirs: Any) -> tuple[Any, ...]:
    """A Java entry or step as a tuple, in the order of `ours`."""
    state = theirs.state() if hasattr(theirs, "state") and "TxnTransit" not in theirs.getClass().getName() else theirs.txnState()
    named = frozenset((each.topic(), each.partition()) for each in theirs.topicPartitions())
    return (
        theirs.producerId(), theirs.prevProducerId(), theirs.producerEpoch(), theirs.lastProducerEpoch(), theirs.txnTimeoutMs(),
        str(state.name()), named, theirs.txnStartTimestamp(), theirs.txnLastUpdateTimestamp(),
        2 if theirs.clientTransactionVersion().supportsEpochBump() else 1,
    )  # fmt: skip


def ours(of: TransactionMetadata | TxnTransitMetadata) -> tuple[Any, ...]:
    """The same of the kit's."""
    return (
        of.producer_id, of.prev_producer_id, of.producer_epoch, of.last_producer_epoch, of.txn_timeout_ms, of.state.name,
        of.partitions, of.txn_start_ms, of.last_update_ms, of.client_version,
    )  # fmt: skip


def outcome(call: Callable[[], Any]) -> tuple[Any, str]:
    """(what was returned, ""), or (None, "fenced" or "illegal")."""
    try:
        return call(), ""
    except Py4JJavaError as error:
        return None, "fenced" if "Fenced" in error.java_exception.getClass().getSimpleName() else "illegal"
    except KitError as error:
        return None, "fenced" if isinstance(error, TransactionRefusedError) else "illegal"


def calls_of(
    kafka: Kafka, theirs: Any, entry: TransactionMetadata, steps: tuple[Any, Any], rng: Random, now: int
) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Each call with arguments by chance: Kafka's, and the kit's. `steps` is what was prepared last."""
    version, added = rng.choice([1, 2]), frozenset(rng.sample(PARTITIONS, 2))
    expected = rng.choice([None, entry.producer_epoch, entry.last_producer_epoch, 3])
    end, new_id, is_empty = rng.choice([S.PREPARE_COMMIT, S.PREPARE_ABORT]), rng.choice([-1, 11]), rng.random() < 0.3
    return {
        "fence": (theirs.prepareFenceProducerEpoch, entry.prepare_fence_producer_epoch),
        "begin": (lambda: theirs.prepareIncrementProducerEpoch(2_000, kafka.epoch(expected), now),
                  lambda: entry.prepare_increment_producer_epoch(2_000, expected, now)),
        "rotate": (lambda: theirs.prepareProducerIdRotation(11, 2_000, now, is_empty),
                   lambda: entry.prepare_producer_id_rotation(11, 2_000, now, is_empty)),
        "add": (lambda: theirs.prepareAddPartitions(kafka.partitions(added), now, kafka.versions[version]),
                lambda: entry.prepare_add_partitions(added, now, version)),
        "end": (lambda: theirs.prepareAbortOrCommit(kafka.states[end], kafka.versions[version], new_id, now, is_empty),
                lambda: entry.prepare_abort_or_commit(end, version, new_id, now, is_empty)),
        "complete": (lambda: theirs.prepareComplete(now), lambda: entry.prepare_complete(now)),
        "written": (lambda: theirs.completeTransitionTo(steps[0]), lambda: entry.complete_transition_to(steps[1])),
    }  # fmt: skip


def test_states_and_their_predecessors_are_kafkas(kafka: Kafka) -> None:
    """The table of which state may follow which, and which ids may expire."""
    for state, theirs in kafka.states.items():
        assert {str(each.name()) for each in theirs.validPreviousStates()} == {each.name for each in PREVIOUS[state]}
        assert (theirs.stateName(), theirs.isExpirationAllowed()) == (state.value, state.is_expiration_allowed)


def test_states_of_the_client_and_their_predecessors_are_kafkas(kafka: Kafka) -> None:
    """Java's TransactionManager keeps the same table; a transaction that is prepared for somebody else (KIP-939) is left out here."""
    states = kafka.jvm.java.lang.Class.forName("org.apache.kafka.clients.producer.internals.TransactionManager$State")
    (asks,) = [method for method in states.getDeclaredMethods() if method.getName() == "isTransitionValid"]
    asks.setAccessible(True)
    theirs = {str(each.name()).removesuffix("_TRANSACTION"): each for each in states.getEnumConstants()}
    theirs["IN_TRANSACTION"] = theirs.pop("IN")
    assert set(theirs) - {state.name for state in ProducerState} == {"PREPARED"}
    for state, before in CLIENT_PREVIOUS.items():
        for each in ProducerState:
            pair = kafka.gateway.new_array(kafka.jvm.java.lang.Object, 2)
            pair[0], pair[1] = theirs[each.name], theirs[state.name]
            assert asks.invoke(theirs[state.name], pair) == (each in before), (each, state)


def test_any_walk_is_kafkas(kafka: Kafka) -> None:
    """From any entry, sound or not: the same steps prepared, completed and refused."""
    rng, seen = Random(7), set()
    for _ in range(WALKS):
        epoch = rng.choice([-1, 0, 5, 32_765, 32_766, 32_767])
        entry = TransactionMetadata(
            "x", 7, 1_000, rng.choice([-1, 6]), rng.choice([-1, 9]), epoch, rng.choice([-1, max(-1, epoch - 1), epoch]),
            rng.choice(list(S)[:6]), frozenset(rng.sample(PARTITIONS, rng.randint(0, 2))), rng.choice([-1, 10]), 10, rng.choice([1, 2]),
        )  # fmt: skip
        theirs = kafka.entry(entry)
        steps: tuple[Any, Any] = (None, None)
        for now in range(11, 11 + rng.randint(4, 9)):
            calls = calls_of(kafka, theirs, entry, steps, rng, now)
            word = rng.choice([*calls, "written", "written", "forget"])
            if word == "forget":  # the log has refused the step
                theirs.pendingState(kafka.jvm.java.util.Optional.empty())
                entry.pending_state = None
                continue
            if word == "written" and steps[0] is None:
                continue
            (their_step, their_error), (our_step, our_error) = map(outcome, calls[word])
            assert our_error == their_error, (word, entry)
            if our_step is not None:
                assert ours(our_step) == shown(their_step)
                steps = their_step, our_step
            assert ours(entry) == shown(theirs)
            seen.add((word, our_error))
    assert {("begin", "fenced"), ("written", ""), ("written", "illegal"), ("end", ""), ("fence", ""), ("complete", "")} <= seen
