"""One end of a connection through the proxy: what has come from there, and the way to it, over TLS or not.

Whoever uses it decides how much is read and waits for what is written: what is kept here stays small, and a slow reader at one
end is felt at the other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Self

from kitlib.lab.proxy.frames import GarbageError

BUFFER_BYTES = 1 << 18
RESET = struct.pack("ii", 1, 0)


class Side:
    """A connected socket; `data` is what has come and was not used yet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.data = bytearray()
        self.reader, self.writer = reader, writer
        writer.transport.set_write_buffer_limits(1, 0)  # so `write` waits until the system has it; with 0 that of TLS never goes on

    @classmethod
    async def connect(cls, *where: Any, **how: Any) -> Self:
        """As `asyncio.open_connection` takes it. OSError when nobody is there."""
        return cls(*await asyncio.open_connection(*where, limit=BUFFER_BYTES, **how))

    async def more(self) -> bool:
        """Wait for more than what is here; False at the end of the stream, also when the other side has reset it."""
        if (count := len(self.data)) >= BUFFER_BYTES:
            raise GarbageError(f"a header of more than {BUFFER_BYTES} bytes")
        try:
            self.data += await self.reader.read(BUFFER_BYTES)
        except OSError:
            return False
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
        self.writer.write(data)
        await self.writer.drain()

    def end_sending(self) -> None:
        """Tell the other end that nothing more comes; what it says can still be read. OSError when it is gone."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:  # an end of TLS would be one in both directions
            self.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def close(self, is_reset: bool) -> None:
        """Close the connection at once, with a reset (RST) if wanted."""
        if is_reset and not self.writer.transport.is_closing():
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()
