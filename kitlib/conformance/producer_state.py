"""Replays recorded scripts of Kafka 4.3.1's broker on the kit's model: a partition's log, and what it remembers of producers.

Each partition of a script has a log of its own. A broker of the learner's own goes through the same door:
anything that is built from a BrokerConfig, has UnifiedLog's methods and `start`, `end`,
`first_unstable_offset`, and whose `state` holds `entries` and `waiting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kitlib.conformance.golden import flag_in, number_in, quoted, unknown
from kitlib.errors import TraceError
from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.entry import SENTINEL, EndTransactionMarker, VerificationGuard
from kitlib.mechanisms.broker.unified_log import Append, UnifiedLog
from kitlib.mechanisms.protocol import Batch, ErrorCode

Build = Callable[[BrokerConfig], Any]

EXCEPTIONS = {  # the error code -> the class that Kafka throws
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.INVALID_PRODUCER_EPOCH: "InvalidProducerEpochException",
    ErrorCode.INVALID_TXN_STATE: "InvalidTxnStateException",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "TransactionCoordinatorFencedException",
    ErrorCode.UNKNOWN_PRODUCER_ID: "UnknownProducerIdException",
    ErrorCode.OFFSET_OUT_OF_RANGE: "OffsetOutOfRangeException",
}
RESTARTS = {"clean_restart": "clean", "unclean_restart": "kill"}
_SHORT, _INT, _LONG = ((-(2**bits), 2**bits - 1) for bits in (15, 31, 63))  # Java's
_RANGES = {  # what a number of a script may be
    "partition": (0, 9_999),
    "partitions": (1, 10_000),
    "pid": _LONG,
    "epoch": _SHORT,
    "seq": _INT,
    "count": (1, _INT[1]),
    "coordinator_epoch": _INT,
    "tv": (0, 2),
    "ts": _LONG,
    "ms": (0, _LONG[1]),
    "start_time_ms": _LONG,
    "producer_id_expiration_ms": (1, _INT[1]),
    "before": _LONG,
    "guard": _INT,  # the number of a verify step
}


@dataclass(slots=True)
class Broker:
    """The broker of a script: its partitions, its clock, and the guards it gave out."""

    partitions: list[Any]
    now_ms: int
    guards: dict[int, VerificationGuard] = field(default_factory=dict)  # number of the verify step -> its guard

    def step(self, number: int, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """The result of one step. TraceError for an operation or an argument that the recorder never writes."""
        if op == "advance_time":
            self.now_ms += _number(args, "ms")
            return {"outcome": "OK", "now": self.now_ms}
        log = self.log(args)
        match op:
            case "append":
                done = log.append(
                    batch_of(args), self.guards.get(_number(args, "guard")) if "guard" in args else None
                )
                return _written(done)
            case "marker":
                return _written(log.append_marker(marker_of(args)))
            case "verify":
                pid, seq, epoch = (_number(args, name) for name in ("pid", "seq", "epoch"))
                guard = log.verify(pid, seq, epoch, self.now_ms, flag_in(args, "supports_epoch_bump"))
                self.guards[number] = guard
                return {"outcome": "NOT_NEEDED" if guard is SENTINEL else "GUARD"} | _error(ErrorCode.NONE)
            case "expire":
                log.expire(self.now_ms)
            case "delete_records":
                log.delete_before(_number(args, "before"))
            case "clean_restart" | "unclean_restart":
                log.restart(RESTARTS[op], self.now_ms)
            case "failover":
                log.fail_over()
            case _:
                raise unknown(op)
        return {"outcome": "OK"}

    def log(self, args: dict[str, Any]) -> Any:
        """The log of the partition that a step is about; TraceError when there is none."""
        partition = _number(args, "partition")
        if partition >= len(self.partitions):
            raise TraceError(f"partition is {partition}, expected less than {len(self.partitions)}.")
        return self.partitions[partition]


def replay(trace: dict[str, Any], build: Build = UnifiedLog) -> Iterator[dict[str, Any]]:
    """What the broker did at each step of one recorded script: result and state.

    The recording's messages are not compared, only its outcomes, error codes and exceptions. Raises
    TraceError for a setting, an operation or an argument that the recorder never writes.
    """
    broker = broker_of(trace["config"], build)
    for number, step in enumerate(trace["steps"]):
        op, args = step["op"], step.get("args", {})
        try:
            result = broker.step(number, op, args)
        except BatchRefusedError as refused:
            result = {"outcome": "REJECTED"} | _error(refused.error) | {"exception": EXCEPTIONS.get(refused.error)}
            recorded = step.get("result")
            if isinstance(recorded, dict) and "message" in recorded:
                result["message"] = recorded["message"]
        yield {"result": result, "state": None if op == "advance_time" else state_of(broker.log(args), args.get("pid"))}


def broker_of(settings: dict[str, Any], build: Build = UnifiedLog) -> Broker:
    """The broker of a script; TraceError when these are none of a recorded script."""
    config = BrokerConfig(
        producer_id_expiration_ms=_number(settings, "producer_id_expiration_ms"),
        transaction_verification=flag_in(settings, "transaction_verification"),
    )
    logs = [build(config) for _ in range(_number(settings, "partitions"))]
    return Broker(logs, _number(settings, "start_time_ms"))


def batch_of(args: dict[str, Any]) -> Batch:
    """The batch of an append step; TraceError for an argument that none has."""
    pid, epoch, seq, count, ts = (_number(args, name) for name in ("pid", "epoch", "seq", "count", "ts"))
    return Batch(_number(args, "partition"), count, pid, epoch, seq, flag_in(args, "txn"), ts)


def marker_of(args: dict[str, Any]) -> EndTransactionMarker:
    """The marker of a marker step; TraceError for an argument that none has."""
    pid, epoch, coordinator, version, ts = (
        _number(args, name) for name in ("pid", "epoch", "coordinator_epoch", "tv", "ts")
    )
    if args.get("type") not in ("COMMIT", "ABORT"):
        raise TraceError(f"type is {quoted(args.get('type'))}, expected COMMIT or ABORT.")
    return EndTransactionMarker(pid, epoch, coordinator, args["type"] == "COMMIT", version, ts)


def state_of(log: Any, pid: int | None = None) -> dict[str, Any]:
    """A partition's ledgers in the recording's words; of the producers the one with `pid`, all without one."""
    entries = log.state.entries
    shown = sorted(entries) if pid is None else [pid] if pid in entries else []
    state: dict[str, Any] = {
        "log_start_offset": log.start,
        "log_end_offset": log.end,
        "first_unstable_offset": log.first_unstable_offset,
        "producer_ids": sorted(entries),
        "producers": {str(each): entry_of(entries[each]) for each in shown},
    }
    waiting = log.state.waiting.get(pid)
    if waiting is not None:
        state["verification"] = {
            "epoch": waiting.epoch,
            "lowest_seq": waiting.lowest_sequence,
            "supports_epoch_bump": waiting.supports_epoch_bump,
        }
    return state


def entry_of(entry: Any) -> dict[str, Any]:
    """What is remembered of a producer, in the recording's words."""
    return {
        "epoch": entry.epoch,
        "coordinator_epoch": entry.coordinator_epoch,
        "last_seq": entry.last_seq,
        "last_timestamp": entry.last_timestamp_ms,
        "txn_first_offset": entry.txn_first_offset,
        "batches": [[each.first_seq, each.last_seq, each.first_offset, each.last_offset] for each in entry.batches],
    }


def _written(done: Append) -> dict[str, Any]:
    offsets = {"base_offset": done.base_offset, "last_offset": done.last_offset}
    return {"outcome": done.outcome.name} | offsets | _error(ErrorCode.NONE)


def _error(error: ErrorCode) -> dict[str, Any]:
    return {"error": error.name, "error_code": int(error)}


def _number(args: dict[str, Any], name: str) -> int:
    return number_in(args, name, *_RANGES[name])
