"""The offsets job on Spark over a real topic: the same as the ledger alone."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import Producer

from kitlib.experiments.cluster_audit.broken_cluster import PARTITIONS, REWOUND, Plan, broken_cluster
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.experiments.cluster_audit.group_reader import snapshots_of
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.monitor.diagnosis import signs
from kitlib.more.hashes import group_partition
from kitlib.pipelines.offsets import OffsetsReport, ends_now, offsets, partitions_of
from kitlib.pipelines.topics import Topics
from tests.lab.wires import new_topic
from tests.more.offsets.commit_bytes import commit

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(360)]

ENDS = {("t", 0): 100, ("t", 1): 100}
AGO_MS = round(time.time() * 1000) - 600_000
GROUPS = ("alpha", "beta", "gamma")  # in both partitions of the topic
Record = tuple[bytes | None, bytes | None]


def commits(group: str, *found: int, at_ms: int = AGO_MS) -> list[Record]:
    """Commits for t-0, ten seconds apart."""
    return [commit(group, "t", 0, offset=offset, commitTimestamp=at_ms + 10_000 * place) for place, offset in enumerate(found)]


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
    where: dict[str, Any] = {"topic": topic, "log_ends": ENDS, "bootstrap": broker.bootstrap, "spark": spark}
    assert offsets(**where).partitions == ()
    records = {
        "alpha": [*commits("alpha", 90, 95, 7), *commits("alpha", 8, 9, at_ms=AGO_MS + 30_000)],
        "beta": [*commits("beta", 99, 100), (b"\x00\x01\x00", b"cut"), commit("beta", "t", 0, None)],
        "gamma": [*commits("gamma", 5)],
    }
    for group, found in records.items():
        write(broker, topic, found, group)
    report = offsets(**where)
    expected = {"alpha": ("STOP", 91, 9, 5, 1, 0), "beta": ("OK", 0, None, 2, 0, 0), "gamma": ("STOP", 95, 5, 1, 0, 0)}
    assert told(report) == expected
    assert (report.reading.decoded, report.reading.broken) == (9, 1)
    assert len(report.troubles) == 2 and report.group("beta")[0].excused == 1
    assert told(offsets("alpha", **where)) == {"alpha": expected["alpha"]}


def test_real_group_is_judged_by_the_records_that_the_broker_has_written(broker: Cluster, spark: Any) -> None:
    """A rewind with who was the member; the late commit of another partition is excused; a reset by hand needs none."""
    plan = next(plan for seed in range(60) if (plan := Plan.of(seed)).fault == REWOUND)
    real = broken_cluster(plan.seed, "kafka")
    report = offsets(real.group, bootstrap=broker.bootstrap, spark=spark)
    rows = {each.where.partition: each for each in report.group(real.group)}
    assert {partition: (row.rewinds, row.excused) for partition, row in rows.items()} == {
        partition: (int(partition == plan.partition), int(partition == plan.late)) for partition in range(PARTITIONS)
    }
    assert all(row.commits == len(real.commits(partition)) for partition, row in rows.items())
    (sign,) = rows[plan.partition].signs
    assert "went back by" in sign and ", by A-" in sign and report.reading.broken == 0
    [past] = snapshots_of(read_commit_log(broker, real.group))
    plain = [sign for part in past.partitions for sign in signs(past, part) if sign.is_fault]
    assert [str(each) for each in plain] == [sign] and report.faults == 1


def test_topic_that_is_not_there_is_an_empty_report(broker: Cluster) -> None:
    """And it is not made by the question."""
    name = f"kit.test.none-{uuid.uuid4().hex[:8]}"
    assert offsets(topic=name, bootstrap=broker.bootstrap, spark=object()).partitions == ()  # type: ignore[arg-type]
    assert partitions_of(Topics.find(broker.bootstrap), name) == []


def test_ends_of_all_logs_are_asked_for_at_once(broker: Cluster, topic: str) -> None:
    """Those of the topic are among them."""
    write(broker, topic, commits("alpha", 1, 2), "alpha")
    ends = ends_now(Topics.find(broker.bootstrap))
    assert sorted(end for (name, _), end in ends.items() if name == topic) == [0, 2]
