"""The offsets job on Spark over a real topic: the same as the ledger alone."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kitlib.experiments.cluster_audit.broken_cluster import PARTITIONS, REWOUND, Plan, broken_cluster
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.more.hashes import group_partition
from kitlib.pipelines.offsets import OffsetsReport, offsets
from tests.lab.wires import new_topic
from tests.more.offsets.commit_bytes import commit

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(360)]

AGO_MS = round(time.time() * 1000) - 600_000
GROUPS = ("alpha", "beta", "gamma")  # in both partitions of the topic
Record = tuple[bytes | None, bytes | None]


def commits(group: str, orders: str, *found: int, at_ms: int = AGO_MS) -> list[Record]:
    """Commits for the first partition of orders, ten seconds apart."""
    return [commit(group, orders, 0, offset=offset, commitTimestamp=at_ms + 10_000 * place) for place, offset in enumerate(found)]


def write(broker: Cluster, topic: str, records: Iterable[Record], group: str) -> None:
    """Append records to the partition of a group."""
    producer = Producer(client_config(broker, **{"enable.idempotence": True}))
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=group_partition(group, 2))
    assert producer.flush(20) == 0


@pytest.fixture
def topic(broker: Cluster) -> str:
    return new_topic(broker, 2)


def told(report: OffsetsReport) -> dict[str, tuple[Any, ...]]:
    """What the report says of each group's first partition."""
    return {
        each.where.group: (each.status, each.lag, each.committed, each.commits, each.rewinds, each.vanished)
        for each in report.partitions
    }


def test_job_judges_a_real_topic(broker: Cluster, spark: Any, topic: str) -> None:
    """Rewinds, a tombstone and a broken record in both partitions, of all groups and of one."""
    assert {group_partition(group, 2) for group in GROUPS} == {0, 1}
    where: dict[str, Any] = {"topic": topic, "bootstrap": broker.bootstrap, "spark": spark}
    assert offsets(**where).partitions == ()
    orders, producer = new_topic(broker, 1), Producer(client_config(broker))
    for _ in range(100):
        producer.produce(orders, b"x")
    assert producer.flush(20) == 0
    records = {
        "alpha": [*commits("alpha", orders, 90, 95, 7), *commits("alpha", orders, 8, 9, at_ms=AGO_MS + 30_000)],
        "beta": [*commits("beta", orders, 99, 100), (b"\x00\x01\x00", b"cut"), commit("beta", orders, 0, None)],
        "gamma": [*commits("gamma", orders, 5)],
    }
    for group, found in records.items():
        write(broker, topic, found, group)
    report = offsets(**where)
    expected = {"alpha": ("STOP", 91, 9, 5, 1, 0), "beta": ("OK", 0, None, 2, 0, 1), "gamma": ("STOP", 95, 5, 1, 0, 0)}
    assert told(report) == expected and [each.where.group for each in report.partitions] == ["alpha", "gamma", "beta"]
    assert [note for note in report.notes if "1 records could not be read" in note]
    assert told(offsets("alpha", **where)) == {"alpha": expected["alpha"]}


def test_real_group_is_judged_by_the_records_that_the_broker_has_written(broker: Cluster, spark: Any) -> None:
    """A rewind with who was the member; the late commit of another partition is excused; a reset by hand needs none."""
    plan = next(plan for seed in range(60) if (plan := Plan.of(seed)).fault == REWOUND)
    real = broken_cluster(plan.seed, "kafka")
    report = offsets(real.group, bootstrap=broker.bootstrap, spark=spark)
    rows = {each.where.partition: each for each in report.partitions}
    assert {partition: (row.rewinds, row.excused) for partition, row in rows.items()} == {
        partition: (int(partition == plan.partition), int(partition == plan.late)) for partition in range(PARTITIONS)
    }
    assert all(row.commits == len(real.commits(partition)) for partition, row in rows.items())
    (sign,) = rows[plan.partition].faults
    assert "went back by" in str(sign) and ", by A-" in str(sign) and report.notes == ()


def test_topic_that_is_not_there_is_an_empty_report(broker: Cluster) -> None:
    """And it is not made by the question."""
    name = f"kit.test.none-{uuid.uuid4().hex[:8]}"
    assert offsets(topic=name, bootstrap=broker.bootstrap, spark=object()).partitions == ()  # type: ignore[arg-type]
    assert name not in AdminClient(client_config(broker)).list_topics(timeout=20).topics
