"""Speaks to coordinators: a group's protocol, its offsets, and transactions, message by message.

A group's coordinator passes on what members write for each other and understands none of it. So one may be
a member of any kind: this one has a connection, a member id and a generation, and leaves the meaning of
the bytes to its caller. Joining waits for the others, so it is asked in two steps. Offsets can be committed
with a life of their own: versions 2 to 4 of OffsetCommit let the client say how long they shall be kept, and
the brokers of today still take them. Each question about offsets is asked once, so its caller sees every error
that a consumer would only retry: that the coordinator is loading, or that it is another one.

An ordinary client hides the transactional id's producer id and epoch, asks again when it is told to, and
never ends a transaction that is not its own. This one says each message once and gives the broker's
error back. Whom it talks to is its caller's to know: `find_coordinator` for coordinators, `Wire.open_leader` for leaders.

Left out: static members.

Source: Apache Kafka 4.3.1, clients/src/main/resources/common/message; the records of `__transaction_state`:
transaction-coordinator/src/main/resources/common/message/TransactionLogKey and TransactionLogValue.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)

from kitlib.errors import LabError
from kitlib.lab.clients import DENIED, RIGHTS, Cluster, addresses, kafka_python_config
from kitlib.lab.wire.connection import ASK_AGAIN_S, NOT_YET, Wire, until_ready
from kitlib.lab.wire.records import FetchedBatch

# Versions: the last ones without tagged fields; of OffsetCommit the last with a retention.
JOIN, SYNC, HEARTBEAT, LEAVE, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 5, 3, 3, 2, 4, 7, 4
NONE, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 0, 23, 25, 27, 79
GROUP, TRANSACTION = 0, 1  # the kinds of key that FindCoordinator is asked for
NO_RETENTION = -1  # the broker's own

TopicPartition = tuple[str, int]
Coordinator = tuple[int, str, int]  # node, host, port

STATE_TOPIC = "__transaction_state"
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")
# The versions that name the errors of today; Produce and TxnOffsetCommit add to the transaction by themselves from these on.
PRODUCE = {1: 11, 2: 12}
TXN_OFFSET_COMMIT = {1: 4, 2: 5}
END_TXN = {1: 4, 2: 5}
NO_LEADER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Joined:
    """The coordinator's answer to a join. `members` has everybody's bytes for the leader, and nobody's for others."""

    error: int
    member_id: str
    generation: int
    leader: str
    protocol: str
    members: Mapping[str, bytes]

    @property
    def leads(self) -> bool:
        return self.error == NONE and self.member_id == self.leader


class CoordinatorWire(Wire):
    """One connection to a broker, which may or may not be the coordinator that is asked for; as a member, one member's.

    Errors are the numbers of the wire.
    """

    group: str = ""
    member_id: str = ""
    generation: int = -1
    asked: Any = None  # the future of the join that has no answer yet
    joining: tuple[str, str, Sequence[tuple[str, bytes]], int, int] = ("", "", (), 0, 0)  # what it was asked with

    # A member

    def send_join(
        self, group: str, protocol_type: str, protocols: Sequence[tuple[str, bytes]], session_ms: int, rebalance_ms: int
    ) -> None:
        """Ask to join, with this member's bytes under each protocol; a new member first gets its id.

        LabError with the broker's error when the group refuses this kind of member.
        """
        self.group, self.joining = group, (group, protocol_type, protocols, session_ms, rebalance_ms)

        def request() -> Any:
            return JoinGroupRequest(
                version=JOIN, group_id=group, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms,
                member_id=self.member_id, group_instance_id=None, protocol_type=protocol_type, protocols=list(protocols),
            )  # fmt: skip

        deadline = self._deadline(None)
        if not self.member_id:
            first = until_ready(
                lambda: self._ask(request(), _joined, deadline - time.monotonic()), lambda found: found.error, deadline
            )
            if first.error != MEMBER_ID_REQUIRED:
                raise self._refused_member("JoinGroup", first.error)
            self.member_id = first.member_id
        self.asked = self._send(request())

    def receive_join(self, timeout_s: float | None = None) -> Joined:
        """The answer to the join, which comes when all have joined. LabError when it does not come, or refuses.

        A coordinator that looks for expired groups just then forgets one without offsets, and with it the id it has
        given to its first member: that one asks for another, as Java's client and librdkafka do.
        """
        deadline = self._deadline(timeout_s)
        while True:
            joined = _joined(self._wait(self.asked, deadline, "JoinGroup"))
            if joined.error == UNKNOWN_MEMBER and self.generation < 0 and time.monotonic() < deadline:
                self.member_id = ""
                self.send_join(*self.joining)
                continue
            if joined.error != NONE:
                raise self._refused_member("JoinGroup", joined.error)
            self.generation = joined.generation
            return joined

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> bytes:
        """This member's assignment; the leader brings everybody's. It waits for the leader."""
        request = SyncGroupRequest(
            version=SYNC, group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=None, assignments=list((assignments or {}).items()),
        )  # fmt: skip
        error, data = self._ask(request, lambda answer: (answer.error_code, bytes(answer.assignment)))
        if error != NONE:
            raise self._refused_member("SyncGroup", error)
        return data

    def heartbeat(self) -> int:
        """The coordinator's word: 0, or 27 when a rebalance is under way, or that it does not know this member."""
        request = HeartbeatRequest(
            version=HEARTBEAT, group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=None,
        )  # fmt: skip
        return self._ask(request, lambda answer: int(answer.error_code))

    def wait_for_rebalance(self, timeout_s: float) -> None:
        """Beat until the coordinator says that a rebalance is under way. LabError when it does not."""
        deadline = time.monotonic() + timeout_s
        while self.heartbeat() != REBALANCE_IN_PROGRESS:
            if time.monotonic() > deadline:
                raise LabError(f"group {self.group}: no rebalance began within {timeout_s:g} s. Look at `kit status`.")
            time.sleep(ASK_AGAIN_S / 5)

    def leave(self) -> int:
        """Leave the group; the error."""
        request = LeaveGroupRequest(version=LEAVE, group_id=self.group, member_id=self.member_id)
        return self._ask(request, lambda answer: int(answer.error_code))

    def _refused_member(self, api: str, error: int) -> LabError:
        other = error == INCONSISTENT_PROTOCOL
        advice = (
            "Members of another kind use it; choose another group id."
            if other
            else "Join again, or look at `kit status`."
        )
        return LabError(
            f"{api} of group {self.group}: the broker answers error {error} ({for_code(error).__name__}). {advice}"
        )

    # Offsets and coordinators

    def find(self, key: str, kind: int = GROUP) -> Coordinator | None:
        """Who coordinates the group (or the transactional id), by this broker's word; None when it does not know yet.

        DeniedError when the broker does not let this user ask.
        """
        request = FindCoordinatorRequest(version=FIND_COORDINATOR, key_type=kind, coordinator_keys=[key])

        def read(answer: Any) -> Coordinator | None:
            [found] = answer.coordinators
            check_right(key, found.error_code)
            return None if found.error_code else (int(found.node_id), str(found.host), int(found.port))

        return self._ask(request, read)

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], retention_ms: int = NO_RETENTION
    ) -> dict[TopicPartition, int]:
        """Commit as the member that has joined here, or as nobody; each partition's error code."""
        request = OffsetCommitRequest(
            version=OFFSET_COMMIT, group_id=group, generation_id_or_member_epoch=self.generation,
            member_id=self.member_id, retention_time_ms=retention_ms,
            topics=[(topic, [(partition, offset, "")]) for (topic, partition), offset in offsets.items()],
        )  # fmt: skip
        return self._ask(request, lambda answer: _by_partition(answer, "error_code"))

    def fetch_offsets(
        self, group: str, partitions: Sequence[TopicPartition] | None, require_stable: bool = True
    ) -> tuple[int, dict[TopicPartition, int]]:
        """(the group's error code, each partition's committed offset, -1 for none); no offsets with an error.

        Partitions None asks for all that the group has, of the topics that one may describe.
        Without `require_stable` a broker of 4.0 or later answers from what it knows to be on all copies.
        """
        topics = None if partitions is None else [(topic, [partition]) for topic, partition in partitions]
        request = OffsetFetchRequest(version=OFFSET_FETCH, group_id=group, topics=topics, require_stable=require_stable)

        def read(answer: Any) -> tuple[int, dict[TopicPartition, int]]:
            error = int(answer.error_code)
            return error, {} if error else _by_partition(answer, "committed_offset")

        return self._ask(request, read)

    # Transactions

    def add_partition(self, transactional_id: str, producer_id: int, epoch: int, topic: str, partition: int) -> int:
        """AddPartitionsToTxn of one; the error."""
        request = AddPartitionsToTxnRequest(
            version=3, v3_and_below_transactional_id=transactional_id, v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch, v3_and_below_topics=[(topic, [partition])],
        )  # fmt: skip

        def read(answer: Any) -> int:
            return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

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

    def describe_transaction(self, transactional_id: str) -> int:
        """The error with which DescribeTransactions is answered."""
        request = DescribeTransactionsRequest(version=0, transactional_ids=[transactional_id])
        return self._ask(request, lambda answer: int(answer.transaction_states[0].error_code))


def state_records(batches: Sequence[FetchedBatch]) -> Iterator[tuple[int, str, str, int, int]]:
    """(offset, transactional id, state, producer id, epoch): each step of an id, as the coordinator has written it to its log.

    Tombstones are left out. LabError for what is no such record.
    """
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
                yield offset, name, dict(enumerate(STATES))[state], producer_id, epoch
            except (struct.error, KeyError, UnicodeDecodeError) as error:
                raise LabError(
                    f"Record {offset} of {STATE_TOPIC} is not one of Kafka 4.3.1: {error}. Check the broker's release."
                ) from error


class DeniedError(LabError):
    """The user may not do this with the group or the transactional id, which no waiting changes."""


def check_right(key: str, error: int) -> None:
    """DeniedError for the broker's word that it lets this user not."""
    if error in DENIED:
        raise DeniedError(f"{key}: the broker answers {for_code(error).__name__}, error {error}. {RIGHTS}")


def find_coordinator(cluster: Cluster, key: str, timeout_s: float, kind: int = GROUP) -> Coordinator:
    """Who coordinates a group (or a transactional id) and answers for it: asked of all brokers, again until it does.

    Asking also makes the brokers create the coordinators' topic, if it is not there yet. LabError after `timeout_s`; DeniedError at
    once for a user without the right.
    """
    told, security = "nobody knows one", kafka_python_config(cluster)

    def ask() -> tuple[int, Coordinator | None]:
        nonlocal told
        for where in addresses(cluster.bootstrap):
            try:
                with CoordinatorWire.open(*where, timeout_s=5.0, **security) as asked:
                    if (found := asked.find(key, kind)) is None:
                        continue
                with CoordinatorWire.open(*found[1:], timeout_s=5.0, **security) as coordinator:
                    error = coordinator.fetch_offsets(key, [("none", 0)])[0] if kind == GROUP else coordinator.describe_transaction(key)
            except DeniedError:
                raise
            except LabError:
                continue
            check_right(key, error)
            if error not in NOT_YET:
                return NONE, found
            told = f"broker {found[0]} answers error {error}"
        return NOT_YET[0], None

    _, found = until_ready(ask, lambda answer: answer[0], time.monotonic() + timeout_s)
    if found is None:
        raise LabError(f"{key}: no coordinator within {timeout_s:g} s: {told}. Look at `kit status`.")
    return found


def _by_partition(answer: Any, name: str) -> dict[TopicPartition, int]:
    return {
        (str(topic.name), int(each.partition_index)): int(getattr(each, name))
        for topic in answer.topics
        for each in topic.partitions
    }


def _joined(answer: Any) -> Joined:
    members = {each.member_id: bytes(each.metadata) for each in answer.members or ()}
    return Joined(
        int(answer.error_code), str(answer.member_id), int(answer.generation_id), str(answer.leader or ""),
        str(answer.protocol_name or ""), members,
    )  # fmt: skip
