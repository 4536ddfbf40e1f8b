"""librdkafka's producer: batches at a steady pace, a program that ends too early, and a leader that moves.

How many records a batch has is a matter of pace, over a line with a round trip of its own. What becomes of records that
`produce()` has taken when their program ends, and of those that it did not take, a process of its own tells. Where leaders
move there are three brokers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import TopicReader
from kitlib.experiments.real_producers import LIBRDKAFKA, Librdkafka, finish
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.experiments.send_path.real_two_sends import LibrdkafkaLog, Sign
from kitlib.lab.brokers.leaders import Leaders
from kitlib.lab.clients import client_config
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.trace import in_log_order

DEADLINE_S = 30.0
PROGRAM_DEADLINE_S = 60.0
WARM_UP = 1  # record 0 goes all the way, so that the others meet a producer at work
QUEUE_FULL = "QUEUE_FULL"  # not taken; librdkafka's name for it has a line before it
PROGRAM = "kitlib.experiments.send_path.unflushed_program"
LEADER, FOLLOWER, CONTROLLER = 2, 3, 1
DEBUG = "broker,msg,topic,metadata"
ERRORS = {"Not leader for partition": "NOT_LEADER_OR_FOLLOWER"}  # librdkafka's words for a broker's error, and the protocol's name
SIGNS = (
    Sign(0, "broker", "refuse", "REQERR", r"ProduceRequest failed: Broker: (?P<error>[^:]+):"),
    Sign(0, "network", "disconnected", "FAIL", r"Disconnected: connection closed by peer", r"/\d+$"),
    Sign(0, "metadata", "request_update", "FASTQUERY|QRYLEADER", r"Starting fast leader query|re-query"),
    Sign(0, "metadata", "leader", "BROKER", r"leader (?!-1)\d+ epoch \d+ -> leader (?P<to>\d+) epoch (?P<leader_epoch>\d+)"),
)


def linger_and_batches(run: RealSend) -> None:
    """Send, record by record; when each was handed over, when its user was told, and the batches in the topic.

    The line is the proxy's: it passes each request, and each answer, half a round trip later. While a request is
    on its way, the records that come wait, and go together. So the size of a batch is a matter of pace, round trip
    and requests in flight; `linger.ms` adds to it.
    """
    settings, topic = run.settings, run.create_topic()
    run.note("client", "version", name=LIBRDKAFKA)
    with ChaosProxy.before(run.cluster, watch=("Produce",)) as proxy:
        began_ms = run.now_ms
        half_ms = settings.round_trip_ms // 2
        for action in ("delay_request", "delay_answer") if half_ms else ():
            proxy.add(Rule(action, "Produce", ms=half_ms))
        limits = {
            "linger.ms": settings.linger_ms, "batch.size": settings.batch_size,
            "max.in.flight": settings.max_in_flight, "enable.idempotence": False, "log_level": 0,
        }  # fmt: skip
        client = Librdkafka(proxy.cluster, topic, run.told, limits)
        for record in range(WARM_UP + settings.records):
            if record == WARM_UP:
                finish(client, DEADLINE_S)
                began_s = time.monotonic()
            if record >= WARM_UP:
                client.work(max(0.0, began_s + (record - WARM_UP) / settings.rate_per_s - time.monotonic()))
            run.sent(record)
            client.send(record, b"." * (settings.record_bytes - len(str(record))))
        finish(client, DEADLINE_S)
    with TopicReader.open(run.cluster, topic) as reader:
        batches = [[int(value) for value in batch.values] for batch in reader.batches()]
    left_ms = [int(event.at_ms) + began_ms for event in proxy.events if (event.what, event.api) == ("request", "Produce")]
    if len(left_ms) != len(batches):
        raise LabError(f"run {run.trace.run}: {len(left_ms)} requests for {len(batches)} batches: one was sent again. Run it again.")
    for number, (at_ms, records) in enumerate(zip(left_ms, batches, strict=True)):
        run.note("sender", "request", at_ms=at_ms, **run.lane, batch=number, first=records[0], last=records[-1])
    run.read()


def unflushed_sends(run: RealSend) -> None:
    """The program, a process of its own, runs to its end; what it saw, and what is in the topic.

    What it had in its queue then nobody will send.
    """
    settings, topic = run.settings, run.create_topic()
    config = client_config(
        run.cluster,
        **{"linger.ms": settings.linger_ms, "batch.size": settings.batch_size, "log_level": 0,
           "queue.buffering.max.messages": settings.queue_records or settings.records},
    )  # fmt: skip
    given = {"topic": topic, "settings": config}
    given |= settings.given("records", "record_bytes", "ending", "retries_on_full", "poll_on_full")
    run.note("client", "version", name=LIBRDKAFKA)
    began_ms = run.now_ms
    try:
        ended = subprocess.run(
            [sys.executable, "-m", PROGRAM], input=json.dumps(given), capture_output=True, text=True, timeout=PROGRAM_DEADLINE_S
        )
        seen = json.loads(ended.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"run {run.trace.run}: the program that sends and exits failed to do so: {error}. Look at `kit status`.") from None
    except ValueError:
        said = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
        raise LabError(
            f"run {run.trace.run}: the program that sends and exits did not report what it saw: exit code {ended.returncode}, "
            f"it said: {said}. Look at `kit status`."
        ) from None
    refused = set(seen["refused"])
    for first, last in in_log_order(record for record in range(1 + settings.records) if record not in refused):
        run.note("user", "send", at_ms=began_ms, **run.lane, first=first, last=last)
    for first, last in in_log_order(sorted(refused)):
        run.note("user", "send", at_ms=began_ms, **run.lane, first=first, last=last)
        run.note("user", "undelivered", at_ms=began_ms, **run.lane, first=first, last=last, error=QUEUE_FULL)
    run.note("user", "exit", **run.lane, left=seen["left"], told=seen["delivered"])
    run.read()


def stale_metadata(run: RealSend) -> None:
    """Records at a steady pace; the leader moves, and nobody tells the producer.

    `metadata_max_age_ms` is librdkafka's topic.metadata.refresh.interval.ms.

    Differs: librdkafka sends again what was refused by a broker that leads no more also with retries=0, where Java's
    client, whose rules the model follows, tells the user of a failure.
    """
    run.three_brokers("stale_metadata")
    settings = run.settings
    leaders = Leaders.create(run.cluster, run.topic, [LEADER, FOLLOWER, CONTROLLER], {"retention.ms": "-1"})
    moves_at = settings.move_at_ms // max(1, settings.every_ms)
    told = {"batch.num.messages": 1, "retries": settings.retries, "retry.backoff.ms": settings.retry_backoff_ms,
            "topic.metadata.refresh.interval.ms": settings.metadata_max_age_ms}  # fmt: skip
    with _producer(run, **told) as client:
        for index in range(settings.records):
            if index == moves_at:
                finish(client, DEADLINE_S)  # what is under way may go; the next one meets a broker that leads no more
                leader = leaders.move([FOLLOWER, LEADER, CONTROLLER]).leader
                run.note("broker", "move_leader", to=leader)
            _send(run, client, 1 + index, settings.every_ms)
        finish(client, DEADLINE_S)
    run.read()


def _send(run: RealSend, client: Librdkafka, record: int, for_ms: int | None = None) -> None:
    """Send one record and go on for so long; without a time until its user was told of it and of all before it."""
    run.sent(record)
    client.send(record)
    if for_ms is None:
        finish(client, DEADLINE_S)
    else:
        client.work(for_ms / 1000)


@contextmanager
def _producer(run: RealSend, **settings: object) -> Iterator[Librdkafka]:
    """A client whose log becomes steps of the run: what was refused, when it asked anew, which leader it learned of.

    Its first record has gone all the way, so that what follows meets a producer at work.
    """
    run.note("client", "version", name=LIBRDKAFKA)
    log = LibrdkafkaLog(lambda: run.now_ms)
    more = {"linger.ms": 0, "debug": DEBUG, "log_level": 7, "enable.metrics.push": False} | settings
    client = Librdkafka(run.cluster, run.topic, run.told, more, log.logger)
    try:
        _send(run, client, 0)
        yield client
    finally:
        client.close()
        for line in log.lines:
            for sign in SIGNS:
                if (told := sign.found_in(line)) is not None:
                    data = {name: int(text) if text.isdigit() else ERRORS.get(text, text) for name, text in told.items()}
                    run.note(sign.actor, sign.what, at_ms=line.at_ms, **data)
