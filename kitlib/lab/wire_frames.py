"""Frames on a connection: a length of four bytes, then as many bytes; every wait has a deadline.

`Frames` cuts a stream into frames and does nothing else, so it can be given any bytes there are.
`Connection` is a socket that never blocks for longer than it is told: what cannot be written at once
waits in a buffer, and whoever waits for an answer also writes.

Source: Apache Kafka 4.3.1, `NetworkReceive` (a frame's length is at least 0 and at most
`socket.request.max.bytes`, 100 MiB unless set otherwise).
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from contextlib import suppress

from kitlib.errors import LabError

LONGEST_FRAME_BYTES = 104_857_600  # socket.request.max.bytes of a broker that was not told otherwise
LENGTH = struct.Struct(">i")
READ_BYTES = 1 << 18


class WireClosed(LabError):
    """The connection is gone: the broker closed it, or could not be reached. What is unanswered may have been done."""


class Frames:
    """Cuts a stream of bytes into frames; holds at most one unfinished frame, and of that only what has come."""

    def __init__(self, longest_bytes: int = LONGEST_FRAME_BYTES) -> None:
        # A frame that claims to be longer is an error, before anything of it is kept.
        self.longest_bytes = longest_bytes
        self._held = bytearray()

    def __len__(self) -> int:
        return len(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole by now, without their lengths; LabError when a length is < 0 or > longest_bytes."""
        held = self._held
        held += data
        found = []
        at = 0
        while len(held) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(held, at)
            if not 0 <= length <= self.longest_bytes:
                held.clear()
                raise LabError(
                    f"Expected a frame of 0 to {self.longest_bytes:,} bytes, got one that claims {length:,}: "
                    "whoever answers there does not speak Kafka. Check the address."
                )
            end = at + LENGTH.size + length
            if end > len(held):
                break
            found.append(bytes(memoryview(held)[at + LENGTH.size : end]))
            at = end
        if at:
            del held[:at]
        return found


def framed(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return LENGTH.pack(len(payload)) + payload


class Connection:
    """One connection to host:port that sends bytes and receives frames."""

    def __init__(self, host: str, port: int, timeout_s: float, longest_bytes: int = LONGEST_FRAME_BYTES) -> None:
        self.where = f"{host}:{port}"
        self.frames = Frames(longest_bytes)
        # Whole frames that nobody has taken yet.
        self.arrived: list[bytes] = []
        self._out = bytearray()
        self._closed = ""
        try:
            self._socket = socket.create_connection((host, port), timeout=max(timeout_s, 0.001))
        except (OSError, OverflowError, UnicodeError) as error:
            raise WireClosed(
                f"Nobody answers at {self.where} within {timeout_s:g} s ({error}). `kit status` tells whether the broker runs."
            ) from error
        self._socket.setblocking(False)
        with suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector = selectors.DefaultSelector()
        self._watched = selectors.EVENT_READ
        self._selector.register(self._socket, self._watched)

    @property
    def is_open(self) -> bool:
        return not self._closed

    @property
    def unsent_bytes(self) -> int:
        """What waits here because the other side does not read."""
        return len(self._out)

    def send(self, data: bytes) -> None:
        """Write what can be written at once and keep the rest for later; WireClosed when the connection is gone."""
        self._check_open()
        self._out += data
        self._write()

    def drain(self, deadline: float) -> bool:
        """Write until nothing is left or the deadline (of time.monotonic) passes; whether nothing is left.

        WireClosed when the connection ended before.
        """
        while self._out:
            if not self._wait(deadline):
                return False
        self._check_open()
        return True

    def receive(self, deadline: float) -> bytes | None:
        """The next frame, or None when the deadline (of time.monotonic) passes first; a past one only looks.

        WireClosed when the connection ends, LabError when what comes is no frame; both end the connection, but
        frames that were whole before that are given out first.
        """
        while not self.arrived:
            self._check_open()
            if not self._wait(deadline):
                return None
        return self.arrived.pop(0)

    def close(self, why: str = "this side closed it") -> None:
        """End the connection; safe to call twice. What has arrived stays."""
        if not self._closed:
            self._closed = why
            self._selector.close()
            with suppress(OSError):
                self._socket.close()
            self._out.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise WireClosed(f"The connection to {self.where} has ended: {self._closed}. Open a new one.")

    def _wait(self, deadline: float) -> bool:
        """Read and write once, as soon as one can; False when the deadline passes without either."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        if wanted != self._watched:
            self._selector.modify(self._socket, wanted)
            self._watched = wanted
        ready = self._selector.select(max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        for _, event in ready:
            if event & selectors.EVENT_WRITE:
                self._write()
            if event & selectors.EVENT_READ:
                self._read()
        return True

    def _write(self) -> None:
        try:
            with memoryview(self._out) as view:
                sent = self._socket.send(view)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            # What the other side said before it left is still to be read.
            self._out.clear()
            self._lost(str(error))
            return
        del self._out[:sent]

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(str(error))
            return
        if not data:
            half = f" in the middle of an answer ({len(self.frames)} bytes of it came)" if len(self.frames) else ""
            self._lost(f"the other side closed it{half}")
            return
        try:
            self.arrived += self.frames.feed(data)
        except LabError as error:
            self.close("what came was no frame")
            raise LabError(f"{self.where}: {error}") from None

    def _lost(self, why: str) -> None:
        with suppress(OSError, LabError):
            while data := self._socket.recv(READ_BYTES):
                self.arrived += self.frames.feed(data)
        self.close(why)
