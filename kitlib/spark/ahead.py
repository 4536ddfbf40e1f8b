"""Starts the lab's Spark before anybody needs it, and does once what notebooks do, so that its classes are loaded.

`kit lab` runs this beside JupyterLab, once the first notebook is open, at the lowest priority. Spark's own processes have the
usual one: nobody may raise a process's priority again when a notebook needs it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

from kitlib.spark import server, sessions

LOWEST_PRIORITY = 19
SECONDS = 60.0


def warm(session: SparkSession, room: Path) -> None:
    """One small query of each kind: JSON, joins, windows, Python, a stream."""
    row, lines = "id LONG, k LONG, a ARRAY<LONG>", str(room / "lines")
    rows = session.range(200).select("id", (f.col("id") % 7).alias("k"), f.array("id").alias("a"))
    rows.select(f.to_json(f.struct("*"))).write.text(lines)
    read = session.read.text(lines).select(f.from_json("value", row).alias("row")).select("row.*")
    counted = read.groupBy("k").agg(f.count("*").alias("n"), f.collect_list("id").alias("ids"), f.max("id").alias("last"))
    ranked = read.withColumn("rank", f.row_number().over(Window.partitionBy("k").orderBy("id"))).filter("rank < 5")
    ranked.join(counted, "k").join(f.broadcast(session.createDataFrame([(0, "x")], "k LONG, name STRING")), "k", "left").toPandas()
    read.select("k", f.explode("a")).union(read.select("k", "id")).distinct().orderBy("k").collect()
    read.groupBy("k").applyInPandas(lambda rows: rows.head(1), row).collect()
    counts = session.readStream.schema("value STRING").text(lines).groupBy("value").count().writeStream.outputMode("complete")
    counts = counts.trigger(availableNow=True).option("checkpointLocation", str(room / "checkpoint"))
    sessions.start(counts, lambda batch, _: batch.collect().clear()).awaitTermination(int(SECONDS))


def main() -> None:
    server.ensure()
    os.nice(LOWEST_PRIORITY)
    with sessions.session() as session, tempfile.TemporaryDirectory() as room:
        warm(session, Path(room))


if __name__ == "__main__":
    main()
