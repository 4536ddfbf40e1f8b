"""The real Java client, asked from Python: what it refuses to start with, and what it makes of its settings.

Most of what is written about producers is about Java's, and librdkafka's rules and defaults differ from
it. So the kit does not retell Java's rules, it asks: a small JVM with the jars of the broker's own
release, which this process talks to through Py4J and which ends with it.

    with JavaClient.open() as java:
        java.producer_settings({"acks": "1"})["enable.idempotence"]     # "false"
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from kitlib.errors import LabError
from kitlib.lab import jars, java

SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
END_S = 5.0


class RefusedSettings(LabError):
    """The client does not start with these settings; the message is its own."""


@dataclass(slots=True)
class JavaClient:
    """A JVM with Kafka's own client in it. `jvm` is Py4J's view of its packages."""

    gateway: Any
    process: Any

    @classmethod
    @contextlib.contextmanager
    def open(cls, options: Sequence[str] = ()) -> Iterator[JavaClient]:
        """Start the JVM, with more `options` if need be; it ends with the block, or with this process.

        LabError when it does not start.
        """
        found = java.find_java()
        kafka = [path.resolve() for path in jars.ensure_jars("kafka")]  # first, like the broker: so its archive serves here too
        archive = java.class_archive_flags(found, "kafka", kafka[0].parent, writes=False)
        first, *others = map(str, [*kafka, find_jar_path()])
        before = {name: os.environ.pop(name) for name in java.FOREIGN_SETTINGS if name in os.environ}
        try:
            port, token, process = launch_gateway(
                port=0, jarpath=first, classpath=os.pathsep.join(others), die_on_exit=True, enable_auth=True, return_proc=True,
                java_path=str(found.executable), javaopts=[*JVM, *archive, *options],
            )  # fmt: skip
        except (OSError, Py4JError, ValueError) as error:
            raise LabError(f"Java's Kafka client could not be started: {error}. Run `kit doctor`.") from error
        finally:
            os.environ.update(before)
        parameters = GatewayParameters(address="127.0.0.1", port=port, auth_token=token, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            yield cls(gateway, process)
        finally:
            with contextlib.suppress(Py4JError, OSError):  # it may have ended already
                gateway.shutdown()
            with contextlib.suppress(OSError):
                process.stdin.close()  # its word for: end
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def jvm(self) -> Any:
        """The packages of the JVM: `java.jvm.org.apache.kafka.clients...`."""
        return self.gateway.jvm

    @property
    def version(self) -> str:
        """The client's release."""
        return str(self.jvm.org.apache.kafka.common.utils.AppInfoParser.getVersion())

    def producer_settings(self, given: Mapping[str, Any]) -> dict[str, str]:
        """What a producer makes of these settings, every one of its own included, as text ("" for none).

        RefusedSettings with the client's own message when it would not start with them, LabError when its
        JVM has ended.
        """
        with _asking():
            try:
                config = self.jvm.org.apache.kafka.clients.producer.ProducerConfig(_settings(given))
            except Py4JJavaError as error:
                raise RefusedSettings(message_of(error)) from None
            return {str(name): _text(config.values().get(name)) for name in config.values().keySet()}

    def producer(self, given: Mapping[str, Any]) -> Any:
        """A real KafkaProducer of byte arrays; to be ended with `close_at_once`. Errors as above."""
        with _asking():
            try:
                return self.jvm.org.apache.kafka.clients.producer.KafkaProducer(_settings(given))
            except Py4JJavaError as error:
                raise RefusedSettings(message_of(error)) from None

    def send(self, producer: Any, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Any:
        """Hand one record over; its Java Future, for `outcome`. LabError when it is not taken."""
        with _asking():
            record = self.jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, partition, key, value)
            return producer.send(record)

    def outcome(self, future: Any, timeout_s: float) -> tuple[int | None, str]:
        """(offset, "") once it is stored, (None, exception class) once it failed, (None, "") when the time is over.

        LabError when the JVM has ended.
        """
        with _asking():
            try:
                told = future.get(int(timeout_s * 1000), self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
            except Py4JJavaError as error:
                thrown = error.java_exception
                if thrown.getClass().getName() == "java.util.concurrent.TimeoutException":
                    return None, ""
                cause = thrown.getCause() or thrown
                return None, str(cause.getClass().getSimpleName())
            return int(told.offset()), ""

    def close_at_once(self, producer: Any) -> None:
        """End a producer, whatever it still has in hand; one whose JVM has ended needs none, and nothing is raised."""
        with contextlib.suppress(Py4JError):
            producer.close(self.jvm.java.time.Duration.ofMillis(0))


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """LabError for what Py4J raises: Java has thrown something, or its JVM has ended."""
    try:
        try:
            yield
        except Py4JJavaError as error:
            raise LabError(f"Java's Kafka client fails with {message_of(error)}. Start a new one.") from None
    except Py4JError as error:
        raise LabError(f"The JVM of Java's Kafka client does not answer any more ({error}). Start a new one.") from error


def message_of(error: Py4JJavaError) -> str:
    """A Java exception in one line: its class and its message; of one that only wraps another (KafkaException), the other's."""
    thrown = error.java_exception
    if thrown.getClass().getSimpleName() == "KafkaException" and thrown.getCause() is not None:
        thrown = thrown.getCause()
    return f"{thrown.getClass().getSimpleName()}: {thrown.getMessage()}"


def _settings(given: Mapping[str, Any]) -> dict[str, str]:
    named = {"bootstrap.servers": "127.0.0.1:1", "key.serializer": SERIALIZER, "value.serializer": SERIALIZER}
    return named | as_text(given)


def as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as Java's clients read them."""
    return {name: _text(value) for name, value in settings.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
