"""What becomes of records after `send`: batches and latency, what an exit loses, stale metadata, expired batches, and who is in sync."""

from __future__ import annotations

from dataclasses import replace

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.producer.producer_knobs import ACKS, RETRIES
from kitlib.experiments.run import MAX_STEPS as MOST_STEPS
from kitlib.experiments.sends.send_cluster import SendCluster
from kitlib.experiments.sends.send_knobs import (
    BATCH_SIZE,
    DELIVERY_TIMEOUT_MS,
    LINGER_MS,
    MAX_IN_FLIGHT,
    METADATA_MAX_AGE_MS,
    METADATA_MAX_IDLE_MS,
    RECORD_BYTES,
    RECORDS,
    RELEASE,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    ROUND_TRIP_MS,
    send_config,
)
from kitlib.experiments.sends.send_run import SendRun
from kitlib.experiments.sends.send_stories import TOPIC, on_either, send_run
from kitlib.kafka.broker.leader import BrokerConfig

MANY_STEPS = replace(MAX_STEPS, default=MOST_STEPS)
WARM_UP_MS = 1_000  # until the producer knows the topic and has a connection to its leader


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


# -- linger and batches -------------------------------------------------------------------------------


def _tell_linger_and_batches(run: SendRun) -> None:
    knobs = run.knobs
    run.begin(send_config(knobs), SendCluster(TOPIC))
    _warm_up(run)
    _send_at_rate(run, knobs["records"], 1_000 / knobs["rate_per_s"])
    run.finish()


linger_and_batches = Experiment(
    "linger_and_batches",
    "Does linger.ms=0 send every record alone?",
    "A thousand records a second, an answer takes 20 ms, one request at a time, and linger.ms is 0. How many records does a request carry?",
    (
        Knob("rate_per_s", "int", 1_000, "How many records the user sends in a second.", "records/s", 1, 10_000, scale="log", live=False),
        replace(RECORDS, default=300), LINGER_MS, replace(ROUND_TRIP_MS, default=20), replace(MAX_IN_FLIGHT, default=1),
        BATCH_SIZE, RECORD_BYTES,
        Knob("request_cost_ms", "int", 0, "How long the broker works on a request, whatever it carries. Model only.", "ms", 0, 1_000,
             live=False),
        MANY_STEPS,
    ),
    on_either("linger_and_batches", _tell_linger_and_batches),
    send_run,
    domain="send_path",
)  # fmt: skip


# -- sends and an exit --------------------------------------------------------------------------------


def _tell_unflushed_sends(run: SendRun) -> None:
    knobs = run.knobs
    run.begin(send_config(knobs), SendCluster(TOPIC))
    _warm_up(run)
    for index in range(knobs["records"]):
        if index % knobs["records_per_ms"] == 0:
            run.run_for(1)
        _produce(run, knobs["queue_records"], knobs["retries_on_full"], knobs["poll_on_full"])
    if knobs["ending"] == "exit":
        run.exit()
    else:
        run.flush()
    run.finish()


def _produce(run: SendRun, most: int, retries: int, polls: bool) -> None:
    """Hand one record over to a client whose queue holds at most so many; a full one refuses."""
    attempts = 0
    while most and run.numbers.open_records >= most:
        if polls:
            run.run_for(1)
        elif attempts == retries:
            run.refuse("QUEUE_FULL")
            return
        attempts += 1
    run.send()


unflushed_sends = Experiment(
    "unflushed_sends",
    "send returned, so it is sent?",
    "A program sends hundreds of records and ends. Every call returned without an error. How many records does the topic hold?",
    (
        replace(RECORDS, default=300),
        Knob("ending", "choice", "exit", "How the program ends.", choices=("exit", "flush", "close"), live=False),
        Knob("records_per_ms", "int", 50, "How fast the user's loop is. Model only.", "records/ms", 1, 1_000, live=False),
        Knob("queue_records", "int", 0, "How many records librdkafka's queue holds; 0: as many as there are.", "records", 0, 100_000,
             live=False),
        Knob("retries_on_full", "int", 1, "How often a refused record is handed over again, at once.", "retries", 0, 10, live=False),
        Knob("poll_on_full", "bool", False, "Serves the client before it tries again, until there is room.", live=False),
        LINGER_MS, replace(ROUND_TRIP_MS, default=20), BATCH_SIZE, RECORD_BYTES, MANY_STEPS,
    ),
    on_either("unflushed_sends", _tell_unflushed_sends),
    send_run,
    domain="send_path",
)  # fmt: skip


# -- stale metadata -----------------------------------------------------------------------------------


def _tell_stale_metadata(run: SendRun) -> None:
    knobs = run.knobs
    run.shows_loop = knobs["shows_loop"]
    run.begin(send_config(knobs), SendCluster(TOPIC, brokers=3))
    _warm_up(run)
    begin_ms = run.now_ms
    run.after(knobs["move_at_ms"], lambda: run.move_leader(1))
    _send_at_rate(run, knobs["records"], knobs["every_ms"])
    run.run_for(max(begin_ms + knobs["idle_ms"] - run.now_ms, 0))
    if knobs["idle_ms"]:
        run.send()
    run.finish()


stale_metadata = Experiment(
    "stale_metadata",
    "The leader has moved",
    "The partition's leader moves to another broker, and nobody tells the producer. How does it find out, and what becomes of the "
    "records that it sends meanwhile?",
    (
        replace(RECORDS, default=20),
        Knob("every_ms", "int", 50, "How often the user sends a record.", "ms", 0, 10_000, live=False),
        Knob("move_at_ms", "int", 300, "When the leader moves, from the first record on.", "ms", 0, 600_000, live=False),
        Knob("idle_ms", "int", 0, "When one more record is sent, from the first one on; 0: there is none.", "ms", 0, 3_600_000,
             scale="log", live=False),
        Knob("names_new_leader", "bool", True, "The broker that refuses names the new leader, as brokers do since 3.7.", live=False),
        METADATA_MAX_AGE_MS, METADATA_MAX_IDLE_MS, RETRY_BACKOFF_MS, RETRIES, ROUND_TRIP_MS, RELEASE,
        Knob("shows_loop", "bool", False, "Writes a step for each sleep of the sender's loop.", live=False),
        MAX_STEPS,
    ),
    on_either("stale_metadata", _tell_stale_metadata),
    send_run,
    domain="send_path",
)  # fmt: skip


# -- expired batches ----------------------------------------------------------------------------------

NOBODY, SILENT, MUTE = "nobody listens", "accepts and never answers", "writes and never answers"


def _tell_expired_batch(run: SendRun) -> None:
    knobs = run.knobs
    cluster = SendCluster(TOPIC)
    run.begin(send_config(knobs), cluster)
    _warm_up(run)
    if knobs["stall"] == SILENT:
        cluster.silent.add(0)
    elif knobs["stall"] == MUTE:
        cluster.mute.add(0)
    else:
        cluster.unreachable |= {"broker-0", cluster.bootstrap_host}
        run.break_connections("the broker is gone")
    for _ in range(knobs["records"]):
        run.send()
    run.run_for(knobs["stall_ms"], until=lambda: not run.numbers.open_batches)
    cluster.silent.clear()
    cluster.mute.clear()
    cluster.unreachable.clear()
    run.finish()


expired_batch = Experiment(
    "expired_batch",
    "Which clock expires a batch?",
    "The broker is gone while a batch waits. Is the user told after request.timeout.ms, or after delivery.timeout.ms?",
    (
        replace(RECORDS, default=3), Knob("stall", "choice", NOBODY, "What the broker does.", choices=(NOBODY, SILENT, MUTE),
             live=False),
        Knob("stall_ms", "int", 60_000, "For how long; then it is back.", "ms", 100, 600_000, scale="log", live=False),
        replace(REQUEST_TIMEOUT_MS, default=1_000), replace(DELIVERY_TIMEOUT_MS, default=3_000), LINGER_MS, RETRY_BACKOFF_MS, RETRIES,
        RELEASE, MAX_STEPS,
    ),
    on_either("expired_batch", _tell_expired_batch),
    send_run,
    domain="send_path",
)  # fmt: skip


# -- who is in sync -----------------------------------------------------------------------------------


def _tell_acks_and_isr(run: SendRun) -> None:
    knobs = run.knobs
    least = knobs["min_insync_replicas"]
    config = BrokerConfig(replicas=knobs["replicas"], in_sync_replicas=knobs["replicas"], min_insync_replicas=least)
    run.begin(send_config(knobs), SendCluster(TOPIC, brokers=knobs["replicas"], config=config))
    _warm_up(run)
    if knobs["followers_stop"]:
        run.stop_followers()
    _send_at_rate(run, knobs["records"], knobs["every_ms"])
    run.settle()
    run.destroy_leader()
    run.send()
    run.finish()


acks_and_isr = Experiment(
    "acks_and_isr",
    "acks=all waits for whom?",
    "Three copies, acks=all, and the two followers fall behind. The producer is told that its records are stored; then the leader is "
    "lost for good. Are they still there?",
    (
        replace(RECORDS, default=10), Knob("every_ms", "int", 100, "How often the user sends a record.", "ms", 0, 10_000, live=False),
        Knob("replicas", "int", 3, "How many copies there are, the leader's included.", "replicas", 1, 5, live=False),
        Knob("followers_stop", "bool", True, "The followers stop copying after the first record.", live=False),
        Knob("min_insync_replicas", "int", 1, "With fewer in sync, acks=all is refused.", "replicas", 1, 5, live=False),
        ACKS, replace(DELIVERY_TIMEOUT_MS, default=3_000), replace(REQUEST_TIMEOUT_MS, default=1_500), RETRY_BACKOFF_MS, ROUND_TRIP_MS,
        MAX_STEPS,
    ),
    on_either("acks_and_isr", _tell_acks_and_isr),
    send_run,
    domain="send_path",
)  # fmt: skip
