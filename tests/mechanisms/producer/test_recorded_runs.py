"""The recorded end-to-end runs, with the kit's own broker in the place of the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.sender import answer_of, name_of, replay
from kitlib.mechanisms.broker.leader import BrokerConfig, Leader, Outcome
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import InFlightRequest, Sender
from kitlib.mechanisms.protocol import Batch, ErrorCode, PartitionAnswer, ProduceRequest

NAMED = {trace["name"]: trace for trace in read_traces(bundled("producer", "sender_named.jsonl.gz")) if "verdict" in trace}
FAULTS_ONLY = {
    trace["name"]: trace
    for trace in read_traces(bundled("producer", "sender_public.jsonl.gz"))
    if "network faults only" in trace["meaning"]
}
# What becomes of the broker once the connection is gone, which a script does not record.
MEANWHILE: dict[str, Callable[[Leader], object]] = {
    "e2e_broker_restart_shrinks_the_window": lambda leader: leader.restart("clean", 0),
    "e2e_two_in_flight_broker_restart": lambda leader: leader.restart("kill", 0),
    "e2e_one_in_flight_broker_restart": lambda leader: leader.restart("kill", 0),
    "e2e_epoch_exhausted_after_restart": lambda leader: leader.restart("clean", 0),
    "e2e_producer_forgotten_by_the_broker": lambda leader: leader.expire(10**12),
}
WRITTEN_ALL_THE_SAME = {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT}

Logged = tuple[int, str, int, int, int, int]  # base offset, batch, producer id, epoch, sequence, count


@dataclass
class EndToEnd:
    """A recorded run with the kit's broker in the place of the real one.

    The recording does not say which lost requests the broker had written; what lies in its log does.
    """

    trace: dict[str, Any]
    leader: Leader = field(init=False)
    sender: Sender = field(default_factory=lambda: Sender(ProducerConfig()))  # until the script has made its own
    logs: dict[int, list[Logged]] = field(default_factory=dict)
    done: dict[tuple[int, int], PartitionAnswer] = field(default_factory=dict)  # (request, partition) -> answer
    told: dict[int, str] = field(default_factory=dict)  # send -> what its user heard
    now_ms: int = 0

    def run(self) -> None:
        """Play the script; every answer of the recorded broker is asked of the kit's."""
        config = self.trace["config"]
        self.now_ms = config["start_time_ms"]
        self.leader = Leader(BrokerConfig(), config["partitions"])
        self.logs = {partition: [] for partition in range(config["partitions"])}
        client = replay(self.trace, build=self.build)
        for step in self.trace["steps"]:
            self.before(step["op"], step["args"])
            state = next(client)["state"]
            self.told |= {told["send"]: told["result"] for told in state["completed"]}

    def build(self, config: ProducerConfig, partitions: Sequence[int]) -> Sender:
        self.sender = Sender(config, partitions)
        return self.sender

    def before(self, op: str, args: dict[str, Any]) -> None:
        """What the broker does before this step."""
        if op == "advance":
            self.now_ms += args["ms"]
        elif op == "respond":
            sent = self.sender.in_flight_requests[args["request"]]
            for partition, recorded in answer_of(args["partitions"]).items():
                self.answered(sent, partition, recorded)
        elif op == "disconnect" or (op == "poll" and self.overdue()):
            for sent in list(self.sender.in_flight_requests.values()):
                for batch in sent.request.batches:
                    self.maybe_write(sent, batch.partition)
            if op == "disconnect":
                MEANWHILE.get(self.trace["name"], lambda leader: None)(self.leader)

    def overdue(self) -> bool:
        """Whether the next poll drops the connection."""
        oldest = next(iter(self.sender.in_flight_requests.values()), None)
        return oldest is not None and self.now_ms - oldest.sent_ms >= self.sender.config.request_timeout_ms

    def answered(self, sent: InFlightRequest, partition: int, recorded: PartitionAnswer) -> None:
        """The recorded broker answered this: the kit's says the same, unless the answer was made up on the way."""
        if recorded.error is not ErrorCode.NONE and recorded.log_start_offset < 0:
            if recorded.error in WRITTEN_ALL_THE_SAME:
                self.write(sent, partition)
            return
        for earlier in list(self.sender.in_flight_requests.values()):
            if earlier is sent or recorded.base_offset <= self.leader.logs[partition].end:
                break
            self.maybe_write(earlier, partition)
        assert self.write(sent, partition) == recorded, f"{self.trace['name']}: request {sent.request.number}"

    def maybe_write(self, sent: InFlightRequest, partition: int) -> None:
        """A request whose answer nobody saw: it was written if its batch is what comes next in the recorded log."""
        following = self.trace["broker_log"][str(partition)][len(self.logs[partition]) :]
        for batch, known in _pairs(sent):
            wanted = [(entry["send"], entry["pid"], entry["epoch"], entry["seq"]) for entry in following[:1]]
            if batch.partition == partition and wanted == [
                (name_of(known), batch.producer_id, batch.producer_epoch, batch.base_sequence)
            ]:
                self.write(sent, partition)

    def write(self, sent: InFlightRequest, partition: int) -> PartitionAnswer:
        """The kit's broker takes the batch, once."""
        key = (sent.request.number, partition)
        for batch, known in _pairs(sent):
            if batch.partition == partition and key not in self.done:
                self.done[key] = answer = self.leader.produce(ProduceRequest(0, (batch,)), self.now_ms)[partition]
                if self.leader.last_outcomes[partition] is Outcome.APPENDED:
                    numbers = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
                    self.logs[partition].append((answer.base_offset, name_of(known), *numbers, batch.count))
        return self.done[key]

    def verdict(self) -> dict[str, int]:
        """The recording's words on what the user was told and what the log holds."""
        sends = sum(step["op"] == "send" for step in self.trace["steps"])
        copies = Counter(int(entry[1].split(":")[0]) for log in self.logs.values() for entry in log if ":" not in entry[1])
        firsts = [list(dict.fromkeys(int(entry[1].split(":")[0]) for entry in log)) for log in self.logs.values()]
        failed = {send for send, result in self.told.items() if result != "OK"}
        return {
            "sends": sends,
            "acked_but_not_in_log": len(self.told.keys() - failed - copies.keys()),
            "written_more_than_once": sum(count > 1 for count in copies.values()),
            "failed_but_in_log": len(failed & copies.keys()),
            "failed": len(failed),
            "first_copies_out_of_order": sum(a > b for log in firsts for a, b in pairwise(log)),
            "unfinished": sends - len(self.told),
        }


def _pairs(sent: InFlightRequest) -> Iterator[tuple[Batch, ProducerBatch]]:
    return zip(sent.request.batches, sent.batches, strict=True)


@pytest.mark.parametrize("name", [*NAMED, *FAULTS_ONLY])
def test_recorded_run_with_the_kits_broker_ends_with_the_same_log_and_verdict(name: str) -> None:
    """Each answer, the broker's log at the end and the verdict are those of the run against the real classes."""
    trace = NAMED.get(name) or FAULTS_ONLY[name]
    played = EndToEnd(trace)
    played.run()
    recorded = {
        int(partition): [
            (entry["base_offset"], entry["send"], entry["pid"], entry["epoch"], entry["seq"], entry["count"]) for entry in log
        ]
        for partition, log in trace["broker_log"].items()
    }
    assert {partition: log for partition, log in played.logs.items() if log} == {p: log for p, log in recorded.items() if log}
    assert played.verdict() == trace["verdict"]


def test_recorded_runs_are_all_there() -> None:
    """The 11 named runs and the 35 random ones with network faults only come with the kit."""
    assert (len(NAMED), len(FAULTS_ONLY)) == (11, 35)
