"""The producer's memory: a fixed number of bytes for all batches together, and who has to wait for some.

A caller that asks for more than is free waits, first come, first served, and
collects what becomes free until it has enough; after max.block.ms it returns what it had collected.
A slow broker fills this pool, and so `send` starts to block: that is how a producer notices.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kitlib.errors import KnobError

BUFFER_EXHAUSTED = "BufferExhaustedException"  # a TimeoutException to whoever catches those


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes that were asked for: granted, waited for, or given up."""

    size: int
    deadline_ms: int
    accumulated: int = 0  # bytes that it has so far; the pool's no longer
    error: str | None = None  # an exception class of Java's client, once it was given up

    @property
    def is_granted(self) -> bool:
        """Whether it has all its bytes."""
        return self.accumulated == self.size and self.error is None

    @property
    def is_over(self) -> bool:
        """Whether the waiting has an end."""
        return self.is_granted or self.error is not None


@dataclass(slots=True)
class BufferPool:
    """`total_memory` bytes for batches. KnobError below 0.

    Source: Apache Kafka 4.3.1, `BufferPool`.
    Differs: a waiter that is told of free memory takes it at once (a thread may be overtaken by one that
    has only just come); buffers are numbers, so those of batch.size bytes are not kept for the next batch; no closing.
    """

    total_memory: int
    available: int = field(init=False)  # bytes that nobody has
    waiters: deque[Allocation] = field(default_factory=deque)  # the first one is served first

    def __post_init__(self) -> None:
        if self.total_memory < 0:
            raise KnobError(f"a pool of {self.total_memory} bytes: give at least 0.")
        self.available = self.total_memory

    @property
    def queued(self) -> int:
        """How many wait. While anyone does, every batch is sent as it is, full or not."""
        return len(self.waiters)

    def allocate(self, size: int, max_block_ms: int, now_ms: int) -> Allocation:
        """Ask for memory: granted at once, or waiting. KnobError when size > total_memory, which would wait forever."""
        if size > self.total_memory:
            raise KnobError(f"{size} bytes are more than the whole pool of {self.total_memory}. Send smaller records.")
        asked = Allocation(size, now_ms + max_block_ms)
        if self.available >= size:
            self._give(asked)
            self._serve()  # with what is left
        else:
            self.waiters.append(asked)
        return asked

    def deallocate(self, size: int) -> None:
        """Memory comes back; the first waiter goes on."""
        self.available += size
        self._serve()

    def expire(self, now_ms: int) -> list[Allocation]:
        """Those whose time is up give up what they had collected, and go."""
        gone = [waiter for waiter in self.waiters if waiter.deadline_ms <= now_ms]
        for waiter in gone:
            self.waiters.remove(waiter)
            self.available += waiter.accumulated
            waiter.accumulated, waiter.error = 0, BUFFER_EXHAUSTED
        if gone:
            self._serve()
        return gone

    def _serve(self) -> None:
        """The first waiter takes what there is; once it has enough, the next one may."""
        while self.waiters and self.available:
            self._give(self.waiters[0])
            if self.waiters[0].is_granted:
                self.waiters.popleft()

    def _give(self, asked: Allocation) -> None:
        got = min(asked.size - asked.accumulated, self.available)
        self.available -= got
        asked.accumulated += got

    def __repr__(self) -> str:
        return f"<BufferPool: {self.available} of {self.total_memory} bytes available, {self.queued} waiting>"
