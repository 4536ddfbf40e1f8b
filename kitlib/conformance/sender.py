"""Replays recorded scripts of Kafka's Sender on the kit's model of the client.

The recorded answers are handed to the model, so a replay judges the client alone. The release of the
recording chooses the rules: 4.x those of 4.3, 2.0 those before the epoch could be raised. Of what the
user is told, exception classes are compared, messages are not. A client of the learner's own goes
through the same door: anything that is built from (ProducerConfig, partitions) and has the names of
`Sender`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.conformance.golden import count_in, fields_of, unknown
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Completion, Sender
from kitlib.mechanisms.protocol import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
)

Build = Callable[[ProducerConfig, Sequence[int]], Any]

ALIKE = "retries request_timeout_ms delivery_timeout_ms linger_ms retry_backoff_ms batch_size"  # in the recording and in ProducerConfig
CONFIG_NAMES = {"max_in_flight": "max_in_flight_requests_per_connection"} | {name: name for name in ALIKE.split()}
MOST_PARTITIONS, MOST_RECORDS = 100, 100_000  # of one send; a recorder's scripts are far below


@dataclass(slots=True)
class Replayed:
    """One script under way: the client, its clock, and what its user has been told."""

    sender: Any
    release: str
    now_ms: int
    next_id: int  # the next producer id that the recorded cluster gives out
    first_epoch: int  # ... with this epoch the first time, with 0 later on
    counts: list[int] = field(default_factory=list)  # records of each send
    told: dict[int, list[Completion]] = field(default_factory=dict)  # sends of which a part has ended

    def play(self, op: str, args: dict[str, Any]) -> None:
        """One step of the script."""
        if op == "send":
            self.counts.append(count_in(args, "records", MOST_RECORDS))
            # A recorded value names its send and its place there; its length counts when a batch is split.
            values = [f"{len(self.counts) - 1}:{index}".encode() for index in range(self.counts[-1])]
            self.sender.send(args["partition"], self.now_ms, values)
        elif op == "advance":
            self.now_ms += args["ms"]
        elif op == "disconnect":
            self.sender.disconnect()
        elif op == "respond":
            # A script that is made shorter names the oldest request, the second oldest, ...: its number depends on what came before.
            number = list(self.sender.in_flight_requests)[args["nth"]] if "nth" in args else args["request"]
            self.sender.receive(number, answer_of(args["partitions"]))
        elif op == "poll":
            self._poll()
        else:
            raise unknown(op)

    def _poll(self) -> None:
        """One run of the loop; the cluster answers a request for an id at once."""
        for request in self.sender.poll(self.now_ms):
            if isinstance(request, InitProducerIdRequest):
                self.sender.receive_id(InitProducerIdAnswer(ErrorCode.NONE, self.next_id, self.first_epoch))
                self.next_id, self.first_epoch = self.next_id + 1, 0
                if self.release == "2.0":  # which waits for the id within the run
                    self._poll()

    def completed(self) -> list[dict[str, Any]]:
        """The sends that are finished since the last call, by number; a split one with its last part."""
        for completion in self.sender.completed():
            self.told.setdefault(completion.send, []).append(completion)
        ended = []
        for send in sorted(self.told):
            parts = sorted(self.told[send], key=lambda part: part.first)
            if sum(part.count for part in parts) == self.counts[send]:
                del self.told[send]
                failed = next((part.error for part in parts if part.error), None)
                result = {"result": failed} if failed else {"result": "OK", "offset": parts[0].offset}
                ended.append({"send": send} | result)
        return ended


def replay(trace: dict[str, Any], build: Build = Sender) -> Iterator[dict[str, Any]]:
    """What the client's state was after each step of one recorded script."""
    settings = trace["config"]
    release = "2.0" if str(trace.get("kafka_version", "")).startswith("2.0") else "4.3"
    named: dict[str, Any] = {ours: settings[theirs] for theirs, ours in CONFIG_NAMES.items() if theirs in settings}
    sender = build(ProducerConfig(release=release, **named), visiting_order(count_in(settings, "partitions", MOST_PARTITIONS), release))
    script = Replayed(sender, release, settings["start_time_ms"], settings["first_pid"], settings["first_epoch"])
    for step in trace["steps"]:
        script.play(step["op"], step.get("args", {}))
        completed = script.completed()
        _take_messages(completed, step)
        yield {"state": state_of(script, completed)}


def _take_messages(completed: list[dict[str, Any]], step: dict[str, Any]) -> None:
    """Exceptions are compared by their class, so each takes over the message that was recorded for its send."""
    recorded = step.get("state", {}).get("completed", [])
    messages = {told["send"]: told["message"] for told in recorded if "message" in told}
    for told in completed:
        if "offset" not in told and told["send"] in messages:
            told["message"] = messages[told["send"]]


def visiting_order(partitions: int, release: str = "4.3") -> list[int]:
    """The order in which Java's client drains the partitions of the recorded topic `t`.

    2.0 keeps the order of the metadata; 4.3 walks through a HashMap whose keys are topic and partition.
    """
    if release == "2.0":
        return list(range(partitions))
    buckets = 1
    while buckets < partitions or partitions > buckets * 3 // 4:
        buckets *= 2
    return sorted(range(partitions), key=lambda partition: (31 * (31 + partition) + ord("t")) % buckets)


def answer_of(partitions: dict[str, Any]) -> dict[int, PartitionAnswer]:
    """A recorded answer in the kit's words."""
    return {
        int(partition): PartitionAnswer(
            ErrorCode.__members__.get(answer["error"], ErrorCode.UNKNOWN_SERVER_ERROR), answer["base_offset"], answer["log_start_offset"]
        )
        for partition, answer in partitions.items()
    }


def state_of(script: Replayed, completed: list[dict[str, Any]]) -> dict[str, Any]:
    """The client's ledgers in the recording's words."""
    sender, manager = script.sender, script.sender.transaction_manager
    requests = [
        {
            "request": number,
            "batches": [
                {"send": name_of(known), "pid": batch.producer_id, "epoch": batch.producer_epoch, "seq": batch.base_sequence}
                | fields_of(batch, "partition count")
                for batch, known in zip(sent.request.batches, sent.batches, strict=True)
            ],
        }
        for number, sent in sender.in_flight_requests.items()
    ]
    return {
        "now": script.now_ms,
        "pid": manager.producer_id,
        "epoch": manager.producer_epoch,
        "epoch_bump_required": manager.epoch_bump_required,
        "completed": completed,
        "in_flight": requests,
        "partitions": [_partition_state(script, partition) for partition in sorted(sender.accumulator.partitions)],
    }


def name_of(batch: ProducerBatch) -> str:
    """A batch's name in the recording: its send, with the first record's index for a later part of it."""
    return f"{batch.send}:{batch.first}" if batch.first else str(batch.send)


def _partition_state(script: Replayed, partition: int) -> dict[str, Any]:
    sender, manager = script.sender, script.sender.transaction_manager
    entry = manager.entries.get(partition)
    waiting = [_numbered(batch) | {"attempts": batch.attempts} for batch in sender.accumulator.queues[partition]]
    tracked = sorted(entry.in_flight, key=lambda batch: batch.key) if entry else []
    ids = (entry.producer_id, entry.producer_epoch) if entry else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    state = {
        "partition": partition,
        "pid": ids[0],
        "epoch": ids[1],
        "next_seq": entry.next_sequence if entry else 0,
        "last_acked_seq": entry.last_acked_sequence if entry else -1,
        "last_acked_offset": entry.last_acked_offset if entry else INVALID_OFFSET,
        "unresolved_next_seq": manager.unresolved.get(partition),
        "queue": waiting,
        "in_flight": [_numbered(batch) for batch in sender.in_flight_batches.get(partition, [])],
        "tracked": [_numbered(batch) for batch in tracked],
    }
    if script.release == "2.0":  # one id for all partitions, no list in the Sender, doubt without a number
        del state["in_flight"]
        state |= {"pid": manager.producer_id, "epoch": manager.producer_epoch}
        state["unresolved_next_seq"] = partition in manager.unresolved
    return state


def _numbered(batch: ProducerBatch) -> dict[str, Any]:
    known = batch.has_sequence
    return {
        "send": name_of(batch),
        "epoch": batch.producer_epoch if known else None,
        "seq": batch.base_sequence if known else None,
        "count": batch.count,
    }
