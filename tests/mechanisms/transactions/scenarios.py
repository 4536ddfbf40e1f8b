"""Named conversations with a coordinator and a partition's leader, each request with the answer that is expected.

The same table is told to the model and, in tests/experiments/test_transactions_on_kafka.py, to the real broker. A request is a
word with its arguments; `x` is the one transactional id, and a producer is named by its epoch, as there is one producer id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.experiments.transactions.model_transactions import Request
from kitlib.mechanisms.producer.transaction_manager import ProducerState
from kitlib.mechanisms.protocol import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Batch
from kitlib.mechanisms.transactions.offsets import GroupIdentity
from kitlib.mechanisms.transactions.producer import Api, TransactionalProducer

# (word, epoch, *arguments) -> what is answered: an error's name, or the epoch that was given out
Talk = list[tuple[tuple[Any, ...], str | int]]

OK = "NONE"
BEGIN_1: Talk = [(("init",), 0), (("add", 0), OK), (("produce", 0, 1), OK)]
BEGIN_2: Talk = [(("init",), 0), (("produce", 0, 2), OK)]

SCENARIOS: dict[str, Talk] = {
    "a producer that begins again gets the next epoch": [(("init",), 0), (("init",), 1), (("init",), 2)],
    "version 1: commits keep the epoch": [*BEGIN_1, (("commit", 0, 1), OK), (("state", 0), "CompleteCommit"), (("add", 0), OK)],
    "version 2: each end brings the next epoch": [
        *BEGIN_2, (("commit", 0, 2), 1), (("produce", 1, 2), OK), (("abort", 1, 2), 2), (("state", 2), "CompleteAbort")],
    "version 2: an abort of nothing is done, a commit of nothing is refused": [
        (("init",), 0), (("commit", 0, 2), "INVALID_TXN_STATE"), (("abort", 0, 2), 1)],
    "version 1: neither is done": [
        (("init",), 0), (("commit", 0, 1), "INVALID_TXN_STATE"), (("abort", 0, 1), "INVALID_TXN_STATE")],
    "version 1: a commit that is asked for twice is done, an abort after it is not": [
        *BEGIN_1, (("commit", 0, 1), OK), (("commit", 0, 1), OK), (("abort", 0, 1), "INVALID_TXN_STATE")],
    "version 2: a commit that is asked for twice gets the same answer": [
        *BEGIN_2, (("commit", 0, 2), 1), (("commit", 0, 2), 1), (("abort", 0, 2), "INVALID_TXN_STATE")],
    "a successor aborts what is open, and the zombie is fenced everywhere": [
        *BEGIN_1, (("init",), "CONCURRENT_TRANSACTIONS"), (("init",), 2), (("add", 0), "PRODUCER_FENCED"),
        (("produce", 0, 1), "INVALID_PRODUCER_EPOCH"), (("commit", 0, 1), "PRODUCER_FENCED"),
        (("offsets", 0, 1), "INVALID_PRODUCER_EPOCH"), (("stable",), 2)],
    "a producer that goes on after an error names its epoch, and gets the same answer when it asks twice": [
        (("init",), 0), (("init", 0), 1), (("init", 0), 1), (("init", 1), 2), (("init", 0), "PRODUCER_FENCED")],
    "after a successor an epoch of the past does not go on": [(("init",), 0), (("init",), 1), (("init", 0), "PRODUCER_FENCED")],
    "a batch without its partition in the transaction is refused": [(("init",), 0), (("produce", 0, 1), "TRANSACTION_ABORTABLE")],
    "version 1: after the end the partition has to be added again": [
        *BEGIN_1, (("commit", 0, 1), OK), (("produce", 0, 1), "TRANSACTION_ABORTABLE"), (("add", 0), OK), (("produce", 0, 1), OK)],
    "version 2: a batch of the epoch before is refused": [
        *BEGIN_2, (("commit", 0, 2), 1), (("produce", 0, 2), "INVALID_PRODUCER_EPOCH")],
    "offsets without their group in the transaction are refused, with version 2 it joins by them": [
        (("init",), 0), (("offsets", 0, 1), "TRANSACTION_ABORTABLE"), (("offsets", 0, 2), OK), (("state", 0), "Ongoing")],
    "offsets are the group's only after the marker": [
        (("init",), 0), (("add offsets", 0), OK), (("offsets", 0, 1), OK), (("group",), -1), (("commit", 0, 1), OK), (("group",), 7)],
    "offsets of an aborted transaction are forgotten": [
        (("init",), 0), (("offsets", 0, 2), OK), (("abort", 0, 2), 1), (("group",), -1)],
    "a member that the group does not know is refused": [
        (("init",), 0), (("add offsets", 0), OK), (("offsets of a member", 0), "ILLEGAL_GENERATION")],
    "readers of committed records wait until the marker": [*BEGIN_1, (("stable",), 0), (("commit", 0, 1), OK), (("stable",), 2)],
    "a timeout above the maximum, and one of nothing": [
        (("init for", 900_001), "INVALID_TRANSACTION_TIMEOUT"), (("init for", 0), "INVALID_TRANSACTION_TIMEOUT"),
        (("init for", 900_000), 0)],
    "an unknown id has no producer": [
        (("add", 0), "INVALID_PRODUCER_ID_MAPPING"), (("commit", 0, 1), "INVALID_PRODUCER_ID_MAPPING")],
    "version 1: a late marker of the same epoch ends the next transaction": [
        *BEGIN_1, (("abort", 0, 1), OK), (("add", 0), OK), (("produce", 0, 1), OK), (("marker", 0, 1), OK), (("stable",), 4)],
    "version 2: a late marker is refused": [
        *BEGIN_2, (("abort", 0, 2), 1), (("produce", 1, 2), OK), (("marker", 1, 2), "INVALID_PRODUCER_EPOCH"), (("stable",), 2)],
}  # fmt: skip


@dataclass(slots=True)
class Conversation:
    """What is said to a broker, the model's or a real one behind the same methods."""

    broker: Any  # ModelTransactions or KafkaTransactions
    name: str = "x"
    producer_id: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    def say(self, request: tuple[Any, ...]) -> str | int:
        """Send a request; what was answered."""
        answer: str | int = getattr(self, "_" + request[0].replace(" ", "_"))(*request[1:])
        self.broker.snapshot()  # by then all markers are written
        return answer

    def _ask(
        self, api: Api, epoch: int, version: int = 1, timeout_ms: int = 60_000, state: ProducerState = ProducerState.READY, **more: Any
    ) -> tuple[str, int, int]:
        """The error's name, and the id and epoch in the answer, to a producer with this epoch."""
        producer_id = NO_PRODUCER_ID if epoch == NO_PRODUCER_EPOCH else self.producer_id
        by = TransactionalProducer(self.name, timeout_ms, version, state, producer_id, epoch)
        error, *identity = self.broker.answer(Request(api, by, **more))
        return str(error.name), identity[0], identity[1]

    def _init(self, expected: int = NO_PRODUCER_EPOCH, timeout_ms: int = 60_000) -> str | int:
        error, producer_id, epoch = self._ask(Api.INIT_PRODUCER_ID, expected, timeout_ms=timeout_ms)
        if error != OK:
            return error
        self.producer_id = producer_id
        return epoch

    def _init_for(self, timeout_ms: int) -> str | int:
        return self._init(timeout_ms=timeout_ms)

    def _add(self, epoch: int) -> str:
        return self._ask(Api.ADD_PARTITIONS, epoch)[0]

    def _add_offsets(self, epoch: int) -> str:
        return self._ask(Api.ADD_OFFSETS, epoch, group=GroupIdentity(self.broker.group))[0]

    def _offsets(self, epoch: int, version: int, *member: Any) -> str:
        return self._ask(Api.TXN_OFFSET_COMMIT, epoch, version, group=GroupIdentity(self.broker.group, *member), offset=7)[0]

    def _offsets_of_a_member(self, epoch: int) -> str:
        return self._offsets(epoch, 1, "somebody", 3)

    def _produce(self, epoch: int, version: int) -> str:
        sequence = self.sequences.get(epoch, 0)
        error = self._ask(Api.PRODUCE, epoch, version, batch=Batch(0, 1, self.producer_id, epoch, sequence, True, 0, (b"0",)))[0]
        if error == OK:
            self.sequences[epoch] = sequence + 1
        return error

    def _commit(self, epoch: int, version: int) -> str | int:
        return self._end(epoch, ProducerState.COMMITTING, version)

    def _abort(self, epoch: int, version: int) -> str | int:
        return self._end(epoch, ProducerState.ABORTING, version)

    def _end(self, epoch: int, state: ProducerState, version: int) -> str | int:
        error, _, next_epoch = self._ask(Api.END_TXN, epoch, version, state=state)
        return error if error != OK or version < 2 else next_epoch

    def _state(self, epoch: int) -> str:
        steps = self.broker.snapshot().transitions
        assert steps[-1].producer_epoch == epoch
        return str(steps[-1].state.value)

    def _stable(self) -> int:
        return int(self.broker.snapshot().lso)

    def _group(self) -> int:
        committed = self.broker.snapshot().committed_input
        return -1 if committed is None else committed

    def _marker(self, epoch: int, version: int) -> str:
        return str(self.broker.write_marker(self.producer_id, epoch, False, version).error or OK)


def differences(broker: Any, talk: Talk, name: str = "x") -> list[str]:
    """Where a broker answers something else than the table says."""
    conversation = Conversation(broker, name)
    found = [(request, conversation.say(request), expected) for request, expected in talk]
    return [
        f"{number}. {request}: {answer}, expected {want}"
        for number, (request, answer, want) in enumerate(found)
        if answer != want
    ]
