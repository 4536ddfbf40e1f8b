"""One end of a connection through the proxy: the frames that come from there, and the way to it, over TLS or not.

Whoever uses it decides when the next frame is read and waits for what is written, so a slow reader at one end is felt at the other.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Self

from kitlib.lab.proxy.frames import LONGEST_FRAME_BYTES, GarbageError

BUFFER_BYTES = 1 << 18
RESET = struct.pack("ii", 1, 0)


class Side:
    """A connected socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        writer.transport.set_write_buffer_limits(1, 0)  # so `write` waits until the system has it; with 0 that of TLS never goes on

    @classmethod
    async def connect(cls, *where: Any, **how: Any) -> Self:
        """As `asyncio.open_connection` takes it. OSError when nobody is there."""
        return cls(*await asyncio.open_connection(*where, limit=BUFFER_BYTES, **how))

    async def frame(self) -> bytes | None:
        """The next whole frame; None when the stream ends before, also when the other side has reset it. Memory is taken as bytes come.

        GarbageError for a length that no frame has.
        """
        try:
            head = await self.reader.readexactly(4)
            (length,) = struct.unpack(">i", head)
            if not 4 <= length <= LONGEST_FRAME_BYTES:
                raise GarbageError(f"a frame of {length} bytes")
            return head + await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            return None

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
