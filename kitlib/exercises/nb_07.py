"""The exercises of notebook 07: a client's numbers, copies in a topic, a kill without duplicates, settings, and the broker's check."""

from __future__ import annotations

from functools import partial
from typing import Any

from kitlib.exercises.answers import expected, whole_number
from kitlib.exercises.door import Recorded
from kitlib.exercises.frame import Each, Given, Knobs, Miss, Right, Rows, Turned, Unlike, exercise
from kitlib.exercises.nb_08 import stored_in
from kitlib.exercises.your_log import CHECK
from kitlib.experiments import run
from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.mechanisms.broker.leader import BrokerConfig, Leader
from kitlib.mechanisms.protocol import MAX_SEQUENCE, Batch, ErrorCode, ProduceRequest, increment_sequence
from kitlib.text import plain_text
from kitlib.views import show

FIRST_SEQUENCE, BATCHES = 2**31 - 8, (3, 1, 4, 1, 5)  # what the first exercise's client has sent: records a batch
PRODUCER_ID = 1_000
SITUATIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # of how_many_copies: experiment and knobs
    ("an answer is lost, and the client sends the batch again", "producer_id_expired", {"expires": False}),
    ("answers are lost until the user hears of a timeout, and the application sends the records again", "batch_expires",
     {"lost": "answer", "again": True}),
    ("requests are lost until the user hears of a timeout, and the application sends the records again", "batch_expires",
     {"lost": "request", "again": True}),
    ("an answer is lost, and the broker forgets the producer before the client sends the batch again", "producer_id_expired",
     {"expires": True}),
)  # fmt: skip
SWITCH = "enable.idempotence"


def produced(leader: Leader, number: int, count: int, sequence: int) -> tuple[ErrorCode, int]:
    """What a leader answers to a batch."""
    answer = leader.produce(ProduceRequest(number, (Batch(0, count, PRODUCER_ID, 0, sequence),)), 0)[0]
    return answer.error, answer.base_offset


@exercise(Given(whole_number))
def sixth_batch(sequence: int) -> Rows:
    yield not 0 <= sequence <= MAX_SEQUENCE and Miss("no sequence", sequence=sequence, max_sequence=MAX_SEQUENCE, look="")
    leader, next_one = Leader(BrokerConfig()), FIRST_SEQUENCE
    for number, count in enumerate(BATCHES):
        produced(leader, number, count, next_one)
        next_one = increment_sequence(next_one, count)
    error, offset = produced(leader, len(BATCHES), 1, sequence)
    yield sequence == increment_sequence(FIRST_SEQUENCE, len(BATCHES)) and Miss("counts batches", error=error, sequence=sequence)
    yield sequence == increment_sequence(next_one, -1) and Miss("last record", error=error, sequence=sequence)
    yield (error is not ErrorCode.NONE or offset != sum(BATCHES)) and Miss("refused", sequence=sequence, error=error)
    yield Right(offset=sum(BATCHES), first_sequence=FIRST_SEQUENCE)


@exercise(Each(tuple(what for what, _, _ in SITUATIONS), whole_number, noun="numbers"))
def how_many_copies(guess: int, place: int) -> Rows:
    _, experiment, knobs = SITUATIONS[place]
    trace = run(experiment, **knobs)
    yield guess != max(stored_in(trace).values()) and Unlike(name="not right", picture=partial(show, trace))


@exercise(Knobs(
    "broker_restart", only=("max_in_flight", "retries", "delivery_timeout_ms", "idempotence"),
    story={"restart": "kill"},
))
def safe_kill(turned: Turned) -> Rows:
    verdict = turned.verdict
    yield any(verdict.counts.values()) and Miss("verdict", turned=turned, verdict=verdict, picture=show(turned.trace))
    yield Right(turned=turned, verdict=verdict)


def one_setting(answer: Any, what: str = "the answer") -> tuple[str, Any]:
    """A setting of Kafka's and its value, from a dict with nothing else in it."""
    if not isinstance(answer, dict) or len(answer) != 1:
        raise expected(what, "a dict with one setting, like {'linger.ms': 5}", answer)
    [(name, value)] = answer.items()
    if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
        raise expected("a setting", "a name and its value", answer)
    return name, value


@exercise(Given(one_setting))
def quiet_switch(given: tuple[str, Any]) -> Rows:
    name, value = given
    setting = f"{plain_text(name, 60)}={plain_text(value, 40)}"
    yield name == SWITCH and Miss("openly", setting=setting)
    settings, refusal = {}, ""
    with JavaClient.open() as java:
        version = java.version
        try:
            settings = java.producer_settings({name: value})
        except RefusedSettings as refused:
            refusal = str(refused)
    yield refusal and Miss("no start", setting=setting, refusal=plain_text(refusal, 200))
    yield name not in settings and Miss("no setting", name=plain_text(name, 60))
    yield settings[SWITCH] != "false" and Miss("still on", setting=setting, switch=SWITCH, now=settings[SWITCH])
    yield Right(setting=setting, version=version, switch=SWITCH)


def a_plain_function(answer: Any) -> Any:
    """A function and no class; NotYet otherwise."""
    if not callable(answer) or isinstance(answer, type):
        raise expected("the answer", "your function", answer, "Give its name without parentheses.")
    return answer


@exercise(Recorded(CHECK, a_plain_function))
def own_check_sequence(answer: Any) -> Rows:
    yield None  # every near miss is a recorded step
