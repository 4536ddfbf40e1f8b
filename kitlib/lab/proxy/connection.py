"""One client, one broker, and what the rules do to the frames between them.

Two lanes run side by side, requests and answers. A frame that no rule wants goes on as it comes, in
pieces, without a copy; one that a rule wants is first read whole. Answers leave in the order in which
the client asked, as every Kafka client expects, also when the proxy has sent the requests in another
order, sent one twice, or gives an answer of its own.

A client that leaves while requests of its own are delayed does not take them back: they still reach
the broker, as packets under way would.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from kitlib.errors import LabError
from kitlib.lab.proxy.addresses import Door, may_name_brokers, with_doors
from kitlib.lab.proxy.frames import (
    Answer,
    GarbageError,
    Request,
    Window,
    error_answer,
    read_answer,
    read_request,
    with_error,
)
from kitlib.lab.proxy.rules import REORDER_MS, Entry, RuleBook
from kitlib.lab.proxy.sockets import Target, end_sending, send_all

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
    """The way to one socket; OSError when nobody is at its other end any more.

    Frames leave in the order in which they came, so one that waits holds back the rest, as on a real connection. As long
    as nothing waits, bytes go straight from the reader's buffer to the socket. What has to wait is kept here; above
    `HELD_BYTES` the reader has to wait too, so memory is bounded.
    """

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
            await send_all(self.loop, self.sink, piece)

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
                await send_all(self.loop, self.sink, held.data[at : at + 1])
                if at % SLICES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        elif held.bytes_per_s:
            portion = max(1, held.bytes_per_s // PORTIONS_PER_S)
            for at in range(0, len(held.data), portion):
                piece = held.data[at : at + portion]
                await asyncio.sleep(len(piece) / held.bytes_per_s)
                await send_all(self.loop, self.sink, piece)
        else:
            await send_all(self.loop, self.sink, held.data)


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
    """The answers one client waits for.

    A client takes an answer that is not the next one for a broken connection, and the broker answers in the order in
    which it gets the requests. Where the proxy has changed that order, an answer has to wait for its turn here.
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


CONNECT_TIMEOUT_S = 5.0
# After a client has left, the broker has so long to close its side.
LINGER_S = 5.0
# How long stop_reading lasts if the rule does not say: that the client has left is seen only by reading on.
LONGEST_STOP_S = 600.0
# How long a connection is silent after a loss, if the rule does not say, before both sides hear that it has ended.
LOST_S = 10.0
RESET = struct.pack("ii", 1, 0)

Head = TypeVar("Head", Request, Answer)
# What is to be done with a frame once it is there as a whole.
Deed = Callable[[bytes], Awaitable[None]]
# Writes down: what, number of the connection, request, handle of the rule, size.
Note = Callable[[str, int, Request | None, int | None, int], None]


class EndedError(Exception):
    """A rule ends the connection here; nothing that follows may pass."""


@dataclass(slots=True)
class Reordered:
    """A frame that a reorder rule holds back."""

    connection: Connection
    # Opened to let it go, when it waits in the outlet with all that follows it on its connection.
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    # The frame itself, when those behind it on its connection may overtake it.
    frame: bytes | None = None

    async def let_go(self) -> None:
        self.gate.set()
        frame, self.frame = self.frame, None
        if frame is not None:
            await self.connection.to_broker.send(frame)


class Connection:
    """The proxy's part of one client's connection."""

    def __init__(
        self, number: int, client: socket.socket, target: Target, book: RuleBook, note: Note, reordered: dict[int, Reordered],
        door: Door | None,
    ) -> None:
        self.number = number
        self.loop = asyncio.get_running_loop()
        self.client = client
        self.broker = target.new_socket()
        self.target = target
        self.book = book
        self.note = note
        # Of all connections: what each reorder rule holds, by the rule's handle.
        self.reordered = reordered
        # Where the client is told that brokers are; None: where they say.
        self.door = door
        self.to_broker = Outlet(self.loop, self.broker)
        self.to_client = Outlet(self.loop, client)
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
        self.timers: list[asyncio.Task[None]] = []

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
            writers = [outlet.writer for outlet in (self.to_broker, self.to_client) if outlet.writer is not None]
            tasks = [over, *lanes, *self.timers, *writers]
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
        self.client.setblocking(False)
        for each in (self.client, self.broker):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):  # wait_for of Python 3.11 may swallow a cancellation
                self.broker = self.to_broker.sink = await self.target.connect(self.loop, self.broker)
        except OSError:  # TimeoutError is one
            self.note("unreachable", self.number, None, None, 0)
            return False
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
        for handle in [handle for handle, held in self.reordered.items() if held.connection is self]:
            del self.reordered[handle]
        for each in (self.client, self.broker):
            if self.is_reset:
                with suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            each.close()

    def release(self) -> None:
        """Let go what rules hold: answers, the reading of requests."""
        self.gate.set()
        self.gate = asyncio.Event()

    # The lanes

    async def _requests(self) -> None:
        """Client to broker, until the client has left."""
        await self._relay(Window(self.loop, self.client), self.to_broker, read_request, self._on_request)
        for handle in [handle for handle, held in self.reordered.items() if held.connection is self]:
            if self.reordered[handle].frame is not None:  # nothing comes that could overtake it
                await self._let_go(handle)
        await self.to_broker.drain()
        end_sending(self.broker)

    async def _answers(self) -> None:
        """Broker to client, until the broker has left."""
        await self._relay(Window(self.loop, self.broker), self.to_client, read_answer, self._on_answer)
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

    async def _relay(
        self, window: Window, outlet: Outlet, read: Callable[[memoryview], Head | None], judge: Callable[[Head], Deed | None]
    ) -> None:
        """Pass frames on until the stream ends. `judge` sees each frame's head and may ask for the whole of it."""
        with closing(window):
            await self._relay_from(window, outlet, read, judge)

    async def _relay_from(
        self, window: Window, outlet: Outlet, read: Callable[[memoryview], Head | None], judge: Callable[[Head], Deed | None]
    ) -> None:
        passing = 0  # so many bytes from the window's start are whole frames that may go on
        while True:
            head = read(window.peek(passing))
            if head is None:
                if passing:
                    await outlet.send(window.take(passing))
                    passing = 0
                if not await window.more():
                    return
                continue
            deed = judge(head)
            if deed is None and head.size <= len(window) - passing:
                passing += head.size
                continue
            if passing and deed is not None:
                await outlet.send(window.take(passing))
            if deed is not None:
                frame = await window.whole(head.size)
                if frame is None:
                    return
                await deed(frame)
            elif not await self._stream(window, outlet, passing + head.size):
                return
            passing = 0

    async def _stream(self, window: Window, outlet: Outlet, size: int) -> bool:
        """Pass on the next `size` bytes as they come; False when the stream ends before."""
        async with outlet.turn:
            while True:
                piece = window.take(size)
                size -= len(piece)
                await outlet.pass_on(piece)
                if not size:
                    return True
                if not await window.more():
                    return False

    # Requests

    def _on_request(self, request: Request) -> Deed | None:
        self.client_id = request.client_id
        self.note("request", self.number, request, None, request.size)
        if self.is_deaf:
            return self._drop
        if overtaken := self._overtaken_by(request):
            return lambda frame: self._overtake(overtaken, request, frame)
        entry = self.book.choose(request.api, request.client_id, is_answer=False)
        if entry is None:
            self.awaited.expect(request)
            return None
        self.note(entry.rule.action, self.number, request, entry.handle, request.size)
        return lambda frame: self._act_on_request(entry, request, frame)

    async def _act_on_request(self, entry: Entry, request: Request, frame: bytes) -> None:
        rule = entry.rule
        match rule.action:
            case "lose_request":
                self.is_deaf = True
                self.loop.call_later(rule.ms / 1000 or LOST_S, self.over.set)
            case "delay_request":
                self.awaited.expect(request)
                await self.to_broker.put(Held(frame, not_before_s=self.loop.time() + rule.ms / 1000))
            case "duplicate_request":
                self.awaited.expect(request)
                self.awaited.expect(request, is_for_nobody=True)
                await self.to_broker.send(frame + frame)
            case "reorder":
                await self._reorder(entry, self.awaited.expect(request), frame)
            case "cut":
                raise EndedError
            case "reset":
                await self._reset(self.to_broker, frame)
            case "stop_reading":
                with suppress(TimeoutError):
                    async with asyncio.timeout(rule.ms / 1000 if rule.ms else LONGEST_STOP_S):
                        await self.gate.wait()
                self.awaited.expect(request)
                await self.to_broker.send(frame)
            case "slice":
                self.awaited.expect(request)
                await self.to_broker.put(Held(frame, is_sliced=True))
            case "throttle":
                self.awaited.expect(request)
                await self.to_broker.put(Held(frame, bytes_per_s=rule.bytes_per_s))
            case "answer_error":
                answer = error_answer(request.api, request.version, request.correlation_id, frame, rule.error)
                self.awaited.expect(request).hand_out = lambda: self._hand_over(answer)
                await self.awaited.hand_out_ready()

    async def _reset(self, outlet: Outlet, frame: bytes) -> None:
        await outlet.send(frame[: len(frame) // 2])
        await outlet.drain()
        self.is_reset = True
        raise EndedError

    # Frames out of their order

    async def _reorder(self, entry: Entry, awaited: Awaited, frame: bytes) -> None:
        """Hold the frame back; across connections, all that follows it on its own connection waits too."""
        if entry.handle in self.reordered:  # the rule holds one, and this is not the one that may overtake it
            await self.to_broker.send(frame)
            return
        held = self.reordered[entry.handle] = Reordered(self)
        self.timers = [timer for timer in self.timers if not timer.done()]
        self.timers.append(self.loop.create_task(self._let_go_after(entry, held)))
        if entry.rule.across:
            await self.to_broker.put(Held(frame, gate=held.gate))
        else:
            awaited.is_late = True
            held.frame = frame

    async def _let_go_after(self, entry: Entry, held: Reordered) -> None:
        await asyncio.sleep((entry.rule.ms or REORDER_MS) / 1000)
        if self.reordered.get(entry.handle) is held:
            await self._let_go(entry.handle)

    def _overtaken_by(self, request: Request) -> list[int]:
        """The rules that hold a frame back until this one has passed."""
        return [
            entry.handle for entry in self.book.entries
            if (held := self.reordered.get(entry.handle)) is not None
            and entry.rule.matches(request.api, request.client_id)
            and entry.rule.across == (held.connection is not self)
        ]  # fmt: skip

    async def _overtake(self, overtaken: list[int], request: Request, frame: bytes) -> None:
        """Send a frame before those that wait for it: on the same connection, or on others until it is answered."""
        awaited = self.awaited.expect(request)
        await self.to_broker.send(frame)
        others = [handle for handle in overtaken if handle in self.reordered and self.reordered[handle].frame is None]
        if request.is_answered:
            awaited.lets_go = tuple(others)
        for handle in overtaken:
            if handle not in awaited.lets_go:
                await self._let_go(handle)

    async def _let_go(self, handle: int) -> None:
        held = self.reordered.pop(handle, None)
        if held is not None:
            await held.let_go()

    # Answers

    def _on_answer(self, answer: Answer) -> Deed | None:
        awaited = self.awaited.asked(answer.correlation_id)
        if awaited is None:
            return None  # nobody the proxy knows of has asked for it
        for handle in awaited.lets_go:
            if (held := self.reordered.pop(handle, None)) is not None:
                held.gate.set()
        request = awaited.request
        if self.is_mute:
            return self._drop
        if awaited.is_for_nobody:
            self.awaited.queue.remove(awaited)
            return self._drop
        self.note("answer", self.number, request, None, answer.size)
        entry = self.book.choose(request.api, request.client_id, is_answer=True)
        if entry is not None:
            self.note(entry.rule.action, self.number, request, entry.handle, answer.size)
        if self.awaited.is_next(awaited) and entry is None:
            self.awaited.queue.popleft()
            if self.door is not None and may_name_brokers(request):
                return lambda frame: self._hand_out(self._told(request, frame))
            return self._hand_out if self.awaited.is_next_ready() else None
        return lambda frame: self._keep_for_turn(awaited, entry, self._told(request, frame))

    def _told(self, request: Request, answer: bytes) -> bytes:
        """The answer as the client is to see it: every broker in it stands at a door of the proxy."""
        if self.door is None or not may_name_brokers(request):
            return answer
        try:
            return with_doors(request, answer, self.door)
        except LabError:  # no door can be opened, and nobody is to go round the proxy
            self.note("refused", self.number, None, None, 0)
            raise EndedError from None

    async def _drop(self, _frame: bytes) -> None:
        return

    async def _hand_over(self, frame: bytes) -> None:
        if not self.is_mute:
            await self.to_client.send(frame)

    async def _hand_out(self, frame: bytes) -> None:
        await self._hand_over(frame)
        await self.awaited.hand_out_ready()

    async def _keep_for_turn(self, awaited: Awaited, entry: Entry | None, frame: bytes) -> None:
        awaited.hand_out = lambda: self._act_on_answer(entry, awaited.request, frame)
        await self.awaited.hand_out_ready()

    async def _act_on_answer(self, entry: Entry | None, request: Request, frame: bytes) -> None:
        if entry is None:
            await self._hand_over(frame)
            return
        rule = entry.rule
        match rule.action:
            case "lose_answer":
                self.is_mute = True
                self.loop.call_later(rule.ms / 1000 or LOST_S, self.over.set)
            case "delay_answer":
                await self.to_client.put(Held(frame, not_before_s=self.loop.time() + rule.ms / 1000))
            case "cut_after_answer":
                raise EndedError
            case "withhold":
                await self.to_client.put(Held(frame, gate=self.gate))
            case "reset_answer":
                await self._reset(self.to_client, frame)
            case "slice_answer":
                await self.to_client.put(Held(frame, is_sliced=True))
            case "throttle_answer":
                await self.to_client.put(Held(frame, bytes_per_s=rule.bytes_per_s))
            case "replace_answer":
                await self._hand_over(with_error(request.api, request.version, request.correlation_id, frame, rule.error))
