"""The acker as a stateful processor: the exact rules of the plain acker, kept by Spark's `transformWithState`.

Storm shares the trees out among several acker tasks, root by root. So does this: the key of the state is not
a root but an *acker task*, `root mod tasks`, and its value is that task's whole ledger. With a key for each
root, Python asks the state store over a socket four times a message. With a key for each task it asks once
a batch, gets some thousand trees as packed columns, and hands the task's messages, in the order of n, to the
`BatchAcker`, whose outcomes are those of the plain acker. For the same reason messages come packed: a row is
what one Arrow batch held for one task, and no Python loop sees a single message.

Virtual time is at_ms. A task ticks at each multiple of the time-out, as in Storm, before the first message
whose at_ms is not less. A message brings a task's ticks up to its own time; for tasks that hear nothing more,
a timer at the next tick fires when the watermark has passed it. So it does not matter where a batch ends.

Source: `kitlib.storm.acker.Acker`, and with it Storm 0.9.3.
Differs: what a tick drops is told, as `timed out` if a spout waited for it and as `orphan` if none did; ticks
come at multiples of the time-out since the run's begin; a batch is taken in order of n, so that no message may
come in a later batch than one with a higher n of the same root. A task's ledger is written whole with each
batch that touches it: many tasks suit small batches, few suit large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kitlib.pipelines.acker_query import AHEAD_MS, ORPHAN, OUTCOMES, WATERMARK, Folder, Way, legal
from kitlib.pipelines.batch_acker import ACK, FAIL, INIT, KNOWN, OLD, BatchAcker, Trees, roots_of

TASKS: Final = 64

# One message as it travels: 33 bytes.
MESSAGE: Final = np.dtype(
    [("n", "<i8"), ("at_ms", "<i8"), ("root", "<i8"), ("val", "<i8"), ("spout_task", "<i4"), ("kind", "u1")]
)
PACKED: Final = "task BIGINT, at_ms BIGINT, messages BINARY"  # at_ms: of the latest message, as event time
LEDGER: Final = "next_tick_ms BIGINT, keys BINARY, vals BINARY, spout_tasks BINARY, flags BINARY"


class AckerTask(StatefulProcessor):
    """What Spark calls for each acker task: with its messages of a batch, and when its next tick is due."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("ledger", LEDGER)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        packed = [np.frombuffer(blob, MESSAGE) for frame in rows for blob in frame["messages"]]
        messages = np.concatenate(packed)
        messages = messages[np.argsort(messages["n"], kind="stable")]
        ledger = Ledger.of(self.state.get(), self.timeout_ms)
        before_ms = ledger.timer_ms
        ended = ledger.feed(messages)
        self.keep(ledger, before_ms)
        yield ended

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        ledger = Ledger.of(self.state.get(), self.timeout_ms)
        before_ms = ledger.timer_ms
        ended = ledger.tick_until(timerValues.getCurrentWatermarkInMs())
        # Spark itself deletes the timer that has just fired, after this method.
        self.keep(ledger, None if before_ms == expiredTimerInfo.getExpiryTimeInMs() else before_ms)
        yield as_frame(ended)

    def close(self) -> None:
        pass

    def keep(self, ledger: Ledger, before_ms: int | None) -> None:
        """Write the ledger and its timer, or forget both when no tree is left; `before_ms` is the timer there is."""
        if ledger.timer_ms is None:
            self.state.clear()
        else:
            self.state.update(ledger.row())
        if before_ms != ledger.timer_ms:
            if before_ms is not None:
                self.handle.deleteTimer(before_ms)
            if ledger.timer_ms is not None:
                self.handle.registerTimer(ledger.timer_ms)


Ended = list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]  # roots, outcomes, spout tasks: columns of one length


NOTHING: Final = (np.empty(0, np.int64), np.empty(0, "U9"), np.empty(0, np.int32))


class Ledger:
    """An acker task's trees and its next tick."""

    def __init__(self, acker: BatchAcker, next_tick_ms: int, timeout_ms: int) -> None:
        self.acker = acker
        self.next_tick_ms = next_tick_ms  # a multiple of timeout_ms; matters while there are trees
        self.timeout_ms = timeout_ms

    @classmethod
    def of(cls, row: tuple[Any, ...] | None, timeout_ms: int) -> Ledger:
        """The ledger that `row` has kept; an empty one when there is no row."""
        if row is None:
            return cls(BatchAcker(), 0, timeout_ms)
        return cls(BatchAcker(trees=trees_of(*row[1:])), row[0], timeout_ms)

    @property
    def timer_ms(self) -> int | None:
        """When this task has to be woken; None while it has no tree."""
        return self.next_tick_ms if len(self.acker.trees) else None

    def row(self) -> tuple[Any, ...]:
        """The ledger as one row of state."""
        return (self.next_tick_ms, *(column.tobytes() for column in self.acker.trees.columns()))

    def feed(self, messages: NDArray[Any]) -> pd.DataFrame:
        """Take messages in order, ticking in between; what ended."""
        ended: Ended = []
        at_ms = np.maximum.accumulate(messages["at_ms"])
        first = 0
        while first < len(messages):
            ended += self.tick_until(int(at_ms[first]))
            end = int(np.searchsorted(at_ms, self.next_tick_ms, side="left"))
            part = messages[first:end]
            told = self.acker.feed(part["kind"], part["root"], part["val"], part["spout_task"])
            ended.append((told.root, np.where(told.acked, "acked", "failed"), told.spout_task))
            first = end
        return as_frame(ended)

    def tick_until(self, now_ms: int) -> Ended:
        """Every tick at or before `now_ms` that has not been; what they dropped."""
        ended: Ended = []
        while self.next_tick_ms <= now_ms and len(self.acker.trees):
            trees = self.acker.trees
            gone = trees.taken(np.flatnonzero(trees.flags & OLD))
            is_known = (gone.flags & KNOWN) != 0
            ended.append((roots_of(gone.key), np.where(is_known, "timed out", ORPHAN), gone.spout_task))
            self.acker.tick()
            self.next_tick_ms += self.timeout_ms
        if self.next_tick_ms <= now_ms:
            self.next_tick_ms = (now_ms // self.timeout_ms + 1) * self.timeout_ms
        return ended


def as_frame(ended: Ended) -> pd.DataFrame:
    """What ended, as rows of OUTCOMES."""
    roots, outcome, spout_tasks = (np.concatenate(column) for column in zip(NOTHING, *ended, strict=True))
    return pd.DataFrame({"root": roots, "outcome": outcome.astype(object), "spout_task": spout_tasks})


def trees_of(keys: bytes, vals: bytes, spout_tasks: bytes, flags: bytes) -> Trees:
    """A ledger's packed columns as trees that may be changed."""
    return Trees(
        np.frombuffer(keys, np.uint64).copy(), np.frombuffer(vals, np.int64).copy(),
        np.frombuffer(spout_tasks, np.int32).copy(), np.frombuffer(flags, np.uint8).copy(),
    )  # fmt: skip


def pack(batches: Iterator[pa.RecordBatch], tasks: int) -> Iterator[pa.RecordBatch]:
    """Arrow batches of messages as PACKED rows: one for each task that a batch has messages for."""
    for batch in batches:
        rows = np.empty(batch.num_rows, MESSAGE)
        for name in MESSAGE.names or ():
            rows[name] = batch.column(name).to_numpy(zero_copy_only=False)
        task = np.mod(rows["root"], tasks)
        order = np.argsort(task, kind="stable")
        rows, task = rows[order], task[order]
        begins = np.flatnonzero(np.diff(task, prepend=-1))
        groups = np.split(rows, begins[1:]) if len(rows) else []
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(task[begins], pa.int64()),
                pa.array([int(group["at_ms"].max()) + AHEAD_MS for group in groups], pa.int64()),
                pa.array([group.tobytes() for group in groups], pa.binary()),
            ],
            ["task", "at_ms", "messages"],
        )


def ends(messages: DataFrame, timeout_ms: int, tasks: int = TASKS) -> DataFrame:
    """The processor with so many acker tasks: each tree's end, in the batch that brought it."""
    kind = F.when(F.col("kind") == "init", INIT).when(F.col("kind") == "ack", ACK).otherwise(FAIL).cast("tinyint")
    plain = legal(messages).select(
        "n", "at_ms", "root", F.coalesce("val", F.lit(0)).alias("val"),
        F.coalesce("spout_task", F.lit(0)).alias("spout_task"), kind.alias("kind"),
    )  # fmt: skip
    packed = plain.mapInArrow(partial(pack, tasks=tasks), PACKED)
    timed = packed.select("task", F.timestamp_millis("at_ms").alias("at"), "messages").withWatermark("at", WATERMARK)
    return timed.groupBy("task").transformWithStateInPandas(AckerTask(timeout_ms), OUTCOMES, "Update", "EventTime")


def told(spark: SparkSession, folder: Folder, timeout_ms: int) -> DataFrame:
    """The ends that batches told of, and what the ledgers still hold."""
    ended = spark.read.parquet(*folder.batches()).select("root", "outcome", "spout_task")
    ledgers = spark.read.format("statestore").option("stateVarName", "ledger").load(str(folder.query))
    return ended.unionByName(ledgers.select("value.*").mapInArrow(unpack, OUTCOMES))


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Ledgers as OUTCOMES: the trees that are open, and orphans."""
    names = ["keys", "vals", "spout_tasks", "flags"]
    for batch in batches:
        for columns in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            trees = trees_of(*columns)
            outcome = np.where(trees.flags & KNOWN, "open", ORPHAN)
            yield pa.RecordBatch.from_arrays(
                [pa.array(roots_of(trees.key)), pa.array(outcome.tolist(), pa.string()), pa.array(trees.spout_task)],
                ["root", "outcome", "spout_task"],
            )


PROCESSOR: Final = Way("stateful processor", ends, told)
follow, start, outcomes = PROCESSOR.follow, PROCESSOR.start, PROCESSOR.outcomes
