"""The producer's memory: a fixed number of bytes for all batches together, and who has to wait for some.

A caller that asks for more than is free waits, first come, first served, and
collects what becomes free until it has enough; after max.block.ms it returns what it had collected.
A slow broker fills this pool, and so `send` starts to block: that is how a producer notices.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kitlib.errors import KnobError


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes that were asked for."""

    size: int
    accumulated: int = 0  # bytes that it has so far; the pool's no longer

    @property
    def is_granted(self) -> bool:
        """Whether it has all its bytes."""
        return self.accumulated == self.size


@dataclass(slots=True)
class BufferPool:
    """`total_memory` bytes for batches.

    Source: Apache Kafka 4.3.1, `BufferPool`.
    Differs: a waiter that is told of free memory takes it at once (a thread may be overtaken by one that
    has only just come); buffers are numbers, so those of batch.size bytes are not kept for the next batch; no closing.
    """

    total_memory: int
    available: int = field(init=False)  # bytes that nobody has
    waiters: deque[Allocation] = field(default_factory=deque)  # the first one is served first

    def __post_init__(self) -> None:
        self.available = self.total_memory

    @property
    def queued(self) -> int:
        """How many wait. While anyone does, every batch is sent as it is, full or not."""
        return len(self.waiters)

    def allocate(self, size: int) -> Allocation:
        """Ask for memory: granted at once, or waiting. KnobError when size > total_memory, which would wait forever."""
        if size > self.total_memory:
            raise KnobError(f"{size} bytes are more than the whole pool of {self.total_memory}. Send smaller records.")
        asked = Allocation(size)
        if self.available >= size:  # also before those who wait for more
            self.waiters.appendleft(asked)
            self._serve()
        else:
            self.waiters.append(asked)
        return asked

    def deallocate(self, size: int) -> None:
        """Memory comes back; the first waiter goes on."""
        self.available += size
        self._serve()

    def give_up(self, asked: Allocation) -> None:
        """Its time is up: it gives back what it had collected, and goes."""
        self.waiters.remove(asked)
        self.deallocate(asked.accumulated)

    def _serve(self) -> None:
        """The first waiter takes what there is; once it has enough, the next one may."""
        while self.waiters and self.available:
            first = self.waiters[0]
            got = min(first.size - first.accumulated, self.available)
            self.available -= got
            first.accumulated += got
            if first.is_granted:
                self.waiters.popleft()

    def __repr__(self) -> str:
        return f"<BufferPool: {self.available} of {self.total_memory} bytes available, {self.queued} waiting>"
