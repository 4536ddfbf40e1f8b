"""The states of a transaction, at the coordinator and at its client, beside Kafka's own classes, in a JVM with the broker's jars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kitlib.lab.java_client import JavaClient
from kitlib.mechanisms.producer.transaction_manager import PREVIOUS as CLIENT_PREVIOUS
from kitlib.mechanisms.producer.transaction_manager import ProducerState
from kitlib.mechanisms.transactions.metadata import PREVIOUS, TransactionState


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClient]:
    """One JVM for all."""
    with JavaClient.open() as client:
        yield client


def test_states_and_their_predecessors_are_kafkas(java: JavaClient) -> None:
    """The table of which state may follow which, and which ids may expire."""
    for state in TransactionState:
        theirs = getattr(java.jvm.org.apache.kafka.coordinator.transaction.TransactionState, state.name)
        assert {str(each.name()) for each in theirs.validPreviousStates()} == {each.name for each in PREVIOUS[state]}
        assert (theirs.stateName(), theirs.isExpirationAllowed()) == (state.value, state.is_expiration_allowed)


def test_states_of_the_client_and_their_predecessors_are_kafkas(java: JavaClient) -> None:
    """Java's TransactionManager keeps the same table; a transaction that is prepared for somebody else (KIP-939) is left out here."""
    states = java.jvm.java.lang.Class.forName("org.apache.kafka.clients.producer.internals.TransactionManager$State")
    (asks,) = [method for method in states.getDeclaredMethods() if method.getName() == "isTransitionValid"]
    asks.setAccessible(True)
    theirs: dict[str, Any] = {str(each.name()).removesuffix("_TRANSACTION"): each for each in states.getEnumConstants()}
    theirs["IN_TRANSACTION"] = theirs.pop("IN")
    assert set(theirs) - {state.name for state in ProducerState} == {"PREPARED"}
    for state, before in CLIENT_PREVIOUS.items():
        for each in ProducerState:
            pair = java.gateway.new_array(java.jvm.java.lang.Object, 2)
            pair[0], pair[1] = theirs[each.name], theirs[state.name]
            assert asks.invoke(theirs[state.name], pair) == (each in before), (each, state)
