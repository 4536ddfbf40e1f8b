"""What a task of the desk's query does with its records; a module of its own, as executors elsewhere import it from an archive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

RUNS = "topic STRING, offset BIGINT, first BIGINT, count BIGINT, told BIGINT, oldest_ms BIGINT"
RUNS_SCHEMA = pa.schema([("topic", pa.string()), *((name, pa.int64()) for name in RUNS.replace(" BIGINT", "").split(", ")[1:])])


def to_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does with its records, which are of one topic and in their order."""
    for batch in batches:
        if not batch.num_rows:
            continue
        topics = np.array(batch.column("topic").to_pylist(), object)
        offset, number, told, log_ms = (batch.column(name).to_numpy() for name in ("offset", "number", "told", "log_ms"))
        goes_on = (np.diff(offset) == 1) & (topics[1:] == topics[:-1])
        goes_on &= np.where(number[:-1] < 0, number[1:] < 0, np.diff(number) == 1)
        begins = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
        counts = np.diff(np.concatenate([begins, [len(offset)]]))
        columns = [
            pa.array(topics[begins], pa.string()), pa.array(offset[begins]), pa.array(number[begins]), pa.array(counts.astype(np.int64)),
            pa.array(np.maximum.reduceat(told, begins)), pa.array(np.minimum.reduceat(log_ms, begins)),
        ]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, schema=RUNS_SCHEMA)
