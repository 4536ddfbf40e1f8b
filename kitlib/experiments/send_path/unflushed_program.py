"""A program that hands records to librdkafka and ends, in one of several ways. Run as a process of its own.

    python -m kitlib.experiments.send_path.unflushed_program < settings.json

What it is to do comes as JSON on its input, what it saw goes as JSON to its output: how many records were
taken, which were refused because the queue was full, and how many the client still had when it ended.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Producer

DEADLINE_S = 30.0


def run(
    topic: str, records: int, record_bytes: int, ending: str, retries_on_full: int, poll_on_full: bool, settings: dict[str, Any]
) -> dict[str, Any]:
    """Hand the records over, numbered from 1 after one that goes all the way, end as `ending` says, and tell."""
    refused: list[int] = []
    delivered = 0

    def told(error: object, _: object) -> None:
        nonlocal delivered
        delivered += error is None

    def hand_over(record: int) -> bool:
        value = b"%d" % record  # the number alone, as the audit reads it; the key makes up the size
        deadline, attempts = time.monotonic() + DEADLINE_S, 0
        while True:
            try:
                producer.produce(topic, value=value, key=b"." * (record_bytes - len(value)), partition=0, on_delivery=told)
                return True
            except BufferError:
                attempts += 1
                if time.monotonic() > deadline or (not poll_on_full and attempts > retries_on_full):
                    return False
                if poll_on_full:
                    producer.poll(0.01)

    producer = Producer(settings)
    hand_over(0)
    producer.flush(DEADLINE_S)
    for record in range(1, 1 + records):
        if not hand_over(record):
            refused.append(record)
    if ending == "flush":
        producer.flush(DEADLINE_S)
    left = len(producer)
    if ending == "close":
        producer.close()
        left = 0
    return {"refused": refused, "delivered": delivered, "left": left}


if __name__ == "__main__":
    print(json.dumps(run(**json.load(sys.stdin))), flush=True)
