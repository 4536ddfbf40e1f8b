"""One end of a connection through the proxy: what has come from there, and the way to it, over TLS or not.

Whoever uses it decides how much is read and waits for what is written: what is kept here stays small, and a slow reader at one
end is felt at the other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import cast

from kitlib.lab.proxy.frames import GarbageError

BUFFER_BYTES = 1 << 18
RESET = struct.pack("ii", 1, 0)


class Side(asyncio.Protocol):
    """Made by an event loop for a connected socket; `data` is what has come and was not used yet."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.has_ended = False  # nothing more comes
        self.is_lost = False  # nothing can be written
        self.came = asyncio.Event()  # set when something came, or its end
        self.may_write = asyncio.Event()
        self.may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(1, 0)  # so `write` waits until the system has it; with 0 that of TLS never goes on

    def data_received(self, data: bytes) -> None:
        self.data += data
        if len(self.data) >= BUFFER_BYTES:
            self.transport.pause_reading()
        self.came.set()

    def eof_received(self) -> bool:
        self.has_ended = True
        self.came.set()
        return self.transport.can_write_eof()  # who has said all it will say may still be told something, but not over TLS

    def connection_lost(self, _error: Exception | None) -> None:
        self.has_ended = self.is_lost = True
        self.came.set()
        self.may_write.set()

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    async def more(self) -> bool:
        """Wait for more than what is here; False at the end of the stream, also when the other side has reset it."""
        if (count := len(self.data)) >= BUFFER_BYTES:
            raise GarbageError(f"a header of more than {BUFFER_BYTES} bytes")
        while len(self.data) == count and not self.has_ended:
            self.came.clear()
            self.transport.resume_reading()
            await self.came.wait()
        return len(self.data) > count

    def take(self, count: int) -> bytes:
        """The next `count` bytes or all there are."""
        taken = bytes(memoryview(self.data)[:count])
        del self.data[:count]
        return taken

    async def whole(self, size: int) -> bytes | None:
        """The next `size` bytes together; None when the stream ends before. Memory is taken as they come."""
        parts = bytearray()
        while len(parts) < size:
            parts += self.take(size - len(parts))
            if len(parts) < size and not await self.more():
                return None
        return bytes(parts)

    async def write(self, data: bytes) -> None:
        """Send all of it; OSError when nobody is at the other end any more."""
        if not self.is_lost:
            self.transport.write(data)
            await self.may_write.wait()
        if self.is_lost:
            raise ConnectionResetError("nobody is at the other end any more")

    def end_sending(self) -> None:
        """Tell the other end that nothing more comes; what it says can still be read. OSError when it is gone."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # an end of TLS would be one in both directions
            self.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def close(self, is_reset: bool) -> None:
        """Close the connection at once, with a reset (RST) if wanted."""
        if is_reset and not self.is_lost:
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()
