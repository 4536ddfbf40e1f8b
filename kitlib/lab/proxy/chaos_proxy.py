"""A proxy between any Kafka client and any cluster, which loses, delays, doubles and cuts by rule.

`ChaosProxy.before(cluster)` listens at a port for each broker and tells its clients of no other addresses,
so a client needs nothing but another bootstrap address and comes back here for every partition.
The proxy runs in a thread of its own in the caller's process and listens on 127.0.0.1 only. It speaks TLS with
the brokers if they do, so that clients must not; passwords pass through it as they are (PLAIN, SCRAM). Nothing it
does is random beyond its seed, and everything it does is written down: `events` holds what happened, `counts()` how often.

Left out: it cannot invent what a broker never said, apart from errors, and it does not decompress; passwords in the way of
Kafka before 1.0, whose frames have no header.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

from kitlib.errors import KnobError, LabError
from kitlib.lab.brokers import ports
from kitlib.lab.clients import Cluster, addresses, tls_context
from kitlib.lab.proxy.connection import Connection
from kitlib.lab.proxy.frames import Request
from kitlib.lab.proxy.rules import ANY_API, Rule, RuleBook, apis

__all__ = ["ChaosProxy", "ProxyEvent", "Rule"]

# Whatever is asked of the proxy's thread is done in this time, its end included.
THREAD_TIMEOUT_S = 15.0
# Older events are forgotten; the counts are not.
EVENTS = 100_000
BACKLOG = 512
# A client that could not be let in is not the last one: try again after so long.
RETRY_S = 0.05
Result = TypeVar("Result")
log = logging.getLogger(__name__)
# Of all threads of a Python process one at a time computes, and one that comes back from a system call waits for its turn
# until that one has had 5 ms: beside a busy client a frame would take some 30 ms. With these turns it takes a tenth of that.
SWITCH_S = 0.0005


@dataclass(frozen=True, slots=True)
class ProxyEvent:
    """One thing that the proxy saw or did."""

    # Milliseconds since the proxy was started.
    at_ms: float
    # An action of a rule; "open", "close", "refused", "garbage", "unreachable"; of watched APIs also "request", "answer".
    what: str
    # From 1, in the order in which clients came.
    connection: int
    api: str = ""
    correlation_id: int | None = None
    client_id: str = ""
    # The handle of the rule that acted.
    rule: int | None = None
    # Bytes of the frame, its length field included.
    size: int = 0


class ChaosProxy:
    """A running proxy; `before` makes one, `stop` or the end of a `with` ends it."""

    def __init__(
        self, cluster: Cluster, rules: Iterable[Rule] = (), seed: int = 1, watch: Collection[str] = (), port: int = 0, leads_to: int = 0
    ) -> None:
        unknown = sorted(set(watch) - set(apis().values()) - {ANY_API})
        if unknown:
            raise KnobError(f"no API '{unknown[0]}' to watch. Choose '{ANY_API}' or of: {', '.join(apis().values())}.")
        self.seed = seed
        self.watch = frozenset(apis().values() if ANY_API in watch else watch)
        # The cluster as it is through this proxy.
        self.cluster: Cluster
        self._book = RuleBook(seed)
        for rule in rules:
            self._book.add(rule)
        self._events: deque[ProxyEvent] = deque(maxlen=EVENTS)
        self._event_count = 0
        self._counts: Counter[str] = Counter()
        self._happened = threading.Condition()
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._began = time.monotonic()
        # Undone at the end, also when the start fails half way.
        self._undo = ExitStack()
        self._brokers = addresses(cluster.bootstrap)
        self._first_port = port
        # Where the proxy stands for each broker that it has heard of.
        self._doors: dict[tuple[str, int], int] = {}
        self._given = cluster
        self._leads_to = leads_to
        self._tls = tls_context(cluster)
        self._bootstrap = ""
        self._thread: threading.Thread | None = None

    @classmethod
    def before(
        cls, cluster: Cluster, rules: Iterable[Rule] = (), seed: int = 1, watch: Collection[str] = (), port: int = 0, leads_to: int = 0
    ) -> ChaosProxy:
        """A proxy before all brokers of a cluster, the kit's or any other; `proxy.cluster` is for its clients.

        The cluster's first broker is at `port` (0: at any), the others at the next ones or wherever there is room. With
        `leads_to`, all brokers are said to be at that port of 127.0.0.1: a wrong advertised address. LabError when the
        port is taken, or when KIT_KAFKA_CONFIG asks for what the proxy cannot do.
        """
        return cls(cluster, rules, seed, watch, port, leads_to).begin()

    # What a caller sees and asks

    @property
    def port(self) -> int:
        """The port of the (first) door."""
        return next(iter(self._doors.values()))

    @property
    def bootstrap(self) -> str:
        """The address to give to a client."""
        return self._bootstrap

    @property
    def events(self) -> list[ProxyEvent]:
        """What has happened so far, the last 100,000."""
        with self._happened:
            return list(self._events)

    def events_after(self, number: int) -> tuple[list[ProxyEvent], int]:
        """What has happened after the first `number` events, as far as it is remembered, and how many there are now."""
        with self._happened:
            forgotten = self._event_count - len(self._events)
            return list(islice(self._events, max(0, number - forgotten), None)), self._event_count

    @property
    def rules(self) -> dict[int, Rule]:
        """The rules in force, by their handles."""
        return {entry.handle: entry.rule for entry in self._book.entries}

    def counts(self) -> dict[str, int]:
        """How often each thing happened: each `request` and `answer` seen, connections now `open`, deeds by their names."""
        counts = dict(self._counts)
        return {**counts, "open": counts.get("opened", 0) - counts.get("closed", 0)}

    def add(self, rule: Rule) -> int:
        """Put a rule into force for all frames that arrive from now on; its handle."""
        return self._book.add(rule)

    def remove(self, handle: int) -> None:
        """Take a rule out of force. What it holds stays held until `release`. KnobError for an unknown handle."""
        self._book.remove(handle)

    def clear(self) -> None:
        """Take all rules out of force. What they hold stays held until `release`."""
        self._book.clear()

    def release(self) -> None:
        """Let go of what withhold and stop_reading hold, in its order."""
        self._ask(self._release())

    def cut(self, client_id: str = "") -> int:
        """Close all connections, or those of one client, on both sides; what was held is lost. How many there were."""
        return self._ask(self._cut(client_id))

    def wait_for(self, predicate: Callable[[], object], timeout_s: float = 10.0, what: str = "it is so") -> None:
        """Wait until `predicate()` is true, asked whenever something happens; LabError when it is not in time."""
        deadline = time.monotonic() + timeout_s
        with self._happened:
            while not predicate():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise LabError(
                        f"The proxy at {self.bootstrap} waited {timeout_s:g} s in vain until {what}; it has counted "
                        f"{self.counts()}. Look at proxy.events."
                    )
                self._happened.wait(min(left_s, 0.02))

    def stop(self) -> None:
        """Close everything and end the thread; a second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._main.cancel)
            thread.join(THREAD_TIMEOUT_S)
        finally:
            self._undo.close()
        if thread.is_alive():
            raise LabError(f"The proxy's thread did not end within {THREAD_TIMEOUT_S:g} s. Restart the kernel.")

    def __enter__(self) -> ChaosProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<ChaosProxy {self._bootstrap}, {len(self._book.entries)} rules, {self.counts()['open']} open>"

    # The start

    def begin(self) -> ChaosProxy:
        """Open the doors and the thread; LabError when a port is taken."""
        try:
            listeners = [(self._open(broker, self._next_port()), broker) for broker in self._brokers]
        except BaseException:
            self._undo.close()
            raise
        self._bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._doors.values())
        self.cluster = replace(self._given, bootstrap=self._bootstrap, behind_proxy=True)
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._loop = asyncio.new_event_loop()
        self._main = self._loop.create_task(self._serve(listeners))
        self._thread = threading.Thread(target=self._run, name="chaos-proxy", daemon=True)
        self._thread.start()
        return self

    def _next_port(self) -> int:
        return self._first_port + len(self._doors) if self._first_port else 0

    def _open(self, broker: tuple[str, int], port: int) -> socket.socket:
        """A new door for this broker, at the port (0: at any); LabError when it cannot be opened."""
        listener = _listen(port or ports.draw(1)[0])
        self._undo.callback(listener.close)
        self._doors[broker] = listener.getsockname()[1]
        return listener

    # In the proxy's thread

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    async def _serve(self, listeners: Sequence[tuple[socket.socket, tuple[str, int]]]) -> None:
        try:
            async with asyncio.TaskGroup() as self._acceptors:
                for listener, broker in listeners:
                    self._acceptors.create_task(self._accept(listener, broker))
        finally:
            connections = list(self._connections)
            for task in connections:
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
            await asyncio.sleep(0)  # so that what was closed is

    def _door(self, host: str, port: int) -> tuple[str, int]:
        """Where clients are told that this broker is: a door of the proxy, opened for a broker it has not heard of."""
        broker = (host, port)
        if not self._leads_to and broker not in self._doors:
            try:
                listener = self._open(broker, self._next_port())
            except LabError:
                listener = self._open(broker, 0)
            self._acceptors.create_task(self._accept(listener, broker))
        return "127.0.0.1", self._leads_to or self._doors[broker]

    async def _accept(self, listener: socket.socket, broker: tuple[str, int]) -> None:
        while True:
            number = self._counts["opened"] + 1
            try:
                client = await self._next_client(listener)
            except OSError:  # no descriptors left, or the client has left before it was let in
                self._note("refused", number)
                await asyncio.sleep(RETRY_S)
                continue
            connection = Connection(number, client, broker, self._tls, self._book, self._note, self._door)
            self._counts["opened"] += 1
            self._note("open", number)
            task = asyncio.create_task(connection.run())
            self._connections[task] = connection
            task.add_done_callback(self._closed)

    async def _next_client(self, listener: socket.socket) -> socket.socket:
        """Who comes next; unlike sock_accept it loses nobody when it is cancelled."""
        while True:
            with suppress(BlockingIOError):
                return listener.accept()[0]
            ready = asyncio.Event()
            self._loop.add_reader(listener, ready.set)
            try:
                await ready.wait()
            finally:
                self._loop.remove_reader(listener)

    def _closed(self, task: asyncio.Task[None]) -> None:
        connection = self._connections.pop(task)
        connection.close()
        self._counts["closed"] += 1
        self._note("close", connection.number)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._counts["failures"] += 1
            log.error("the proxy failed on connection %d", connection.number, exc_info=error)

    def _note(
        self, what: str, connection: int, request: Request | None = None, rule: int | None = None, size: int = 0
    ) -> None:
        what, _, details = what.partition(": ")
        self._counts[what] += 1
        if details and self._counts[what] == 1:
            log.warning("connection %d was closed: %s is not the Kafka protocol", connection, details)
        if request is None:
            event = ProxyEvent(self._now_ms(), what, connection, rule=rule, size=size)
        elif rule is None and request.api not in self.watch:
            return
        else:
            event = ProxyEvent(
                self._now_ms(), what, connection, request.api, request.correlation_id, request.client_id, rule, size
            )
        with self._happened:
            self._events.append(event)
            self._event_count += 1
            self._happened.notify_all()

    def _now_ms(self) -> float:
        return round((time.monotonic() - self._began) * 1000, 3)

    async def _release(self) -> None:
        for connection in self._connections.values():
            connection.release()

    async def _cut(self, client_id: str) -> int:
        wanted = {
            task: connection for task, connection in self._connections.items() if client_id in ("", connection.client_id)
        }
        for connection in wanted.values():
            connection.over.set()
        if wanted:
            _, left = await asyncio.wait(wanted, timeout=1.0)
            for task in left:  # on its way to a broker that does not answer
                task.cancel()
        return len(wanted)

    def _ask(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run something in the proxy's thread and wait for it; LabError when the proxy has ended."""
        if self._thread is None:
            coroutine.close()
            raise LabError("The proxy has been stopped. Start a new one.")
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(THREAD_TIMEOUT_S)
        except TimeoutError:
            raise LabError(f"The proxy's thread did not answer within {THREAD_TIMEOUT_S:g} s. Restart the kernel.") from None


def _listen(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; LabError when the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # The port of a proxy that has just ended may be taken over, one that is in use may not.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise LabError(
                f"Port {port}, where the proxy belongs, is taken by another program. End that program, or choose another port."
            ) from error
        raise LabError(f"The proxy cannot listen on port {port}: {error.strerror}. Choose another port.") from error
    return listener
