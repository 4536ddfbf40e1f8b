"""A child process that takes orders: one JSON line each on its stdin, one JSON line back on its stdout.

This is the child's end, for clients that must live in a process of their own (`consumer_process`,
`producer_process`), which `kitlib.lab.supervisor` starts. What is ordered, and what comes back, is theirs.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import sys
import threading
from collections.abc import Callable
from typing import Any

Told = dict[str, Any]


def take_orders() -> tuple[queue.SimpleQueue[Told], Callable[[Told], None]]:
    """The orders as they come, and how to answer. The process ends at once when the owner's pipe does."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a library that aborts leaves no file behind
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints must not come between the answers
    orders: queue.SimpleQueue[Told] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            orders.put(json.loads(line))
        os._exit(0)  # the owner is gone; an application that dies says good-bye to nobody

    def answer(told: Told) -> None:
        answers.write(json.dumps(told).encode() + b"\n")

    threading.Thread(target=read, daemon=True).start()
    return orders, answer
