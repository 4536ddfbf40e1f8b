"""Watches the process that runs a learner's code, and ends it with everything that came of it.

`kitlib.exercises.sandbox` starts this program in a fresh Python, so that the notebook's process, full
of threads, need not be copied. It reads one request, forks the learner's process off while it has a
single thread itself, hands the answers on to stdout as they come, and watches the limits. It is a
supervisor (`kitlib.lab.supervisor`), so what ran away is found and ended, too.
When its stdin closes, the notebook's process is gone or wants no more, and everything is ended, too.

The last word is one JSON object on stderr: {"breach": kind or null, "status": exit code or -signal of
the learner's process or null, "printed": the beginning of its output, "survivors": count}.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import sys
import time
from dataclasses import dataclass
from typing import Any

import psutil

from kitlib.exercises import sandbox_child
from kitlib.lab.supervisor import Supervisor

TICK_S = 0.01  # between two looks at the pipes and at the memory of the learner's process
LISTING_S = 0.1  # between two looks at the whole tree, which cost more
ENDING_S = 12.0  # less than the notebook waits for it
PIPE_BYTES = 1 << 20
PRINTED_SHOWN = 2_000  # bytes of the learner's output that are handed on


@dataclass(slots=True)
class Request:
    """What is to be run, and what it may use."""

    token: str  # in the environment of every process below
    nonce: str  # at the beginning of every answer
    path: list[str]  # sys.path for the learner's process
    driver: str  # "module:function"
    room: str  # a folder of its own, removed at the end
    limits: dict[str, Any]
    parcel: bytes
    scripts: list[bytes]

    @classmethod
    def read(cls) -> Request:
        """From stdin: a line that describes the rest, the parcel, the scripts a line each. stdin stays open."""
        head = bytearray()
        while not head.endswith(b"\n"):
            head += _exactly(1)
        described = json.loads(head)
        parcel, scripts = (_exactly(described.pop(name)) for name in ("parcel", "scripts"))
        return cls(**described, parcel=parcel, scripts=scripts.splitlines())


def _exactly(count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        block = os.read(0, min(count - len(got), PIPE_BYTES))
        if not block:
            sys.exit("the request ended early")
        got += block
    return bytes(got)


class Warden(Supervisor):
    """One learner's process from its start to its end."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.token)
        self.request, self.limits = request, request.limits
        self.answers, self.printed = Inlet(), Inlet()
        self.to_hand_on = bytearray()  # answers that stdout has not taken yet
        self.shown = bytearray()
        self.started = self.listed = time.monotonic()
        self.began: float | None = None  # when the learner's code was about to be loaded

    def main(self) -> dict[str, Any]:
        self.pid = os.fork()
        if self.pid == 0:
            self._become_the_learners()
        for inlet in (self.answers, self.printed):
            inlet.keep_reading_end()
        os.set_blocking(1, False)
        with contextlib.suppress(psutil.Error):
            self.known.add(psutil.Process(self.pid))
        breach = self.watch()
        if breach is None and len(self.offspring()) > self.limits["processes"]:
            breach = "processes"  # it was faster than the watch: the system refused it the next one
        self.end_everything(ENDING_S)
        breach = breach or self.drain()
        return {
            "breach": breach,
            "status": self.ended.get(self.pid),
            "printed": self.shown[:PRINTED_SHOWN].decode("utf-8", "replace"),
            "survivors": len(self.offspring()),
        }

    def _become_the_learners(self) -> None:
        """In the fork: set its limits, exchange its files, and run."""
        sandbox_child.confine(self.limits)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (self.printed.writing, 1), (self.printed.writing, 2)):
            os.dup2(source, target)
        for descriptor in (nothing, self.printed.writing, self.printed.reading, self.answers.reading):
            os.close(descriptor)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        request = self.request
        try:
            sandbox_child.run(
                self.answers.writing, request.nonce, request.path, request.driver, request.parcel, request.scripts
            )
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    def watch(self) -> str | None:
        """Until the learner's process ends (None) or has to be ended (why)."""
        while True:
            moved = self.pump()
            breach = self.breach()
            if breach:
                return breach
            self.bury()
            if self.pid in self.ended:
                return None
            if not moved and select.select([0], [], [], TICK_S)[0]:
                return "owner"  # nothing is sent after the request, so this is the end of the pipe

    def pump(self) -> bool:
        """Take in what has been written and hand the answers on; whether there was anything."""
        block, words = self.answers.read(), self.printed.read()
        self.to_hand_on += block
        self.shown += words
        if self.began is None and self.answers.count:
            self.began = time.monotonic()
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            if self.to_hand_on:
                del self.to_hand_on[: os.write(1, self.to_hand_on)]
        return bool(block or words)

    def breach(self) -> str | None:
        """The limit that is exceeded now, if one is."""
        now = time.monotonic()
        if breach := self.written_too_much():
            return breach
        if self.began is None:
            return "start" if now - self.started > self.limits["startup_s"] else None
        if now - self.began > self.limits["deadline_s"]:
            return "time"
        if now - self.listed > LISTING_S:
            self.listed = now
            if len(self.offspring()) > 1 + self.limits["processes"]:  # beside the learner's own process
                return "processes"
        return "memory" if sum(map(_resident, self.known)) > self.limits["memory_bytes"] else None

    def drain(self) -> str | None:
        """Hand on what is still in the pipes; the limit that it exceeds, if it does."""
        breach = None
        while breach is None and self.pump():
            breach = self.written_too_much()
        os.set_blocking(1, True)
        with contextlib.suppress(BrokenPipeError):
            while self.to_hand_on:
                del self.to_hand_on[: os.write(1, self.to_hand_on)]
        return breach

    def written_too_much(self) -> str | None:
        if self.printed.count > self.limits["printed_bytes"]:
            return "printed"
        return "answers" if self.answers.count > self.limits["answers_bytes"] else None

class Inlet:
    """A pipe that the learner's process writes into and the warden reads."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.count = 0  # bytes read so far

    def keep_reading_end(self) -> None:
        os.close(self.writing)
        os.set_blocking(self.reading, False)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self.reading, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def read(self) -> bytes:
        """What is in the pipe now; b"" when there is nothing, or nothing any more."""
        try:
            block = os.read(self.reading, PIPE_BYTES)
        except BlockingIOError:
            return b""
        self.count += len(block)
        return block


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def main() -> None:
    request = Request.read()
    try:
        report = Warden(request).main()
        os.write(2, json.dumps(report).encode())
    finally:
        shutil.rmtree(request.room, ignore_errors=True)


if __name__ == "__main__":
    main()
