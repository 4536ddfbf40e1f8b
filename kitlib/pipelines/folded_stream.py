"""A streaming query that folds each batch into what the batches before it left, in a checkpoint folder of its own.

What the stream of an audit and that of the offsets topic share: the folder is held by one of them at a time, what
it holds is looked at before the query begins, and a state is not read while a batch replaces it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from filelock import FileLock, Timeout
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kitlib.errors import KitError, LabError
from kitlib.lab import made
from kitlib.lab import spark as kit_spark
from kitlib.pipelines.checkpoint import Checkpoint, Kept, Owner
from kitlib.pipelines.topics import one_sentence

Result = TypeVar("Result")


class FoldedStream(ABC, Generic[Result]):
    """A query that runs, its checkpoint, and what ended it."""

    user = "stream"  # what the sentence calls another holder of the folder

    def __init__(self, what: str, checkpoint: Checkpoint) -> None:
        self.what = what  # begins its errors
        self.checkpoint = checkpoint
        self.query: StreamingQuery | None = None  # None before the start, and after the end
        self.lock = FileLock(checkpoint.lock, thread_local=False)
        self.folding = threading.RLock()  # a state is not read while a batch replaces it
        self.trouble: KitError | None = None  # what ended a batch

    @abstractmethod
    def _fold_batch(self, rows: DataFrame, batch: int, kept: Kept | None) -> None:
        """Batch `batch` joins what the batch before has left, None for the first, and is kept."""

    @abstractmethod
    def catch_up(self) -> None:
        """Wait until everything that is in the topic by now is read. LabError when the query has ended with an error."""

    @abstractmethod
    def result(self) -> Result:
        """What the rows come to that were read so far."""

    def finish(self) -> Result:
        """Wait until everything that is in the topic by now is read, stop, and give the result."""
        try:
            self.catch_up()
            return self.result()
        finally:
            self.stop()

    def _begin(self, owner: Owner, rows: Callable[[], DataFrame], every_ms: int) -> None:
        """Hold the folder and begin, or go on, with it. LabError when another holds it, or it is damaged or another's."""
        self._lock_folder()
        try:
            self.checkpoint.check(owner)
            if not self.checkpoint.told.exists():
                made.remember("checkpoint", self.checkpoint.folder)
                self.checkpoint.claim(owner)
            with one_sentence(self.what):
                writer = rows().writeStream.foreachBatch(self._fold).trigger(processingTime=f"{every_ms} milliseconds")
                self.query = writer.option("checkpointLocation", str(self.checkpoint.query)).start()
            self.checkpoint.claim(owner, str(self.query.id))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the query and let the checkpoint go; a later stream goes on from it."""
        query, self.query = self.query, None
        try:
            if query is not None and kit_spark.is_alive():
                with one_sentence(self.what):
                    query.stop()
        finally:
            with self.folding:  # a batch that was cut off has noticed by then
                self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _fold(self, rows: DataFrame, batch: int) -> None:
        """What Spark calls with each batch."""
        with self.folding:
            try:
                kept = self.checkpoint.latest()
                if kept is None or kept[0] < batch:  # else it is done already, and only Spark's note of it was lost
                    self._fold_batch(rows, batch, kept)
            except KitError as error:
                self.trouble = error
                raise

    def _lock_folder(self) -> None:
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            raise LabError(
                f"checkpoint {self.checkpoint.folder}: another {self.user} uses it now. Stop that one, or choose another folder."
            ) from None
