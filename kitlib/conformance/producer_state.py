"""Replays recorded scripts of Kafka 4.3.1's broker on the kit's model: a partition's log, and what it remembers of producers.

Each partition of a script has a log of its own. A broker of the learner's own goes through the same door:
anything that is built from a BrokerConfig, has UnifiedLog's methods and `start`, `end`,
`first_unstable_offset`, and whose `state` holds `entries` and `waiting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kitlib.conformance.golden import count_in, fields_of, unknown
from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.entry import SENTINEL, EndTransactionMarker, VerificationGuard
from kitlib.mechanisms.broker.unified_log import Append, UnifiedLog
from kitlib.mechanisms.producer.exceptions import exception_name
from kitlib.mechanisms.protocol import Batch, ErrorCode

Build = Callable[[BrokerConfig], Any]

RESTARTS = {"clean_restart": "clean", "unclean_restart": "kill"}
MOST_PARTITIONS = 10_000  # a recorder's scripts have two


@dataclass(slots=True)
class Broker:
    """The broker of a script: its partitions, its clock, and the guards it gave out."""

    partitions: list[Any]
    now_ms: int
    guards: dict[int, VerificationGuard] = field(default_factory=dict)  # number of the verify step -> its guard

    def step(self, number: int, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """The result of one step."""
        if op == "advance_time":
            self.now_ms += args["ms"]
            return {"outcome": "OK", "now": self.now_ms}
        log = self.partitions[args["partition"]]
        match op:
            case "append":
                return _written(log.append(batch_of(args), self.guards.get(args.get("guard", -1))))
            case "marker":
                return _written(log.append_marker(marker_of(args)))
            case "verify":
                guard = log.verify(args["pid"], args["seq"], args["epoch"], self.now_ms, args["supports_epoch_bump"])
                self.guards[number] = guard
                return {"outcome": "NOT_NEEDED" if guard is SENTINEL else "GUARD"} | _error(ErrorCode.NONE)
            case "expire":
                log.expire(self.now_ms)
            case "delete_records":
                log.delete_before(args["before"])
            case "clean_restart" | "unclean_restart":
                log.restart(RESTARTS[op], self.now_ms)
            case "failover":
                log.fail_over()
            case _:
                raise unknown(op)
        return {"outcome": "OK"}


def replay(trace: dict[str, Any], build: Build = UnifiedLog) -> Iterator[dict[str, Any]]:
    """What the broker did at each step of one recorded script: result and state.

    The recording's messages are not compared, only its outcomes, error codes and exceptions.
    """
    broker = broker_of(trace["config"], build)
    for number, step in enumerate(trace["steps"]):
        op, args = step["op"], step.get("args", {})
        try:
            result = broker.step(number, op, args)
        except BatchRefusedError as refused:
            result = {"outcome": "REJECTED"} | _error(refused.error) | {"exception": exception_name(refused.error)}
            result |= {name: told for name, told in step["result"].items() if name == "message"}
        state = None if op == "advance_time" else state_of(broker.partitions[args["partition"]], args.get("pid"))
        yield {"result": result, "state": state}


def broker_of(settings: dict[str, Any], build: Build = UnifiedLog) -> Broker:
    """The broker of a script."""
    config = BrokerConfig(
        producer_id_expiration_ms=settings["producer_id_expiration_ms"], transaction_verification=settings["transaction_verification"]
    )
    logs = [build(config) for _ in range(count_in(settings, "partitions", MOST_PARTITIONS))]
    return Broker(logs, settings["start_time_ms"])


def batch_of(args: dict[str, Any]) -> Batch:
    """The batch of an append step."""
    return Batch(*(args[name] for name in ("partition", "count", "pid", "epoch", "seq", "txn", "ts")))


def marker_of(args: dict[str, Any]) -> EndTransactionMarker:
    """The marker of a marker step."""
    is_commit = args["type"] == "COMMIT"
    return EndTransactionMarker(args["pid"], args["epoch"], args["coordinator_epoch"], is_commit, args["tv"], args["ts"])


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
    return fields_of(entry, "epoch coordinator_epoch last_seq txn_first_offset") | {
        "last_timestamp": entry.last_timestamp_ms,
        "batches": [[each.first_seq, each.last_seq, each.first_offset, each.last_offset] for each in entry.batches],
    }


def _written(done: Append) -> dict[str, Any]:
    offsets = {"base_offset": done.base_offset, "last_offset": done.last_offset}
    return {"outcome": done.outcome.name} | offsets | _error(ErrorCode.NONE)


def _error(error: ErrorCode) -> dict[str, Any]:
    return {"error": error.name, "error_code": int(error)}
