"""Real producers in the hands of their user: librdkafka's and Java's are handed numbered records, and tell what became of each."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import PARTITION
from kitlib.lab.clients import SILENT, Cluster, client_config, java_config
from kitlib.lab.java_client import JavaClient

LIBRDKAFKA = f"librdkafka {confluent_kafka.libversion()[0]}"
# Is told of each record: its number, the error ("" for success), and its offset (-1 with an error, and with acks=0).
Tell = Callable[[int, str, int], None]


class Librdkafka:
    """A producer of confluent_kafka, as its users have it."""

    def __init__(
        self, cluster: Cluster, topic: str, tell: Tell, config: dict[str, Any], logger: logging.Logger = SILENT, deadline_s: float = 30.0
    ) -> None:
        """`deadline_s`: for how long it may take no more records because its queue is full."""
        self.topic, self.tell, self.deadline_s = topic, tell, deadline_s
        self.unfinished = 0  # records of which nothing has been told yet
        self.producer = Producer(client_config(cluster, **config), logger=logger)

    def send(self, record: int, key: bytes | None = None) -> None:
        """Hand over one record. LabError when the queue stays full."""
        deadline = time.monotonic() + self.deadline_s
        while True:
            try:
                self.producer.produce(self.topic, value=b"%d" % record, key=key, partition=PARTITION, on_delivery=self._delivered)
                self.unfinished += 1
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise LabError(f"{self.topic}: the client's queue is full and stays full. Send fewer records.") from None
                self.work(0.05)
            except KafkaException as error:  # after a fatal error it takes no more
                self.tell(record, str(error.args[0].name()), -1)
                return

    def hand_over(self, records: range) -> None:
        for record in records:
            self.send(record)
        self.work(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.unfinished -= 1
        offset = message.offset()
        self.tell(int(message.value() or b"-1"), str(error.name()) if error else "", -1 if error or offset is None else max(offset, -1))

    def work(self, seconds: float) -> None:
        """Give the client so much time; what it has to tell is told meanwhile."""
        end = time.monotonic() + seconds
        try:
            self.producer.poll(seconds)
            while (left := end - time.monotonic()) > 0:
                self.producer.poll(left)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self.producer.purge()  # it sends nothing any more, and says so of each record that waits
        except SystemError as error:  # a Ctrl-C that came while it told of a record is lost in its C code
            raise KeyboardInterrupt from error

    def close(self) -> None:
        self.producer.purge()
        self.producer.flush(1.0)


class Java:
    """Kafka's own client in a JVM, which is the caller's."""

    def __init__(self, java: JavaClient, cluster: Cluster, topic: str, tell: Tell, config: dict[str, Any]) -> None:
        """RefusedSettings when it does not start."""
        self.java, self.topic, self.tell = java, topic, tell
        self.sent: deque[tuple[int, Any]] = deque()  # (record, its Java Future) of those of which nothing is known yet
        self.producer = java.producer({"bootstrap.servers": cluster.bootstrap, **config, **java_config(cluster)})

    def send(self, record: int, key: bytes | None = None) -> None:
        self.sent.append((record, self.java.send(self.producer, self.topic, PARTITION, b"%d" % record, key)))

    def work(self, seconds: float) -> None:
        """Tell what is known of the records, in their order, for at most so long."""
        deadline = time.monotonic() + seconds
        while self.sent and (left := deadline - time.monotonic()) > 0:
            record, future = self.sent[0]
            offset, error = self.java.outcome(future, left)
            if offset is None and not error:
                return
            self.sent.popleft()
            self.tell(record, error, -1 if offset is None else offset)

    @property
    def unfinished(self) -> int:
        return len(self.sent)

    def close(self) -> None:
        self.java.close_at_once(self.producer)


def finish(client: Librdkafka | Java, seconds: float) -> None:
    """Work until its user has been told of every record. LabError when that takes longer."""
    deadline = time.monotonic() + seconds
    while client.unfinished:
        client.work(0.02)
        if time.monotonic() > deadline:
            raise LabError(f"{client.topic}: nothing was told of {client.unfinished} records within {seconds:g} s. Look at `kit status`.")
