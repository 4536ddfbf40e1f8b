"""The PartitionManager as a source of Spark Structured Streaming, beside Spark's own source for Kafka.

    spark.dataSource.register(PartitionManagerSource)
    orders = spark.readStream.format("kit.partition_manager").option("topic", "orders").option("id", "spout").load()

`partition_manager_stream(spark, topic="orders", id="spout")` does the same, on a cluster too,
and says in a sentence what is wrong with an option.

Spark's source knows one thing of a batch: it is done. A record that fails is retried by failing the whole
batch, or not at all. This one keeps Storm's ledgers: the sink says which records failed (`Failures`), and
they are emitted again in the next batch, unless they are further behind than `maxOffsetBehind` or were retried
`retryLimit` times. What was dropped, given up and lost is counted, in the query's progress too. It commits for itself, where Storm's
spout does, so a query whose checkpoint is gone begins where everything below is done.

Every decision is `BatchPartitionManager`'s, which lives in the driver; executors fetch ranges of offsets from the
partition's leader and make columns of them. What the checkpoint holds as a source's offset is a `Batch` for each
partition: a batch that a killed query has begun is done again with the same records.

A cluster with TLS or passwords is the one of KIT_KAFKA_BOOTSTRAP; its certificates must lie where executors run, too.

Left out: transactions (as Storm, it emits records of aborted ones too); delays before a retry.
With `trigger(availableNow=True)` a record that always fails needs a `retryLimit`, or the query has no end.

Source: Apache Spark 4.2.0, `pyspark.sql.datasource`, `MicroBatchExecution`: `latestOffset(start, ...)` is asked for when
everything up to `start` has been noted in the checkpoint's commits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from kitlib.errors import KnobError
from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME
from kitlib.mechanisms.partition_manager import SpoutConfig

FORMAT = "kit.partition_manager"
SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, retry INT"
TIMES = {"earliest": EARLIEST_TIME, "latest": LATEST_TIME}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a query says to its source; the names are Spark's way to write Storm's."""

    topic: str
    id: str  # the spout's: offsets and failures are stored under it
    bootstrap: str | None = None  # None: the kit's own broker
    topology_id: str = "topology-1"
    max_offset_behind: int = MAX_LONG
    force_from_start: bool = False
    start_offset_time: int = EARLIEST_TIME
    use_start_offset_time_if_offset_out_of_range: bool = True
    retry_limit: int = -1  # no limit unless > 0
    max_offsets_per_batch: int | None = None  # None: all that is there

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """KnobError for an option that there is not, a value out of its range, or a topic or id that is missing."""
        found: dict[str, Any] = {}
        for name, value in ((str(name).lower(), str(value)) for name, value in options.items()):
            if name not in _OPTIONS:
                near = get_close_matches(name, _OPTIONS, n=1)
                meant = f" Did you mean {_OPTIONS[near[0]].spelt}?" if near else ""
                named = ", ".join(sorted(each.spelt for each in _OPTIONS.values()))
                raise KnobError(f"{FORMAT}: there is no option {name[:40]!r}.{meant} The options are {named}.")
            option = _OPTIONS[name]
            try:
                found[option.field] = option.read(value)
            except (ValueError, KeyError):
                raise KnobError(f"{FORMAT}: {option.spelt} is {value[:40]!r}, expected {option.expected}.") from None
        if missing := [name for name in ("topic", "id") if not found.get(name)]:
            raise KnobError(f"{FORMAT}: the option {missing[0]} is missing. Give it with .option({missing[0]!r}, ...).")
        return cls(**found)

    def spout_config(self, partition: int, bootstrap: str) -> SpoutConfig:
        """The same as Storm's settings of one partition."""
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        return SpoutConfig(
            self.topic, self.id, self.topology_id, partition=partition, broker_host=host, broker_port=int(port),
            max_offset_behind=self.max_offset_behind, force_from_start=self.force_from_start,
            start_offset_time=self.start_offset_time,
            use_start_offset_time_if_offset_out_of_range=self.use_start_offset_time_if_offset_out_of_range,
        )  # fmt: skip


class _Option(NamedTuple):
    spelt: str
    field: str  # of SourceOptions
    read: Callable[[str], Any] = str  # ValueError or KeyError for what it cannot be
    expected: str = "a text"


def _whole(spelt: str, field: str, least: int) -> _Option:
    def read(value: str) -> int:
        if not least <= (number := int(value)) <= MAX_LONG:
            raise ValueError
        return number

    return _Option(spelt, field, read, f"a whole number from {least} to {MAX_LONG}")


def _flag(spelt: str, field: str) -> _Option:
    return _Option(spelt, field, lambda value: {"true": True, "false": False}[value.lower()], "true or false")


_OPTIONS = {option.spelt.lower(): option for option in (
    _Option("topic", "topic"), _Option("id", "id"), _Option("kafka.bootstrap.servers", "bootstrap"), _Option("topologyId", "topology_id"),
    _whole("maxOffsetBehind", "max_offset_behind", 0), _flag("forceFromStart", "force_from_start"),
    _Option(
        "startOffsetTime", "start_offset_time",
        lambda value: TIMES[value.lower()] if value.lower() in TIMES else _whole("", "", 0).read(value),
        "earliest, latest or a time in ms since 1970",
    ),
    _flag("useStartOffsetTimeIfOffsetOutOfRange", "use_start_offset_time_if_offset_out_of_range"),
    _whole("retryLimit", "retry_limit", -1), _whole("maxOffsetsPerTrigger", "max_offsets_per_batch", 1),
)}  # fmt: skip


ENVIRONMENT = "kit.environment"  # the option that takes these along: the Pythons beside Spark have those of whoever started it
CLUSTER = ("KIT_KAFKA_BOOTSTRAP", "KIT_KAFKA_CONFIG")


class PartitionManagerSource(DataSource):
    """The format "kit.partition_manager". KnobError as `SourceOptions.parse`, when the stream is loaded."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        told = dict(options)
        self.environment = json.loads(told.pop(ENVIRONMENT, "{}"))
        self.settings = SourceOptions.parse(told)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """A record as Spark's own source gives it, and which retry of it this is, 0 for the first time."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from kitlib.pipelines.partition_manager_reader import PartitionManagerReader

        os.environ.update(dict.fromkeys(CLUSTER, "") | self.environment)
        return PartitionManagerReader(self.settings)


def partition_manager_stream(spark: SparkSession, **options: object) -> DataFrame:
    """The stream of "kit.partition_manager" with these options: registered, checked, and its code sent to where executors run.

    KnobError as `SourceOptions.parse`, before Spark is asked.
    """
    from kitlib.pipelines.sweep import send_code

    told = {name: str(value) for name, value in options.items()}
    SourceOptions.parse(told)
    send_code(spark)
    spark.dataSource.register(PartitionManagerSource)
    told[ENVIRONMENT] = json.dumps({name: os.environ[name] for name in CLUSTER if name in os.environ})
    return spark.readStream.format(FORMAT).options(**told).load()
