"""The idempotent producer's experiments: lost answers, retries, a forgetful broker, order.

Every story begins with an empty topic and a producer that has just got its id. The user hands over records;
the network or the broker does something unkind; the run ends once the user was told of every record, and
with a look at what the topic holds.

The last stories have several partitions under one producer. Sequence numbers are counted for each, so the broker's answers to
one say nothing about another. What they share is the producer: its id and epoch, and its requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.idempotence.producer_knobs import (
    Acks,
    DeliveryTimeoutMs,
    LingerMs,
    MaxInFlight,
    Records,
    RequestTimeoutMs,
    Retries,
    producer_config,
)
from kitlib.experiments.idempotence.producer_run import Client, Flight, ProducerRun
from kitlib.experiments.knobs import Knob
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.config import MAX_INT
from kitlib.mechanisms.producer.sender import Sender
from kitlib.mechanisms.producer.transaction_manager import TransactionManager
from kitlib.mechanisms.protocol import InitProducerIdAnswer
from kitlib.monitor.figures import COPIES, HELD_UP, OUT_OF_ORDER, RECOGNISED, REFUSALS, WRONGLY_FAILED

Idempotence = Annotated[bool, Knob("Gives each batch a producer id, an epoch and sequence numbers.")]
Batches = Annotated[int, Knob("How many batches the application sends.", "batches", 1, 200)]
BatchRecords = Annotated[int, Knob("Records in each of them.", "records", 1, 100)]
DelayMs = Annotated[int, Knob("How long a request or an answer is in transit.", "ms", 0, 5_000, live=True)]
Release = Annotated[Literal["4.3", "2.0"], Knob("Which release's rules the client and the broker follow.")]


class ClientKnobs:
    """How a producer sends, and how far away its broker is."""

    max_in_flight: MaxInFlight
    retries: Retries = MAX_INT
    delivery_timeout_ms: DeliveryTimeoutMs = 120_000
    delay_ms: DelayMs


class IdempotentClientKnobs(ClientKnobs):
    """The same, of a producer that may be idempotent or not."""

    idempotence: Idempotence


class BrokerKnobs:
    """How the broker knows a batch again."""

    remembered_batches: Annotated[
        int, Knob("How many batches of a producer the broker remembers; a real one remembers 5.", "batches", 1, 20)
    ]
    older_is_duplicate: Annotated[
        bool, Knob("Treats any batch below the expected sequence as a duplicate; no real broker does.")
    ]


@experiment(
    "The answer that never came", ProducerRun, shared=(IdempotentClientKnobs, BrokerKnobs),
    figure=COPIES, front=("lost_answers", "max_in_flight", "delay_ms", "linger_ms", "idempotence"),
)
def answers_lost(
    run: ProducerRun,
    records: Records = 60,
    send_every_ms: Annotated[int, Knob("Time between records that the application sends.", "ms", 0, 1_000)] = 1,
    linger_ms: LingerMs = 4,
    acks: Acks = "all",
    lost_answers: Annotated[int, Knob("How many answers are held back before the connection is cut.", "answers", 0, 20)] = 5,
    answer_loss_percent: Annotated[
        int, Knob("Share of answers lost at random, along with their connection.", "%", 0, 50, live=True)
    ] = 0,
    delay_ms: DelayMs = 15,
) -> None:
    """The broker has written five batches, and their answers are lost. The producer sends them again. How many times
    are they stored?
    """

    def fate(flight: Flight) -> str:
        luck = Random(f"{run.trace.seed}:{flight.data['batch']}:{flight.attempt}").random()
        return "cut_after_answer" if luck * 100 < run.settings.answer_loss_percent else ""

    producer = run.begin()
    run.fate = fate
    run.send_records(producer, records, send_every_ms)
    run.run_for(1_000, until=lambda: producer.delivered > 0)
    run.withhold(lost_answers)
    run.finish()


@experiment(
    "Why five", ProducerRun, shared=(IdempotentClientKnobs, BrokerKnobs),
    figure=COPIES, front=("batches", "max_in_flight", "remembered_batches", "older_is_duplicate", "release"),
)
def six_in_flight(
    run: ProducerRun,
    batches: Batches = 6,
    batch_records: BatchRecords = 5,
    max_in_flight: MaxInFlight = 6,
    release: Release = "4.3",
) -> None:
    """Six batches are written and no answer comes back. The broker remembers five. What does it say to the first one's retry?"""
    producer = run.begin()
    run.withhold(min(batches, max_in_flight))
    run.send_batches(producer, batches, batch_records)
    run.finish()


@experiment(
    "A retry arrives late", ProducerRun, shared=(IdempotentClientKnobs,),
    figure=OUT_OF_ORDER, front=("idempotence", "max_in_flight", "fault", "failing_batch", "batches"),
)
def reordering_by_retry(
    run: ProducerRun,
    batches: Batches = 5,
    batch_records: BatchRecords = 5,
    failing_batch: Annotated[int, Knob("The batch whose first attempt fails.", "", 0, 200)] = 1,
    fault: Annotated[
        Literal["refused", "request lost"], Knob("How it fails: the broker refuses it for now, or the request is lost in transit.")
    ] = "refused",
    idempotence: Idempotence = False,
    request_timeout_ms: RequestTimeoutMs = 1_000,
) -> None:
    """The second of five batches fails at first and is sent again. In which order do the five end up in the log?"""

    def fate(flight: Flight) -> str:
        if flight.data["batch"] != failing_batch or flight.attempt:
            return ""
        return "lose_request" if fault == "request lost" else "refuse:NOT_LEADER_OR_FOLLOWER"

    producer = run.begin()
    run.fate = fate
    run.send_batches(producer, batches, batch_records)
    run.finish()


@experiment(
    "What a broker forgets", ProducerRun, shared=(IdempotentClientKnobs, BrokerKnobs),
    figure=COPIES, front=("restart", "max_in_flight", "idempotence", "batches"),
)
def broker_restart(
    run: ProducerRun,
    batches: Batches = 5,
    batch_records: BatchRecords = 5,
    restart: Annotated[
        Literal["no", "clean", "kill", "fail over"], Knob("What happens to the broker while the answers are held back.")
    ] = "kill",
    max_in_flight: MaxInFlight = 5,
) -> None:
    """Five batches are written, their answers are held back, and the broker is restarted. What does it remember of the five?"""
    producer = run.begin()
    withheld = min(batches, max_in_flight)
    run.withhold(withheld)
    run.send_batches(producer, batches, batch_records)
    run.run_for(1_000, until=lambda: len(run.withheld) >= withheld)
    run.restart(restart)
    run.finish()


@experiment(
    "The timeout that says nothing", ProducerRun, shared=(IdempotentClientKnobs,),
    figure=WRONGLY_FAILED, front=("lost", "outage_ms", "delivery_timeout_ms", "again", "idempotence"),
)
def batch_expires(
    run: ProducerRun,
    batch_records: BatchRecords = 5,
    lost: Annotated[
        Literal["answer", "request"], Knob("What does not get through during the outage: the requests, or their answers alone.")
    ] = "answer",
    outage_ms: Annotated[int, Knob("How long nothing gets through.", "ms", 0, 60_000)] = 1_500,
    again: Annotated[bool, Knob("Whether the application sends records again that were reported as failed.")] = False,
    delivery_timeout_ms: DeliveryTimeoutMs = 1_000,
    request_timeout_ms: RequestTimeoutMs = 300,
    release: Release = "4.3",
) -> None:
    """No answer arrives before delivery_timeout_ms has passed, and the application is notified: failed. Is the record in the log?"""
    producer = run.begin()
    run.send(producer, batch_records)
    run.settle()
    outage_ends_ms = run.now_ms + outage_ms

    def fate(flight: Flight) -> str:
        if run.now_ms >= outage_ends_ms:
            return ""
        return "swallow_answer" if lost == "answer" else "lose_request"

    run.fate = fate
    run.send(producer, batch_records)
    doomed = producer.last_sent
    run.run_for(outage_ms // 2)
    run.send(producer, batch_records)
    run.run_for(10 * outage_ms, until=lambda: run.now_ms >= outage_ends_ms and run.is_settled())
    if again and producer.failed.issuperset(doomed):
        run.send_again(producer, doomed)
    run.send(producer, batch_records)
    run.finish()


@experiment(
    "Two producers, one id", ProducerRun, shared=(ClientKnobs,),
    figure=REFUSALS, front=("second_epoch", "batch_records", "max_in_flight"),
)
def two_producers_one_id(
    run: ProducerRun,
    batch_records: BatchRecords = 5,
    second_epoch: Annotated[
        Literal["next", "same"], Knob("Epoch of the second producer: the one after the first's, or the same.")
    ] = "next",
    delivery_timeout_ms: DeliveryTimeoutMs = 5_000,
) -> None:
    """A second producer starts with the id of the first one. Whose batches does the broker accept?"""
    first = run.begin()
    for _ in range(2):
        run.send(first, batch_records)
    run.settle()
    producer_id, epoch = first.identity
    shared = InitProducerIdAnswer(producer_id=producer_id, producer_epoch=epoch + (second_epoch == "next"))
    second = run.add_producer(shared)
    for producer in (second, first, second):
        run.send(producer, batch_records)
        run.finish()


def _send_unanswered(run: ProducerRun, producer: Client) -> None:
    """One more batch, which is written, and its answer held back."""
    run.withhold(1)
    run.send(producer, run.settings.batch_records)
    run.run_for(1_000, until=lambda: bool(run.withheld))


@experiment(
    "A producer that no broker knows", ProducerRun, shared=(IdempotentClientKnobs, BrokerKnobs),
    figure=COPIES, front=("expires", "release", "idempotence"),
)
def producer_id_expired(
    run: ProducerRun,
    batch_records: BatchRecords = 5,
    expires: Annotated[
        bool, Knob("Whether the broker forgets the idle producer before the retry arrives (producer.id.expiration.ms).")
    ] = True,
    release: Release = "4.3",
) -> None:
    """A batch is written, but its answer is lost. Before the retry arrives, the broker forgets the producer. What does
    it do with the retry?
    """
    producer = run.begin()
    run.send(producer, batch_records)
    run.settle()
    _send_unanswered(run, producer)
    if expires:
        run.expire(producer)
    run.settle()
    run.send(producer, batch_records)
    run.finish()


@experiment(
    "The records are gone, the memory is not", ProducerRun, shared=(IdempotentClientKnobs, BrokerKnobs),
    figure=RECOGNISED, front=("restart", "release", "idempotence", "batches"),
)
def log_start_moved(
    run: ProducerRun,
    batches: Batches = 3,
    batch_records: BatchRecords = 5,
    restart: Annotated[Literal["no", "clean"], Knob("What happens to the broker while the answers are held back.")] = "no",
    release: Release = "4.3",
) -> None:
    """Retention deletes every record that the producer wrote. Does the broker still know the producer, and recognise a
    retry of its last batch?
    """
    producer = run.begin()
    for _ in range(batches - 1):
        run.send(producer, batch_records)
        run.settle()
    _send_unanswered(run, producer)
    run.delete_all()
    run.restart(restart)
    run.settle()
    run.send(producer, batch_records)
    run.finish()


Partitions = Annotated[int, Knob("How many partitions the topic has; one broker leads them all.", "partitions", 1, 12)]
Rounds = Annotated[int, Knob("How often the application sends a batch to each partition.", "rounds", 1, 50)]
RoundEveryMs = Annotated[int, Knob("Time from one round to the next.", "ms", 0, 1_000)]


@dataclass(slots=True)
class OneSequence(TransactionManager):
    """Numbers all partitions' batches from one count; no client does."""

    next_of_all: int = 0

    def assign(self, batch: ProducerBatch) -> None:
        entry = self.entry(batch.partition)
        entry.next_sequence = self.next_of_all
        TransactionManager.assign(self, batch)
        self.next_of_all = entry.next_sequence


class PartitionsRun(ProducerRun):
    """A producer to several partitions, with rules of its own where a knob asks for them."""

    def make_sender(self) -> Sender:
        manager_type = OneSequence if self.settings.numbered == "by producer" else None
        return Sender(producer_config(self.settings, "release"), self.partitions, self.now_ms, manager_type=manager_type)


@experiment(
    "Only this partition waits", PartitionsRun, shared=(IdempotentClientKnobs,),
    figure=HELD_UP, front=("partitions", "rounds", "numbered", "idempotence", "max_in_flight"),
)
def one_partition_waits(
    run: PartitionsRun,
    partitions: Partitions = 3,
    rounds: Rounds = 6,
    batch_records: BatchRecords = 5,
    round_every_ms: RoundEveryMs = 4,
    failing_partition: Annotated[int, Knob("The partition in which a batch fails at first.", "", 0, 11)] = 1,
    numbered: Annotated[
        Literal["by partition", "by producer"],
        Knob("Whether each partition counts its own sequence numbers, as in Kafka, or all share one count, as no client does."),
    ] = "by partition",
    delivery_timeout_ms: DeliveryTimeoutMs = 2_000,
    request_timeout_ms: RequestTimeoutMs = 1_000,
) -> None:
    """One of three partitions refuses a batch for the moment. Do the other two wait?"""
    failing = (partitions + min(failing_partition, partitions - 1)) * batch_records  # the first record of its second batch

    def fate(flight: Flight) -> str:
        return "" if flight.data["first"] != failing or flight.attempt else "refuse:NOT_LEADER_OR_FOLLOWER"

    producer = run.begin()
    run.fate = fate
    _send_rounds(run, producer, rounds, batch_records, round_every_ms)
    run.finish()


def _send_rounds(run: ProducerRun, producer: Client, rounds: int, batch_records: int, every_ms: int) -> None:
    """In each round the application sends one batch to every partition."""
    for _ in range(rounds):
        for partition in run.partitions:
            run.send(producer, batch_records, partition)
        run.run_for(every_ms)


@experiment(
    "A new id for all", PartitionsRun, shared=(ClientKnobs,),
    figure=WRONGLY_FAILED, front=("release", "partitions", "outage_ms", "delivery_timeout_ms", "round_every_ms"),
)
def new_id_for_all(
    run: PartitionsRun,
    partitions: Annotated[int, Knob("How many partitions the topic has; one broker leads them all.", "partitions", 2, 12)] = 3,
    batch_records: BatchRecords = 5,
    round_every_ms: RoundEveryMs = 25,
    outage_ms: Annotated[int, Knob("How long the broker refuses all batches of partition 1.", "ms", 0, 10_000)] = 700,
    delivery_timeout_ms: DeliveryTimeoutMs = 600,
    request_timeout_ms: RequestTimeoutMs = 200,
    delay_ms: DelayMs = 20,
    release: Release = "4.3",
) -> None:
    """Partition 1 refuses its batches until one expires and the producer starts its numbers anew. Then the connection
    breaks. What becomes of the batches that the other partitions have in flight?
    """

    def fate(flight: Flight) -> str:
        return "refuse:NOT_ENOUGH_REPLICAS" if flight.partition == 1 and run.now_ms < outage_ends_ms else ""

    producer = run.begin()
    _send_rounds(run, producer, 1, batch_records, 2 * run.settings.delay_ms)
    before, outage_ends_ms = producer.identity, run.now_ms + outage_ms
    run.fate = fate
    _send_rounds(run, producer, 2, batch_records, round_every_ms)
    while producer.identity == before and run.now_ms < outage_ends_ms + delivery_timeout_ms:
        for partition in run.partitions:
            if partition != 1:
                run.send(producer, batch_records, partition)
        run.run_for(max(1, round_every_ms), until=lambda: producer.identity != before)
    run.run_for(run.settings.delay_ms // 2)  # what was in flight is written by then, and no answer has come
    run.cut()
    _send_rounds(run, producer, 1, batch_records, round_every_ms)
    run.finish()
