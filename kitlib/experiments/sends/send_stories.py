"""The send path's experiments: from the call of `send` to the answer, and everything in between that can hold it up.

The source retells two sends from a log, the first of which has to wait for metadata. The other stories
ask what people ask: why does `send` block, when is a batch given up, how many records share a batch,
what is lost when the process ends, and whose copies `acks=all` waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, cast

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.producer.producer_knobs import DeliveryTimeoutMs, LingerMs, RequestTimeoutMs
from kitlib.experiments.run import Fork
from kitlib.experiments.sends.send_cluster import SendCluster
from kitlib.experiments.sends.send_knobs import (
    BatchSize,
    BufferMemory,
    Jitter,
    MaxBlockMs,
    MetadataMaxAgeMs,
    RecordBytes,
    Records,
    Release,
    RetryBackoffMs,
    RoundTripMs,
    send_config,
)
from kitlib.experiments.sends.send_run import SendRun
from kitlib.experiments.stage import Stage
from kitlib.trace import Trace

TOPIC = "events"
P = ParamSpec("P")


def send_run(trace: Trace, stage: Stage, knobs: dict[str, Any], fork: Fork | None) -> Any:
    """The kind of these experiments: the model in virtual time, or real clients that are watched."""
    if stage.backend == "kafka":
        from kitlib.experiments.kafka_stage import KafkaStage
        from kitlib.experiments.sends.real_send import RealSend

        return RealSend(trace, cast("KafkaStage", stage), knobs, fork)
    return SendRun(trace, stage, knobs, fork)


def on_either(story: Callable[Concatenate[SendRun, P], None]) -> Callable[Concatenate[Any, P], None]:
    """A story that is told to the model, and of which a real run observes the real one."""

    @wraps(story)
    def tell(run: Any, /, *args: P.args, **knobs: P.kwargs) -> None:
        if run.is_real:
            run.observe(story.__name__)
        else:
            story(run, *args, **knobs)

    return tell


WaitMs = Annotated[int, Knob("How long the application waits before the first send.", "ms", 0, 60_000)]
PauseMs = Annotated[int, Knob("How long the application waits between the two.", "ms", 0, 60_000)]
Partitions = Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 20)]


class SourceTimes:
    """The times of the source's own log, between the lines that it prints."""

    bootstrap_connect_ms: Annotated[int, Knob("How long the loop is busy with the first connection. Model only.", "ms", 0, 5_000)] = 128
    metadata_request_ms: Annotated[
        int, Knob("How long it takes to build the first metadata request. Model only.", "ms", 0, 5_000)
    ] = 202
    metadata_answer_ms: Annotated[int, Knob("How long the answer takes to arrive. Model only.", "ms", 0, 5_000)] = 19
    metadata_parse_ms: Annotated[int, Knob("How long the loop takes to read it. Model only.", "ms", 0, 5_000)] = 161
    append_ms: Annotated[int, Knob("How long the application's thread takes from there to a new batch. Model only.", "ms", 0, 5_000)] = 72
    connect_ms: Annotated[int, Knob("How long the connection to the leader takes. Model only.", "ms", 0, 5_000)] = 6
    produce_request_ms: Annotated[int, Knob("How long the loop is busy with the produce request. Model only.", "ms", 0, 5_000)] = 14
    produce_answer_ms: Annotated[int, Knob("How long its answer takes to arrive. Model only.", "ms", 0, 5_000)] = 21


@experiment("Two sends, nine steps", send_run, shared=(SourceTimes,), domain="send_path")
@on_either
def two_sends(
    run: SendRun,
    partitions: Partitions = 3,
    wait_ms: WaitMs = 10_000,
    pause_ms: PauseMs = 1_000,
    release: Release = "0.10",
    request_timeout_ms: RequestTimeoutMs = 30_000,
    metadata_max_age_ms: MetadataMaxAgeMs = 300_000,
    retry_backoff_ms: RetryBackoffMs = 100,
    max_block_ms: MaxBlockMs = 60_000,
    linger_ms: LingerMs = 0,
    batch_size: BatchSize = 16_384,
) -> None:
    """The first record waits for metadata, the second does not. In which order do the two threads of the producer
    take turns?
    """
    run.shows_loop = run.shows_calls = True
    run.costs = {name: run.knobs[name] for name in SourceTimes.__annotations__}
    order = [1, 0, *range(2, partitions)] if partitions > 1 else []
    run.begin(send_config(run.knobs), SendCluster("test", partitions, order=order))
    run.run_for(wait_ms)
    run.send()
    run.run_for(pause_ms)
    run.costs = {}
    run.send()
    run.finish()


WhatIsWrong = Annotated[
    Literal["none", "dead bootstrap", "missing topic", "wrong advertised address", "buffer full"], Knob("What is wrong.")
]
FirstSendAfterMs = Annotated[int, Knob("How long after the producer's start the first send is.", "ms", 0, 10_000)]


@experiment("Who holds up send?", send_run, domain="send_path")
@on_either
def blocked_send(
    run: SendRun,
    fault: WhatIsWrong = "missing topic",
    records: Records = 5,
    first_send_after_ms: FirstSendAfterMs = 0,
    max_block_ms: MaxBlockMs = 2_000,
    delivery_timeout_ms: DeliveryTimeoutMs = 4_000,
    request_timeout_ms: RequestTimeoutMs = 1_500,
    linger_ms: LingerMs = 0,
    batch_size: BatchSize = 200,
    buffer_memory: BufferMemory = 500,
    record_bytes: RecordBytes = 100,
    retry_backoff_ms: RetryBackoffMs = 100,
    round_trip_ms: RoundTripMs = 10,
    jitter: Jitter = False,
    release: Release = "4.3",
) -> None:
    """The broker cannot be reached, or the topic does not exist, or the memory is full. Which of these fails after
    max.block.ms, and which after delivery.timeout.ms?
    """
    run.shows_calls = True
    cluster = SendCluster(TOPIC, exists=fault != "missing topic")
    if fault == "dead bootstrap":
        cluster.unreachable.add(cluster.bootstrap_host)
    elif fault == "wrong advertised address":
        cluster.unreachable.add("broker-0")
    elif fault == "buffer full":
        cluster.silent.add(0)
    run.begin(send_config(run.knobs), cluster)
    run.run_for(first_send_after_ms)
    for _ in range(records):
        run.send()
    run.finish()
