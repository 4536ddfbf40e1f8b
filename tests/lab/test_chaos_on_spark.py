"""Spark's own Kafka source and sink go through the proxy unchanged, and lose nothing there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitlib.lab.clients import Cluster
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from tests.lab.test_chaos_on_kafka import create_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_sparks_sink_and_source_survive_lost_answers(spark: Any, broker: Cluster, tmp_path: Path) -> None:
    """Connections that break after Produce and Fetch answers: all rows are written once, in order, and read by a stream."""
    topic = create_topic(broker)
    with ChaosProxy.before(broker, [Rule("cut_after_answer", count=3), Rule("cut_after_answer", "Fetch", count=2)]) as proxy:
        def kafka(maker: Any, **options: str) -> Any:
            return maker.format("kafka").options(**{"kafka.bootstrap.servers": proxy.bootstrap, **options})

        rows = spark.range(2000).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
        # A producer of its own: Spark keeps those with the same settings.
        kafka(rows.write, topic=topic, **{"kafka.batch.size": "2000", "kafka.client.id": topic}).save()
        stored = kafka(spark.read, subscribe=topic).load().selectExpr("CAST(CAST(value AS STRING) AS INT) AS n", "offset")
        assert [(row.n, row.offset) for row in stored.orderBy("offset").collect()] == [(n, n) for n in range(2000)]
        stream = kafka(spark.readStream, subscribe=topic, startingOffsets="earliest").load()
        name = topic.replace(".", "_")
        query = stream.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path)).trigger(
            availableNow=True
        ).start()
        assert query.awaitTermination(60)
        assert spark.table(name).count() == 2000
        spark.catalog.dropTempView(name)
        assert proxy.counts()["cut_after_answer"] == 5 and "failures" not in proxy.counts()
