"""Which answers a client still waits for, and in which order it gets them.

A client expects its answers in the order of its questions, and takes anything else for a broken
connection. The broker answers in the order in which it gets them. So as long as the proxy changes
nothing, each answer is the next one; where it has changed the order, sent a request twice, or answers
itself, an answer may have to wait for its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kitlib.lab.chaos_frames import Request


@dataclass(slots=True)
class Awaited:
    """A request whose answer is not with the client yet."""

    request: Request
    # The answer to a duplicate is the proxy's to drop.
    is_for_nobody: bool = False
    # The broker gets it after requests that the client made later.
    is_late: bool = False
    # Rules that hold a frame of another connection back until this request is answered.
    lets_go: tuple[int, ...] = ()
    # Hands the answer to the client, when it is there but those of earlier requests are not.
    hand_out: Callable[[], Awaitable[None]] | None = None


class AwaitedAnswers:
    """The answers one client waits for."""

    def __init__(self) -> None:
        # In the order in which the client asked.
        self.queue: deque[Awaited] = deque()

    def expect(self, request: Request, is_for_nobody: bool = False) -> Awaited:
        """A request goes to the broker; if it is one that is answered, its answer will come."""
        awaited = Awaited(request, is_for_nobody)
        if request.is_answered:
            self.queue.append(awaited)
        return awaited

    def asked(self, correlation_id: int) -> Awaited | None:
        """Whose answer this is. Those before it that have got none, and are not late, will never get one."""
        for position, awaited in enumerate(self.queue):
            if awaited.request.correlation_id == correlation_id and awaited.hand_out is None:
                if position:
                    earlier = [self.queue.popleft() for _ in range(position)]
                    kept = [each for each in earlier if each.is_late or each.hand_out is not None]
                    self.queue.extendleft(reversed(kept))
                return awaited
        return None

    def is_next(self, awaited: Awaited) -> bool:
        return self.queue[0] is awaited

    def is_next_ready(self) -> bool:
        """Whether the next answer is there already and has only waited for its turn."""
        return bool(self.queue) and self.queue[0].hand_out is not None

    async def hand_out_ready(self) -> None:
        """Hand out the answers that are there and whose turn it is."""
        while self.queue and (hand_out := self.queue[0].hand_out) is not None:
            self.queue.popleft()
            await hand_out()
