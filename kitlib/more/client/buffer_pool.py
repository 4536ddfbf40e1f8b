"""The producer's memory: a fixed number of bytes for all batches together, and who has to wait for some.

Batches of the usual size (`batch.size`) are taken from and given back to a list of free buffers; others
come from memory never allocated before. A caller that asks for more than is free waits, first come, first served, and
collects what becomes free until it has enough; after max.block.ms it returns what it had collected.
A slow broker fills this pool, and so `send` starts to block: that is how a producer notices.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kitlib.errors import KnobError

BUFFER_EXHAUSTED = "BufferExhaustedException"  # a TimeoutException to whoever catches those
CLOSED = "KafkaException"


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes that were asked for: granted, waited for, or given up."""

    size: int
    deadline_ms: int
    accumulated: int = 0  # bytes that it has so far; the pool's no longer
    is_granted: bool = False
    error: str | None = None  # an exception class of Java's client, once it was given up

    @property
    def is_over(self) -> bool:
        """Whether the waiting has an end."""
        return self.is_granted or self.error is not None


@dataclass(slots=True)
class BufferPool:
    """`total_memory` bytes, of which batches of `poolable_size` bytes are kept for the next one. KnobError below 0 or 1.

    Source: Apache Kafka 4.3.1, `BufferPool`.
    Differs: a waiter that is told of free memory takes it at once (a thread may be overtaken by one that
    has only just come); buffers are numbers.
    """

    total_memory: int
    poolable_size: int
    free: int = 0  # buffers of poolable_size bytes in the list
    non_pooled_available: int = field(init=False)  # bytes that are in no buffer
    waiters: deque[Allocation] = field(default_factory=deque)  # the first one is served first
    is_closed: bool = False

    def __post_init__(self) -> None:
        if self.total_memory < 0 or self.poolable_size < 1:
            raise KnobError(
                f"a pool of {self.total_memory} bytes with buffers of {self.poolable_size}: give at least 0 and at least 1."
            )
        self.non_pooled_available = self.total_memory

    @property
    def available(self) -> int:
        """Bytes that nobody has."""
        return self.non_pooled_available + self.free * self.poolable_size

    @property
    def queued(self) -> int:
        """How many wait. While anyone does, every batch is sent as it is, full or not."""
        return len(self.waiters)

    def allocate(self, size: int, max_block_ms: int, now_ms: int) -> Allocation:
        """Ask for memory: granted at once, or waiting. KnobError when size > total_memory, which would wait forever."""
        if size > self.total_memory:
            raise KnobError(f"{size} bytes are more than the whole pool of {self.total_memory}. Send smaller records.")
        asked = Allocation(size, now_ms + max_block_ms)
        if self.is_closed:
            asked.error = CLOSED
        elif size == self.poolable_size and self.free:
            self.free -= 1
            asked.is_granted = True
        elif self.available >= size:
            self._free_up(size)
            self.non_pooled_available -= size
            asked.is_granted = True
        else:
            self.waiters.append(asked)
        if asked.is_granted:
            self._serve_if_any_left()
        return asked

    def deallocate(self, size: int) -> None:
        """Memory comes back; the first waiter goes on."""
        if size == self.poolable_size:
            self.free += 1
        else:
            self.non_pooled_available += size
        self._serve()

    def expire(self, now_ms: int) -> list[Allocation]:
        """Those whose time is up give up what they had collected, and go."""
        gone = [waiter for waiter in self.waiters if waiter.deadline_ms <= now_ms]
        for waiter in gone:
            self.waiters.remove(waiter)
            self.non_pooled_available += waiter.accumulated
            waiter.accumulated, waiter.error = 0, BUFFER_EXHAUSTED
        if gone:
            self._serve_if_any_left()
        return gone

    def next_expiry_ms(self) -> int | None:
        """When the first waiter gives up."""
        return min((waiter.deadline_ms for waiter in self.waiters), default=None)

    def close(self) -> None:
        """Nobody gets memory any more, and nobody waits."""
        self.is_closed = True
        while self.waiters:
            waiter = self.waiters.popleft()
            self.non_pooled_available += waiter.accumulated
            waiter.accumulated, waiter.error = 0, CLOSED

    def _serve_if_any_left(self) -> None:
        if self.non_pooled_available or self.free:
            self._serve()

    def _serve(self) -> None:
        """The first waiter takes what there is; once it has enough, the next one may."""
        while self.waiters:
            first = self.waiters[0]
            if first.accumulated == 0 and first.size == self.poolable_size and self.free:
                self.free -= 1
            else:
                wanted = first.size - first.accumulated
                self._free_up(wanted)
                got = min(wanted, self.non_pooled_available)
                self.non_pooled_available -= got
                first.accumulated += got
                if first.accumulated < first.size:
                    return
            self.waiters.popleft()
            first.accumulated, first.is_granted = 0, True
            if not (self.non_pooled_available or self.free):
                return

    def _free_up(self, size: int) -> None:
        """Take buffers out of the list until `size` bytes are in none."""
        while self.free and self.non_pooled_available < size:
            self.free -= 1
            self.non_pooled_available += self.poolable_size

    def __repr__(self) -> str:
        return f"<BufferPool: {self.available} of {self.total_memory} bytes available, {self.queued} waiting>"
