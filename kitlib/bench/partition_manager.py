"""How fast the PartitionManager is, how its cost grows with what is pending, and how much memory that takes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

from kitlib.bench.figures import Figure, paired, seconds
from kitlib.kafka.log import Fetch, Record
from kitlib.storm.offset_store import MemoryOffsetStore
from kitlib.storm.partition_manager import PartitionManager, SpoutConfig

FETCH_RECORDS = 1_000
OPERATIONS = 200_000  # of each measurement: half next, half ack
FEW, SOME, MANY = 100, 10_000, 1_000_000  # pending offsets
CLEARED = 10_000


@dataclass(slots=True)
class EndlessLog:
    """A log that never ends, with the same small value in every record; made once, so that it costs nothing here."""

    records: list[Record]

    @classmethod
    def of(cls, count: int) -> EndlessLog:
        """A log whose first `count` records exist."""
        return cls([Record(offset, b"x") for offset in range(1, count + 1)])

    def fetch(self, offset: int) -> Fetch:
        return Fetch(self.records[offset - 1 : offset - 1 + FETCH_RECORDS])

    def offset_before(self, time: int) -> int | None:
        return 1


def begin(log: EndlessLog, max_offset_behind: int | None = None) -> PartitionManager:
    """A manager at offset 1 of the log."""
    config = SpoutConfig("events", "spout", force_from_start=True)
    if max_offset_behind is not None:
        config.max_offset_behind = max_offset_behind
    return PartitionManager(config, log, MemoryOffsetStore())


def emit(manager: PartitionManager, count: int) -> None:
    """Emit `count` records, which are then pending."""
    emit_next = manager.next
    for _ in range(count):
        emit_next()


def steady_state(log: EndlessLog, pending: int) -> float:
    """Seconds an operation in a spout that always has `pending` offsets pending: one next, one ack of the oldest."""
    manager = begin(log)
    emit(manager, pending)
    oldest = iter(range(1, len(log.records)))

    def work() -> None:
        emit_next, ack = manager.next, manager.ack
        for offset in islice(oldest, OPERATIONS // 2):
            emit_next()
            ack(offset)

    return seconds(work) / OPERATIONS


def out_of_order(log: EndlessLog, pending: int) -> float:
    """Seconds an operation when acks come in blocks of a hundred, each from its newest to its oldest."""
    manager = begin(log)
    emit(manager, pending)
    blocks = range(1, OPERATIONS // 2, 100)

    def work() -> None:
        emit_next, ack = manager.next, manager.ack
        for block in blocks:
            for offset in range(block + 99, block - 1, -1):
                emit_next()
                ack(offset)

    return seconds(work) / OPERATIONS


def clearing(log: EndlessLog, pending: int) -> float:
    """Seconds a cleared offset, when one ack clears CLEARED of `pending` offsets."""
    manager = begin(log, max_offset_behind=pending)
    emit(manager, pending)
    return seconds(partial(manager.ack, pending + CLEARED)) / CLEARED


class ForgettingLog(EndlessLog):
    """An EndlessLog whose records are made for each fetch, so that nobody else holds their offsets."""

    def fetch(self, offset: int) -> Fetch:
        return Fetch([Record(at, b"x") for at in range(offset, offset + FETCH_RECORDS)])


def bytes_per_pending() -> float:
    """Bytes a pending offset, at MANY pending, the number itself included."""
    gc.collect()
    tracemalloc.start()
    manager = begin(ForgettingLog([]))
    emit(manager, MANY)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(manager.pending)


def measure(rounds: int = 5, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The PartitionManager's figures; takes about half a minute."""
    say("making a log of a million records")
    log = EndlessLog.of(MANY + OPERATIONS + FETCH_RECORDS)
    gc.freeze()  # the log is no garbage; do not look at it again
    say("operations a second")
    cost = paired(
        {
            "few": lambda: steady_state(log, FEW),
            "some": lambda: steady_state(log, SOME),
            "many": lambda: steady_state(log, MANY),
            "mixed": lambda: out_of_order(log, SOME),
        },
        rounds,
    )
    say("clearing what is far behind")
    clear = paired({"some": lambda: clearing(log, 2 * CLEARED), "many": lambda: clearing(log, MANY)}, rounds)
    say("memory")
    memory = bytes_per_pending()
    gc.unfreeze()
    return [
        Figure("PartitionManager, 10,000 pending, acks in order", 1 / cost["some"], "operations/s", 400_000),
        Figure("PartitionManager, 10,000 pending, acks out of order", 1 / cost["mixed"], "operations/s", 400_000),
        Figure("cost of an operation, 10,000 to 100 pending", cost["some"] / cost["few"], "times", 1.5, at_most=True),
        Figure(
            "cost of an operation, 1,000,000 to 100 pending", cost["many"] / cost["few"], "times", 1.5, at_most=True
        ),
        # Fifty times as many are pending. What is far behind has left the processor's caches, hence not 1.5.
        Figure(
            "cost of a cleared offset, 1,000,000 to 20,000 pending",
            clear["many"] / clear["some"],
            "times",
            5,
            at_most=True,
        ),
        Figure("memory of a pending offset", memory, "bytes", 200, at_most=True),
    ]
