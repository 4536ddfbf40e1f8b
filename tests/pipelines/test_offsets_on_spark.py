"""The offsets job on Spark over a real topic: the same as the ledger alone, in one piece or as a stream that stops and goes on."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kitlib.errors import KnobError, LabError
from kitlib.experiments.cluster_audit.broken_cluster import PARTITIONS, REWOUND, Plan, broken_cluster
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.experiments.cluster_audit.group_reader import snapshots_of
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.log_ends import topics_now
from kitlib.lab.processes import wait_until
from kitlib.monitor.diagnosis import signs
from kitlib.more.hashes import group_partition
from kitlib.pipelines.folded_stream import CheckpointError
from kitlib.pipelines.offsets import LagRules, OffsetsReport, ends_now, offsets, offsets_stream, partitions_of
from kitlib.pipelines.topics import Topics
from tests.more.offsets.commit_bytes import commit

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(360)]

ENDS = {("t", 0): 100, ("t", 1): 100}
LONG_AGO = LagRules(intervals=4, expire_group_s=10**10)
GROUPS = ("alpha", "beta", "gamma")  # in both partitions of the topic
Record = tuple[bytes | None, bytes | None]


def commits(group: str, *found: int, at_ms: int = 1_000) -> list[Record]:
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
    """A topic of two partitions."""
    name = f"kit.test.offsets-{uuid.uuid4().hex[:8]}"
    remade(AdminClient(client_config(broker)), name)
    return name


def remade(admin: AdminClient, name: str, before: str = "") -> str:
    """Make a topic, and its id; one that has just been deleted, with the id `before`, may be in the way, or be seen, for a moment."""

    def is_made() -> bool:
        try:
            admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            return False
        return True

    wait_until(is_made, 20, f"topic {name} is made")

    def is_seen() -> str:
        seen = topics_now(admin, [name]).get(name, ("", 0))[0]
        return "" if seen == before else seen

    return wait_until(is_seen, 20, f"topic {name} is seen")


def told(report: OffsetsReport) -> dict[str, tuple[Any, ...]]:
    """What the report says of each group's first partition."""
    return {
        each.where.group: (each.status, each.lag, each.committed, each.commits, each.rewinds, each.vanished)
        for each in report.partitions
    }


def test_job_and_stream_judge_a_real_topic(broker: Cluster, spark: Any, topic: str, tmp_path: Path) -> None:
    """Rewinds and broken records of both halves; a stream that was stopped between them knows what the job knows."""
    assert {group_partition(group, 2) for group in GROUPS} == {0, 1}
    first = {"alpha": commits("alpha", 90, 95, 7), "beta": commits("beta", 99, 100), "gamma": [commit("gamma", "t", 0, offset=5)]}
    later = {"alpha": commits("alpha", 8, 9, at_ms=31_000), "beta": [(b"\x00\x01\x00", b"cut"), commit("beta", "t", 0, None)]}
    where: dict[str, Any] = {"topic": topic, "log_ends": ENDS, "bootstrap": broker.bootstrap, "spark": spark, "rules": LONG_AGO}
    for group, records in first.items():
        write(broker, topic, records, group)
    with offsets_stream(checkpoint=tmp_path / "c", every_ms=20, records_per_batch=3, **where) as stream:
        stream.catch_up()
        assert told(stream.result())["alpha"] == ("STOP", 93, 7, 3, 1, 0)
        with pytest.raises(LabError, match="another stream uses it now"):
            offsets_stream(checkpoint=tmp_path / "c", **where)
    with pytest.raises(LabError, match="it was stopped"):
        stream.catch_up()
    for group, records in later.items():
        write(broker, topic, records, group)
    with pytest.raises(LabError, match="belongs to run 'all groups, intervals=4"):
        offsets_stream(checkpoint=tmp_path / "c", **where | {"rules": LagRules()})
    streamed = offsets_stream(checkpoint=tmp_path / "c", every_ms=20, **where).finish()
    whole = offsets(**where)
    expected = {"alpha": ("STOP", 91, 9, 5, 1, 0), "beta": ("OK", 0, None, 2, 0, 0), "gamma": ("STOP", 95, 5, 1, 0, 0)}
    assert told(streamed) == told(whole) == expected
    for report in (streamed, whole):
        assert (report.reading.decoded, report.reading.broken) == (9, 1)
        assert report.partitions[0].rule == "stopped" and len(report.troubles) == 2 and report.group("beta")[0].excused == 1
    only = offsets("alpha", **where)
    assert told(only) == {"alpha": expected["alpha"]}
    for path in (tmp_path / "c/state").glob("facts-*/0.json"):
        path.unlink()
        path.write_bytes(b"?")
    with offsets_stream(checkpoint=tmp_path / "c", **where) as broken, pytest.raises(LabError, match=r"0\.json is damaged"):
        broken.result()
    with offsets_stream(checkpoint=tmp_path / "other", every_ms=20, **where) as stream:
        stream.catch_up()
        admin = AdminClient(client_config(broker))
        before, _ = topics_now(admin, [topic])[topic]
        admin.delete_topics([topic])[topic].result(20)
        assert remade(admin, topic, before) != before
        write(broker, topic, first["alpha"] * 9, "alpha")
        with pytest.raises(LabError, match="deleted and recreated while it was read"):
            stream.catch_up()
    with pytest.raises(CheckpointError, match="deleted and recreated since"):
        offsets_stream(checkpoint=tmp_path / "other", **where)


def test_batch_that_is_done_again_counts_once(broker: Cluster, spark: Any, topic: str, tmp_path: Path) -> None:
    """A crash between a batch and Spark's note of it, and one before the batch's end: the report is the same."""
    where: dict[str, Any] = {"topic": topic, "log_ends": ENDS, "spark": spark, "rules": LONG_AGO, "checkpoint": tmp_path, "every_ms": 20}
    write(broker, topic, commits("alpha", *range(9)), "alpha")
    first = offsets_stream(records_per_batch=3, **where).finish()
    assert told(first) == {"alpha": ("STOP", 92, 8, 9, 0, 0)}
    for crashed in (["query/commits/2"], ["query/commits/2", "state/2.json"]):
        for name in crashed:
            forget(tmp_path / name)
        again = offsets_stream(**where).finish()
        assert told(again) == told(first) and again.reading.decoded == first.reading.decoded


def test_damaged_checkpoint_names_the_file_and_changes_nothing(broker: Cluster, spark: Any, topic: str, tmp_path: Path) -> None:
    """A checkpoint that is cut, incomplete or another's is refused with the file's name; nothing in it is touched."""
    where: dict[str, Any] = {"topic": topic, "log_ends": ENDS, "spark": spark, "rules": LONG_AGO, "every_ms": 20}
    write(broker, topic, commits("alpha", *range(9)), "alpha")
    for folder, group in (("good", None), ("other", "alpha")):
        offsets_stream(group, checkpoint=tmp_path / folder, records_per_batch=3, **where).finish()
    foreign_metadata = (tmp_path / "other/query/metadata").read_text()
    damages: dict[str, Callable[[Path], Any]] = {
        "query/offsets/1 is cut short": lambda folder: (folder / "query/offsets/1").write_text(""),
        "query/offsets/2 is damaged": lambda folder: (folder / "query/offsets/2").write_text("v1\n{\n{\n"),
        "query/offsets/1 is missing": lambda folder: forget(folder / "query/offsets/1"),
        "query/offsets/2 is missing": lambda folder: forget(folder / "query/offsets/2"),
        "query/commits/1 is missing": lambda folder: [forget(folder / f"query/commits/{batch}") for batch in (1, 2)],
        "query/metadata is missing or of another query": lambda folder: (folder / "query/metadata").write_text(foreign_metadata),
        "state/2.json is missing": lambda folder: forget(folder / "state/2.json"),
        "state/2.json is damaged": lambda folder: (folder / "state/2.json").write_text('{"read":'),
        "state/facts-2 is missing": lambda folder: shutil.rmtree(folder / "state/facts-2"),
        "offsets.json is damaged": lambda folder: (folder / "offsets.json").write_text("?"),
        "belongs to run": lambda folder: shutil.copy(tmp_path / "other/offsets.json", folder / "offsets.json"),
        "no offsets.json": lambda folder: forget(folder / "offsets.json"),
    }
    for number, (trouble, damage) in enumerate(damages.items()):
        folder = Path(shutil.copytree(tmp_path / "good", tmp_path / str(number)))
        damage(folder)
        before = content(folder)
        with pytest.raises(CheckpointError) as caught:
            offsets_stream(checkpoint=folder, **where)
        assert trouble in str(caught.value)
        assert "choose another checkpoint folder" in str(caught.value)
        assert content(folder) == before


def forget(file: Path) -> None:
    """Remove a file of a checkpoint and its checksum."""
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


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
    """And it is not made by the question; a stream of it is refused, as are times the wrong way round."""
    name = f"kit.test.none-{uuid.uuid4().hex[:8]}"
    where: dict[str, Any] = {"topic": name, "bootstrap": broker.bootstrap, "spark": object()}
    assert offsets(**where).partitions == ()
    with pytest.raises(LabError, match="there is no such topic"):
        offsets_stream(**where)
    assert partitions_of(Topics.find(broker.bootstrap), name) == []
    with pytest.raises(KnobError, match="every_ms is 0"):
        offsets_stream(every_ms=0, **where)


def test_ends_of_all_logs_are_asked_for_at_once(broker: Cluster, topic: str) -> None:
    """Those of the topic are among them."""
    write(broker, topic, commits("alpha", 1, 2), "alpha")
    ends = ends_now(Topics.find(broker.bootstrap))
    assert sorted(end for (name, _), end in ends.items() if name == topic) == [0, 2]
