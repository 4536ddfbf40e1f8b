"""Spark's Kafka sink beside a table with a key: what a batch that is written again leaves in each."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines.kafka_sink import run_sink

IN_SPARK = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize(
    ("sink", "written_before"),
    [
        pytest.param("kafka", [10, 11, 12, 13, 14], id="Spark's Kafka sink", marks=IN_SPARK),
        pytest.param("append", [10, 11, 12, 13, 14], id="a table without a key", marks=IN_SPARK),
        pytest.param("upsert", [], id="a table with the key of batch and order", marks=IN_SPARK),
    ],
)
def test_what_was_written_before_the_death_lies_in_the_sink_twice_unless_it_has_a_key(
    broker: Cluster, spark: Any, sink: Any, written_before: list[int]
) -> None:
    """The job dies at record 15, in the middle of batch 1; the next one writes the whole batch again, and nothing is lost."""
    run = run_sink(sink, spark=spark)
    assert [offset for offset, copies in sorted(run.copies.items()) if copies > 1] == written_before
    assert sorted(run.copies) == list(range(30)) and run.missing == 0 and run.twice == len(written_before)
    assert run.verdict.counts["duplicated"] == len(written_before) and run.verdict.counts["lost"] == 0
    assert not run.verdict.violations and f"30 records in, {30 + len(written_before)} out" in repr(run)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_a_job_that_does_not_die_writes_each_record_once_and_finds_nothing_to_do_afterwards(
    broker: Cluster, spark: Any
) -> None:
    """Without a death at least once is exactly once."""
    run = run_sink("kafka", records=5, per_batch=5, dies_at=None, spark=spark)
    assert run.copies == dict.fromkeys(range(5), 1)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sink": "paper"}, "expected one of kafka, append, upsert"),
        ({"records": 5, "per_batch": 6}, "1 <= per_batch <= records"),
        ({"records": 0, "per_batch": 0}, "1 <= per_batch <= records"),
        ({"records": 1001}, "records <= 1000"),
        ({"dies_at": 30}, "0 <= dies_at < 30"),
        ({"dies_at": -1}, "0 <= dies_at < 30"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_is_refused_before_anything_starts(settings: dict[str, Any], told: str) -> None:
    """A KnobError with the range; no broker and no Spark are asked for."""
    with pytest.raises(KnobError, match=told):
        run_sink(**settings)
