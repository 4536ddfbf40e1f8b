"""How many records a batch has: librdkafka is handed records at a steady pace, over a line with a round trip of its own.

The line is the proxy's: it passes each request, and each answer, half a round trip later. While a request is
on its way, the records that come wait, and go together. So the size of a batch is a matter of pace, round trip
and requests in flight; `linger.ms` adds to it.
"""

from __future__ import annotations

import time

import confluent_kafka
from confluent_kafka import KafkaError, Message, Producer

from kitlib.errors import LabError
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.experiments.topic_reader import PARTITION, TopicReader
from kitlib.lab.chaos_proxy import ChaosProxy, Rule
from kitlib.lab.clients import SILENT, client_config

DEADLINE_S = 20.0
WARM_UP = 1  # record 0 goes all the way, so that the others meet a producer at work


def linger_and_batches(run: RealSend) -> None:
    """Send, record by record; when each was handed over, when its user was told, and the batches in the topic."""
    knobs, topic = run.knobs, run.create_topic()
    run.note("client", "version", name=f"librdkafka {confluent_kafka.libversion()[0]}")
    told: list[tuple[int, int, str, int]] = []  # (ms, record, error, offset)

    def note(error: KafkaError | None, message: Message) -> None:
        record = int(message.value() or b"-1")
        told.append((run.now_ms, record, error.name() if error else "", int(message.offset() or 0)))

    with ChaosProxy.before(run.cluster, watch=("Produce",)) as proxy:
        began_ms = run.now_ms
        half_ms = knobs["round_trip_ms"] // 2
        for action in ("delay_request", "delay_answer") if half_ms else ():
            proxy.add(Rule(action, "Produce", ms=half_ms))
        settings = {
            "bootstrap.servers": proxy.bootstrap, "linger.ms": knobs["linger_ms"], "batch.size": knobs["batch_size"],
            "max.in.flight": knobs["max_in_flight"], "enable.idempotence": False, "log_level": 0,
        }  # fmt: skip
        producer = Producer(client_config(run.cluster, **settings), logger=SILENT)
        values = [b"%d" % record for record in range(WARM_UP + knobs["records"])]
        for record, value in enumerate(values):
            if record == WARM_UP:
                producer.flush(DEADLINE_S)
                began_s = time.monotonic()
            while record >= WARM_UP and (left_s := began_s + (record - WARM_UP) / knobs["rate_per_s"] - time.monotonic()) > 0:
                producer.poll(min(left_s, 0.005))
            run.sent(record)
            producer.produce(topic, value=value, key=b"." * (knobs["record_bytes"] - len(value)), partition=PARTITION, on_delivery=note)
            producer.poll(0)
        left = producer.flush(DEADLINE_S)
    if left:
        raise LabError(f"run {run.trace.run}: {left} records were not stored within {DEADLINE_S:g} s. Look at `kit status`.")
    for at_ms, record, error, offset in told:
        run.told(record, offset, error, at_ms)
    with TopicReader.open(run.cluster, topic) as reader:
        batches = [[int(value) for value in batch.values] for batch in reader.batches()]
    left_ms = [int(event.at_ms) + began_ms for event in proxy.events if (event.what, event.api) == ("request", "Produce")]
    if len(left_ms) != len(batches):
        raise LabError(f"run {run.trace.run}: {len(left_ms)} requests for {len(batches)} batches: one was sent again. Run it again.")
    for number, (at_ms, records) in enumerate(zip(left_ms, batches, strict=True)):
        run.note("sender", "request", at_ms=at_ms, **run.lane, batch=number, first=records[0], last=records[-1])
    run.read()
