"""One direction's way out: frames leave in the order in which they came, and one that waits holds back the rest.

That is how a real connection behaves: a delayed packet delays all behind it. As long as nothing
waits, bytes go straight from the reader's buffer to the socket and nothing is copied. What has to
wait is kept here; above `HELD_BYTES` the reader has to wait too, so memory is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from dataclasses import dataclass

HELD_BYTES = 32 << 20
# A throttled frame goes out in so many portions a second; a sliced one lets others run every so many bytes.
PORTIONS_PER_S = 50
SLICES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that wait for their time, or for somebody to open their gate, or go out slowly."""

    data: bytes
    # By the clock of the event loop.
    not_before_s: float = 0.0
    gate: asyncio.Event | None = None
    # 0: as fast as it goes.
    bytes_per_s: int = 0
    is_sliced: bool = False


class Outlet:
    """The way to one socket; OSError when nobody is at its other end any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sink: socket.socket) -> None:
        self.loop = loop
        self.sink = sink
        # Whoever hands a frame over, whole or in pieces: frames of two must not mix.
        self.turn = asyncio.Lock()
        self.held: deque[Held] = deque()
        self.held_bytes = 0
        # What went wrong when the writer wrote; nothing leaves any more.
        self.broken: OSError | None = None
        self.writer: asyncio.Task[None] | None = None
        # Set whenever something has left.
        self.moved = asyncio.Event()

    async def send(self, frames: memoryview | bytes) -> None:
        """Send whole frames now, or, if something waits, behind it."""
        async with self.turn:
            await self.pass_on(frames)

    async def put(self, held: Held) -> None:
        """Keep a whole frame until it may go."""
        async with self.turn:
            await self._keep(held)

    async def pass_on(self, piece: memoryview | bytes) -> None:
        """A piece of a frame, for those whose turn it is."""
        if self.held or self.broken:
            await self._keep(Held(bytes(piece)))
        else:
            await self.loop.sock_sendall(self.sink, piece)

    async def drain(self) -> None:
        """Wait until nothing is held."""
        await self._wait_below(0)

    async def _keep(self, held: Held) -> None:
        await self._wait_below(max(0, HELD_BYTES - len(held.data)))
        self.held.append(held)
        self.held_bytes += len(held.data)
        if self.writer is None or self.writer.done():
            self.writer = self.loop.create_task(self._write())

    async def _wait_below(self, size: int) -> None:
        """Wait until no more than `size` bytes are held."""
        while self.held_bytes > size and not self.broken:
            self.moved.clear()
            await self.moved.wait()
        if self.broken:
            raise self.broken

    async def _write(self) -> None:
        try:
            while self.held:
                held = self.held[0]
                if held.gate is not None:
                    await held.gate.wait()
                if (wait_s := held.not_before_s - self.loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                await self._send(held)
                self.held.popleft()
                self.held_bytes -= len(held.data)
                self.moved.set()
        except OSError as error:
            self.broken = error
            self.held.clear()
            self.moved.set()

    async def _send(self, held: Held) -> None:
        if held.is_sliced:
            for at in range(len(held.data)):
                await self.loop.sock_sendall(self.sink, held.data[at : at + 1])
                if at % SLICES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        elif held.bytes_per_s:
            portion = max(1, held.bytes_per_s // PORTIONS_PER_S)
            for at in range(0, len(held.data), portion):
                piece = held.data[at : at + portion]
                await asyncio.sleep(len(piece) / held.bytes_per_s)
                await self.loop.sock_sendall(self.sink, piece)
        else:
            await self.loop.sock_sendall(self.sink, held.data)
