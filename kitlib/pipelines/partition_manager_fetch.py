"""What "kit.partition_manager" asks of a partition's leader: where the log begins and ends, and the records of a batch as columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kitlib.errors import LabError
from kitlib.lab.clients import SILENT
from kitlib.mechanisms.log import Fetch, FetchError

ANSWER_S = 10.0
BATCH = 10_000
SILENCE_S = 20.0
COLUMNS = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", "UTC")), ("retry", pa.int32()),
])  # fmt: skip

Piece = tuple[int, int, int]  # first offset, last offset, which retry
_consumers: dict[tuple[str, str, int], Consumer] = {}  # of this process, one for each partition: a task costs no connection


def _consumer(topic: str, partition: int, config: Mapping[str, Any]) -> Consumer:
    where = config["bootstrap.servers"], topic, partition
    if where not in _consumers:
        _consumers[where] = Consumer({
            **config, "group.id": "kit.source", "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
            "check.crcs": True, "isolation.level": "read_uncommitted", "fetch.wait.max.ms": 50, "queued.max.messages.kbytes": 8192,
        }, logger=SILENT)  # fmt: skip
    return _consumers[where]


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One partition as a planner asks for it: where it begins and ends. It gives out no records. LabError when nobody answers."""

    topic: str
    partition: int
    config: Mapping[str, Any]  # librdkafka's

    def start(self) -> int:
        return self._ask(lambda consumer, where: consumer.get_watermark_offsets(where, timeout=ANSWER_S)[0])

    def end(self) -> int:
        return self._ask(lambda consumer, where: consumer.get_watermark_offsets(where, timeout=ANSWER_S)[1])

    def fetch(self, offset: int) -> Fetch:
        """Whether this offset may be asked for."""
        return Fetch() if self.start() <= offset <= self.end() else Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)

    def offset_before(self, time: int) -> int | None:
        found = self._ask(lambda consumer, where: consumer.offsets_for_times([where], timeout=ANSWER_S)[0].offset, time)
        return None if found < 0 else found

    def _ask(self, question: Callable[[Consumer, TopicPartition], int], time: int = 0) -> int:
        try:
            return question(_consumer(self.topic, self.partition, self.config), TopicPartition(self.topic, self.partition, time))
        except KafkaException as error:
            raise LabError(f"{self.topic}-{self.partition} does not answer: {error.args[0].str()}. Look at `kit status`.") from error


def read_pieces(topic: str, partition: int, pieces: Sequence[Piece], config: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The records at these offsets (ascending) that are still there, BATCH at a time; `config` is librdkafka's.

    LabError when the broker does not give them: the log ends before the pieces do, or it is silent for SILENCE_S.
    """
    firsts, lasts, retries = (np.array(column, np.int64) for column in zip(*pieces, strict=True))
    consumer, heard_s = _consumer(topic, partition, config), time.monotonic()
    at, end = int(firsts[0]), int(lasts[-1]) + 1
    consumer.assign([TopicPartition(topic, partition, at)])
    try:
        while at < end:
            told = consumer.consume(min(BATCH, end - at), timeout=0.2)
            found = [each for each in told if each.error() is None]
            if found:
                offsets, heard_s = np.array([each.offset() for each in found], np.int64), time.monotonic()
                piece = np.searchsorted(firsts, offsets, "right") - 1
                is_wanted = (piece >= 0) & (offsets <= lasts[piece]) & (offsets >= at)
                if is_wanted.any():
                    batch = _columns_of(found, topic, partition, offsets, retries[piece])
                    yield batch if is_wanted.all() else batch.filter(pa.array(is_wanted))
                at = int(offsets[-1]) + 1
            errors = [error for each in told if (error := each.error()) is not None]
            if any(error.code() == KafkaError._PARTITION_EOF for error in errors):
                at = max(at, *(each.offset() or 0 for each in told))  # markers and what was compacted are no messages
            if at < end and (errors or time.monotonic() - heard_s > SILENCE_S):
                why = errors[0].str() if errors else f"silent for {SILENCE_S:g} s"
                raise LabError(
                    f"{topic}-{partition}: the broker gives nothing from offset {at} on ({why}), and the batch ends at {end}. "
                    "If the log was cut after the batch had been planned, begin with a new checkpoint; else look at `kit status`."
                )
            if at < end and (wanted := int(firsts[np.searchsorted(lasts, at)])) > at:
                at = wanted
                consumer.seek(TopicPartition(topic, partition, at))
    finally:
        consumer.unassign()


def _columns_of(found: Sequence[Any], topic: str, partition: int, offsets: Any, retries: Any) -> pa.RecordBatch:
    count = len(found)
    times = pa.array(np.array([each.timestamp()[1] for each in found], np.int64) * 1000).view(pa.timestamp("us", "UTC"))
    keys, values = ([each.key() for each in found], pa.binary()), ([each.value() for each in found], pa.binary())
    return pa.RecordBatch.from_arrays([
        pa.array(*keys), pa.array(*values), pa.repeat(pa.scalar(topic), count), pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(offsets), times, pa.array(retries.astype(np.int32)),
    ], schema=COLUMNS)  # fmt: skip
