"""The proxy's sockets to brokers: over TLS where the cluster asks for it, and otherwise as they are.

The event loop's own ways to send know no TLS, and its transports own their buffers, which the proxy keeps for itself. So TLS
is done here on sockets that do not block: whatever has to wait says for what.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Where a broker is, and how it is spoken to: over TLS if there is a context."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    def new_socket(self) -> socket.socket:
        """A socket for one connection, which does not block; OSError when no descriptor is left."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        return made

    async def connect(self, loop: asyncio.AbstractEventLoop, plain: socket.socket) -> socket.socket:
        """Connect the socket, over TLS in place of it; the one to use from now on. OSError when that does not come about."""
        await loop.sock_connect(plain, (self.host, self.port))
        if self.tls is None:
            return plain
        secure = self.tls.wrap_socket(plain, server_hostname=self.host, do_handshake_on_connect=False)
        try:
            await _shake_hands(loop, secure)
        except BaseException:
            secure.close()
            raise
        return secure


async def _shake_hands(loop: asyncio.AbstractEventLoop, secure: ssl.SSLSocket) -> None:
    while True:
        try:
            return secure.do_handshake()
        except ssl.SSLWantReadError:
            await _readiness(loop, secure, is_for_writing=False)
        except ssl.SSLWantWriteError:
            await _readiness(loop, secure, is_for_writing=True)


async def _readiness(loop: asyncio.AbstractEventLoop, secure: ssl.SSLSocket, is_for_writing: bool) -> None:
    ready = asyncio.Event()
    if is_for_writing:
        loop.add_writer(secure, ready.set)
    else:
        loop.add_reader(secure, ready.set)
    try:
        await ready.wait()
    finally:
        if is_for_writing:
            loop.remove_writer(secure)
        else:
            loop.remove_reader(secure)


async def send_all(loop: asyncio.AbstractEventLoop, sink: socket.socket, data: memoryview | bytes) -> None:
    """Send all of it; OSError when nobody is at the other end any more."""
    if not isinstance(sink, ssl.SSLSocket):
        await loop.sock_sendall(sink, data)
        return
    left = memoryview(data)
    while left:
        try:
            left = left[sink.send(left) :]
        except ssl.SSLWantWriteError:  # it wants to read first only to renegotiate, which brokers do not do
            await _readiness(loop, sink, is_for_writing=True)


def read_into(source: socket.socket, room: memoryview) -> int | None:
    """How many bytes were there, 0 at the end of the stream, None when there is nothing yet."""
    try:
        return source.recv_into(room)
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
        return None
    except OSError:  # reset, or given up by the system: nothing comes any more
        return 0


def holds_more(source: socket.socket) -> bool:
    """Whether bytes have been taken from the system already that nobody has read: no system call tells of them any more."""
    return isinstance(source, ssl.SSLSocket) and source.pending() > 0


def end_sending(sink: socket.socket) -> None:
    """Tell the other end that nothing more comes; what it says can still be read. OSError when it is gone."""
    socket.socket.shutdown(sink, socket.SHUT_WR)  # that of an SSLSocket would end TLS in both directions
