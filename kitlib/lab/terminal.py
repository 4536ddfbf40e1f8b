"""The lab's process in the terminal: it only passes on what asks for the end.

What starts, watches and ends the lab is its watcher (`kitlib/lab/session.py`), so this one loads neither Jupyter nor Kafka's clients.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid

from kitlib.errors import LabError
from kitlib.lab import supervisor
from kitlib.lab.processes import TOKEN_NAME, find_all, sweep


def watched(*arguments: str) -> int:
    """Have a watcher run the lab, pass on to it what asks for the end, and return the command's exit code."""
    token, asked, parent = uuid.uuid4().hex, 0, os.getppid()
    environment = {**os.environ, TOKEN_NAME: token}
    watcher = supervisor.start("kitlib.lab.session", *arguments, environment=environment, output=None, errors=None)
    assert watcher.stdin is not None
    orders = watcher.stdin.fileno()

    def ask(number: int, _: object = None) -> None:
        nonlocal asked
        asked = asked or number
        with contextlib.suppress(OSError):
            os.write(orders, b"\n")

    heeded = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, ask)
    while watcher.returncode is None:
        watcher.send_signal(signal.SIGCONT)  # a learner's code may have stopped it
        with contextlib.suppress(subprocess.TimeoutExpired):
            watcher.wait(0.5)
        if signal.SIGHUP in heeded and os.getppid() != parent > 1:  # nohup wants the lab to outlive what started it
            parent = os.getppid()
            ask(signal.SIGHUP)
    for number in heeded:
        signal.signal(number, signal.SIG_IGN)  # the last lines of the program are not interrupted
    if watcher.returncode < 0:
        from kitlib.lab import session

        sweep(lambda: find_all(token))
        session.end_spark()
        session.end_kafka()
        session.note_path().unlink(missing_ok=True)
        raise LabError("The lab's watcher was ended from outside, so the lab ends too. Start it again: `kit lab`.")
    return watcher.returncode or (128 + asked if asked else 0)  # what a shell expects of a program that a signal has ended
