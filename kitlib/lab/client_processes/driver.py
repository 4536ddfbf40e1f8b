"""One face for the client libraries, each in a child process, and the loop by which a child obeys its owner (`serve`).

Each driver of a consumer is given the same settings under the kit's names and translates them; what a library does
not know is left to its own default. No driver decides when to poll or what to commit: that is the
application's part, and the application sits at the other end of a pipe. Exceptions of a library become
words: the broker's own name for the error where the library tells it ("UNKNOWN_MEMBER_ID"),
"COMMIT_FAILED" where it hides it (Java's CommitFailedException).

Left out: several topics, assignment by hand, seeks.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from kitlib.errors import LabError

CALL_S = 8.0  # a commit or a close that takes longer has failed
FETCH_WAIT_MS = 50  # a broker without records answers a fetch after so long
POSITION_MS = 1_000  # how long a library is given to find out where it reads
NONE = "NONE"

Told = dict[str, Any]


class Refused(LabError):
    """The library does not start with these settings; the message is its own."""


class Client:
    """What lives in a child process: each order names one of its methods, and what that takes.

    A consumer's, subscribed, has these, which take and give lists where JSON has no tuples:
    `poll(records, timeout_ms)`: [partition, offset] of what was handed out, `records` at most; with 0 it only takes part in
    the group. A library that hands out what it likes is set back to the first record that was not wanted.
    `commit(offsets, waits)`: commit these, or what it takes for done. One that does not wait is NONE; what comes of it is an
    event, if it is refused. `store(partition, offset)`: librdkafka's alone.
    `positions()`: the next offset of each partition that it holds; None where its reset policy leaves it without one.
    """

    jvm: int | None = None  # the process in which it does its work, if it is not this one

    def __init__(self) -> None:
        self.events: list[Told] = []  # what the library told of since the last answer

    def identity(self) -> tuple[str, int | None]:
        """The member's id ("" before it has one) and its generation or epoch (None outside of a group)."""
        return "", None

    def close(self) -> None:
        """Say good-bye."""


def consumer_config(settings: Mapping[str, Any]) -> Told:
    """A consumer's settings that both libraries call alike."""
    config = {
        "bootstrap.servers": settings["bootstrap"],
        "client.id": settings["client_id"],
        "group.id": settings["group"],
        "group.protocol": settings["protocol"],
        "enable.auto.commit": settings["auto_commit"],
        "auto.commit.interval.ms": settings["auto_commit_interval_ms"],
        "auto.offset.reset": settings["auto_offset_reset"],
        "max.poll.interval.ms": settings["max_poll_interval_ms"],
    }
    if settings["protocol"] == "classic":
        config |= {"session.timeout.ms": settings["session_timeout_ms"], "heartbeat.interval.ms": settings["heartbeat_interval_ms"]}
        config["partition.assignment.strategy"] = ",".join(settings["strategies"])
    return config if settings["instance_id"] is None else config | {"group.instance.id": settings["instance_id"]}


def event(what: str, partitions: Iterable[int] = (), error: str = "") -> Told:
    """Something that a library told of, as it goes over the pipe; `at` is the machine's monotonic clock, in seconds."""
    return {"what": what, "partitions": sorted(partitions), "error": error, "at": time.monotonic()}


def broker_form(name: str) -> str:
    """The name of an exception in the broker's form: RebalanceInProgressException is REBALANCE_IN_PROGRESS."""
    name = name.removesuffix("Exception").removesuffix("Error")
    return "".join(f"_{letter}" if letter.isupper() and at else letter for at, letter in enumerate(name)).upper()


def first_of_each(records: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The lowest offset of each partition among these (partition, offset)."""
    first: dict[int, int] = {}
    for partition, offset in records:
        first[partition] = min(offset, first.get(partition, offset))
    return first


def serve(make: Callable[[Told], Client], failures: tuple[type[Exception], ...] = (LabError,)) -> NoReturn:
    """Be the child: settings from the first line, then one answer for each order under its number, until one that closes.

    One of `failures` becomes the answer {"failed": its text}. The process ends at once when the owner's pipe does, and does not
    wait for the thread that reads it; what nobody foresaw goes to stderr.
    """
    orders, answer = take_orders()
    code = 1
    try:
        try:
            client = make(orders.get())
        except LabError as error:
            answer({"refused" if isinstance(error, Refused) else "failed": str(error)})
        else:
            answer({"ready": os.getpid(), "jvm": client.jvm})
            order: Told = {}
            while order.get("do") != "close":
                order = orders.get()
                answer(carried_out(client, order, failures) | {"order": order.get("order")})
        code = 0
    finally:
        if code:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)


def carried_out(client: Client, order: Told, failures: tuple[type[Exception], ...]) -> Told:
    """What is to be told of an order: what its method gives, the events meanwhile and, before a close, who the member was."""
    try:
        identity = client.identity() if order["do"] == "close" else None
        result = getattr(client, order["do"])(**order["given"])
        member, generation = identity or client.identity()
    except failures as error:
        return {"failed": str(error)}
    events, client.events = client.events, []
    return {"result": result, "events": events, "member": member, "generation": generation}


def take_orders() -> tuple[queue.SimpleQueue[Told], Callable[[Told], None]]:
    """The child's end of the pipe, one JSON line for each order and for each answer: the orders as they come, and how to answer."""
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
