"""The model of a leader against what real brokers answered over TCP to the named scripts, and after a change of leader."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from kitlib.conformance.golden import bundled
from kitlib.conformance.producer_state import RESTARTS, batch_of, marker_of
from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.leader import BrokerConfig, Leader
from kitlib.mechanisms.protocol import ErrorCode, ProduceRequest

SCRIPTS: dict[str, Any] = {}
for name in ("wire_named", "wire_failover"):
    with gzip.open(bundled("producer", f"{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        SCRIPTS |= {f"{name} {script['name']}": script for script in map(json.loads, lines)}


def test_wire_scripts_are_all_there() -> None:
    """52 scripts for one broker and 2 for two, in each of which the recorder saw what it had expected."""
    assert len(SCRIPTS) == 54 and all(script["match"] for script in SCRIPTS.values())
    assert sum("wire" in step for script in SCRIPTS.values() for step in script["steps"]) == 283


@pytest.mark.parametrize("name", SCRIPTS)
def test_leader_answers_what_the_real_broker_answered(name: str) -> None:
    """Error code and base offset of every request; the log's start too where it was recorded."""
    leader, now = Leader(BrokerConfig(producer_id_expiration_ms=10_000), partitions=2), 1_000_000
    for number, step in enumerate(SCRIPTS[name]["steps"]):
        op, args = step["op"], step["args"]
        if op == "append":
            batch = batch_of(args)
            answer = leader.produce(ProduceRequest(number, (batch,)), now)[batch.partition]
            told = {"error_code": answer.error, "code": answer.error, "base_offset": answer.base_offset}
            told |= {"log_start_offset": answer.log_start_offset}
        elif op == "marker":
            error = ErrorCode.NONE
            try:
                leader.logs[args["partition"]].append_marker(marker_of(args))
            except BatchRefusedError as refused:
                error = refused.error
            told = {"error_code": error, "code": error}
        else:
            told = {}
            if op == "advance_time":
                now += args["ms"]
            elif op == "expire":
                leader.expire(now)
            elif op == "failover":
                leader.fail_over(now)
            elif op == "delete_records":
                leader.delete_before(args["partition"], args["before"])
            else:
                leader.restart(RESTARTS[op], now)
        recorded = {
            key: value for key, value in step.get("wire", {}).items() if key not in ("error_message", "message")
        }
        assert {key: told[key] for key in recorded} == recorded, f"step {number} ({op})"
