"""A real transactional producer that can be killed and frozen: librdkafka's, in a child process of its own.

A zombie is a process that stood still and does not know it; a crash is one that says good-bye to nobody.
So the producer lives in a child, as the kit's consumers do (`kitlib.lab.client_processes.consumer`), and with it, if
it is asked for, a consumer of the group whose records it transforms: both stand still together.

Orders are the methods of `_Child`; their results: {"error", "fatal", "must_abort"}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kitlib.errors import LabError
from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.client_processes.driver import Client, Refused, Told, serve
from kitlib.lab.clients import SILENT

CALL_S = 20.0  # how long a call of the producer may take
JOIN_S = 15.0
FINE = {"error": "", "fatal": False, "must_abort": False}
MISUSED = "_STATE"  # librdkafka's word for a call that does not fit


class ProducerProcess(ConsumerProcess):
    """The owner's side of one producer; `start` makes one."""

    kind: ClassVar[str] = "producer"
    child: ClassVar[str] = "kitlib.lab.client_processes.producer"

    def do(self, what: str, **more: Any) -> Told:
        """Carry out an order; what the user was told. LabError when it has ended, is frozen or does not answer."""
        told: Told = self._ask(what, CALL_S + JOIN_S, **more)
        return told


class _Child(Client):
    """The producer, and the consumer of its group, where they live. Its methods tell what the user was told."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Refused when librdkafka does not take the settings."""
        super().__init__()
        self.settings = settings
        try:
            self.producer = Producer(dict(settings["producer"]), logger=SILENT)
        except (KafkaException, ValueError, TypeError) as error:
            raise Refused(error.args[0].str() if isinstance(error, KafkaException) else str(error)) from error
        self.consumer: Any = None
        self.metadata: Any = None  # of the group, as it was when the records were handed out

    def told(self, call: Callable[[], None]) -> Told:
        """Make a call, and what it told its user."""
        try:
            call()
        except KafkaException as error:
            reason = error.args[0]
            return {
                "error": reason.name(),
                "fatal": reason.fatal(),
                "must_abort": reason.txn_requires_abort(),
                "said": reason.str(),
            }
        return FINE

    def init(self) -> Told:
        return self.told(lambda: self.producer.init_transactions(CALL_S))

    def begin(self) -> Told:
        return self.told(self.producer.begin_transaction)

    def commit(self) -> Told:
        return self.told(lambda: self.producer.commit_transaction(CALL_S))

    def abort(self) -> Told:
        return self.told(lambda: self.producer.abort_transaction(CALL_S))

    def send(self, topic: str, records: list[int]) -> Told:
        """Hand the records over and wait until the user was told of each; the first error. LabError when it is told too little."""
        left, failed = [len(records)], list[Any]()
        deadline = time.monotonic() + CALL_S

        def note(error: Any, message: Any) -> None:
            left[0] -= 1
            if error is not None:
                failed.append(error)

        def hand_over() -> None:
            for record in records:
                while True:
                    try:
                        self.producer.produce(topic, value=b"%d" % record, partition=0, on_delivery=note)
                        break
                    except BufferError:  # the client's queue is full: let it drain
                        if time.monotonic() > deadline:
                            return
                        self.producer.poll(0.05)

        told = self.told(hand_over)
        while not told["error"] and left[0] and time.monotonic() < deadline:
            try:
                self.producer.poll(0.05)
            except KafkaException as error:  # a fatal one is raised here too
                failed.append(error.args[0])
        if failed and not told["error"]:
            first = failed[0]
            # A batch that was refused is told with its own error; whether the producer may go on, with the next call.
            told = {"error": first.name(), "fatal": first.fatal(), "must_abort": not first.fatal()}
        if left[0] and not told["error"]:
            raise LabError(f"of {left[0]} of {len(records)} records nothing was reported within {CALL_S:g} s")
        return told

    def join(self) -> Told:
        """Join the group and wait for the input's partition."""
        if self.consumer is None:
            self.consumer = Consumer(dict(self.settings["consumer"]))
            self.consumer.subscribe([self.settings["input"]])
        deadline = time.monotonic() + JOIN_S
        while not self.consumer.assignment():
            self.consumer.poll(0.05)
            if time.monotonic() > deadline:
                raise LabError("the group gave it no partition")
        self.metadata = self.consumer.consumer_group_metadata()
        return FINE

    def commit_offsets(self, topic: str, offset: int) -> Told:
        """The group's position by its consumer, outside of any transaction."""
        return self.told(lambda: self.consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False))

    def send_offsets(self, topic: str, offset: int) -> Told:
        if self.consumer is None:  # a member of nothing: its epoch alone protects the offsets
            self.consumer = Consumer(dict(self.settings["consumer"]))
            self.metadata = self.consumer.consumer_group_metadata()
        offsets = [TopicPartition(topic, 0, offset)]
        return self.told(lambda: self.producer.send_offsets_to_transaction(offsets, self.metadata, CALL_S))

    def close(self) -> None:
        if self.consumer is not None:
            self.consumer.close()


if __name__ == "__main__":
    serve(_Child, (LabError, KafkaException))
