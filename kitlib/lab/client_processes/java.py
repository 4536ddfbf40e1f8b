"""Java's KafkaConsumer as a driver of `kitlib.lab.client_processes.consumer`: in a JVM below the child, through Py4J."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JJavaError

from kitlib.errors import LabError
from kitlib.lab.client_processes.driver import (
    CALL_S,
    FETCH_WAIT_MS,
    NONE,
    POSITION_MS,
    Client,
    Refused,
    broker_form,
    consumer_config,
    event,
    first_of_each,
)
from kitlib.lab.java_client import JavaClient, as_text, message_of

LISTENER = "org.apache.kafka.clients.consumer.ConsumerRebalanceListener"
CALLBACK = "org.apache.kafka.clients.consumer.OffsetCommitCallback"
DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
PACKAGE = "org.apache.kafka.clients.consumer."
ASSIGNORS = {
    "range": "RangeAssignor", "roundrobin": "RoundRobinAssignor", "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}  # fmt: skip


class Java(Client):
    """Java's KafkaConsumer in a JVM of its own, which ends with this process."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.topic = settings["topic"]
        self.room = ExitStack()
        java = self.room.enter_context(JavaClient.open())
        self.jvm = java.process.pid
        self.java = _single_threaded(java)
        self.room.callback(self.java.shutdown)
        config: dict[str, Any] = {
            **consumer_config({**settings, "strategies": [PACKAGE + ASSIGNORS[name] for name in settings["strategies"]]}),
            "max.poll.records": settings["max_poll_records"],
            "metadata.max.age.ms": settings["metadata_max_age_ms"],
            "fetch.max.wait.ms": FETCH_WAIT_MS,
            "default.api.timeout.ms": int(CALL_S * 1000),
            "request.timeout.ms": int(CALL_S * 1000) - 1000,
            "key.deserializer": DESERIALIZER,
            "value.deserializer": DESERIALIZER,
        }
        try:
            self.consumer = self.java.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(as_text(config | settings["more"]))
            self.consumer.subscribe([self.topic], _Listener(self, settings["commit_on_revoke"]))
        except Py4JJavaError as error:
            words, cause = message_of(error), error.java_exception.getCause()
            words = words if cause is None else f"{words} ({cause.getMessage()})"
            self.room.close()
            raise Refused(words) from None

    def poll(self, records: int, timeout_ms: int) -> list[tuple[int, int]]:
        try:
            found = self.consumer.poll(self.java.jvm.java.time.Duration.ofMillis(timeout_ms))
        except Py4JJavaError as error:
            self.events.append(event("error", error=_java_name(error.java_exception)))
            return []
        handed, one_by_one = [], found.iterator()
        while one_by_one.hasNext():
            record = one_by_one.next()
            handed.append((int(record.partition()), int(record.offset())))
        for partition, offset in first_of_each(handed[records:]).items():
            self.consumer.seek(self.java.jvm.org.apache.kafka.common.TopicPartition(self.topic, partition), offset)
        return handed[:records]

    def commit(self, offsets: Iterable[tuple[int, int]] | None, waits: bool = True) -> str:
        kafka, most = self.java.jvm.org.apache.kafka, self.java.jvm.java.time.Duration.ofMillis(int(CALL_S * 1000))
        wanted = None
        if offsets is not None:
            wanted = self.java.jvm.java.util.HashMap()
            for partition, offset in offsets:
                where = kafka.common.TopicPartition(self.topic, partition)
                wanted.put(where, kafka.clients.consumer.OffsetAndMetadata(offset))
        chosen = () if wanted is None else (wanted,)
        try:
            if waits:
                self.consumer.commitSync(*chosen, most)
            else:
                self.consumer.commitAsync(*chosen, _Committed(self))
        except Py4JJavaError as error:
            return _java_name(error.java_exception)
        return NONE

    def store(self, partition: int, offset: int) -> str:
        raise LabError("Java's consumer has no stored offsets: it commits its positions. Use commit().")

    def positions(self) -> list[tuple[int, int | None]]:
        most = self.java.jvm.java.time.Duration.ofMillis(POSITION_MS)
        found: dict[int, int | None] = {}
        for where in self.consumer.assignment():
            try:
                found[int(where.partition())] = int(self.consumer.position(where, most))
            except Py4JJavaError:  # reset policy none, or no answer in time
                found[int(where.partition())] = None
        return sorted(found.items())

    def identity(self) -> tuple[str, int | None]:
        try:
            told = self.consumer.groupMetadata()
        except Py4JJavaError:  # it has a fatal error
            return "", None
        return str(told.memberId() or ""), told.generationId() if told.generationId() >= 0 else None

    def close(self) -> None:
        try:
            with suppress(Py4JJavaError):  # it tells of what it was told before
                self.consumer.close(self.java.jvm.java.time.Duration.ofMillis(int(CALL_S * 1000)))
        finally:
            self.room.close()


class _Listener:
    """Java's rebalance listener, called from within `poll` and `close`."""

    def __init__(self, driver: Java, commits: bool) -> None:
        self.driver, self.commits = driver, commits

    def onPartitionsAssigned(self, partitions: Any) -> None:
        self._note("assigned", partitions)

    def onPartitionsRevoked(self, partitions: Any) -> None:
        if self.commits and (error := self.driver.commit(None)) != NONE:
            self._note("committed", partitions, error)
        self._note("revoked", partitions)

    def onPartitionsLost(self, partitions: Any) -> None:
        self._note("lost", partitions)

    def _note(self, what: str, partitions: Any, error: str = "") -> None:
        self.driver.events.append(event(what, (each.partition() for each in partitions), error))

    class Java:
        implements = (LISTENER,)


class _Committed:
    """Is told of a commit that nobody waited for, within a later poll."""

    def __init__(self, driver: Java) -> None:
        self.driver = driver

    def onComplete(self, offsets: Any, thrown: Any) -> None:
        if thrown is not None:
            found = [each.partition() for each in offsets.keySet()]
            self.driver.events.append(event("committed", found, _java_name(thrown)))

    class Java:
        implements = (CALLBACK,)


def _single_threaded(java: JavaClient) -> ClientServer:
    """A second gateway to the same JVM, in which Java's calls back come in the thread and on the connection of the call.

    KafkaConsumer allows one thread at a time, its callbacks included; JavaClient's gateway would give each of them another.
    """
    token = java.gateway.gateway_parameters.auth_token
    builder = java.jvm.java.lang.Class.forName("py4j.ClientServer$ClientServerBuilder")
    made = next(each for each in builder.getConstructors() if each.getParameterCount() == 0)
    server = made.newInstance(java.gateway.new_array(java.jvm.java.lang.Object, 0)).javaPort(0).authToken(token).build()
    server.startServer()
    port = server.getJavaServer().getListeningPort()
    return ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=token, auto_convert=True, daemonize_memory_management=True),
        python_parameters=PythonParameters(port=0, auth_token=token, daemonize=True, daemonize_connections=True),
    )


def _java_name(thrown: Any) -> str:
    return broker_form(str(thrown.getClass().getSimpleName()))
