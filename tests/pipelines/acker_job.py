"""Follows trees in a Python of its own, so that a test may choose the master, or kill it.

    python -m tests.pipelines.acker_job WAY MASTER SOURCE FOLDER TIMEOUT_MS
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame

from kitlib.lab import spark as kit_spark
from kitlib.lab.processes import wait_until
from kitlib.pipelines import acker_processor, acker_query, acker_stream
from kitlib.pipelines.acker_query import MESSAGES

WAYS: dict[str, Any] = {"stream": acker_stream, "processor": acker_processor}

EXECUTORS = {
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": " ".join(kit_spark.JAVA_FLAGS),
}


def stream_of(spark: Any, source: Path, files_per_batch: int = 1) -> DataFrame:
    """The messages of a folder of Parquet files, in the order of their times of change."""
    reader = spark.readStream.schema(MESSAGES).option("maxFilesPerTrigger", files_per_batch)
    return reader.parquet(str(source))


def executors_of(spark: Any, are_dead: bool = False) -> int:
    """How many executors there are now, or have died; the driver is none."""
    known = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    found = [known.apply(place) for place in range(known.size())]
    return sum(each.id() != "driver" and each.isActive() != are_dead for each in found)


def main(way: str, master: str, source: str, folder: str, timeout_ms: str) -> None:
    is_local = master.startswith("local[")
    settings = {} if is_local else EXECUTORS
    with kit_spark.session("acker_job", master, **settings) as spark:
        work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId  # where workers keep logs
        if not is_local:  # Spark begins as soon as the first one has come
            wanted = int(master.partition("[")[2].partition(",")[0])
            wait_until(lambda: executors_of(spark) == wanted, 120, f"{wanted} executors have come")
        query = WAYS[way].start(stream_of(spark, Path(source)), folder, int(timeout_ms))
        acker_query.finish(query)
        rows = WAYS[way].outcomes(spark, folder).toPandas()
        died = 0 if is_local else wait_until(lambda: executors_of(spark, are_dead=True), 20, "the driver knows of a death")
        told = sorted(zip(rows["root"].tolist(), rows["outcome"].tolist(), strict=True))
    shutil.rmtree(work, ignore_errors=True)
    print(json.dumps({"died": died, "outcomes": told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
