"""Which ports the kit's brokers have: drawn once, kept over restarts, moved when somebody else sits there.

An open port proves little: the kernel accepts connections for a broker that is paused or still loading. So the kit
asks real requests and waits for real answers. Two are enough, both in their oldest and simplest form: ApiVersions
(anyone there?) and InitProducerId (can a producer begin?). They are written as raw frames because a probe must give
up after an exact time and must not keep a connection, which no client library offers; everything else uses one.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Collection
from itertools import islice

from kitlib.errors import LabError
from kitlib.lab.brokers.node import Node

API_VERSIONS = 18
INIT_PRODUCER_ID = 22
SASL_HANDSHAKE = 17
CORRELATION_ID = 7
LONGEST_ANSWER_BYTES = 1 << 20
# The ports a kit takes lie below those that systems hand out to outgoing connections (from 32768 on
# Linux, 49152 on macOS): a client that dials its own dead broker could else be connected to itself.
FIRST_PORT, LAST_PORT = 20000, 29999
DRAWN = 50  # how many of them are tried


def ask(port: int, api_key: int, body: bytes, timeout_s: float, host: str = "127.0.0.1") -> bytes | None:
    """The answer of the broker on a port to a version 0 request, without its header, or None."""
    client_id = b"kit-probe"
    request = struct.pack(">hhih", api_key, 0, CORRELATION_ID, len(client_id)) + client_id + body
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection, connection.makefile("rb") as answers:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size, correlation_id = struct.unpack(">ii", answers.read(8))
            if correlation_id != CORRELATION_ID or not 4 <= size <= LONGEST_ANSWER_BYTES:
                return None
            answer = answers.read(size - 4)
            return answer if len(answer) == size - 4 else None
    except (OSError, struct.error):
        return None


def answers(port: int, timeout_s: float = 0.5) -> bool:
    """Whether a Kafka broker answers on this port."""
    answer = ask(port, API_VERSIONS, b"", timeout_s)
    return answer is not None and answer[:2] == b"\x00\x00"


def serves_producers(port: int, timeout_s: float = 2.0) -> bool:
    """Whether the broker hands out producer ids: for a moment after its start it answers with error 14."""
    no_transactional_id, transaction_timeout_ms = -1, 60_000
    answer = ask(port, INIT_PRODUCER_ID, struct.pack(">hi", no_transactional_id, transaction_timeout_ms), timeout_s)
    return answer is not None and len(answer) >= 6 and struct.unpack_from(">h", answer, 4) == (0,)


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of 127.0.0.1, neither there nor on all addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        # As Java's server sockets do: connections of a broker that just ended do not hold the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(1)
        except OSError:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(0.2)
        return client.connect_ex(("127.0.0.1", port)) != 0


def are_cluster(cluster_id: str | None, ports: list[int]) -> bool:
    """Whether the brokers on these ports are all of the cluster with this id, and say so."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    try:
        found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=2.0)
    except KafkaException:
        return False
    return found.cluster_id == cluster_id and {broker.port for broker in found.brokers.values()} == {*ports}


def move_taken(nodes: list[Node], say: Callable[[str], None]) -> None:
    """Give a new port to whoever's old one is taken."""
    own = {port for node in nodes for port in node.ports()}
    for node in nodes:
        if not is_free(node.port):
            new = draw(1, own)[0]
            say(f"Port {node.port} is taken by another program; broker {node.number} moved to {new}.")
            node.port = new
        if node.controller_port is not None and not is_free(node.controller_port):
            node.controller_port = draw(1, own)[0]
        own |= {*node.ports()}


def draw(count: int, without: Collection[int] = ()) -> list[int]:
    """So many free ports of those that the kit takes; LabError when there are fewer."""
    tried = random.sample([port for port in range(FIRST_PORT, LAST_PORT + 1) if port not in without], DRAWN)
    free = list(islice(filter(is_free, tried), count))
    if len(free) < count:
        raise LabError(
            f"Only {len(free)} of the {count} ports that are needed are free among {DRAWN} tried between {FIRST_PORT} and {LAST_PORT}. "
            "End the programs that hold them."
        )
    return free
