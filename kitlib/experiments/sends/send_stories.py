"""The send path's experiments: from the call of `send` to the answer, and everything in between that can hold it up.

The source retells two sends from a log, the first of which has to wait for metadata. The other stories
ask what people ask: why does `send` block, when is a batch given up, how many records share a batch,
what is lost when the process ends, and whose copies `acks=all` waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Fork
from kitlib.experiments.sends.send_cluster import SendCluster
from kitlib.experiments.sends.send_knobs import (
    BATCH_SIZE,
    BUFFER_MEMORY,
    DELIVERY_TIMEOUT_MS,
    JITTER,
    LINGER_MS,
    MAX_BLOCK_MS,
    METADATA_MAX_AGE_MS,
    RECORD_BYTES,
    RECORDS,
    RELEASE,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    ROUND_TRIP_MS,
    send_config,
)
from kitlib.experiments.sends.send_run import SendRun
from kitlib.experiments.stage import Stage
from kitlib.trace import Trace

TOPIC = "events"


def send_run(trace: Trace, stage: Stage, knobs: dict[str, Any], fork: Fork | None) -> Any:
    """The kind of these experiments: the model in virtual time, or real clients that are watched."""
    if stage.backend == "kafka":
        from kitlib.experiments.kafka_stage import KafkaStage
        from kitlib.experiments.sends.real_send import RealSend

        return RealSend(trace, cast("KafkaStage", stage), knobs, fork)
    return SendRun(trace, stage, knobs, fork)


def on_either(name: str, story: Callable[[SendRun], None]) -> Callable[[Any], None]:
    """A story that is told to the model, and of which a real run observes the real one."""

    def tell(run: Any) -> None:
        if run.is_real:
            run.observe(name)
        else:
            story(run)

    return tell


def _time(name: str, default: int, what: str) -> Knob:
    return Knob(name, "int", default, f"{what} Model only.", "ms", 0, 5_000, live=False)


WAIT_MS = Knob("wait_ms", "int", 10_000, "How long the user waits before the first send.", "ms", 0, 60_000, live=False)
PAUSE_MS = Knob("pause_ms", "int", 1_000, "How long the user waits between the two.", "ms", 0, 60_000, live=False)
PARTITIONS = Knob("partitions", "int", 3, "How many partitions the topic has.", "partitions", 1, 20, live=False)
# The times of the source's own log, between the lines that it prints.
SOURCE_TIMES = (
    _time("bootstrap_connect_ms", 128, "How long the loop is busy with the first connection."),
    _time("metadata_request_ms", 202, "How long it is busy with making the first metadata request."),
    _time("metadata_answer_ms", 19, "How long the answer takes to come."),
    _time("metadata_parse_ms", 161, "How long the loop reads it."),
    _time("append_ms", 72, "How long the user's thread needs from there to a new batch."),
    _time("connect_ms", 6, "How long the connection to the leader takes."),
    _time("produce_request_ms", 14, "How long the loop is busy with the produce request."),
    _time("produce_answer_ms", 21, "How long its answer takes to come."),
)


def _tell_two_sends(run: SendRun) -> None:
    knobs = run.knobs
    run.shows_loop = run.shows_calls = True
    run.costs = {knob.name: knobs[knob.name] for knob in SOURCE_TIMES}
    order = [1, 0, *range(2, knobs["partitions"])] if knobs["partitions"] > 1 else []
    run.begin(send_config(knobs), SendCluster("test", knobs["partitions"], order=order))
    run.run_for(knobs["wait_ms"])
    run.send()
    run.run_for(knobs["pause_ms"])
    run.costs = {}
    run.send()
    run.finish()


two_sends = Experiment(
    "two_sends",
    "Two sends, nine steps",
    "The first record waits for metadata, the second does not. In which order do the two threads of the producer take turns?",
    (
        PARTITIONS, WAIT_MS, PAUSE_MS, replace(RELEASE, default="0.10"), replace(REQUEST_TIMEOUT_MS, default=30_000),
        METADATA_MAX_AGE_MS, RETRY_BACKOFF_MS, replace(MAX_BLOCK_MS, default=60_000), LINGER_MS, BATCH_SIZE,
        *SOURCE_TIMES, MAX_STEPS,
    ),
    on_either("two_sends", _tell_two_sends),
    send_run,
    domain="send_path",
)  # fmt: skip

FAULTS = ("none", "dead bootstrap", "missing topic", "wrong advertised address", "buffer full")
FAULT = Knob("fault", "choice", "missing topic", "What is wrong.", choices=FAULTS, live=False)
FIRST_SEND_AFTER_MS = Knob(
    "first_send_after_ms", "int", 0, "How long after the producer's start the first send is.", "ms", 0, 10_000, live=False
)


def _tell_blocked_send(run: SendRun) -> None:
    knobs, fault = run.knobs, run.knobs["fault"]
    run.shows_calls = True
    cluster = SendCluster(TOPIC, exists=fault != "missing topic")
    if fault == "dead bootstrap":
        cluster.unreachable.add(cluster.bootstrap_host)
    elif fault == "wrong advertised address":
        cluster.unreachable.add("broker-0")
    elif fault == "buffer full":
        cluster.silent.add(0)
    run.begin(send_config(knobs), cluster)
    run.run_for(knobs["first_send_after_ms"])
    for _ in range(knobs["records"]):
        run.send()
    run.finish()


blocked_send = Experiment(
    "blocked_send",
    "Who holds up send?",
    "The broker cannot be reached, or the topic is not there, or the memory is full. Which of them fails after max.block.ms, "
    "and which after delivery.timeout.ms?",
    (
        FAULT, RECORDS, FIRST_SEND_AFTER_MS, MAX_BLOCK_MS, DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS, LINGER_MS,
        replace(BATCH_SIZE, default=200), replace(BUFFER_MEMORY, default=500), RECORD_BYTES, RETRY_BACKOFF_MS, ROUND_TRIP_MS,
        JITTER, RELEASE, MAX_STEPS,
    ),
    on_either("blocked_send", _tell_blocked_send),
    send_run,
    domain="send_path",
)  # fmt: skip
