"""How fast the kit's own producer writes to the real broker, beside two stock clients, and what the proxy costs.

All of them write the same records to a topic of one partition, idempotent, five requests in flight, in
batches of the same size, and wait until all are acknowledged; the topic then has to hold as many. The
kit's producer and confluent-kafka also do so through a proxy that does nothing. The model of the broker
needs no broker: it is asked batch after batch, of several producers in turn, one in ten a repetition.
"""

from __future__ import annotations

import gc
import uuid
from collections.abc import Callable
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaProducer

from kitlib.bench.figures import Figure, paired, seconds
from kitlib.errors import KitError, LabError
from kitlib.experiments.idempotence.protocol_producer import ProtocolProducer
from kitlib.kafka.broker.leader import BrokerConfig, Leader
from kitlib.kafka.producer.config import ProducerConfig
from kitlib.kafka.protocol import Batch, ProduceRequest
from kitlib.lab import kafka_server
from kitlib.lab.kafka_server import Cluster, client_config
from kitlib.lab.processes import wait_until
from kitlib.lab.proxy.chaos_proxy import ChaosProxy
from kitlib.lab.wire.connection import Wire

RECORDS = 100_000  # of each measurement
VALUE = b"x" * 100
BATCH = 500  # records; with their own bytes a little less than BATCH_BYTES
BATCH_BYTES = 1 << 16
LINGER_MS = 5  # of who is handed record by record
IN_FLIGHT = 5
WAITING = 20 * BATCH  # records that the kit's producer may hold before its user waits
TIMEOUT_S = 60.0

MODEL_BATCHES = 100_000
PRODUCERS, PARTITIONS = 8, 4
ONE_IN = 10  # batches is a repetition of the one before

CONFIG = ProducerConfig(
    max_in_flight_requests_per_connection=IN_FLIGHT, batch_size=BATCH_BYTES, linger_ms=LINGER_MS
)


def address(cluster: Cluster) -> tuple[str, int]:
    """Host and port of the cluster's first broker."""
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


def kit_in_batches(cluster: Cluster, topic: str) -> None:
    """The kit's producer, handed whole batches."""
    values = [VALUE] * BATCH
    with ProtocolProducer(*address(cluster), topic, CONFIG) as producer:
        for _ in range(RECORDS // BATCH):
            producer.send(values)
            while producer.unfinished > WAITING:
                producer.poll(TIMEOUT_S)
        check_all_told("the kit's producer", producer.flush(TIMEOUT_S))
        failed = sum(delivery.count for delivery in producer.deliveries if delivery.error)
        check_all_told("the kit's producer", failed)


def kit_by_record(cluster: Cluster, topic: str) -> None:
    """The kit's producer, handed record after record."""
    with ProtocolProducer(*address(cluster), topic, CONFIG) as producer:
        for _ in range(RECORDS):
            producer.append(VALUE)
            if producer.unfinished > WAITING:
                producer.poll(TIMEOUT_S)
        check_all_told("the kit's producer", producer.flush(TIMEOUT_S))


def kafka_python(cluster: Cluster, topic: str) -> None:
    """kafka-python's producer, which takes record after record."""
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap, client_id="kit-bench", enable_idempotence=True, acks="all", linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES, max_in_flight_requests_per_connection=IN_FLIGHT,
    )  # fmt: skip
    try:
        for _ in range(RECORDS):
            producer.send(topic, VALUE, partition=0)
        producer.flush(TIMEOUT_S)
    finally:
        producer.close(TIMEOUT_S)


def confluent(cluster: Cluster, topic: str) -> None:
    """confluent-kafka's producer (librdkafka), which takes record after record."""
    producer = Producer(client_config(cluster, **{
        "enable.idempotence": True, "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES,
        "max.in.flight.requests.per.connection": IN_FLIGHT,
    }))  # fmt: skip
    for _ in range(RECORDS):
        while True:
            try:
                producer.produce(topic, VALUE, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    check_all_told("confluent-kafka", producer.flush(TIMEOUT_S))


def check_all_told(who: str, left: int) -> None:
    """KitError unless every record was acknowledged."""
    if left:
        raise KitError(f"bench of the producers: {who} left {left:,} of {RECORDS:,} records. Look at `kit status`.")


def real_seconds(work: Callable[[Cluster, str], None], cluster: Cluster, through: Cluster) -> float:
    """Seconds a record of one client, on a topic of its own; KitError unless the topic then holds each record."""
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient(client_config(cluster))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    try:
        with Wire.open(*address(cluster)) as wire:
            wait_until(lambda: is_led(wire, topic), 10, "the topic has a leader")
            taken = seconds(lambda: work(through, topic))
            stored = wire.list_offsets(topic, 0)
    finally:
        admin.delete_topics([topic])[topic].result(10)
    if stored != RECORDS:
        raise KitError(f"bench of the producers: {stored:,} records are stored, expected {RECORDS:,}. Run the wire's tests.")
    return taken / RECORDS


def is_led(wire: Wire, topic: str) -> bool:
    """Whether the broker answers for the topic's log."""
    try:
        return wire.list_offsets(topic, 0) == 0
    except LabError:
        return False


def model_load() -> list[ProduceRequest]:
    """One batch a request, the producers and partitions in turn; one in ten is sent a second time."""
    requests: list[ProduceRequest] = []
    next_sequence = [0] * PRODUCERS
    while len(requests) < MODEL_BATCHES:
        producer = len(requests) % PRODUCERS
        batch = Batch(producer % PARTITIONS, 10, producer, 0, next_sequence[producer])
        next_sequence[producer] += batch.count
        requests.append(ProduceRequest(len(requests), (batch,)))
        if len(requests) % ONE_IN == 0:
            requests.append(ProduceRequest(len(requests), (batch,)))
    return requests[:MODEL_BATCHES]


def model_seconds(load: list[ProduceRequest]) -> float:
    """Seconds a batch of the broker's model; KitError when it refuses one."""
    leader = Leader(BrokerConfig(), PARTITIONS)
    refused = 0

    def produce() -> None:
        nonlocal refused
        for request in load:
            for answer in leader.produce(request, 0).values():
                refused += answer.error

    taken = seconds(produce)
    if refused or not 0 < sum(log.end for log in leader.logs.values()) < 10 * len(load):
        raise KitError("bench of the broker's model: it did not write each batch once. Run its tests.")
    return taken / len(load)


def measure(rounds: int = 5, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The figures of the producers, the proxy and the model; about a minute. It needs the kit's own broker."""
    was_running = kafka_server.status().is_running
    cluster = kafka_server.ensure()
    load = model_load()
    gc.collect()
    gc.freeze()
    try:
        with ChaosProxy.before(cluster) as proxy:
            works: dict[str, Callable[[], float]] = {
                "kit": partial(real_seconds, kit_in_batches, cluster, cluster),
                "kit, proxy": partial(real_seconds, kit_in_batches, cluster, proxy.cluster),
                "by record": partial(real_seconds, kit_by_record, cluster, cluster),
                "kafka-python": partial(real_seconds, kafka_python, cluster, cluster),
                "confluent": partial(real_seconds, confluent, cluster, cluster),
                "confluent, proxy": partial(real_seconds, confluent, cluster, proxy.cluster),
                "model": partial(model_seconds, load),
            }
            say("the broker and the clients are slow at first")
            for work in works.values():
                work()
            say(f"records and batches a second, {rounds} rounds")
            cost = paired(works, rounds)
    finally:
        gc.unfreeze()
        if not was_running:
            kafka_server.down()
    return [
        Figure(f"Kit's producer, batches of {BATCH}", 1 / cost["kit"], "records/s", 60_000),
        Figure("Kit's producer, record by record", 1 / cost["by record"], "records/s"),
        Figure("kafka-python, record by record", 1 / cost["kafka-python"], "records/s"),
        Figure("confluent-kafka, record by record", 1 / cost["confluent"], "records/s"),
        Figure("Kit's producer to kafka-python", cost["kafka-python"] / cost["kit"], "times", 1),
        Figure("Kit's producer through the proxy, of direct", 100 * cost["kit"] / cost["kit, proxy"], "%", 70),
        Figure("confluent-kafka through the proxy, of direct", 100 * cost["confluent"] / cost["confluent, proxy"], "%", 70),
        Figure("Model of the broker", 1 / cost["model"], "batches/s", 150_000),
    ]
