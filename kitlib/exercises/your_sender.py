"""A learner's numbers in the sender's loop beside the recorded sender of Kafka 4.3.1.

The loop, its queues, its clock and its producer id are the kit's; which numbers a batch carries, when it may leave, where it comes
back to and when the epoch is raised are the learner's. The question of `own_sender` lists their class's methods; it is made without
arguments and counts epochs from 0.

What is compared is what others see: the requests with their numbers, the queues in their order, what the user is told, the epoch.
A script ends where the producer asks for another id: that is not about numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, pairwise, takewhile
from operator import index
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.sender import CONFIG_NAMES, replay
from kitlib.exercises.door import Recording, Script, Seen, Step
from kitlib.mechanisms.producer.accumulator import RecordAccumulator
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Sender
from kitlib.mechanisms.producer.transaction_manager import GAPS, ProducerState, TransactionManager
from kitlib.mechanisms.protocol import INVALID_OFFSET, NO_PRODUCER_ID, ErrorCode, InitProducerIdAnswer, PartitionAnswer

FILES = ("sender_named.jsonl.gz", "sender_public.jsonl.gz")
METHODS = ("before_run", "may_leave", "number", "place", "stored", "refused", "failed", "expired", "split")
SEQUENCES = 2**31
ORDINALS = ("oldest", "2nd", "3rd", "4th", "5th", "6th")
PLAIN = {**{name: getattr(ProducerConfig(), name) for name in CONFIG_NAMES.values()}, "linger_ms": 0, "retry_backoff_ms": 0}


@cache
def scripts() -> list[Script]:
    """The scripts that come with the kit, each up to a change of the producer's id."""
    traces = chain.from_iterable(read_traces(bundled("producer", name)) for name in FILES)
    return [{**trace, "steps": list(_steps(trace))} for trace in traces]


def _steps(trace: dict[str, Any]) -> Iterator[Step]:
    """The steps; an answer is to the oldest request, the second oldest, ...: its number would depend on all that came before."""
    first = trace["steps"][0]
    yield first
    same_id = takewhile(lambda pair: pair[1]["state"]["pid"] == trace["config"]["first_pid"], pairwise(trace["steps"]))
    for before, step in same_id:
        if step["op"] == "respond":
            nth = [each["request"] for each in before["state"]["in_flight"]].index(step["args"]["request"])
            step = {**step, "args": {"nth": nth, "partitions": step["args"]["partitions"]}}
        yield step


class Batch:
    """What a learner's numbers see of a batch, and where they set its epoch and its sequence."""

    __slots__ = ("first_epoch", "it")

    def __init__(self, it: ProducerBatch, first_epoch: int) -> None:
        self.it, self.first_epoch = it, first_epoch

    @property
    def partition(self) -> int:
        return self.it.partition

    @property
    def count(self) -> int:
        """Its records."""
        return self.it.count

    @property
    def attempts(self) -> int:
        """How often it came back."""
        return self.it.attempts

    @property
    def renumbered(self) -> bool:
        """Whether its numbers have changed since it last left, so that an answer was meant for the old ones."""
        return self.it.reopened

    @property
    def seq(self) -> int | None:
        """Of its first record; None before it has left."""
        return self.it.base_sequence if self.it.has_sequence else None

    @seq.setter
    def seq(self, seq: Any) -> None:
        self.it.reopened = self.it.has_sequence
        self.it.base_sequence = index(seq)

    @property
    def last_seq(self) -> int | None:
        """Of its last record."""
        return (self.it.base_sequence + self.count - 1) % SEQUENCES if self.it.has_sequence else None

    @property
    def epoch(self) -> int | None:
        return self.it.producer_epoch - self.first_epoch if self.it.producer_id != NO_PRODUCER_ID else None

    @epoch.setter
    def epoch(self, epoch: Any) -> None:
        self.it.reopened = self.it.has_sequence
        self.it.producer_epoch = self.first_epoch + index(epoch)

    def __repr__(self) -> str:
        return f"<batch of {self.count} in partition {self.partition}: epoch {self.epoch}, seq {self.seq}>"


class Numbered(TransactionManager):
    """The kit's id and states; every number is the learner's."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.numbers, self.first_epoch = make(), 0
        self.seen: dict[int, Batch] = {}  # by a batch's number

    def view(self, batch: ProducerBatch) -> Batch:
        """The one object that stands for a batch."""
        return self.seen.setdefault(batch.number, Batch(batch, self.first_epoch))

    def receive_id(self, answer: InitProducerIdAnswer) -> None:
        super().receive_id(answer)
        self.first_epoch = self.producer_epoch

    def maybe_resolve_sequences(self) -> None:
        """Part of `before_run`."""

    def maybe_bump(self) -> None:
        if self.has_producer_id:
            self.numbers.before_run()
            self.producer_epoch = self.first_epoch + index(self.numbers.epoch)
        elif self.state is not ProducerState.INITIALIZING:
            self.transition_to(ProducerState.INITIALIZING)

    def may_drain(self, first: ProducerBatch) -> bool:
        return self.has_producer_id and bool(self.numbers.may_leave(self.view(first)))

    def assign(self, batch: ProducerBatch) -> None:
        batch.producer_id = self.producer_id
        self.numbers.number(self.view(batch))

    def has_in_flight(self, partition: int) -> bool:
        return True

    def remove_in_flight(self, batch: ProducerBatch) -> None:
        """Part of `split`."""

    def can_retry(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        if answer.error not in GAPS:
            return answer.error.is_retriable
        log_start = None if answer.log_start_offset == INVALID_OFFSET else answer.log_start_offset
        self.numbers.refused(self.view(batch), answer.error.name, log_start)
        return True

    def handle_completed_batch(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        self.numbers.stored(self.view(batch))

    def handle_failed_batch(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        if error is None:
            self.numbers.expired(self.view(batch))
        else:
            self.numbers.failed(self.view(batch), adjust or error in GAPS)

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """Part of `expired`."""


class Queues(RecordAccumulator):
    """The kit's queues; where a batch comes back to is the learner's."""

    def split_and_reenqueue(self, big: ProducerBatch) -> list[ProducerBatch]:
        assert isinstance(self.transaction_manager, Numbered)
        parts = big.split(self.split_target_bytes(big), self.batches)
        self.batches += len(parts)
        view = self.transaction_manager.view
        self.transaction_manager.numbers.split(view(big), [view(part) for part in parts])
        for part in reversed(parts):
            self._insert(part)
        return parts

    def _insert(self, batch: ProducerBatch) -> None:
        assert isinstance(self.transaction_manager, Numbered)
        queue, view = self.queues[batch.partition], self.transaction_manager.view
        queue.insert(index(self.transaction_manager.numbers.place([view(each) for each in queue], view(batch))), batch)


def replayed(script: Script, make: Any) -> Iterator[Step]:
    """The recorded script on the kit's sender with the learner's numbers."""

    def build(config: ProducerConfig, partitions: Any) -> Sender:
        return Sender(config, partitions, manager_type=lambda: Numbered(make), accumulator_type=Queues)  # type: ignore[arg-type]

    return replay(script, build)


def seen(script: Script, step: Step) -> Seen:
    """What others see of the sender, in words; epochs are counted from 0."""
    state, first_epoch = step["state"], script["config"]["first_epoch"]

    def batch(it: dict[str, Any]) -> str:
        epoch = it["epoch"] if it["epoch"] in (None, -1) else it["epoch"] - first_epoch
        if it["seq"] is None or it["seq"] < 0:
            return f"send {it['send']} (no numbers)"
        last = f"-{it['seq'] + it['count'] - 1}" if it["count"] > 1 else ""
        return f"send {it['send']} (epoch {epoch}, {it['seq']}{last})"

    told = (f"{it['send']} is stored at offset {it['offset']}" if "offset" in it else f"{it['send']} failed ({it['result']})"
            for it in state["completed"])  # fmt: skip
    found: Seen = {"the epoch": str(state["epoch"] - first_epoch if state["epoch"] >= 0 else "none")}
    found["the user"] = ", ".join(f"send {each}" for each in told) or "told nothing"
    for request in state["in_flight"]:
        found[f"request {request['request']}"] = ", ".join(f"{batch(it)} of partition {it['partition']}" for it in request["batches"])
    for partition in state["partitions"]:
        found[f"the queue of partition {partition['partition']}"] = ", ".join(map(batch, partition["queue"])) or "empty"
    return found


def call(step: Step) -> str:
    """`send(0, 1)`; `answer(oldest, NONE)`: to the oldest request that has none."""
    if step["op"] == "respond":
        errors = [str(answer.get("error")) for answer in step["args"]["partitions"].values()]
        return f"answer({ORDINALS[step['args']['nth']]}, {', '.join(errors)})"
    return f"{step['op']}({', '.join(map(str, step['args'].values()))})"


SENDER = Recording(
    f"{__name__}:SENDER", scripts, replayed, seen, "own_sender", call,
    ("kitlib.mechanisms.producer.transaction_manager:TransactionManager",), "Kafka 4.3.1",
    {theirs: (ours, PLAIN[ours]) for theirs, ours in CONFIG_NAMES.items()}, quiet="poll",
)  # fmt: skip
