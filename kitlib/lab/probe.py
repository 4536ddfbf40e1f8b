"""Does this port speak Kafka, and is the broker behind it ready for work?

An open port proves little: the kernel accepts connections for a broker that is paused or still
loading. So the kit asks real requests and waits for real answers. Two are enough, both in their
oldest and simplest form: ApiVersions (anyone there?) and InitProducerId (can a producer begin?).
They are written as raw frames because a probe must give up after an exact time and must not keep a
connection, which no client library offers; everything else in the kit uses such a library.
"""

from __future__ import annotations

import socket
import struct
import time

from kitlib.errors import LabError

API_VERSIONS = 18
INIT_PRODUCER_ID = 22
CORRELATION_ID = 7
LONGEST_ANSWER_BYTES = 1 << 20
# The ports a kit takes lie below those that systems hand out to outgoing connections (from 32768 on
# Linux, 49152 on macOS): a client that dials its own dead broker could else be connected to itself.
FIRST_PORT, LAST_PORT = 20000, 29999


def ask(port: int, api_key: int, body: bytes, timeout_s: float) -> bytes | None:
    """The answer of the broker on a port of 127.0.0.1 to a version 0 request, without its header, or None."""
    client_id = b"kit-probe"
    request = struct.pack(">hhih", api_key, 0, CORRELATION_ID, len(client_id)) + client_id + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size, correlation_id = struct.unpack(">ii", _read(connection, 8))
            if correlation_id != CORRELATION_ID or not 4 <= size <= LONGEST_ANSWER_BYTES:
                return None
            return _read(connection, size - 4)
    except (OSError, EOFError):
        return None


def _read(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


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
