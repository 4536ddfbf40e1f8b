"""One face for the consumer libraries, as `kitlib.lab.client_processes.consumer` drives them in its child process.

Each driver is given the same settings under the kit's names and translates them; what a library does
not know is left to its own default. No driver decides when to poll or what to commit: that is the
application's part, and the application sits at the other end of a pipe. Exceptions of a library become
words: the broker's own name for the error where the library tells it ("UNKNOWN_MEMBER_ID"),
"COMMIT_FAILED" where it hides it (Java's CommitFailedException).

Left out: several topics, assignment by hand, seeks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from kitlib.errors import LabError

CALL_S = 8.0  # a commit or a close that takes longer has failed
FETCH_WAIT_MS = 50  # a broker without records answers a fetch after so long
POSITION_MS = 1_000  # how long a library is given to find out where it reads
NONE = "NONE"


class Refused(LabError):
    """The library does not start with these settings; the message is its own."""


class Driver(Protocol):
    """One consumer, subscribed; `events` is emptied by whoever reads it."""

    events: list[dict[str, Any]]
    jvm: int | None  # the process in which the consumer lives, if it is not this one

    def poll(self, records: int, timeout_ms: int) -> list[tuple[int, int]]:
        """(partition, offset) of what was handed out, `records` at most; with 0 it only takes part in the group.

        A library that hands out what it likes is set back to the first record that was not wanted.
        """
        ...

    def commit(self, offsets: Mapping[int, int] | None, waits: bool = True) -> str:
        """Commit these, or what it takes for done. One that does not wait is NONE; what comes of it is an event, if it is refused."""
        ...

    def store(self, partition: int, next_offset: int) -> str: ...

    def positions(self) -> dict[int, int | None]:
        """The next offset of each partition that it holds; None where its reset policy leaves it without one."""
        ...

    def identity(self) -> tuple[str, int | None]:
        """The member's id ("" before it has one) and its generation or epoch (None outside of a group)."""
        ...

    def close(self) -> None: ...


def event(what: str, partitions: Iterable[int] = (), error: str = "") -> dict[str, Any]:
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
