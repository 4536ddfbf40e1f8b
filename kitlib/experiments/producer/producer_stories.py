"""The idempotent producer's experiments: lost answers, retries, a forgetful broker, order.

Every story begins with an empty topic of one partition and a producer that has just got its id. The
user hands over records; the network or the broker does something unkind; the run ends once the user
was told of every record, and with a look at what the topic holds.
"""

from __future__ import annotations

from dataclasses import replace

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.producer.producer_client import Client, Flight
from kitlib.experiments.producer.producer_knobs import (
    ACKS,
    DELIVERY_TIMEOUT_MS,
    LINGER_MS,
    MAX_IN_FLIGHT,
    RECORDS,
    REQUEST_TIMEOUT_MS,
    RETRIES,
)
from kitlib.experiments.producer.producer_run import ProducerRun
from kitlib.kafka.protocol import InitProducerIdAnswer

IDEMPOTENCE = Knob(
    "idempotence", "bool", True, "Gives each batch a producer id, an epoch and sequence numbers.", live=False
)
SEND_EVERY_MS = Knob("send_every_ms", "int", 1, "How often the user sends a record.", "ms", 0, 1_000, live=False)
BATCHES = Knob("batches", "int", 8, "How many batches the user hands over.", "batches", 1, 200, live=False)
BATCH_RECORDS = Knob("batch_records", "int", 5, "How many records each of them has.", "records", 1, 100, live=False)
DELAY_MS = Knob("delay_ms", "int", 5, "How long a request or an answer is on its way.", "ms", 0, 5_000)
REMEMBERED_BATCHES = Knob(
    "remembered_batches", "int", 5, "How many batches of a producer the broker knows again; a real one 5.", "batches", 1, 20,
    live=False,
)  # fmt: skip
OLDER_IS_DUPLICATE = Knob(
    "older_is_duplicate", "bool", False, "Takes any batch below the expected sequence for a duplicate; no real broker does.",
    live=False,
)  # fmt: skip
LOST_ANSWERS = Knob(
    "lost_answers",
    "int",
    5,
    "How many answers are held back before the connection is cut.",
    "answers",
    0,
    20,
    live=False,
)
LOSS_PERCENT = Knob(
    "answer_loss_percent",
    "int",
    0,
    "How many of a hundred answers are lost by chance, with their connection.",
    "%",
    0,
    50,
)
RELEASE = Knob(
    "release", "choice", "4.3", "Whose rules the client and the broker follow.", choices=("4.3", "2.0"), live=False
)

_SENDER = (IDEMPOTENCE, MAX_IN_FLIGHT, RETRIES, DELIVERY_TIMEOUT_MS)
_BROKER = (REMEMBERED_BATCHES, OLDER_IS_DUPLICATE)


def _tell_answers_lost(run: ProducerRun) -> None:
    knobs = run.knobs

    def fate(flight: Flight) -> str:
        luck = run.luck(flight.data["batch"], flight.attempt)
        return "lose_answer" if luck * 100 < knobs["answer_loss_percent"] else ""

    producer = run.begin()
    run.fate = fate
    run.send_records(producer, knobs["records"], knobs["send_every_ms"])
    run.run_for(1_000, until=lambda: producer.delivered > 0)
    run.withhold(knobs["lost_answers"])
    run.finish()


answers_lost = Experiment(
    "answers_lost",
    "The answer that never came",
    "The broker has written five batches, and their answers are lost. The producer sends them again. How often are they stored?",
    (
        replace(RECORDS, default=60),
        SEND_EVERY_MS,
        LINGER_MS,
        *_SENDER,
        ACKS,
        LOST_ANSWERS,
        LOSS_PERCENT,
        replace(DELAY_MS, default=15),
        *_BROKER,
        MAX_STEPS,
    ),
    _tell_answers_lost,
    ProducerRun,
)


def _tell_six_in_flight(run: ProducerRun) -> None:
    knobs = run.knobs
    producer = run.begin()
    run.withhold(min(knobs["batches"], knobs["max_in_flight"]))
    run.send_batches(producer, knobs["batches"], knobs["batch_records"])
    run.finish()


six_in_flight = Experiment(
    "six_in_flight",
    "Why five",
    "Six batches are written and no answer comes back. The broker remembers five. What does it say to the first one's retry?",
    (
        replace(BATCHES, default=6), BATCH_RECORDS, IDEMPOTENCE, replace(MAX_IN_FLIGHT, default=6), *_SENDER[2:],
        DELAY_MS, *_BROKER, MAX_STEPS,
    ),
    _tell_six_in_flight,
    ProducerRun,
)  # fmt: skip


def _tell_reordering_by_retry(run: ProducerRun) -> None:
    knobs = run.knobs

    def fate(flight: Flight) -> str:
        if flight.data["batch"] != knobs["failing_batch"] or flight.attempt:
            return ""
        return "lose_request" if knobs["fault"] == "request lost" else "refuse:NOT_LEADER_OR_FOLLOWER"

    producer = run.begin()
    run.fate = fate
    run.send_batches(producer, knobs["batches"], knobs["batch_records"])
    run.finish()


FAILING_BATCH = Knob("failing_batch", "int", 1, "The batch whose first attempt fails.", "", 0, 200, live=False)
FAULT = Knob(
    "fault", "choice", "refused", "How it fails: the broker refuses it for now, or the request is lost on its way.",
    choices=("refused", "request lost"), live=False,
)  # fmt: skip

reordering_by_retry = Experiment(
    "reordering_by_retry",
    "A retry comes late",
    "The second of five batches fails at first and is sent again. In which order do the five lie in the log?",
    (
        replace(BATCHES, default=5), BATCH_RECORDS, FAILING_BATCH, FAULT, replace(IDEMPOTENCE, default=False), *_SENDER[1:],
        replace(REQUEST_TIMEOUT_MS, default=1_000), DELAY_MS, MAX_STEPS,
    ),
    _tell_reordering_by_retry,
    ProducerRun,
)  # fmt: skip


def _tell_broker_restart(run: ProducerRun) -> None:
    knobs = run.knobs
    producer = run.begin()
    withheld = min(knobs["batches"], knobs["max_in_flight"])
    run.withhold(withheld)
    run.send_batches(producer, knobs["batches"], knobs["batch_records"])
    run.run_for(1_000, until=lambda: len(run.withheld) >= withheld)
    if knobs["restart"] == "fail over":
        run.fail_over()
    elif knobs["restart"] != "no":
        run.restart(knobs["restart"])
    run.finish()


RESTART = Knob(
    "restart", "choice", "kill", "What happens to the broker while the answers are held back.",
    choices=("no", "clean", "kill", "fail over"), live=False,
)  # fmt: skip

broker_restart = Experiment(
    "broker_restart",
    "What a broker forgets",
    "Five batches are written, their answers are held back, and the broker is restarted. What does it remember of the five?",
    (
        replace(BATCHES, default=5), BATCH_RECORDS, RESTART, IDEMPOTENCE, MAX_IN_FLIGHT, *_SENDER[2:], DELAY_MS,
        *_BROKER, MAX_STEPS,
    ),
    _tell_broker_restart,
    ProducerRun,
)  # fmt: skip


def _tell_batch_expires(run: ProducerRun) -> None:
    knobs = run.knobs
    producer = run.begin()
    run.send(producer, knobs["batch_records"])
    run.settle()
    outage_ends_ms = run.now_ms + knobs["outage_ms"]

    def fate(flight: Flight) -> str:
        if run.now_ms >= outage_ends_ms:
            return ""
        return "swallow_answer" if knobs["lost"] == "answer" else "lose_request"

    run.fate = fate
    run.send(producer, knobs["batch_records"])
    doomed = producer.last_sent
    run.run_for(knobs["outage_ms"] // 2)
    run.send(producer, knobs["batch_records"])
    run.run_for(10 * knobs["outage_ms"], until=lambda: run.now_ms >= outage_ends_ms and run.is_settled())
    if knobs["again"] and producer.failed.issuperset(doomed):
        run.send_again(producer, doomed)
    run.send(producer, knobs["batch_records"])
    run.finish()


LOST = Knob(
    "lost", "choice", "answer", "What does not get through during the outage: the requests, or their answers alone.",
    choices=("answer", "request"), live=False,
)  # fmt: skip
OUTAGE_MS = Knob("outage_ms", "int", 1_500, "For how long nothing gets through.", "ms", 0, 60_000, live=False)
AGAIN = Knob("again", "bool", False, "The application sends again what it was told has failed.", live=False)

batch_expires = Experiment(
    "batch_expires",
    "The time-out that says nothing",
    "No answer comes until delivery_timeout_ms has passed, and the user is told: failed. Is the record in the log?",
    (
        BATCH_RECORDS, LOST, OUTAGE_MS, AGAIN, IDEMPOTENCE, MAX_IN_FLIGHT, RETRIES,
        replace(DELIVERY_TIMEOUT_MS, default=1_000), replace(REQUEST_TIMEOUT_MS, default=300), RELEASE, DELAY_MS, MAX_STEPS,
    ),
    _tell_batch_expires,
    ProducerRun,
)  # fmt: skip


def _tell_two_producers_one_id(run: ProducerRun) -> None:
    knobs = run.knobs
    first = run.begin()
    for _ in range(2):
        run.send(first, knobs["batch_records"])
    run.settle()
    producer_id, epoch = first.identity
    shared = InitProducerIdAnswer(producer_id=producer_id, producer_epoch=epoch + (knobs["second_epoch"] == "next"))
    second = run.add_producer(shared)
    for producer in (second, first, second):
        run.send(producer, knobs["batch_records"])
        run.finish()


SECOND_EPOCH = Knob(
    "second_epoch", "choice", "next", "With which epoch the second producer begins: the one after the first's, or the same.",
    choices=("next", "same"), live=False,
)  # fmt: skip

two_producers_one_id = Experiment(
    "two_producers_one_id",
    "Two producers, one id",
    "A second producer begins with the id of the first one. Whose batches does the broker take?",
    (
        BATCH_RECORDS,
        SECOND_EPOCH,
        MAX_IN_FLIGHT,
        RETRIES,
        replace(DELIVERY_TIMEOUT_MS, default=5_000),
        DELAY_MS,
        MAX_STEPS,
    ),
    _tell_two_producers_one_id,
    ProducerRun,
)


def _send_unanswered(run: ProducerRun, producer: Client) -> None:
    """One more batch, which is written, and its answer held back."""
    run.withhold(1)
    run.send(producer, run.knobs["batch_records"])
    run.run_for(1_000, until=lambda: bool(run.withheld))


def _tell_producer_id_expired(run: ProducerRun) -> None:
    knobs = run.knobs
    producer = run.begin()
    run.send(producer, knobs["batch_records"])
    run.settle()
    _send_unanswered(run, producer)
    if knobs["expires"]:
        run.expire(producer)
    run.settle()
    run.send(producer, knobs["batch_records"])
    run.finish()


EXPIRES = Knob(
    "expires", "bool", True, "The broker forgets the idle producer before the retry comes (producer.id.expiration.ms).",
    live=False,
)  # fmt: skip

producer_id_expired = Experiment(
    "producer_id_expired",
    "A producer that nobody knows",
    "A batch is written and its answer lost. Before the retry comes, the broker forgets the producer. What does it do with the retry?",
    (BATCH_RECORDS, EXPIRES, *_SENDER, RELEASE, DELAY_MS, *_BROKER, MAX_STEPS),
    _tell_producer_id_expired,
    ProducerRun,
)


def _tell_log_start_moved(run: ProducerRun) -> None:
    knobs = run.knobs
    producer = run.begin()
    for _ in range(knobs["batches"] - 1):
        run.send(producer, knobs["batch_records"])
        run.settle()
    _send_unanswered(run, producer)
    run.delete_before(run.end)
    if knobs["restart"] != "no":
        run.restart(knobs["restart"])
    run.settle()
    run.send(producer, knobs["batch_records"])
    run.finish()


log_start_moved = Experiment(
    "log_start_moved",
    "The records are gone, the memory is not",
    "Retention takes every record that the producer wrote. Does the broker still know the producer, and a retry of its last batch?",
    (
        replace(BATCHES, default=3, low=1), BATCH_RECORDS, replace(RESTART, default="no", choices=("no", "clean")),
        *_SENDER, RELEASE, DELAY_MS, *_BROKER, MAX_STEPS,
    ),
    _tell_log_start_moved,
    ProducerRun,
)  # fmt: skip
