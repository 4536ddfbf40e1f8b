"""The two ends of a proxy, bare: a client that sends the bytes it likes, and a server that answers every frame.

What a proxy does to a stream of bytes is not a matter of what they mean, and a real broker keeps no
copy of what it got. The tests of what Kafka makes of it are in test_chaos_on_kafka.py.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any

from kitlib.lab.clients import Cluster
from kitlib.lab.proxy.chaos_proxy import ChaosProxy
from tests.conftest import wait_for

PRODUCE, FETCH, METADATA, HEARTBEAT = 0, 1, 3, 12
TIMEOUT_S = 10.0


def request(number: int, body: bytes = b"", api: int = PRODUCE, client_id: str | None = "a client", acks: int = -1) -> bytes:
    """A whole frame: a Produce of version 7, or version 0 of something else, with `number` as its correlation id."""
    name = b"" if client_id is None else client_id.encode()
    head = struct.pack(">hhih", api, 7 if api == PRODUCE else 0, number, -1 if client_id is None else len(name)) + name
    if api == PRODUCE:
        head += struct.pack(">hh", -1, acks)
    return struct.pack(">i", len(head + body)) + head + body


def bare_proxy(target_port: int, port: int = 0, **more: Any) -> ChaosProxy:
    """A proxy before one port."""
    return ChaosProxy.before(Cluster(f"127.0.0.1:{target_port}", None, 1, "external"), port=port, **more)


def answer(frame: bytes) -> bytes:
    """What the server says to a frame: its correlation id, and a digest of all of it."""
    digest = hashlib.sha256(frame).digest()
    return struct.pack(">i", 4 + len(digest)) + frame[8:12] + digest


@dataclass
class Server:
    """Answers every frame, keeps every byte. A context manager."""

    # No answer to anything.
    is_mute: bool = False
    # Whole frames, in the order in which they came; bytes behind the last whole frame of each connection.
    frames: list[bytes] = field(default_factory=list)
    rests: list[bytes] = field(default_factory=list)
    ended: int = 0

    def __enter__(self) -> Server:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.sockets: list[socket.socket] = []
        self.threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.hang_up()
        for thread in self.threads:
            thread.join(TIMEOUT_S)

    def hang_up(self) -> None:
        """Close all connections."""
        for each in self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(connection)
            self.threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self.threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        unread = b""
        with connection:
            while True:
                try:
                    part = connection.recv(1 << 20)
                except OSError:
                    part = b""
                if not part:
                    break
                unread += part
                while len(unread) >= 4 and len(unread) >= (end := 4 + struct.unpack_from(">i", unread)[0]):
                    frame, unread = unread[:end], unread[end:]
                    self.frames.append(frame)
                    is_answered = not (frame[4:6] == b"\0\0" and frame[-2:] == b"\0\0" and len(frame) < 40)
                    if not self.is_mute and is_answered:
                        try:
                            connection.sendall(answer(frame))
                        except OSError:
                            break
        self.rests.append(unread)
        self.ended += 1

    def wait_for_frames(self, count: int) -> list[bytes]:
        assert wait_for(lambda: len(self.frames) >= count, TIMEOUT_S), f"{len(self.frames)} of {count} frames came"
        return self.frames


class Client:
    """One connection. A context manager."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def receive(self) -> bytes:
        """The next whole answer; EOFError or ConnectionError when the connection ends instead."""
        size = self._read(4)
        return size + self._read(struct.unpack(">i", size)[0])

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError(f"{len(data)} of {count} bytes came")
            data += part
        return data

    def has_nothing(self, seconds: float = 0.1) -> bool:
        """Whether nothing at all comes within the time."""
        self.socket.settimeout(seconds)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK) and False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_S)

    def how_it_ended(self) -> str:
        """Wait for the end: 'closed', 'reset', or 'open' when it does not come."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            return "open"
        return "closed"
