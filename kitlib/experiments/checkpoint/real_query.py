"""The query of a checkpoint's experiment on Spark itself: its own Kafka source, a state store, and a sink in a database.

It dies of an exception that its sink raises, which leaves the folder as a killed process leaves it; after a commit it is stopped
while it waits for its next batch. What its steps show was read from the folder at that moment.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from kitlib.errors import LabError
from kitlib.experiments.checkpoint.checkpoint_stories import CheckpointRun, Kill, QueryKilled, View
from kitlib.lab import workspace
from kitlib.lab.checkpoint_folder import read_checkpoint
from kitlib.lab.processes import wait_until
from kitlib.more.micro_batch import Batch, half
from kitlib.spark import sessions as kit_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kitlib.experiments.kafka_backend import KafkaBackend, KafkaTopic

PAUSE = "5 seconds"  # between two batches of a query that is to be stopped between them
DEADLINE_S = 60.0


@dataclass(slots=True)
class _Database:
    """A sink: rows in a table, with a key or without, or with the batch's number in the same transaction."""

    path: Path
    kind: str

    def __post_init__(self) -> None:
        key = " PRIMARY KEY" if self.kind == "idempotent" else ""
        with closing(self._open()) as database:
            database.execute(f"CREATE TABLE orders (offset INTEGER{key})")
            database.execute("CREATE TABLE batches (number INTEGER)")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None)  # each statement by itself, unless a transaction is begun

    def takes(self, batch: Batch) -> bool:
        with closing(self._open()) as database:
            (last,) = database.execute("SELECT max(number) FROM batches").fetchone()
        return last is None or batch.number > last

    def write(self, batch: Batch, rows: Sequence[int], is_killed_halfway: bool) -> list[int]:
        """The rows that can be read afterwards and could not before."""
        with closing(self._open()) as database:
            before = _counted(database)
            if self.kind == "transactional":
                database.execute("BEGIN")
            how = "INSERT OR IGNORE" if self.kind == "idempotent" else "INSERT"
            for row in half(rows) if is_killed_halfway else rows:
                database.execute(f"{how} INTO orders VALUES (?)", (row,))
            if self.kind == "transactional" and not is_killed_halfway:  # else the connection ends, and with it the transaction
                database.execute("INSERT INTO batches VALUES (?)", (batch.number,))
                database.execute("COMMIT")
        with closing(self._open()) as database:
            after = _counted(database)
        return [offset for offset in sorted(after) for _ in range(after[offset] - before.get(offset, 0))]


def _counted(database: sqlite3.Connection) -> dict[int, int]:
    return dict(database.execute("SELECT offset, count(*) FROM orders GROUP BY offset").fetchall())


@dataclass(slots=True)
class RealQuery:
    """As ModelQuery, on Spark."""

    topic: KafkaTopic
    bootstrap: str
    folder: Path
    sink_kind: str
    per_batch: int
    log_end: int = 0
    sink: _Database = field(init=False)
    queries: int = 0  # checkpoints there were: a deleted one is another folder
    teller: CheckpointRun = field(init=False)  # of the query that runs
    kill: Kill = None
    again: int | None = None  # the batch that is in offsets and not in commits
    done: Batch | None = None  # its sink is written; its commit is told of when it is seen
    trouble: BaseException | None = None  # the planted end, or the teller's, whose words Spark would bury in its own

    def __post_init__(self) -> None:
        self.sink = _Database(self.folder / "sink.db", self.sink_kind)

    @classmethod
    def open(cls, backend: KafkaBackend, sink_kind: str, per_batch: int) -> RealQuery:
        """A new topic and an empty folder. LabError when the broker refuses."""
        topic = backend.create_topic("orders", 500)
        workspace.spark_dir().mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=workspace.spark_dir()))
        return cls(topic, backend.cluster.bootstrap, folder, sink_kind, per_batch)

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"checkpoint-{self.queries}"

    def append(self, records: int) -> None:
        self.topic.append([b"order %d" % number for number in range(self.log_end, self.log_end + records)])
        self.log_end += records

    def forget(self) -> None:
        shutil.rmtree(self.checkpoint)
        self.queries += 1

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def view(self) -> View:
        """What lies in the folder now."""
        found = read_checkpoint(self.checkpoint)
        ends = {number: int(sources[0][self.name]["0"]) for number, sources in found.offsets.items()}
        offsets = [[number, ends.get(number - 1, 0), end - 1] for number, end in sorted(ends.items())]
        return {"offsets": offsets, "state": list(found.state.get(0, ())), "commits": list(found.commits)}

    def run(self, run: CheckpointRun, kill: Kill) -> None:
        """As ModelQuery.run. LabError when the query ends of another reason than the planted one."""
        self.teller, self.kill, self.done, self.trouble = run, kill, None, None
        begun = self.view()
        unfinished = [row for row in begun["offsets"] if row[0] not in begun["commits"]]
        last_end = begun["offsets"][-1][2] + 1 if begun["offsets"] else 0
        self.again = unfinished[0][0] if unfinished else None
        self.teller.starts(self.again, unfinished[0][1] if unfinished else last_end)
        batches = len(begun["offsets"]) + -(-(self.log_end - last_end) // self.per_batch)  # there will be, at the end
        is_stopped = self.kill is not None and self.kill[1] == "commit" and self.kill[0] + 1 < batches
        writer = self._orders().writeStream.option("checkpointLocation", str(self.checkpoint))
        timed = writer.trigger(processingTime=PAUSE) if is_stopped else writer.trigger(availableNow=True)
        try:
            stream = kit_spark.start(timed, self._work)
            if is_stopped and self.kill is not None:
                commit = self.checkpoint / "commits" / str(self.kill[0])
                wait_until(lambda: commit.exists() or not stream.isActive, DEADLINE_S, f"the query has written commits/{self.kill[0]}")
                stream.stop()
            stream.awaitTermination()
        except PySparkException as error:
            if isinstance(self.trouble, QueryKilled):
                return self.teller.is_killed(str(self.trouble))
            raise self.trouble or self._failed(error) from None
        self._tell_commit(len(self.view()["offsets"]))
        if self.kill is not None and self.kill[1] == "commit" and self.kill[0] < batches:
            self.teller.is_killed("commit")

    def _failed(self, error: Exception) -> LabError:
        told = (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".")
        return LabError(f"the query from {self.name}: {told}. Spark's log is {kit_spark.log_file()}.")

    def _orders(self) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name, "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.per_batch),
        }  # fmt: skip
        records = kit_spark.session().readStream.format("kafka").options(**options).load()
        return records.selectExpr("cast(value as string) as value", "offset").dropDuplicates(["value"]).select("offset")

    def _work(self, rows: DataFrame, number: int) -> None:
        try:
            self._tell_commit(number)
            _, first, last = next(row for row in self.view()["offsets"] if row[0] == number)
            batch = Batch(number, first, last + 1, number == self.again)
            self.teller.work(batch, self.kill, lambda: sorted(int(row["offset"]) for row in rows.collect()))
            self.done = batch
        except BaseException as error:
            self.trouble = error
            raise

    def _tell_commit(self, before: int) -> None:
        """The commit of the batch that was done last, which was written after its sink; `before`: the number of the next batch."""
        if self.done is None:
            return
        view = self.view()
        if self.done.number not in view["commits"]:
            raise LabError(f"the query from {self.name}: batch {self.done.number} is done, and not in commits. Run it again.")
        self.teller.has_commit(self.done, view | {"offsets": [row for row in view["offsets"] if row[0] < before]})
        self.done = None
