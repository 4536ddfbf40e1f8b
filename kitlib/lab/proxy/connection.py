"""One client, one broker, and what the rules do to the frames between them.

Two lanes run side by side, requests and answers, and each carries one whole frame at a time. Answers leave in the order in
which the client asked, as every Kafka client expects, also when the proxy has sent a request twice, or gives an answer of its own.

A client that leaves while requests of its own are delayed does not take them back: they still reach
the broker, as packets under way would.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from kitlib.errors import LabError
from kitlib.lab.proxy.addresses import Door, may_name_brokers, with_doors
from kitlib.lab.proxy.frames import GarbageError, Request, error_answer, read_request, with_error
from kitlib.lab.proxy.rules import Entry, Rule, RuleBook
from kitlib.lab.proxy.sockets import Side

HELD_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that wait for their time, or for somebody to open their gate."""

    data: bytes
    # By the clock of the event loop.
    not_before_s: float = 0.0
    gate: asyncio.Event | None = None


class Outlet:
    """The way to one socket; OSError when nobody is at its other end any more.

    Frames leave in the order in which they came, so one that waits holds back the rest, as on a real connection.
    What has to wait is kept here; above `HELD_BYTES` the reader has to wait too, so memory is bounded.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sink: Side) -> None:
        self.loop = loop
        self.sink = sink
        # Whoever hands a frame over: one that waits for room is not overtaken.
        self.turn = asyncio.Lock()
        self.held: deque[Held] = deque()
        self.held_bytes = 0
        # What went wrong when the writer wrote; nothing leaves any more.
        self.broken: OSError | None = None
        self.writer: asyncio.Task[None] | None = None
        # Set whenever something has left.
        self.moved = asyncio.Event()

    async def send(self, data: bytes, not_before_s: float = 0.0, gate: asyncio.Event | None = None) -> None:
        """Send whole frames now, or when it is time and their gate is open; behind what waits already."""
        async with self.turn:
            if not (self.held or self.broken or not_before_s or gate):
                await self.sink.write(data)
                return
            await self.drain(max(0, HELD_BYTES - len(data)))
            self.held.append(Held(data, not_before_s, gate))
            self.held_bytes += len(data)
            if self.writer is None or self.writer.done():
                self.writer = self.loop.create_task(self._write())

    async def drain(self, size: int = 0) -> None:
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
                await self.sink.write(held.data)
                self.held.popleft()
                self.held_bytes -= len(held.data)
                self.moved.set()
        except OSError as error:
            self.broken = error
            self.held.clear()
            self.moved.set()


@dataclass(slots=True)
class Awaited:
    """A request whose answer is not with the client yet."""

    request: Request
    # The answer to a duplicate is the proxy's to drop.
    is_for_nobody: bool = False
    # Hands the answer to the client, when it is there but those of earlier requests are not.
    hand_out: Callable[[], Awaitable[None]] | None = None


class AwaitedAnswers:
    """The answers one client waits for.

    A client takes an answer that is not the next one for a broken connection, and the broker answers in the order in
    which it gets the requests. An answer of the proxy's own has to wait for its turn here.
    """

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
        """Whose answer this is. Those before it that have got none will never get one."""
        for position, awaited in enumerate(self.queue):
            if awaited.request.correlation_id == correlation_id and awaited.hand_out is None:
                if position:
                    earlier = [self.queue.popleft() for _ in range(position)]
                    kept = [each for each in earlier if each.hand_out is not None]
                    self.queue.extendleft(reversed(kept))
                return awaited
        return None

    async def hand_out_ready(self) -> None:
        """Hand out the answers that are there and whose turn it is."""
        while self.queue and (hand_out := self.queue[0].hand_out) is not None:
            self.queue.popleft()
            await hand_out()


CONNECT_TIMEOUT_S = 5.0
# After a client has left, the broker has so long to close its side.
LINGER_S = 5.0
# How long stop_reading lasts if the rule does not say: that the client has left is seen only by reading on.
LONGEST_STOP_S = 600.0
# How long a connection is silent after a loss, if the rule does not say, before both sides hear that it has ended.
LOST_S = 10.0

# Writes down: what, number of the connection, request, handle of the rule, size.
Note = Callable[[str, int, Request | None, int | None, int], None]


class EndedError(Exception):
    """A rule ends the connection here; nothing that follows may pass."""


class Connection:
    """The proxy's part of one client's connection."""

    def __init__(
        self, number: int, client: socket.socket, target: tuple[str, int], tls: ssl.SSLContext | None, book: RuleBook, note: Note,
        door: Door,
    ) -> None:
        self.number = number
        self.loop = asyncio.get_running_loop()
        self.socket = client
        self.target, self.tls = target, tls
        self.sides: list[Side] = []  # client and broker, as soon as they are connected
        self.book = book
        self.note = note
        # Where the client is told that brokers are.
        self.door = door
        self.to_broker: Outlet
        self.to_client: Outlet
        self.awaited = AwaitedAnswers()
        # Set: both sides are to be closed now.
        self.over = asyncio.Event()
        self.is_reset = False
        # Replaced when it is opened: what is held later waits for the next opening.
        self.gate = asyncio.Event()
        # A request, or an answer, was lost: so is all that follows it, as when a network dies.
        self.is_deaf = self.is_mute = False
        # The name that the client last gave.
        self.client_id = ""

    async def run(self) -> None:
        """Relay until either side leaves, a rule ends it, or the task is cancelled; then both sides are closed."""
        over = self.loop.create_task(self.over.wait())
        lanes: list[asyncio.Task[bool]] = []
        try:
            if await self._connect():
                requests = self.loop.create_task(self._lane(self._requests, "garbage"))
                answers = self.loop.create_task(self._lane(self._answers, "garbage from the broker"))
                lanes = [requests, answers]
                await self._until_over(requests, answers, over)
        finally:
            outlets = (self.to_broker, self.to_client) if lanes else ()
            writers = [outlet.writer for outlet in outlets if outlet.writer is not None]
            tasks = [over, *lanes, *writers]
            for task in tasks:
                task.cancel()
            try:
                results = await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                self.close()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, OSError):
                raise result

    async def _connect(self) -> bool:
        host, port = self.target
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self.sides.append(await Side.connect(sock=self.socket))
                self.sides.append(await Side.connect(host, port, ssl=self.tls, server_hostname=host if self.tls else None))
        except OSError as error:  # TimeoutError is one
            self.note("refused" if error.errno in (errno.EMFILE, errno.ENFILE) else "unreachable", self.number, None, None, 0)
            return False
        self.client, self.broker = self.sides
        self.to_client, self.to_broker = Outlet(self.loop, self.client), Outlet(self.loop, self.broker)
        return True

    async def _until_over(self, requests: asyncio.Task[bool], answers: asyncio.Task[bool], over: asyncio.Task[bool]) -> None:
        """Wait until nothing can be passed on any more in either direction."""
        await asyncio.wait({requests, answers, over}, return_when=asyncio.FIRST_COMPLETED)
        if over.done():
            return
        if not answers.done() and not requests.exception():
            # Either the client has left and the broker knows, or the broker is gone and its last words are under way.
            timeout_s = LINGER_S if requests.result() else None
            await asyncio.wait({answers, over}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        elif not requests.done() and not answers.exception() and not answers.result():
            # The client cannot be reached any more; what it has sent still goes to the broker.
            await asyncio.wait({requests, over}, return_when=asyncio.FIRST_COMPLETED)

    def close(self) -> None:
        """Close both sides, as `run` does at its end; needed when the task was cancelled before `run` began."""
        for side in self.sides:
            side.close(self.is_reset)
        if not self.sides:
            self.socket.close()

    def release(self) -> None:
        """Let go what rules hold: answers, the reading of requests."""
        self.gate.set()
        self.gate = asyncio.Event()

    # The lanes

    async def _requests(self) -> None:
        """Client to broker, until the client has left."""
        while (frame := await self.client.frame()) is not None:
            await self._on_request(read_request(frame), frame)
        await self.to_broker.drain()
        self.broker.end_sending()

    async def _answers(self) -> None:
        """Broker to client, until the broker has left."""
        while (frame := await self.broker.frame()) is not None:
            await self._on_answer(frame)
        await self.to_client.drain()

    async def _lane(self, passing: Callable[[], Awaitable[None]], garbage: str) -> bool:
        """One way through; True when the side that it comes from has left, False when the other one has."""
        try:
            await passing()
        except GarbageError as found:
            self.note(f"{garbage}: {found}", self.number, None, None, 0)
            self.over.set()
        except EndedError:
            self.over.set()
        except OSError:
            return False
        return True

    # Requests

    async def _on_request(self, request: Request, frame: bytes) -> None:
        self.client_id = request.client_id
        self.note("request", self.number, request, None, request.size)
        if self.is_deaf:
            return
        if entry := self.book.choose(request.api, request.client_id, is_answer=False):
            self.note(entry.rule.action, self.number, request, entry.handle, request.size)
            await self._act_on_request(entry, request, frame)
        else:
            self.awaited.expect(request)
            await self.to_broker.send(frame)

    async def _act_on_request(self, entry: Entry, request: Request, frame: bytes) -> None:
        rule, awaited = entry.rule, self.awaited.expect(request)
        match rule.action:
            case "duplicate_request":
                self.awaited.expect(request, is_for_nobody=True)
                await self.to_broker.send(frame + frame)
            case "stop_reading":
                with suppress(TimeoutError):
                    async with asyncio.timeout(rule.ms / 1000 if rule.ms else LONGEST_STOP_S):
                        await self.gate.wait()
                await self.to_broker.send(frame)
            case "answer_error":
                answer = error_answer(request.api, request.version, request.correlation_id, frame, rule.error)
                awaited.hand_out = lambda: self._hand_over(answer)
                await self.awaited.hand_out_ready()
            case _:
                await self._disturb(rule, self.to_broker, frame)

    async def _disturb(self, rule: Rule, outlet: Outlet, frame: bytes) -> None:
        """What can be done to a request on its way as well as to an answer."""
        match rule.action.partition("_")[0]:
            case "lose":
                if outlet is self.to_broker:
                    self.is_deaf = True
                else:
                    self.is_mute = True
                self.loop.call_later(rule.ms / 1000 or LOST_S, self.over.set)
            case "delay":
                await outlet.send(frame, not_before_s=self.loop.time() + rule.ms / 1000)
            case "cut":
                raise EndedError
            case "reset":
                await outlet.send(frame[: len(frame) // 2])
                await outlet.drain()
                self.is_reset = True
                raise EndedError

    # Answers

    async def _on_answer(self, answer: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", answer, 4)
        awaited = self.awaited.asked(correlation_id)
        if awaited is None:  # nobody the proxy knows of has asked for it
            await self.to_client.send(answer)
            return
        request = awaited.request
        if self.is_mute:
            return
        if awaited.is_for_nobody:
            self.awaited.queue.remove(awaited)
            return
        self.note("answer", self.number, request, None, len(answer))
        entry = self.book.choose(request.api, request.client_id, is_answer=True)
        if entry is not None:
            self.note(entry.rule.action, self.number, request, entry.handle, len(answer))
        told = self._told(request, answer)
        awaited.hand_out = lambda: self._act_on_answer(entry, request, told)
        await self.awaited.hand_out_ready()

    def _told(self, request: Request, answer: bytes) -> bytes:
        """The answer as the client is to see it: every broker in it stands at a door of the proxy."""
        if not may_name_brokers(request):
            return answer
        try:
            return with_doors(request, answer, self.door)
        except LabError:  # no door can be opened, and nobody is to go round the proxy
            self.note("refused", self.number, None, None, 0)
            raise EndedError from None

    async def _hand_over(self, frame: bytes) -> None:
        if not self.is_mute:
            await self.to_client.send(frame)

    async def _act_on_answer(self, entry: Entry | None, request: Request, frame: bytes) -> None:
        if entry is None:
            await self._hand_over(frame)
            return
        rule = entry.rule
        match rule.action:
            case "withhold":
                await self.to_client.send(frame, gate=self.gate)
            case "replace_answer":
                await self._hand_over(with_error(request.api, request.version, request.correlation_id, frame, rule.error))
            case _:
                await self._disturb(rule, self.to_client, frame)
