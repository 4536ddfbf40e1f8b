"""The named scenarios of the broker's checks, sent to the real broker: its answers are those recorded, and the model's.

Scripts with a restart or an expiry are run side by side, so that each happens once for all of them. Two
things cannot be asked of a real clock, and are left to the model's own tests: the millisecond before a
producer expires, and whether one with an open transaction is still there after a check that nobody sees.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kitlib.conformance.golden import bundled
from kitlib.conformance.producer_state import batch_of, marker_of
from kitlib.lab import kafka_server
from kitlib.lab.brokers.settings import EXPIRATION, broker_setting
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.connection import EARLIEST, LATEST, Wire
from kitlib.lab.wire.records import WireBatch
from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.leader import BrokerConfig, Leader
from kitlib.mechanisms.protocol import Batch, ErrorCode, ProduceRequest
from tests.lab.wires import new_topics, open_wire

pytestmark = pytest.mark.kafka

with gzip.open(bundled("producer", "wire_named.jsonl.gz"), "rt", encoding="utf-8") as lines:
    SCRIPTS = {script["name"]: script for script in map(json.loads, lines)}
BEGIN_MS = 1_000_000  # the recorded clock at the beginning of each script
EXPIRATION_MS = 10_000  # of the recorded brokers
NOT_ON_A_REAL_CLOCK = "open_transaction_never_expires"
BARRIERS = ("clean_restart", "unclean_restart", "expire")


def scripts_with(barrier: str | None) -> list[str]:
    found = [
        name for name, script in SCRIPTS.items()
        if (barrier in ops(script) if barrier else not ops(script) & set(BARRIERS)) and name != NOT_ON_A_REAL_CLOCK
    ]  # fmt: skip
    return found


def ops(script: dict[str, Any]) -> set[str]:
    return {step["op"] for step in script["steps"]}


class Play:
    """One script on a topic of its own, beside the kit's model of the broker."""

    def __init__(self, script: dict[str, Any], topic: str, cluster: Cluster, wires: dict[str, Wire]) -> None:
        self.script, self.topic, self.cluster, self.wires = script, topic, cluster, wires
        self.model = Leader(BrokerConfig(producer_id_expiration_ms=EXPIRATION_MS), 2)
        steps = script["steps"]
        passes_ms = sum(step["args"]["ms"] for step in steps if step["op"] == "advance_time")
        # The recorded clock ends where the real one is now: an expiry meets producers that are as old as recorded.
        self.shift_ms = int(time.time() * 1000) - BEGIN_MS - passes_ms
        self.last_expiry = max((number for number, step in enumerate(steps) if step["op"] == "expire"), default=-1)
        self.now_ms = BEGIN_MS

    @property
    def wire(self) -> Wire:
        return self.wires["wire"]

    def run(self) -> Iterator[str]:
        """Run the steps; stop at each barrier, which is somebody else's to bring about."""
        for number, step in enumerate(self.script["steps"]):
            op, args = step["op"], step["args"]
            where = f"{self.script['name']}, step {number} ({op} {args})"
            if op in BARRIERS:
                if op != "expire" or number == self.last_expiry:
                    yield op
                if op == "expire":
                    self.model.expire(self.now_ms)
                else:
                    self.model.restart("clean" if op == "clean_restart" else "kill", self.now_ms)
            elif op == "advance_time":
                self.now_ms += args["ms"]
            elif op == "delete_records":
                self.wire.delete_records(self.topic, args["partition"], args["before"])
                self.model.delete_before(args["partition"], args["before"])
            else:
                recorded = step["wire"]
                told, of_the_model = self.append(args) if op == "append" else self.marker(args)
                assert told[0] == recorded["error_code"], where
                assert told[1] == recorded.get("base_offset", told[1]), where
                assert of_the_model == told, where
            if op != "advance_time" and not (op == "expire" and number != self.last_expiry):
                assert self.remembered() == self.remembered_by_the_model(), where
                assert self.bounds() == [(log.start, log.end) for log in self.model.logs.values()], where

    def append(self, args: dict[str, Any]) -> tuple[Any, Any]:
        """(error, base offset, log start offset) of the broker, and of the model."""
        batch = batch_of(args)
        sent = WireBatch(
            batch.partition, [b"x"] * batch.count, batch.producer_id, batch.producer_epoch, batch.base_sequence,
            batch.timestamp_ms + self.shift_ms, batch.is_transactional,
        )  # fmt: skip
        # From version 12 on the broker itself adds a partition to the transaction, for which there is no coordinator here.
        more = {"transactional_id": "kit-scenarios", "version": 11} if batch.is_transactional else {}
        told = self.wire.produce(self.topic, [sent], **more)[batch.partition]
        request = ProduceRequest(0, (replaced(batch),))
        answer = self.model.produce(request, self.now_ms)[batch.partition]
        return told, (answer.error, answer.base_offset, answer.log_start_offset)

    def marker(self, args: dict[str, Any]) -> tuple[Any, Any]:
        """(error,) of the broker and of the model: the answer to a marker has no offset."""
        marker = marker_of(args)
        error = self.wire.write_txn_markers(
            self.topic, args["partition"], marker.producer_id, marker.producer_epoch, args["type"] == "COMMIT",
            marker.coordinator_epoch, args["tv"],
        )  # fmt: skip
        of_the_model = ErrorCode.NONE
        try:
            self.model.logs[args["partition"]].append_marker(marker)
        except BatchRefusedError as refused:
            of_the_model = refused.error
        return (error, None), (of_the_model, None)

    def remembered(self) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        """(partition, producer id) -> what the broker remembers: epoch, last sequence, coordinator's epoch, transaction's start."""
        return {
            (partition, each.producer_id): (
                each.producer_epoch, each.last_sequence, each.coordinator_epoch, each.current_txn_start_offset,
            )
            for partition in self.model.logs
            for each in self.wire.describe_producers(self.topic, partition)
        }

    def remembered_by_the_model(self) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        return {
            (partition, producer_id): (
                entry.epoch, entry.last_seq, entry.coordinator_epoch,
                -1 if entry.txn_first_offset is None else entry.txn_first_offset,
            )
            for partition, state in self.model.state.items()
            for producer_id, entry in state.entries.items()
        }  # fmt: skip

    def bounds(self) -> list[tuple[int, int]]:
        return [
            (self.wire.list_offsets(self.topic, each, EARLIEST), self.wire.list_offsets(self.topic, each, LATEST))
            for each in self.model.logs
        ]


def replaced(batch: Batch) -> Batch:
    """With as many values as it counts, as it was sent."""
    return Batch(
        batch.partition, batch.count, batch.producer_id, batch.producer_epoch, batch.base_sequence,
        batch.is_transactional, batch.timestamp_ms, (b"x",) * batch.count,
    )  # fmt: skip


@contextmanager
def plays(cluster: Cluster, names: list[str]) -> Iterator[tuple[dict[str, Wire], list[Play]]]:
    """The scripts, each on its topic, all on one connection. The broker does not verify transactions: nor did the recorded one."""
    with broker_setting(cluster, "transaction.partition.verification.enable", "false"):
        topics = new_topics(cluster, len(names), 2)
        wires = {"wire": open_wire(cluster)}
        try:
            yield wires, [Play(SCRIPTS[name], topic, cluster, wires) for name, topic in zip(names, topics, strict=True)]
        finally:
            wires["wire"].close()


def run_all(played: list[Play], barrier: Callable[[str], None]) -> int:
    """Run all scripts from barrier to barrier; how many barriers there were."""
    runs = [play.run() for play in played]
    barriers = 0
    while runs:
        reached = [(run, next(run, None)) for run in runs]
        runs = [run for run, op in reached if op]
        if runs:
            [op] = {op for _, op in reached if op}
            barrier(op)
            barriers += 1
    return barriers


def test_scenarios_of_the_broker_are_all_here() -> None:
    """52 recorded scripts: 43 without a barrier, five with a restart, four with an expiry."""
    groups = [scripts_with(barrier) for barrier in (None, *BARRIERS)]
    assert [*map(len, groups)] == [43, 3, 2, 3]
    assert {name for group in groups for name in group} | {NOT_ON_A_REAL_CLOCK} == set(SCRIPTS)


def test_scenarios_real_broker_answers_as_recorded_and_as_the_model(broker: Cluster) -> None:
    """Every step of every script: error and offset as recorded; what the broker remembers is what the model remembers."""
    with plays(broker, scripts_with(None)) as (_, played):
        assert run_all(played, lambda op: pytest.fail(op)) == 0


@pytest.mark.parametrize(("op", "how"), [("clean_restart", "clean"), ("unclean_restart", "kill")])
def test_scenarios_with_a_restart_answer_as_recorded_and_as_the_model(broker: Cluster, op: str, how: str) -> None:
    """The broker goes, asked to or killed, and comes back on the same ports: what it then knows is what was recorded."""
    with plays(broker, scripts_with(op)) as (wires, played):

        def restart(reached: str) -> None:
            assert reached == op
            wires["wire"].close()
            kafka_server.restart(how)
            wires["wire"] = open_wire(broker, timeout_s=60)

        assert run_all(played, restart) == 1


def test_scenarios_with_an_expiry_answer_as_recorded_and_as_the_model(broker: Cluster) -> None:
    """Producers whose last record is old enough are forgotten at the broker's next look; the others are not."""
    with plays(broker, scripts_with("expire")) as (_, played):

        def expire(op: str) -> None:
            with broker_setting(broker, EXPIRATION, str(EXPIRATION_MS)):
                for play in played:
                    expected = {key for key in play.remembered() if not is_old(play, *key)}
                    wait_until(lambda play=play, expected=expected: play.remembered().keys() == expected, 30, "they are forgotten")

        assert run_all(played, expire) == 1


def is_old(play: Play, partition: int, producer_id: int) -> bool:
    last = play.model.state[partition].entries[producer_id].last_timestamp_ms
    return play.now_ms - last >= EXPIRATION_MS
