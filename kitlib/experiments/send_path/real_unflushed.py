"""What becomes of records that `produce()` has taken when their program ends, and of those that it did not take.

librdkafka, in a process of its own, which really ends. What it had in its queue then nobody will send.
"""

from __future__ import annotations

import json
import subprocess
import sys

import confluent_kafka

from kitlib.errors import LabError
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.lab.clients import client_config
from kitlib.trace import in_log_order

DEADLINE_S = 60.0
QUEUE_FULL = "QUEUE_FULL"  # not taken; librdkafka's name for it has a line before it
PROGRAM = "kitlib.experiments.send_path.unflushed_program"


def unflushed_sends(run: RealSend) -> None:
    """The program runs to its end; what it saw, and what is in the topic."""
    knobs, topic = run.knobs, run.create_topic()
    settings = client_config(
        run.cluster,
        **{"linger.ms": knobs["linger_ms"], "batch.size": knobs["batch_size"], "log_level": 0,
           "queue.buffering.max.messages": knobs["queue_records"] or knobs["records"]},
    )  # fmt: skip
    given = {"topic": topic, "settings": settings} | {
        name: knobs[name] for name in ("records", "record_bytes", "ending", "retries_on_full", "poll_on_full")
    }
    run.note("client", "version", name=f"librdkafka {confluent_kafka.libversion()[0]}")
    began_ms = run.now_ms
    try:
        ended = subprocess.run(
            [sys.executable, "-m", PROGRAM], input=json.dumps(given), capture_output=True, text=True, timeout=DEADLINE_S
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
    for first, last in in_log_order(record for record in range(1 + knobs["records"]) if record not in refused):
        run.note("user", "send", at_ms=began_ms, **run.lane, first=first, last=last)
    for first, last in in_log_order(sorted(refused)):
        run.note("user", "send", at_ms=began_ms, **run.lane, first=first, last=last)
        run.note("user", "undelivered", at_ms=began_ms, **run.lane, first=first, last=last, error=QUEUE_FULL)
    run.note("user", "exit", **run.lane, left=seen["left"], told=seen["delivered"])
    run.read()
