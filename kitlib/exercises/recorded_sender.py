"""A learner's numbers in the sender's loop beside the recorded sender of Kafka 4.3.1.

The loop, its queues, its clock and its producer id are the kit's; which numbers a batch carries, when it may leave, where it comes
back to and when the epoch is raised are the learner's. Their class is made without arguments and counts epochs from 0:

    epoch                        what the next numbers count under
    before_run()                 the loop is about to send: raise the epoch now if it has to be
    may_leave(batch)             whether the first batch in its partition's queue may leave
    number(batch)                it leaves for the first time: set batch.epoch and batch.seq
    place(queue, batch)          the index at which a batch that comes back is put into its queue
    stored(batch)                the broker has it
    refused(batch, error, log_start)   OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID; the batch will be sent again
    failed(batch, leaves_gap)    it is given up; whether it is certain that its numbers would leave a gap
    expired(batch)               its time is up, sent or not
    split(batch, parts)          it was too large; its parts take its place, and have its numbers already

What is compared is what others see: the requests with their numbers, the queues in their order, what the user is told, the epoch.
A script ends where the producer asks for another id: that is not about numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, pairwise
from operator import index
from typing import Any

from kitlib.conformance.golden import Difference, bundled, read_traces
from kitlib.conformance.sender import CONFIG_NAMES, Replayed, name_of, visiting_order
from kitlib.exercises import solutions
from kitlib.exercises.recorded import Recording, Script, first_row
from kitlib.exercises.shrinking import raised
from kitlib.kafka.producer.accumulator import RecordAccumulator
from kitlib.kafka.producer.batch import ProducerBatch
from kitlib.kafka.producer.config import ProducerConfig
from kitlib.kafka.producer.sender import Sender
from kitlib.kafka.producer.transaction_manager import GAPS, ProducerState, TransactionManager
from kitlib.kafka.protocol import INVALID_OFFSET, NO_PRODUCER_ID, ErrorCode, InitProducerIdAnswer, PartitionAnswer
from kitlib.text import plain_text
from kitlib.views import Picture

FILES = ("sender_named.jsonl.gz", "sender_public.jsonl.gz")
METHODS = ("before_run", "may_leave", "number", "place", "stored", "refused", "failed", "expired", "split")
AGREES = "every recorded step of Kafka 4.3.1's sender is the same with your numbers."
SEQUENCES = 2**31
ORDINALS = ("oldest", "2nd", "3rd", "4th", "5th", "6th")
PLAIN = {  # of the recorded settings, what goes without saying
    **{name: getattr(ProducerConfig(), name) for name in CONFIG_NAMES.values()}, "linger_ms": 0, "retry_backoff_ms": 0,
}  # fmt: skip
_begin = TransactionManager.__init__  # of the kit's own, before a learner's process closes it to them


# Scripts.


@cache
def bundled_scripts() -> tuple[Script, ...]:
    """The scripts that come with the kit, each up to a change of the producer's id; their first poll, which brings the id, is played."""
    traces = chain.from_iterable(read_traces(bundled("producer", name)) for name in FILES)
    return tuple({"name": trace["name"], "meaning": trace["meaning"], "steps": list(_steps(trace))} for trace in traces)


def _steps(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    config = trace["config"]
    first_epoch, first_pid = config["first_epoch"], config["first_pid"]
    yield {"op": "start", "args": {"number": 0, "given": [config]}, "seen": _recorded(trace["steps"][0]["state"], first_epoch)}
    for number, (before, step) in enumerate(pairwise(trace["steps"]), 1):
        if step["state"]["pid"] != first_pid:
            return
        op, args = step["op"], step["args"]
        given = list(args.values())
        if op == "respond":  # to the oldest request, the second oldest, ...: numbers would depend on all that came before
            given = [[each["request"] for each in before["state"]["in_flight"]].index(args["request"]), args["partitions"]]
        yield {"op": op, "args": {"number": number, "given": given}, "seen": _recorded(step["state"], first_epoch)}


def _recorded(state: dict[str, Any], first_epoch: int) -> dict[str, Any]:
    """What others see of a recorded state, epochs counted from 0."""

    def epoch(value: int | None) -> int | None:
        return None if value is None else value - first_epoch

    return {
        "epoch": epoch(state["epoch"]),
        "told": [[each["send"], each["result"], each.get("offset")] for each in state["completed"]],
        "requests": [
            [
                each["request"],
                [[one["partition"], one["send"], epoch(one["epoch"]), one["seq"], one["count"]] for one in each["batches"]],
            ]
            for each in state["in_flight"]
        ],
        "queues": [
            [each["partition"], [[one["send"], epoch(one["epoch"]), one["seq"], one["count"]] for one in each["queue"]]]
            for each in state["partitions"]
        ],
    }


def operations(script: Script) -> Script:
    """A script without anything that the sender did: what the learner's process is given."""
    return {"name": script["name"], "steps": [{"op": step["op"], "given": step["args"]["given"]} for step in script["steps"]]}


# In the learner's process.


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
        _begin(self)
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


def answers_to(make: Any, script: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What others see of the sender with the learner's numbers after each step, in JSON values."""
    played: Replayed | None = None
    for step in script["steps"]:
        if step["op"] == "start":
            played = _started(make, *step["given"])
            played.play("poll", {})
        elif played is not None and (arguments := _arguments(played.sender, step["op"], step["given"])) is not None:
            played.play(step["op"], arguments)
        if played is None:
            yield {}
            continue
        for _ in range(step.get("polls", 0)):
            played.play("poll", {})
        yield _seen(played)


def _started(make: Any, config: dict[str, Any]) -> Replayed:
    named: dict[str, Any] = {ours: config[theirs] for theirs, ours in CONFIG_NAMES.items() if theirs in config}
    partitions = visiting_order(config["partitions"])
    sender = Sender(ProducerConfig(**named), partitions, manager_type=lambda: Numbered(make), accumulator_type=Queues)  # type: ignore[arg-type]
    return Replayed(sender, "4.3", 0, config["first_pid"], config["first_epoch"])


def _arguments(sender: Sender, op: str, given: list[Any]) -> dict[str, Any] | None:
    """What the step says, in this sender's numbers; None where there is no such request or partition."""
    if op == "send" and given[0] not in sender.accumulator.queues:
        return None
    if op == "respond":
        requests = list(sender.in_flight_requests)
        if given[0] >= len(requests):
            return None
        given = [requests[given[0]], given[1]]
    names = {"send": ("partition", "records"), "advance": ("ms",), "respond": ("request", "partitions")}.get(op, ())
    return dict(zip(names, given, strict=False))


def _seen(played: Replayed) -> dict[str, Any]:
    sender, manager = played.sender, played.sender.transaction_manager
    first_epoch = manager.first_epoch

    def numbers(batch: Any) -> list[int | None]:
        has = batch.producer_id != NO_PRODUCER_ID
        return [batch.producer_epoch - first_epoch if has else None, batch.base_sequence if has else None, batch.count]

    return {
        "epoch": manager.producer_epoch - first_epoch if manager.has_producer_id else None,
        "told": [[each["send"], each["result"], each.get("offset")] for each in played.completed()],
        "requests": [
            [
                number,
                [
                    [batch.partition, name_of(known), *numbers(batch)]
                    for batch, known in zip(sent.request.batches, sent.batches, strict=True)
                ],
            ]
            for number, sent in sender.in_flight_requests.items()
        ],
        "queues": [
            [partition, [[name_of(batch), *numbers(batch)] for batch in sender.accumulator.queues[partition]]]
            for partition in sorted(sender.accumulator.queues)
        ],
    }


# In ours.


def _judged(answer: Any, step: dict[str, Any]) -> dict[str, Any]:
    return {"seen": answer}


def _where(script: Script, at: int) -> str:
    step = script["steps"][at]
    return f"step {step['args']['number']}, {call({'op': step['op'], 'given': step['args']['given']})}"


def _said(script: Script, first: Difference, answers: list[Any]) -> tuple[str, Callable[[str], Picture | None]]:
    return first_row(rows(script["steps"][first.step]["seen"]), rows(answers[-1])), lambda sentence: None


def rows(answer: Any) -> dict[str, str]:
    """What others see, in words. The learner's process may send anything."""
    try:
        found = {"the epoch": "none" if answer["epoch"] is None else str(answer["epoch"])}
        found["the user"] = ", ".join(_told(*each) for each in answer["told"]) or "is told nothing"
        for number, batches in answer["requests"]:
            found[f"request {number}"] = ", ".join(f"{_batch(*one[1:])} of partition {one[0]}" for one in batches)
        for partition, batches in answer["queues"]:
            found[f"the queue of partition {partition}"] = ", ".join(_batch(*one) for one in batches) or "nothing"
    except (LookupError, TypeError, ValueError):
        return {"your sender": plain_text(answer, 120)}
    return {name: plain_text(told, 300) for name, told in found.items()}


def _told(send: Any, result: Any, offset: Any) -> str:
    return f"send {send} is stored at offset {offset}" if result == "OK" else f"send {send} failed ({result})"


def _batch(send: Any, epoch: int | None, seq: int | None, count: int) -> str:
    if seq is None:
        return f"send {send} (no numbers)"
    return f"send {send} (epoch {epoch}, {seq}" + (f"-{seq + count - 1})" if count > 1 else ")")


# Made smaller.


def differ(right: Any, got: Any) -> str:
    """How an answer is not the right one, in words; "" when it is."""
    if raised(right):
        return ""
    return raised(got) or ("" if right == got else first_row(rows(right), rows(got)))


def simpler(steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The same with runs of the loop as part of the call before them, with fewer of these, plain settings, and batches of one record."""
    joined: list[dict[str, Any]] = []
    for step in steps:
        if step["op"] == "poll" and joined:
            joined[-1] = {**joined[-1], "polls": joined[-1].get("polls", 0) + 1 + step.get("polls", 0)}
        else:
            joined.append(step)
    yield joined
    for theirs, ours in CONFIG_NAMES.items() if steps[0]["op"] == "start" else ():
        yield [{**steps[0], "given": [{**steps[0]["given"][0], theirs: PLAIN[ours]}]}, *steps[1:]]
    for number, step in enumerate(steps):
        if step.get("polls"):
            yield [*steps[:number], {**step, "polls": step["polls"] - 1}, *steps[number + 1 :]]
    yield [{**step, "given": [step["given"][0], 1]} if step["op"] == "send" else step for step in steps]


def call(step: dict[str, Any]) -> str:
    """`send(0, 1), poll()`; `answer(oldest, NONE)`: to the oldest request that has none."""
    op, given = step["op"], step["given"]
    polls = ", poll()" * step.get("polls", 0)
    if op == "respond":
        errors = [str(answer.get("error")) for answer in given[1].values()]
        return f"answer({ORDINALS[given[0]]}, {', '.join(errors)}){polls}"
    if op == "start":
        told = [f"{ours}={given[0][theirs]}" for theirs, ours in CONFIG_NAMES.items() if given[0].get(theirs, PLAIN[ours]) != PLAIN[ours]]
        return f"start({', '.join(told)}){polls}"
    return f"{op}({', '.join(map(str, given))}){polls}"


SENDER = Recording(
    bundled_scripts, operations, answers_to, _judged, _where, _said, original="Kafka 4.3.1",
    name=f"{__name__}:SENDER", right=solutions.SenderNumbers, differ=differ, simpler=simpler, call=call, rows=rows,
    kits=("kitlib.kafka.producer.transaction_manager:TransactionManager",),
)  # fmt: skip
