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
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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


def free_ports(count: int, candidates: list[int]) -> list[int]:
    """The first `count` free ones of the candidates; LabError when there are fewer."""
    free: list[int] = []
    for port in candidates:
        if port not in free and is_free(port):
            free.append(port)
        if len(free) == count:
            return free
    raise LabError(
        f"Only {len(free)} of the {count} ports that Kafka needs are free among {len(candidates)} tried between "
        f"{FIRST_PORT} and {LAST_PORT}. End the programs that hold them."
    )


def check_cluster(cluster_id: str | None, ports: list[int], timeout_s: float = 10.0) -> None:
    """LabError when the brokers on these ports do not form the cluster with this id."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    deadline = time.monotonic() + timeout_s
    found = "no answer"
    while time.monotonic() < deadline:
        try:
            description = admin.describe_cluster(request_timeout=2.0).result(timeout=3.0)
        except KafkaException as error:
            found = str(error)
            continue
        found = f"cluster {description.cluster_id} with brokers on {sorted(node.port for node in description.nodes)}"
        if description.cluster_id != cluster_id:
            break
        if {node.port for node in description.nodes} == set(ports):
            return
        time.sleep(0.05)
    raise LabError(
        f"On {bootstrap}: found {found}, expected cluster {cluster_id} with brokers on {sorted(ports)}. End what else "
        "listens there, then `kit up`."
    )


DRAWN = 50


def choose(memory: Mapping[str, object], brokers: int) -> tuple[int, list[int]]:
    """The controller's port and that of each broker: the remembered ones, else free ones."""
    known = memory.get("ports")
    whole = isinstance(known, list) and all(isinstance(port, int) and 0 < port < 65536 for port in known) and len({*known}) == brokers + 1
    controller_port, *chosen = known if isinstance(known, list) and whole else draw(brokers + 1)
    return controller_port, chosen


def to_memory(nodes: list[Node]) -> dict[str, Any]:
    """What `choose` needs to choose the same ports again."""
    return {"ports": [nodes[0].controller_port, *(node.port for node in nodes)]}


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


def draw(count: int, without: Iterable[int] = ()) -> list[int]:
    """So many free ports of those that the kit takes; LabError when there are fewer."""
    drawn = random.sample(range(FIRST_PORT, LAST_PORT + 1), DRAWN)
    return free_ports(count, [port for port in drawn if port not in set(without)])
