"""The send path's experiments: from the call of `send` to the answer, everything in between that can hold it up, and after.

The source retells two sends from a log, the first of which has to wait for metadata. The other stories
ask what people ask: why does `send` block, when is a batch given up, how many records share a batch,
and what is lost when the process ends. They are told to the model;
a real run observes the real one (`kitlib.experiments.send_path.real_send`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.idempotence.producer_knobs import (
    DeliveryTimeoutMs,
    LingerMs,
    RequestTimeoutMs,
    Retries,
)
from kitlib.experiments.knobs import Knob
from kitlib.experiments.send_path.send_cluster import SendCluster
from kitlib.experiments.send_path.send_run import SendRun
from kitlib.mechanisms.producer.config import MAX_INT
from kitlib.monitor.figures import LOST, RECORDS_A_REQUEST, SEND_TIME

Records = Annotated[int, Knob("How many records the application sends, one call after another.", "records", 1, 5_000)]
Release = Annotated[
    Literal["4.3", "0.10"], Knob("Which rules the client follows: today's, or those of the time of the source.")
]
MaxBlockMs = Annotated[
    int, Knob("How long a call to send may block, for metadata and memory together.", "ms", 0, 600_000, scale="log")
]
BatchSize = Annotated[
    int, Knob("A batch is closed when the next record would not fit.", "bytes", 100, 1_000_000, scale="log")
]
RecordBytes = Annotated[int, Knob("Size of a record.", "bytes", 1, 10_000)]
RetryBackoffMs = Annotated[int, Knob("How long to wait before a retry, including metadata requests.", "ms", 10, 10_000)]
MetadataMaxAgeMs = Annotated[
    int, Knob("Age at which metadata is refreshed even if no one needs it.", "ms", 100, 3_600_000, scale="log")
]
MaxInFlight = Annotated[int, Knob("How many requests may be in flight at once.", "requests", 1, 5)]
RoundTripMs = Annotated[int, Knob("How long a request and its answer take.", "ms", 0, 5_000)]


TOPIC = "events"
WARM_UP_MS = 1_000  # until the producer knows the topic and has a connection to its leader

Partitions = Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 20)]


# The times of the source's own log, between the lines that it prints.
SOURCE_TIMES_MS = {
    "bootstrap_connect_ms": 128, "metadata_request_ms": 202, "metadata_answer_ms": 19, "metadata_parse_ms": 161,
    "append_ms": 72, "connect_ms": 6, "produce_request_ms": 14, "produce_answer_ms": 21,
}  # fmt: skip


@experiment(
    "Two sends, nine steps", SendRun,
    figure=SEND_TIME, front=("wait_ms", "pause_ms", "partitions", "linger_ms", "release"),
)
def two_sends(
    run: SendRun,
    partitions: Partitions = 3,
    wait_ms: Annotated[int, Knob("How long the application waits before the first send.", "ms", 0, 60_000)] = 10_000,
    pause_ms: Annotated[int, Knob("How long the application waits between the two.", "ms", 0, 60_000)] = 1_000,
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
    run.costs.update(SOURCE_TIMES_MS)
    order = [1, 0, *range(2, partitions)] if partitions > 1 else []
    run.begin(SendCluster("test", partitions, order=order))
    run.run_for(wait_ms)
    run.send()
    run.run_for(pause_ms)
    run.costs.clear()
    run.send()
    run.finish()


@experiment(
    "Who holds up send?", SendRun,
    figure=SEND_TIME, front=("fault", "max_block_ms", "buffer_memory", "first_send_after_ms", "records"),
)
def blocked_send(
    run: SendRun,
    fault: Annotated[
        Literal["none", "dead bootstrap", "missing topic", "wrong advertised address", "buffer full"], Knob("What is wrong.")
    ] = "missing topic",
    records: Records = 5,
    first_send_after_ms: Annotated[int, Knob("How long after the producer's start the first send is.", "ms", 0, 10_000)] = 0,
    max_block_ms: MaxBlockMs = 2_000,
    delivery_timeout_ms: DeliveryTimeoutMs = 4_000,
    request_timeout_ms: RequestTimeoutMs = 1_500,
    linger_ms: LingerMs = 0,
    batch_size: BatchSize = 200,
    buffer_memory: Annotated[
        int, Knob("Memory for all batches together.", "bytes", 100, 100_000_000, scale="log")
    ] = 500,
    record_bytes: RecordBytes = 100,
    retry_backoff_ms: RetryBackoffMs = 100,
    round_trip_ms: RoundTripMs = 10,
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
    run.begin(cluster)
    run.run_for(first_send_after_ms)
    for _ in range(records):
        run.send()
    run.finish()


EveryMs = Annotated[int, Knob("Time between records that the application sends.", "ms", 0, 10_000)]


def _warm_up(run: SendRun) -> None:
    """One record goes all the way, so that what follows meets a producer at work."""
    run.send()
    run.settle()
    run.run_for(WARM_UP_MS)


def _send_at_rate(run: SendRun, records: int, every_ms: float) -> None:
    """The user sends a record every so often; a call that blocks makes the next ones late."""
    begin_ms = run.now_ms
    for index in range(records):
        run.run_for(max(begin_ms + int(index * every_ms) - run.now_ms, 0))
        run.send()


@experiment(
    "Does linger.ms=0 send every record alone?", SendRun, max_steps=20_000,
    figure=RECORDS_A_REQUEST, front=("linger_ms", "batch_size", "rate_per_s", "max_in_flight", "round_trip_ms"),
)
def linger_and_batches(
    run: SendRun,
    rate_per_s: Annotated[int, Knob("Records that the application sends per second.", "records/s", 1, 10_000, scale="log")] = 1_000,
    records: Records = 300,
    linger_ms: LingerMs = 0,
    round_trip_ms: RoundTripMs = 20,
    max_in_flight: MaxInFlight = 1,
    batch_size: BatchSize = 16_384,
    record_bytes: RecordBytes = 100,
    request_cost_ms: Annotated[
        int, Knob("How long the broker takes per request, whatever it carries. Model only.", "ms", 0, 1_000)
    ] = 0,
) -> None:
    """A thousand records per second, 20 ms per answer, one request at a time, and linger.ms is 0. How many records does
    a request carry?
    """
    run.begin(SendCluster(TOPIC))
    _warm_up(run)
    _send_at_rate(run, records, 1_000 / rate_per_s)
    run.finish()


def _produce(run: SendRun, most: int, retries: int, polls: bool) -> None:
    """Hand one record over to a client whose queue holds at most so many; a full one refuses."""
    attempts = 0
    while most and run.open_records >= most:
        if polls:
            run.run_for(1)
        elif attempts == retries:
            run.refuse("QUEUE_FULL")
            return
        attempts += 1
    run.send()


@experiment(
    "send returned, so was it sent?", SendRun, max_steps=20_000,
    figure=LOST, front=("ending", "records", "records_per_ms", "queue_records", "linger_ms"),
)
def unflushed_sends(
    run: SendRun,
    records: Records = 300,
    ending: Annotated[Literal["exit", "flush", "close"], Knob("How the program ends.")] = "exit",
    records_per_ms: Annotated[int, Knob("How fast the application's loop is. Model only.", "records/ms", 1, 1_000)] = 50,
    queue_records: Annotated[
        int, Knob("How many records librdkafka's queue holds; 0: enough for all of them.", "records", 0, 100_000)
    ] = 0,
    retries_on_full: Annotated[int, Knob("How many times a refused record is sent again immediately.", "retries", 0, 10)] = 1,
    poll_on_full: Annotated[bool, Knob("Whether the program polls the client before it tries again, until there is room.")] = False,
    linger_ms: LingerMs = 0,
    round_trip_ms: RoundTripMs = 20,
    batch_size: BatchSize = 16_384,
    record_bytes: RecordBytes = 100,
) -> None:
    """A program sends hundreds of records and exits. Every call returned without an error. How many records does the
    topic hold?
    """
    run.begin(SendCluster(TOPIC))
    _warm_up(run)
    for index in range(records):
        if index % records_per_ms == 0:
            run.run_for(1)
        _produce(run, queue_records, retries_on_full, poll_on_full)
    if ending == "exit":
        run.exit()
    else:
        run.flush()
    run.finish()


@experiment(
    "The leader has moved", SendRun,
    figure=SEND_TIME, front=("idle_ms", "metadata_max_age_ms", "move_at_ms", "names_new_leader", "every_ms"),
)
def stale_metadata(
    run: SendRun,
    records: Records = 20,
    every_ms: EveryMs = 50,
    move_at_ms: Annotated[int, Knob("When the leader moves, counted from the first record.", "ms", 0, 600_000)] = 300,
    idle_ms: Annotated[
        int, Knob("When one more record is sent, counted from the first one; 0: never.", "ms", 0, 3_600_000, scale="log")
    ] = 0,
    names_new_leader: Annotated[bool, Knob("Whether the broker that refuses names the new leader, as brokers have done since 3.7.")] = True,
    metadata_max_age_ms: MetadataMaxAgeMs = 300_000,
    metadata_max_idle_ms: Annotated[
        int, Knob("A topic that has received nothing for this long is forgotten.", "ms", 100, 3_600_000, scale="log")
    ] = 300_000,
    retry_backoff_ms: RetryBackoffMs = 100,
    retries: Retries = MAX_INT,
    round_trip_ms: RoundTripMs = 10,
) -> None:
    """The partition's leader moves to another broker, and the producer is not notified. How does it find out, and what
    happens to the records it sends in the meantime?
    """
    run.begin(SendCluster(TOPIC, brokers=3))
    _warm_up(run)
    begin_ms = run.now_ms
    run.after(move_at_ms, lambda: run.move_leader(1))
    _send_at_rate(run, records, every_ms)
    run.run_for(max(begin_ms + idle_ms - run.now_ms, 0))
    if idle_ms:
        run.send()
    run.finish()


@experiment(
    "Which clock expires a batch?", SendRun,
    figure=SEND_TIME, front=("stall", "stall_ms", "delivery_timeout_ms", "linger_ms", "release"),
)
def expired_batch(
    run: SendRun,
    records: Records = 3,
    stall: Annotated[
        Literal["nobody listens", "accepts and never answers", "writes and never answers"], Knob("What the broker does.")
    ] = "nobody listens",
    stall_ms: Annotated[int, Knob("How long, until it is back.", "ms", 100, 600_000, scale="log")] = 60_000,
    request_timeout_ms: RequestTimeoutMs = 1_000,
    delivery_timeout_ms: DeliveryTimeoutMs = 3_000,
    linger_ms: LingerMs = 0,
    retry_backoff_ms: RetryBackoffMs = 100,
    retries: Retries = MAX_INT,
    release: Release = "4.3",
) -> None:
    """The broker is gone while a batch waits. Is the application notified after request.timeout.ms, or after delivery.timeout.ms?"""
    cluster = SendCluster(TOPIC)
    run.begin(cluster)
    _warm_up(run)
    if stall == "accepts and never answers":
        cluster.silent.add(0)
    elif stall == "writes and never answers":
        cluster.mute.add(0)
    else:
        cluster.unreachable |= {"broker-0", cluster.bootstrap_host}
        run.break_connections("the broker is gone")
    for _ in range(records):
        run.send()
    run.run_for(stall_ms, until=lambda: not run.open_records)
    cluster.silent.clear()
    cluster.mute.clear()
    cluster.unreachable.clear()
    run.finish()
