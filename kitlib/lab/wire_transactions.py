"""Transactions spoken to a broker message by message, with every number of one's own choosing.

An ordinary client hides the transactional id's producer id and epoch, asks again when it is told to, and
never ends a transaction that is not its own. This one says each message once and gives the broker's
error back. It talks to one broker, which is to lead the partitions and coordinate the transactions, so
to the kit's own when there is one.

Source: Apache Kafka 4.3.1, clients/src/main/resources/common/message; the records of `__transaction_state`:
transaction-coordinator/src/main/resources/common/message/TransactionLogKey and TransactionLogValue.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)

from kitlib.errors import LabError
from kitlib.lab.wire import ASK_AGAIN_S, NOT_YET
from kitlib.lab.wire_group import TRANSACTION, GroupWire
from kitlib.lab.wire_records import FetchedBatch

STATE_TOPIC = "__transaction_state"
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
# The versions that name the errors of today; Produce and TxnOffsetCommit add to the transaction by themselves from these on.
PRODUCE = {1: 11, 2: 12}
TXN_OFFSET_COMMIT = {1: 4, 2: 5}
END_TXN = {1: 4, 2: 5}
NO_LEADER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One step of a transactional id, as the coordinator has written it to its log."""

    offset: int
    transactional_id: str
    state: str
    producer_id: int
    epoch: int


class TransactionWire(GroupWire):
    """A connection with the transactional messages besides the others. Errors are the numbers of the wire."""

    def wait_for_coordinator(self, key: str, kind: int = TRANSACTION) -> int:
        """The node that coordinates this transactional id (or GROUP); the first to ask lets the broker make its topic.

        It says so a moment before it can: the id is asked about until its coordinator answers. LabError when it does not in time.
        """
        deadline = self._deadline(None)
        while True:
            found = self.find(key, kind)
            if found is not None:
                asked = self.describe_transaction(key) if kind == TRANSACTION else self.fetch_offsets(key, [("none", 0)])
                if asked[0] not in NOT_YET:
                    return found[0]
            if time.monotonic() + ASK_AGAIN_S >= deadline:
                raise LabError(f"{self.where} names no coordinator of '{key}'. Look at `kit status`.")
            time.sleep(ASK_AGAIN_S)

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, topic: str, partitions: Sequence[int] = (0,)
    ) -> int:
        """AddPartitionsToTxn as a client says it; the error of the first partition."""
        request = AddPartitionsToTxnRequest(
            version=3, v3_and_below_transactional_id=transactional_id, v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch, v3_and_below_topics=[(topic, list(partitions))],
        )  # fmt: skip

        def read(answer: Any) -> int:
            return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        return self._ask(request, read)

    def verify_partitions(self, transactional_id: str, producer_id: int, epoch: int, topic: str) -> int:
        """AddPartitionsToTxn as a partition's leader says it, which only asks."""
        request = AddPartitionsToTxnRequest(
            version=5, transactions=[(transactional_id, producer_id, epoch, True, [(topic, [0])])]
        )

        def read(answer: Any) -> int:
            if answer.error_code:
                return int(answer.error_code)
            return int(answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code)

        return self._ask(request, read)

    def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> int:
        """AddOffsetsToTxn; the error."""
        request = AddOffsetsToTxnRequest(
            version=4, transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        return self._ask(request, lambda answer: int(answer.error_code))

    def commit_offset(
        self, transactional_id: str, producer_id: int, epoch: int, group: str, topic: str, offset: int,
        member: str = "", generation: int = -1, transaction_version: int = 1,
    ) -> int:  # fmt: skip
        """TxnOffsetCommit of one partition's offset; the error."""
        request = TxnOffsetCommitRequest(
            version=TXN_OFFSET_COMMIT[transaction_version], transactional_id=transactional_id, group_id=group,
            producer_id=producer_id, producer_epoch=epoch, generation_id=generation, member_id=member, group_instance_id=None,
            topics=[(topic, [(0, offset, NO_LEADER_EPOCH, None)])],
        )  # fmt: skip
        return self._ask(request, lambda answer: int(answer.topics[0].partitions[0].error_code))

    def end_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, transaction_version: int = 1
    ) -> tuple[int, int, int]:
        """(error, producer id, epoch); the last two are -1 with version 1."""
        request = EndTxnRequest(
            version=END_TXN[transaction_version], transactional_id=transactional_id, producer_id=producer_id,
            producer_epoch=epoch, committed=commit,
        )  # fmt: skip
        if transaction_version < 2:
            return self._ask(request, lambda answer: (int(answer.error_code), -1, -1))
        return self._ask(request, lambda answer: (answer.error_code, answer.producer_id, answer.producer_epoch))

    def describe_transaction(self, transactional_id: str) -> tuple[int, str, int, int]:
        """(error, state, producer id, epoch)."""
        request = DescribeTransactionsRequest(version=0, transactional_ids=[transactional_id])

        def read(answer: Any) -> tuple[int, str, int, int]:
            [found] = answer.transaction_states
            return found.error_code, found.transaction_state, found.producer_id, found.producer_epoch

        return self._ask(request, read)


def state_records(batches: Sequence[FetchedBatch]) -> list[StateRecord]:
    """The coordinator's own records, in order; tombstones and what it does not know are left out. LabError for what is no such record."""
    found = []
    for batch in batches:
        for offset, _, key, value in batch.records:
            if batch.is_control or key is None or value is None:
                continue
            try:
                (length,) = struct.unpack_from(">h", key, 2)
                name = key[4 : 4 + length].decode()
                _, producer_id = struct.unpack_from(">hq", value)
                # In the flexible version 1 the fields before the first string or list lie as in version 0.
                epoch, _, state = struct.unpack_from(">hib", value, 10)
                found.append(StateRecord(offset, name, dict(enumerate(STATES))[state], producer_id, epoch))
            except (struct.error, KeyError, UnicodeDecodeError) as error:
                raise LabError(
                    f"Record {offset} of {STATE_TOPIC} is not one of Kafka 4.3.1: {error}. Check the broker's release."
                ) from error
    return found
