"""A real consumer that can be killed, frozen and left to die: a child process, driven over a pipe.

What a group does with a member that is dead or stopped can only be seen with one that really is. So
each consumer lives in a process of its own. The application stays here: it tells the child when to poll
and what to commit, one JSON line for each, and gets one JSON line back, with the rebalances that the
library told of meanwhile. What the library does by itself (heartbeats, commits in the background) goes
on between the lines.

The child ends when its pipe closes, which it does when its owner dies, however it dies. One that is
frozen cannot notice that, so a guard sits at a pipe of its own as long as it is, and kills it then.
Java's consumer lives in a JVM below its child; signals go to both.

Orders (stdin):   the settings first, then  {"do": the name of a method, "given": what it takes, "order": number}
Answers (stdout): one for each:  {"result", "events", "member", "generation", "order"}, {"refused"} or {"failed"}
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, ClassVar, Self

from kitlib.errors import LabError
from kitlib.lab import supervisor
from kitlib.lab.client_processes.driver import CALL_S, Client, Refused, Told, serve

START_S = 30.0  # a JVM on a busy machine
ANSWER_S = CALL_S + 4.0  # beyond the time that the order itself may take
END_S = 5.0
KILL_S = 20.0  # how long a process that was killed may take to be gone, on a busy machine


class ConsumerProcess:
    """The owner's side of one consumer; `start` makes one."""

    kind: ClassVar[str] = "consumer"
    child: ClassVar[str] = "kitlib.lab.client_processes.consumer"  # the module that runs in the process

    def __init__(self, name: str, library: str, process: subprocess.Popen[bytes]) -> None:
        self.name, self.library, self.process = name, library, process
        self.jvm: int | None = None
        self.is_frozen = False
        self._is_ready, self._start_by = False, time.monotonic() + START_S
        self.member = ""  # the id that the coordinator gave it, by its last answer
        self.generation: int | None = None  # by its last answer
        self._orders = 0  # how many were given; an answer has its order's number
        self._events: list[Told] = []  # that came with answers, for the next poll or the close
        self._guard: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self._said: deque[str] = deque(maxlen=3)  # the last lines of its stderr
        for read, pipe in ((self._read, process.stdout), (self._hear, process.stderr)):
            threading.Thread(target=read, args=(pipe,), daemon=True).start()

    @classmethod
    def start(cls, name: str, settings: Mapping[str, Any], wait: bool = True) -> Self:
        """Start a consumer with these settings and wait until it has subscribed, now or in its first order.

        Refused with the library's words when it does not take them, LabError when it does not start within START_S.
        """
        process = supervisor.start(cls.child)
        consumer = cls(name, settings.get("library", "librdkafka"), process)
        consumer._write(dict(settings))
        if wait:
            consumer.wait_ready(START_S)
        return consumer

    def wait_ready(self, seconds: float) -> bool:
        """Whether it has started, within so many seconds. Errors as `start`; a start that failed leaves no process."""
        try:
            if not self._is_ready:
                self.jvm = self._answer("its start", min(seconds, max(0.001, self._start_by - time.monotonic()))).get("jvm")
                self._is_ready = True
        except TimeoutError as error:
            if time.monotonic() >= self._start_by:
                self.kill()
                raise LabError(str(error)) from None
        except BaseException:
            self.kill()
            raise
        return self._is_ready

    @property
    def pids(self) -> list[int]:
        """The processes in which the consumer lives, the one that speaks with the broker first."""
        return [*([self.jvm] if self.jvm else []), self.process.pid]

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def poll(self, records: int, timeout_ms: int) -> tuple[Sequence[tuple[int, int]], Sequence[Any]]:
        """((partition, offset) of each record, the events since the last poll). LabError when it has ended or is frozen."""
        found = self._ask("poll", timeout_ms / 1000, records=records, timeout_ms=timeout_ms)
        return [(partition, offset) for partition, offset in found], self._take_events()

    def commit(self, offsets: Mapping[int, int] | None = None, waits: bool = True) -> str:
        """Commit: "NONE" or the error's name; if it does not wait, a later poll tells of a refusal. LabError as `poll`."""
        wanted = None if offsets is None else sorted(offsets.items())
        return str(self._ask("commit", 0, offsets=wanted, waits=waits))

    def store(self, partition: int, next_offset: int) -> str:
        """librdkafka's store_offsets: "NONE" or the error's name. LabError as `poll`, and of the other libraries."""
        return str(self._ask("store", 0, partition=partition, offset=next_offset))

    def positions(self) -> dict[int, int | None]:
        """The next offset of each partition that it holds, None where it has none. LabError as `poll`."""
        return dict(self._ask("positions", CALL_S))

    def close(self) -> list[Told]:
        """Close it as the library does, and end its process; the events since the last poll. LabError as `poll`."""
        self._check_usable("close")
        try:
            self._ask("close", CALL_S)
            with suppress(OSError):
                assert self.process.stdin is not None
                self.process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END_S)
        finally:
            self.kill()
        return self._take_events()

    def begin_close(self) -> None:
        """Order the close and do not wait for it; `kill` is still needed. LabError as `poll`."""
        self._check_usable("close")
        self.wait_ready(START_S)
        self._write({"do": "close", "given": {}})

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; nothing when it has ended. LabError when it is not gone within KILL_S."""
        if self.is_alive:
            self._signal(signal.SIGKILL)
        try:
            self.process.wait(KILL_S)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self._who}: killed, but still there after {KILL_S:g} s. Look at what holds it: `ps -o stat,wchan`.") from None
        finally:
            self._release_guard()
            self.is_frozen = False
            with suppress(OSError):
                if self.process.stdin is not None:
                    self.process.stdin.close()

    def freeze(self) -> None:
        """SIGSTOP: every thread of it stands still, its connections stay open. LabError when it has ended."""
        self._check_usable("freeze")
        self.wait_ready(START_S)
        self._guard = supervisor.guard("kill", "-KILL", *map(str, self.pids))
        self._signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        """SIGCONT: it goes on where it was. LabError when it is not frozen."""
        if not self.is_frozen:
            raise LabError(f"{self._who}: it is not frozen, so it cannot be thawed. Freeze it first.")
        self._signal(signal.SIGCONT)
        self.is_frozen = False
        self._release_guard()

    @property
    def _who(self) -> str:
        return f"{self.kind} {self.name} ({self.library}, process {self.process.pid})"

    def _take_events(self) -> list[Told]:
        events, self._events = self._events, []
        return events

    def _ask(self, what: str, own_s: float, **more: Any) -> Any:
        """The result of an order; the events that came with it are kept."""
        self._check_usable(what)
        self.wait_ready(START_S)
        self._orders += 1
        self._write({"do": what, "given": more, "order": self._orders})
        try:
            told = self._answer(what, own_s + ANSWER_S, self._orders)
        except TimeoutError as error:
            raise LabError(str(error)) from None
        self.member, self.generation = told["member"], told["generation"]
        self._events += [event | {"generation": self.generation} for event in told["events"]]
        return told["result"]

    def _check_usable(self, what: str) -> None:
        if self.is_frozen:
            raise LabError(f"{self._who}: it is frozen and cannot {what}. Thaw it first.")
        if not self.is_alive:
            raise LabError(f"{self._who}: it has ended ({self._last_words()}), {what} is too late. Start a new one.")

    def _write(self, order: Told) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended; the answer that does not come says so

    def _answer(self, what: str, timeout_s: float, order: int | None = None) -> Told:
        deadline = time.monotonic() + timeout_s
        try:
            told = self._answers.get(timeout=timeout_s)
            while told.get("order", order) != order:  # too late, to an order that was given up
                told = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"{self._who}: no answer to {what} within {timeout_s:g} s. Look at `kit status`; start a new one.") from None
        if "refused" in told:
            raise Refused(f"{self._who}: {told['refused']}")
        if "failed" in told:
            raise LabError(f"{self._who}: {what} failed: {told['failed']}")
        if "gone" in told:
            raise LabError(f"{self._who}: it ended before it answered to {what} ({self._last_words()}). Start a new one.")
        return told

    def _last_words(self) -> str:
        return f"exit code {self.process.poll()}{': ' if self._said else ''}{' '.join(self._said)}"[:400]

    def _read(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            with suppress(ValueError):
                self._answers.put(json.loads(line))
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        self._answers.put({"gone": True})
        pipe.close()

    def _hear(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            self._said.append(line.decode(errors="replace").strip())
        pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _release_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            supervisor.release(guard)


def open_driver(settings: Mapping[str, Any]) -> Client:
    """The client of `settings["library"]`, subscribed. Refused when the library does not take the settings."""
    if settings["library"] == "java":
        from kitlib.lab.client_processes.java import Java

        return Java(settings)
    from kitlib.lab.client_processes.librdkafka import Librdkafka

    return Librdkafka(settings)


if __name__ == "__main__":
    serve(open_driver)
