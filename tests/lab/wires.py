"""Topics and connections for tests of the wire, and servers that are no brokers."""

from __future__ import annotations

import itertools
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from confluent_kafka.admin import AdminClient, NewTopic

from kitlib.lab.kafka_server import Cluster, client_config
from kitlib.lab.wire.connection import Wire

Handler = Callable[[socket.socket], None]


def address(cluster: Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.rpartition(":")
    return host, int(port)


def open_wire(cluster: Cluster, **more: Any) -> Wire:
    return Wire.open(*address(cluster), **more)


def new_topics(cluster: Cluster, count: int, partitions: int = 1, **config: str) -> list[str]:
    """Topics with names of their own, whose partitions have leaders; nothing is ever deleted for its age."""
    names = [f"wire-{uuid.uuid4().hex[:12]}" for _ in range(count)]
    config = {"retention.ms": "-1"} | {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient(client_config(cluster))
    for made in admin.create_topics([NewTopic(name, partitions, 1, config=config) for name in names]).values():
        made.result(10)
    with open_wire(cluster, timeout_s=15) as wire:
        for name, partition in itertools.product(names, range(partitions)):
            assert wire.list_offsets(name, partition) == 0  # Metadata may name a leader a moment before it leads; who answers does lead
    return names


def new_topic(cluster: Cluster, partitions: int = 1, **config: str) -> str:
    return new_topics(cluster, 1, partitions, **config)[0]


class Stub:
    """Listens where a broker would, and treats each connection as `handler` says; a context manager."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.connections: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.serve, daemon=True)]
        self.threads[0].start()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.settimeout(10)
                self.connections.append(connection)
                thread = threading.Thread(target=self.treat, args=(connection,), daemon=True)
                self.threads.append(thread)
                thread.start()

    def treat(self, connection: socket.socket) -> None:
        with suppress(OSError):
            self.handler(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.listener, *self.connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


def says(answer: bytes, closes: bool = False) -> Handler:
    """Hears the beginning of a request, whatever it is, says this, and then nothing, or goes."""

    def handle(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(answer)
        if closes:
            connection.close()
        else:
            connection.recv(1 << 16)

    return handle


def is_silent(connection: socket.socket) -> None:
    """Hears everything and never answers."""
    while connection.recv(1 << 16):
        pass


class Relay(Stub):
    """Passes bytes between clients and a real broker, until it is told something else by `mode`.

    "pass"; "silent": answers are read and thrown away; "garbage": the next answer is another one.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.target = address(cluster)
        self.mode = "pass"
        self.swallowed = b""
        super().__init__(self.join)

    def join(self, client: socket.socket) -> None:
        broker = socket.create_connection(self.target, timeout=10)
        self.connections.append(broker)
        thread = threading.Thread(target=self.carry, args=(broker, client), daemon=True)
        self.threads.append(thread)
        thread.start()
        with suppress(OSError):
            while data := client.recv(1 << 16):
                broker.sendall(data)
        self.end(broker, client)

    def carry(self, broker: socket.socket, client: socket.socket) -> None:
        """The answers, from the broker to the client."""
        with suppress(OSError):
            while data := broker.recv(1 << 16):
                if self.mode == "pass":
                    client.sendall(data)
                elif self.mode == "garbage":
                    self.mode = "pass"
                    client.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                else:
                    self.swallowed += data
        self.end(broker, client)

    def answers_swallowed(self) -> int:
        """How many whole answers were thrown away; of one connection alone."""
        rest, count = self.swallowed, 0
        while len(rest) >= 4 and len(rest) >= (size := 4 + int.from_bytes(rest[:4], "big")):
            rest, count = rest[size:], count + 1
        return count

    def end(self, *connections: socket.socket) -> None:
        for each in connections:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End all connections there are."""
        self.end(*self.connections)
