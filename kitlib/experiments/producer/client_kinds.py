"""A producer in the hands of its user: librdkafka as most people have it, or the kit's own client.

Both are handed numbered records and tell, record by record, what became of them. Left out: what they
do on the network; the proxy sees that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kitlib.errors import LabError
from kitlib.experiments.leader_stage import PARTITION
from kitlib.experiments.producer.producer_client import producer_config
from kitlib.experiments.producer.wire_producer import Delivery, WireProducer
from kitlib.lab.clients import Cluster, client_config

SILENT = logging.getLogger("kitlib.librdkafka")  # what it has to say is told record by record
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

# Is told of each record: its number, the error ("" for success), and its offset (-1 with an error, and with acks=0).
Tell = Callable[[int, str, int], None]


class Client(Protocol):
    """A producer in the hands of its user."""

    def hand_over(self, records: range) -> None:
        """Send these records."""
        ...

    def work(self, seconds: float) -> None:
        """Give the client so much time; what it has to tell is told meanwhile."""
        ...

    @property
    def unfinished(self) -> int:
        """The records of which nothing has been told yet."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Librdkafka:
    """A producer of confluent_kafka, as its users have it."""

    def __init__(self, cluster: Cluster, topic: str, settings: dict[str, Any], client_id: str, tell: Tell) -> None:
        self.topic, self.tell = topic, tell
        self.deadline_s = settings["delivery_timeout_ms"] / 1000 + 10
        more = {
            "client.id": client_id,
            "acks": settings["acks"],
            "enable.idempotence": settings["idempotence"],
            "max.in.flight": settings["max_in_flight"],
            "retries": settings["retries"],
            "retry.backoff.ms": 20,
            "linger.ms": settings["linger_ms"],
            "batch.num.messages": settings["batch_records"],
            "request.timeout.ms": settings["request_timeout_ms"],  # for how long the broker may wait for replicas
            "socket.timeout.ms": settings["request_timeout_ms"],  # for how long the client waits for the broker
            "delivery.timeout.ms": settings["delivery_timeout_ms"],
            "queue.buffering.max.messages": max(100_000, settings["records"]),
        }
        self.producer = Producer(client_config(cluster, **more), logger=SILENT)

    def hand_over(self, records: range) -> None:
        deadline = time.monotonic() + self.deadline_s
        for record in records:
            while True:
                try:
                    self.producer.produce(self.topic, value=b"%d" % record, partition=PARTITION, on_delivery=self._delivered)
                    break
                except BufferError:
                    if time.monotonic() > deadline:
                        raise LabError(f"{self.topic}: the client's queue is full and stays full. Send fewer records.") from None
                    self.work(0.05)
                except KafkaException as error:  # after a fatal error it takes no more
                    self.tell(record, _name(error.args[0]), -1)
                    break
        self.work(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        self.tell(int(message.value() or b"-1"), _name(error) if error else "", -1 if error or offset is None else max(offset, -1))

    def work(self, seconds: float) -> None:
        try:
            self.producer.poll(seconds)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self.producer.purge()  # it sends nothing any more, and says so of each record that waits
        except SystemError as error:  # a Ctrl-C that came while it told of a record is lost in its C code
            raise KeyboardInterrupt from error

    @property
    def unfinished(self) -> int:
        return len(self.producer)

    def close(self) -> None:
        self.producer.purge()
        self.producer.flush(1.0)


class Kit:
    """The kit's own producer, which may have up to ten requests in flight."""

    def __init__(self, cluster: Cluster, topic: str, settings: dict[str, Any], client_id: str, tell: Tell) -> None:
        self.tell = tell
        self.first_records: dict[int, int] = {}
        host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
        config = producer_config({name: value for name, value in settings.items() if name != "linger_ms"})
        self.producer = WireProducer(host, int(port), topic, config, self._delivered, client_id=client_id)

    def hand_over(self, records: range) -> None:
        self.first_records[len(self.first_records)] = records.start  # sends are numbered from 0
        self.producer.send([b"%d" % record for record in records], PARTITION)

    def _delivered(self, delivery: Delivery) -> None:
        first = self.first_records[delivery.send] + delivery.first
        for index in range(delivery.count):
            offset = delivery.offset + index if delivery.error is None and delivery.offset >= 0 else -1
            self.tell(first + index, delivery.error or "", offset)

    def work(self, seconds: float) -> None:
        self.producer.poll(seconds)

    @property
    def unfinished(self) -> int:
        return self.producer.unfinished

    def close(self) -> None:
        self.producer.close(1.0)


def _name(error: KafkaError) -> str:
    return str(error.name())
