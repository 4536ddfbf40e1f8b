"""What "kit.partition_manager" asks of a partition's leader: where the log begins and ends, and the records of a batch as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from kitlib.errors import LabError
from kitlib.lab.wire.columns import Columns
from kitlib.lab.wire.connection import EARLIEST, LATEST, Wire
from kitlib.mechanisms.log import Fetch, FetchError

FETCH_BYTES = 1 << 20
COLUMNS = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", "UTC")), ("retry", pa.int32()),
])  # fmt: skip

Security = Mapping[str, Any]  # what kafka-python needs to be let in
Piece = tuple[int, int, int]  # first offset, last offset, which retry
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class WireLog:
    """One partition as a planner asks for it: where it begins and ends. It gives out no records."""

    bootstrap: str
    topic: str
    partition: int
    security: Security

    def start(self) -> int:
        return self._list(EARLIEST)

    def end(self) -> int:
        return self._list(LATEST)

    def fetch(self, offset: int) -> Fetch:
        """Whether this offset may be asked for."""
        return Fetch() if self.start() <= offset <= self.end() else Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)

    def offset_before(self, time: int) -> int | None:
        found = self._list(time)
        return None if found < 0 else found

    def _list(self, time: int) -> int:
        where = self.bootstrap, self.topic, self.partition
        return ask(*where, self.security, lambda wire: wire.list_offsets(self.topic, self.partition, time))


_wires: dict[tuple[str, str, int], Wire] = {}  # of this process, to the leader of each partition: a task costs no connection


def ask(bootstrap: str, topic: str, partition: int, security: Security, question: Callable[[Wire], Answer]) -> Answer:
    """The leader's answer, on the connection that is open, else on a new one. LabError when that fails too."""
    where = bootstrap, topic, partition
    if (wire := _wires.get(where)) is not None:
        with suppress(LabError):
            return question(wire)
        _wires.pop(where).close()
    _wires[where] = wire = Wire.open_leader(*where, **security)
    return question(wire)


def read_pieces(
    bootstrap: str, topic: str, partition: int, pieces: Sequence[Piece], security: Security
) -> Iterator[pa.RecordBatch]:
    """The records at these offsets (ascending) that are still there, about FETCH_BYTES at a time.

    LabError when the broker does not give them: the log ends before the pieces do, or the leader is not found.
    """
    firsts, lasts, retries = (np.array(column, np.int64) for column in zip(*pieces, strict=True))
    at, end = int(firsts[0]), int(lasts[-1]) + 1
    while at < end:
        found = ask(bootstrap, topic, partition, security, partial(_fetch, topic, partition, at))
        if found.next_offset is None or found.next_offset <= at:
            raise LabError(
                f"{topic}-{partition}: the broker gives nothing from offset {at} on, and the batch ends at {end}. "
                "The log was cut after the batch had been planned; begin with a new checkpoint."
            )
        offsets = np.array(found.offsets, np.int64)
        piece = np.searchsorted(firsts, offsets, "right") - 1
        is_wanted = (piece >= 0) & (offsets <= lasts[piece]) & (offsets >= at)
        if is_wanted.any():
            batch = _columns_of(found, topic, partition, offsets, retries[piece])
            yield batch if is_wanted.all() else batch.filter(pa.array(is_wanted))
        left = int(np.searchsorted(lasts, found.next_offset))
        at = max(found.next_offset, int(firsts[left])) if left < len(lasts) else end


def _fetch(topic: str, partition: int, at: int, wire: Wire) -> Columns:
    return wire.fetch_columns(topic, partition, at, FETCH_BYTES)


def _columns_of(found: Columns, topic: str, partition: int, offsets: Any, retries: Any) -> pa.RecordBatch:
    count = len(offsets)
    times = pa.array(np.array(found.times_ms, np.int64) * 1000).view(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([
        pa.array(found.keys, pa.binary()), pa.array(found.values, pa.binary()), pa.repeat(pa.scalar(topic), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count), pa.array(offsets), times, pa.array(retries.astype(np.int32)),
    ], schema=COLUMNS)  # fmt: skip
