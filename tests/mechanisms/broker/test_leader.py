"""A broker's answers to requests: which question it asks first, and what its restart and its authorization change."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from kitlib.errors import KnobError
from kitlib.mechanisms.broker.leader import BrokerConfig, Leader, Outcome
from kitlib.mechanisms.protocol import Batch, ErrorCode, PartitionAnswer, ProduceRequest
from tests.mechanisms.broker.logs import PID, batch

NOW = 1_000


def answer(leader: Leader, *batches: Batch, acks: int = -1) -> dict[int, str]:
    """What each partition is answered: "0" for the offset of a success, else the error's name."""
    found = leader.produce(ProduceRequest(0, batches, acks), NOW)
    return {
        partition: str(each.base_offset) if each.error is ErrorCode.NONE else each.error.name
        for partition, each in found.items()
    }


def state_of(leader: Leader) -> object:
    return copy.deepcopy([(log.start, log.end, log.batches, log.state) for log in leader.logs.values()])


def test_produce_partitions_are_answered_on_their_own() -> None:
    """One partition's error does not stop another's batch."""
    leader = Leader(partitions=2)
    leader.produce(ProduceRequest(0, (batch(0),)), NOW)
    found = answer(leader, batch(9), batch(0, partition=1), batch(0, partition=5))
    assert found == {0: "OUT_OF_ORDER_SEQUENCE_NUMBER", 1: "0", 5: "UNKNOWN_TOPIC_OR_PARTITION"}
    assert list(leader.last_outcomes.values()) == [Outcome.REJECTED, Outcome.APPENDED, Outcome.REJECTED]


LARGE = BrokerConfig(max_message_bytes=70)
VALUES = (b"0123456789",)
# Each batch has all the faults of those below it; what is answered is the first fault.
WRONG = Batch(0, 2, PID, 0, -5, timestamp_ms=NOW + 10_000_000, values=VALUES)


@pytest.mark.parametrize(
    ("config", "wrong", "acks", "error", "log_start"),
    [
        pytest.param(replace(LARGE, may_write_topic=False), replace(WRONG, partition=9), 7, "TOPIC_AUTHORIZATION_FAILED", -1, id="topic"),
        pytest.param(LARGE, replace(WRONG, partition=9), 7, "UNKNOWN_TOPIC_OR_PARTITION", -1, id="partition"),
        pytest.param(LARGE, WRONG, 7, "INVALID_REQUIRED_ACKS", -1, id="acks"),
        pytest.param(LARGE, WRONG, -1, "MESSAGE_TOO_LARGE", -1, id="size"),
        pytest.param(BrokerConfig(), WRONG, -1, "INVALID_RECORD", 0, id="count"),
        pytest.param(BrokerConfig(), replace(WRONG, count=1), -1, "INVALID_RECORD", 0, id="negative sequence"),
        pytest.param(BrokerConfig(), replace(WRONG, count=1, base_sequence=0), -1, "INVALID_TIMESTAMP", 0, id="time stamp"),
        pytest.param(
            BrokerConfig(), replace(WRONG, count=1, base_sequence=5, producer_epoch=1, timestamp_ms=0), -1,
            "INVALID_PRODUCER_EPOCH", 0, id="epoch",
        ),
        pytest.param(
            BrokerConfig(), replace(WRONG, count=1, base_sequence=5, producer_epoch=2, timestamp_ms=0), -1,
            "OUT_OF_ORDER_SEQUENCE_NUMBER", 0, id="sequence",
        ),
    ],
)  # fmt: skip
def test_produce_first_fault_is_answered(
    config: BrokerConfig, wrong: Batch, acks: int, error: str, log_start: int
) -> None:
    """Authorization, partition, acks, size, form, time stamp, epoch, sequence; nothing has changed after any."""
    leader = Leader(BrokerConfig())
    leader.produce(ProduceRequest(0, (batch(0, epoch=2),)), NOW)
    leader.config = config
    before = state_of(leader)
    found = leader.produce(ProduceRequest(1, (wrong,), acks), NOW)
    assert found == {wrong.partition: PartitionAnswer(ErrorCode[error], -1, log_start)}
    assert state_of(leader) == before


def test_produce_too_large_duplicate_is_refused() -> None:
    """The size is asked before anything is looked up: the retry of a written batch fails when the limit was lowered."""
    leader = Leader()
    written = Batch(0, 1, PID, 0, 0, values=VALUES)
    assert answer(leader, written) == answer(leader, written) == {0: "0"}
    leader.config = LARGE
    assert answer(leader, written) == {0: "MESSAGE_TOO_LARGE"}
    leader.config = replace(LARGE, max_message_bytes=written.size_bytes)
    assert answer(leader, written) == {0: "0"}


def test_produce_two_batches_of_a_partition_in_a_request_are_refused() -> None:
    """Neither is written; another partition's is."""
    leader = Leader(partitions=2)
    assert answer(leader, batch(0), batch(1), batch(0, partition=1)) == {0: "INVALID_RECORD", 1: "0"}
    assert (leader.logs[0].end, leader.logs[1].end) == (0, 1)
    assert answer(leader) == {} == leader.last_outcomes


def test_produce_time_stamp_of_tomorrow_is_taken_where_there_is_no_bound() -> None:
    """One hour ahead is the limit of 4.3; release 2.0 has none, and None is none."""
    hour = 3_600_000
    for config, ahead, wanted in (
        (BrokerConfig(), hour, "0"), (BrokerConfig(), hour + 1, "INVALID_TIMESTAMP"),
        (BrokerConfig(release="2.0"), 24 * hour, "0"), (BrokerConfig(timestamp_after_max_ms=None), 24 * hour, "0"),
    ):  # fmt: skip
        assert answer(Leader(config), batch(0, at=NOW + ahead)) == {0: wanted}


@pytest.mark.parametrize(
    ("config", "txn", "pid", "wanted"),
    [
        (BrokerConfig(may_write_topic=False), False, PID, "TOPIC_AUTHORIZATION_FAILED"),
        (BrokerConfig(may_write_idempotently=False), False, PID, "0"),
        (BrokerConfig(may_write_idempotently=False, release="2.0"), False, PID, "CLUSTER_AUTHORIZATION_FAILED"),
        (BrokerConfig(may_write_idempotently=False, release="2.0"), False, -1, "0"),
        (BrokerConfig(may_write_idempotently=False, release="2.0"), True, PID, "0"),
    ],
)  # fmt: skip
def test_produce_authorization(config: BrokerConfig, txn: bool, pid: int, wanted: str) -> None:
    """Release 2.0 asks for a right of its own on idempotence; in 4.3 the right to write to the topic is enough."""
    leader = Leader(config)
    seq, epoch = (0, 0) if pid >= 0 else (-1, -1)
    assert answer(leader, batch(seq, epoch=epoch, pid=pid, txn=txn)) == {0: wanted}
    assert leader.logs[0].end == (wanted == "0")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (BrokerConfig(may_write_idempotently=False), ErrorCode.NONE),
        (BrokerConfig(may_write_topic=False), ErrorCode.NONE),
        (BrokerConfig(may_write_idempotently=False, may_write_topic=False), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BrokerConfig(may_write_idempotently=False, release="2.0"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_init_producer_id_authorization(config: BrokerConfig, error: ErrorCode) -> None:
    """An id is given to who may write idempotently, and in 4.3 to who may write to any topic; a refusal takes none."""
    leader = Leader(config)
    assert leader.init_producer_id(NOW).error is error
    leader.config = BrokerConfig(release=config.release)
    assert leader.init_producer_id(NOW).producer_id == (error is ErrorCode.NONE)


def test_expire_names_the_producers_of_each_partition() -> None:
    """Partitions that forgot nobody are not named."""
    leader = Leader(BrokerConfig(producer_id_expiration_ms=100), partitions=2)
    answer(leader, batch(0, at=0), batch(0, pid=8, partition=1, at=50))
    assert (leader.expire(99), leader.expire(100), leader.expire(150)) == ({}, {0: [PID]}, {1: [8]})


@pytest.mark.parametrize("partitions", [0, -1, 100_001])
def test_leader_partitions_out_of_range_is_an_error(partitions: int) -> None:
    """A topic has at least one partition."""
    with pytest.raises(KnobError, match=f"partitions is {partitions}"):
        Leader(partitions=partitions)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"remembered_batches": 0}, "remembered_batches is 0, expected a whole number of at least 1"),
        ({"remembered_batches": True}, "remembered_batches is True"), ({"release": "3.0"}, "expected one of 4.3, 2.0"),
        ({"producer_id_expiration_ms": 0}, "at least 1"), ({"max_message_bytes": -1}, "at least 0"),
        ({"max_message_bytes": 1.5}, "max_message_bytes is 1.5"),
    ],
)  # fmt: skip
def test_broker_config_refuses_what_no_broker_takes(setting: dict[str, int], words: str) -> None:
    """A wrong knob fails at once, with its range."""
    with pytest.raises(KnobError, match=words):
        BrokerConfig(**setting)  # type: ignore[arg-type]
