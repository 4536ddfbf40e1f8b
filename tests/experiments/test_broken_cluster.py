"""The broken cluster of the capstone: each seed has one fault that its commits and its lag give away, in memory and on a real broker."""

from __future__ import annotations

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.cluster_audit.broken_cluster import (
    FAULTS,
    PARTITIONS,
    STOPPED,
    VANISHED,
    BrokenCluster,
    Plan,
    broken_cluster,
    diagnose,
)
from kitlib.lab.kafka_server import Cluster
from kitlib.mechanisms.lag import Status
from kitlib.monitor.diagnosis import burrow

SEEDS = range(60)


def seed_of(fault: str, is_earliest: bool | None = None) -> int:
    """The first seed with a fault, and with this reset policy if one is given."""
    return next(
        seed for seed in SEEDS if (plan := Plan.of(seed)).fault == fault and is_earliest in (None, plan.is_earliest)
    )


def told(cluster: BrokenCluster) -> list[tuple[str, int]]:
    """What the diagnosis says."""
    return [(each.fault, each.partition) for each in diagnose(cluster)]


def test_every_seed_has_one_fault_that_its_evidence_gives_away() -> None:
    """The diagnosis sees neither the seed nor the plan; the late commit of another partition is no fault."""
    for seed in SEEDS:
        plan = Plan.of(seed)
        assert told(broken_cluster(seed)) == [(plan.fault, plan.partition)], plan
    assert {Plan.of(seed).fault for seed in SEEDS} == set(FAULTS)
    assert {Plan.of(seed).partition for seed in SEEDS} == set(range(PARTITIONS))


def test_lost_offset_may_leave_no_lag() -> None:
    """With the policy latest the group goes on at the end, and the lag alone says that all is well."""
    cluster = broken_cluster(seed_of(VANISHED, is_earliest=False))
    (found,) = diagnose(cluster)
    judged = burrow(cluster.snapshot, cluster.part(found.partition))
    assert judged is not None and judged.status is Status.OK
    assert cluster.lag().rows[-1][1 + found.partition] == "0" and "were skipped" in found.why
    assert "repeated" in diagnose(broken_cluster(seed_of(VANISHED, is_earliest=True)))[0].why


def test_tables_show_the_records_and_the_lag() -> None:
    """One line a record, in the order of the log; one line a look."""
    cluster = broken_cluster(seed_of(VANISHED))
    partition = diagnose(cluster)[0].partition
    rows = cluster.offsets(partition).rows
    assert [row[2] for row in rows].count("gone (tombstone)") == 1 and {row[1] for row in rows} == {str(partition)}
    assert len(cluster.offsets().rows) == sum(len(cluster.offsets(each).rows) for each in range(PARTITIONS))
    assert "gone (tombstone)" in repr(cluster.offsets()) and "<td>gone (tombstone)</td>" in cluster.offsets()._repr_html_()
    assert len(cluster.lag().rows) == len(cluster.looks)
    assert all(fault not in repr(cluster) for fault in FAULTS)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_seed_that_is_none_is_refused(seed: object) -> None:
    """With what it is."""
    with pytest.raises(KnobError, match=f"seed is '{seed}'"):
        broken_cluster(seed)  # type: ignore[arg-type]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("fault", [VANISHED, STOPPED])
def test_real_cluster_shows_what_the_model_shows(fault: str, broker: Cluster) -> None:
    """A real group's records and its lag are those of the model, and so is the diagnosis."""
    seed = seed_of(fault, is_earliest=fault != VANISHED)
    real, model = broken_cluster(seed, "kafka"), broken_cluster(seed)
    assert real.offsets().rows == model.offsets().rows and real.lag().rows == model.lag().rows
    assert told(real) == told(model) == [(fault, Plan.of(seed).partition)]
