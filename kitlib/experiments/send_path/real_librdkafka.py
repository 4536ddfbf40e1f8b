"""librdkafka's producer: how many records a batch has, at a steady pace over a line with a round trip of its own; and what
becomes of records that `produce()` has taken when their program ends, and of those that it did not take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from kitlib.errors import LabError
from kitlib.experiments.real_producers import LIBRDKAFKA, Librdkafka, finish
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.experiments.topic_reader import TopicReader
from kitlib.lab.clients import client_config
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.trace import in_log_order

DEADLINE_S = 20.0
PROGRAM_DEADLINE_S = 60.0
WARM_UP = 1  # record 0 goes all the way, so that the others meet a producer at work
QUEUE_FULL = "QUEUE_FULL"  # not taken; librdkafka's name for it has a line before it
PROGRAM = "kitlib.experiments.send_path.unflushed_program"


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
