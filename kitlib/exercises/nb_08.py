"""The exercises of notebook 08: a client's numbers, copies in a topic, a kill without duplicates, settings, and the broker's check."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, knobs_for, told, whole_number
from kitlib.exercises.nb_09 import stored_in
from kitlib.exercises.recorded_producer import check_own_check
from kitlib.experiments import run
from kitlib.kafka.broker.leader import BrokerConfig, Leader
from kitlib.kafka.protocol import MAX_SEQUENCE, Batch, ErrorCode, ProduceRequest, increment_sequence
from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.monitor.delivery import judge
from kitlib.text import plain_text
from kitlib.views import show

FIRST_SEQUENCE, BATCHES = 2**31 - 8, (3, 1, 4, 1, 5)  # what the first exercise's client has sent: records a batch
PRODUCER_ID = 1_000

SITUATIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # of how_many_copies: experiment and knobs
    ("an answer is lost, and the client sends the batch again", "producer_id_expired", {"expires": False}),
    ("answers are lost until the user hears of a time-out, and the application sends the records again", "batch_expires",
     {"lost": "answer", "again": True}),
    ("requests are lost until the user hears of a time-out, and the application sends the records again", "batch_expires",
     {"lost": "request", "again": True}),
    ("an answer is lost, and the broker forgets the producer before the client sends the batch again", "producer_id_expired",
     {"expires": True}),
)  # fmt: skip
SWITCH = "enable.idempotence"
KILL_KNOBS = ("max_in_flight", "retries", "delivery_timeout_ms", "idempotence")


# -- sixth_batch ---------------------------------------------------------------------------------------


def check_sixth_batch(answer: Any) -> str:
    """A leader that has the five batches says whether it takes the sixth."""
    sequence = whole_number(answer)
    if not 0 <= sequence <= MAX_SEQUENCE:
        raise NotYet(f"there is no sequence {sequence:,}: the one after {MAX_SEQUENCE:,} is 0.", "")
    leader, expected = Leader(BrokerConfig()), FIRST_SEQUENCE
    for number, count in enumerate(BATCHES):
        _produced(leader, number, count, expected)
        expected = increment_sequence(expected, count)
    error, offset = _produced(leader, len(BATCHES), 1, sequence)
    if sequence == increment_sequence(FIRST_SEQUENCE, len(BATCHES)):
        raise NotYet(f"the broker answers {error.name}: {sequence:,} counts batches.", "What does a sequence number count?")
    if sequence == increment_sequence(expected, -1):
        raise NotYet(f"the broker answers {error.name}: the fifth batch's last record has {sequence:,}.", "The next one is asked for.")
    if error is not ErrorCode.NONE or offset != sum(BATCHES):
        raise NotYet(f"to a sixth batch that begins with {sequence:,} the broker answers {error.name}.")
    return f"the broker writes it at offset {offset}: {sum(BATCHES)} records after {FIRST_SEQUENCE:,}, past the end of the numbers."


def _produced(leader: Leader, number: int, count: int, sequence: int) -> tuple[ErrorCode, int]:
    batch = Batch(0, count, PRODUCER_ID, 0, sequence)
    answer = leader.produce(ProduceRequest(number, (batch,)), 0)[0]
    return answer.error, answer.base_offset


# -- how_many_copies -----------------------------------------------------------------------------------


def check_how_many_copies(answer: Any) -> str:
    """How often the record in question is in the topic after each situation, from runs."""
    if not isinstance(answer, list | tuple) or len(answer) != len(SITUATIONS):
        raise NotYet(f"the answer should be {len(SITUATIONS)} numbers, like [1, 1, 1, 1], this is {told(answer)}.", "")
    guesses = [whole_number(each, "each number") for each in answer]
    for number, (guess, (what, experiment, knobs)) in enumerate(zip(guesses, SITUATIONS, strict=True), 1):
        trace = run(experiment, **knobs)
        copies = max(stored_in(trace).values())
        if guess != copies:
            raise NotYet(
                f"in situation {number} ({what}) it is not {guess}.",
                "Who sends again: the client, with the numbers that the batch had, or somebody who does not know them? "
                "And does the broker still know them?",
                show(trace),
            )
    return (
        "the numbers protect what the client itself sends again while the broker remembers them. A new send has new numbers, "
        "whatever is in it, and a broker that has forgotten them takes any."
    )


# -- safe_kill -----------------------------------------------------------------------------------------


def check_safe_kill(answer: Any) -> str:
    """Every record once, and the user told so, although the broker is killed: the experiment tells."""
    knobs = knobs_for("broker_restart", answer, KILL_KNOBS)
    trace = run("broker_restart", restart="kill", **knobs)
    turned = ", ".join(f"{name}={value}" for name, value in knobs.items()) or "the defaults"
    verdict = judge(trace)
    wrong = [f"{count} {kind}" for kind, count in verdict.counts.items() if count]
    if wrong:
        raise NotYet(
            f"with {turned} the verdict is: {verdict.sentence}",
            "How many batches does a broker know again after a restart?",
            show(trace),
        )
    return f"with {turned}: {verdict.sentence} The one batch that was on its way is the one that the broker remembers."


# -- quiet_switch --------------------------------------------------------------------------------------


def check_quiet_switch(answer: Any) -> str:
    """One setting with which Java's own client starts and is not idempotent: the client is asked."""
    if not isinstance(answer, dict) or len(answer) != 1:
        raise NotYet(f"the answer should be a dict with one setting, like {{'linger.ms': 5}}, this is {told(answer)}.", "")
    [(name, value)] = answer.items()
    if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
        raise NotYet(f"a setting should be a name and its value, this is {told(answer)}.", "")
    setting = f"{plain_text(name, 60)}={plain_text(value, 40)}"
    if name == SWITCH:
        raise NotYet(f"{setting} says so aloud.", "Which other setting cannot go together with it?")
    settings, refusal = {}, ""
    with JavaClient.open() as java:
        version = java.version
        try:
            settings = java.producer_settings(answer)
        except RefusedSettings as refused:
            refusal = str(refused)
    if refusal:
        raise NotYet(f"with {setting} the client does not start: {plain_text(refusal, 200)}")
    if name not in settings:
        raise NotYet(f"the client has no setting {plain_text(name, 60)}.", "They are written with dots: `linger.ms`.")
    if settings[SWITCH] != "false":
        raise NotYet(f"with {setting} the client starts, and {SWITCH} is {settings[SWITCH]}.")
    return (
        f"with {setting} the Java client {version} starts without a word, and {SWITCH} is false. Whoever relies on idempotence says "
        f"{SWITCH}=true: then the client refuses to start instead."
    )


EXERCISES = (
    Exercise(
        "sixth_batch",
        f"A client has sent batches of {', '.join(map(str, BATCHES[:-1]))} and {BATCHES[-1]} records. Its first record had the "
        f"sequence {FIRST_SEQUENCE:,}. With which sequence does its sixth batch begin?",
        check_sixth_batch,
        (
            "A sequence number counts records, and a batch carries that of its first one.",
            f"The sequence after {MAX_SEQUENCE:,} is 0.",
        ),
    ),
    Exercise(
        "how_many_copies",
        "Idempotence is on. How often is the record in the topic, at the end of each?\n\n"
        + "\n".join(f"{number}. {what[0].upper()}{what[1:]}." for number, (what, _, _) in enumerate(SITUATIONS, 1))
        + "\n\nAnswer with a list of four numbers.",
        check_how_many_copies,
        (
            "Is it the client that sends again, or the application? Only the client knows the numbers.",
            "`producer_id_expired` and `batch_expires` have a knob for each of the four.",
        ),
    ),
    Exercise(
        "safe_kill",
        "The broker is killed while answers are held back, and every record must be stored once and the user be told so. Turn one "
        "knob of `broker_restart`. You may turn `max_in_flight`, `retries`, `delivery_timeout_ms` and `idempotence`.",
        check_safe_kill,
        (
            "What does a broker remember of a producer after a restart?",
            "How many batches may be without an answer, so that all of them are known again?",
        ),
    ),
    Exercise(
        "quiet_switch",
        f"Find one setting, and not `{SWITCH}` itself, with which Java's producer starts and is not idempotent.",
        check_quiet_switch,
        (
            "Which settings does an idempotent producer refuse when you ask for it by name? Try each of them without its name.",
            "Two of the three refused ones switch it off in silence, the third is refused even then.",
        ),
    ),
    Exercise(
        "own_check_sequence",
        "Write `check_sequence(entry, epoch, seq, count)`: what a broker does with a batch of `count` records from sequence `seq` on. "
        "`entry` is what it remembers of the producer, or None: `entry.epoch`, `entry.last_seq`, and `entry.batches`, each with "
        "`first_seq` and `last_seq`. Return `\"append\"`, `\"duplicate\"`, `\"out of order\"` or `\"old epoch\"`.",
        check_own_check,
        (
            "Four questions in this order: is the producer known, is the epoch old or new, is the batch known, is it the next one?",
            "A duplicate has the first *and* the last sequence of a remembered batch. Sequences go round at 2^31.",
            "`finding.picture` shows what the broker remembered when the first differing batch came.",
        ),
    ),
)
