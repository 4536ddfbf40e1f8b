"""Spark's own Kafka source beside the PartitionManager's: what a killed query has lost, and done twice."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines.partition_manager_source import FORMAT
from kitlib.pipelines.source_kills import AFTER, DELETED_LATEST, FAILS, SPARKS_OWN, after_a_kill


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sources_promise_the_same_until_the_checkpoint_is_gone_or_a_record_fails(broker: Cluster, spark: Any) -> None:
    """Without a checkpoint Spark's source starts where it is told and loses a batch; one failed record makes it repeat half of one."""
    found = after_a_kill((DELETED_LATEST, FAILS), records=12, per_batch=4, spark=spark)
    assert found.loc[DELETED_LATEST].to_dict() == {
        (SPARKS_OWN, "lost"): 4, (SPARKS_OWN, "twice"): 0, (FORMAT, "lost"): 0, (FORMAT, "twice"): 4,
    }  # fmt: skip
    assert found.loc[FAILS].to_dict() == {
        (SPARKS_OWN, "lost"): 0, (SPARKS_OWN, "twice"): 2, (FORMAT, "lost"): 0, (FORMAT, "twice"): 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"cases": ["killed"]}, "no case 'killed'"),
        ({"cases": [AFTER], "records": 5, "per_batch": 2}, "3 \\* per_batch <= records"),
        ({"cases": [AFTER], "records": 2_000}, "<= 1000"),
        ({"cases": [AFTER], "per_batch": 1}, "2 <= per_batch"),
    ],
    ids=str,
)
def test_a_comparison_that_cannot_be_is_refused_before_anything_starts(settings: dict[str, Any], told: str) -> None:
    """A KnobError with the range; no broker and no Spark are asked for."""
    with pytest.raises(KnobError, match=told):
        after_a_kill(**settings)
