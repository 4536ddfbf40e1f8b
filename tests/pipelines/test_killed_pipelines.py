"""Pipelines whose program is killed with SIGKILL: what each source, with which settings, has lost and done twice."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines.killed_pipelines import KilledPipelines, Pipeline


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_program_goes_on_from_its_checkpoints_and_each_setting_keeps_what_it_promises(broker: Cluster, spark: Any) -> None:
    """A skipped record is lost; the PartitionManager retries it unless its bound refuses that; what was in flight comes twice."""
    kit = {"forceFromStart": True, "maxOffsetsPerTrigger": 10, "maxOffsetBehind": 5}
    pipelines = KilledPipelines([
        Pipeline("skip", "kafka", "skip", options={"startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}),
        Pipeline("bound 5", options=kit),
        Pipeline("5 in flight", options=kit | {"maxOffsetsPerTrigger": 5}),
    ])  # fmt: skip
    try:
        assert pipelines.run(kill_after=17) == "killed by SIGKILL after 17 results"
        assert set(pipelines.audit(spark)["lost"]) == {13}
        assert pipelines.run() == "came to its end"
        found = pipelines.audit(spark)
    finally:
        pipelines.close()
    assert found[["lost", "twice"]].to_dict("index") == {
        "skip": {"lost": 2, "twice": 9}, "bound 5": {"lost": 2, "twice": 9}, "5 in flight": {"lost": 0, "twice": 4},
    }  # fmt: skip
    assert list(found["guarantee"]) == ["none", "none", "at least once"]
