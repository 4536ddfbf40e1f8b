"""The same experiments with a real broker: its answers, its purge and its cleaner come to the model's counts."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.experiments import run
from kitlib.experiments.offsets import kafka_coordinator
from kitlib.experiments.offsets.kafka_coordinator import checked_every_ms, group_of_first_partition
from kitlib.lab.clients import Cluster
from kitlib.lab.wire.coordinator import CoordinatorWire, find_coordinator
from kitlib.monitor.delivery import judge
from kitlib.more.hashes import group_partition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SHORT: dict[str, Any] = {"offsets_retention_ms": 500, "away_ms": 2_000, "records": 5, "records_while_away": 2}
CASES: dict[str, dict[str, Any]] = {
    "a live group keeps what has expired": {"group": "alive"},
    "an empty group does not, and begins at the end under the other policy": {"group": "empty", "auto_offset_reset": "latest"},
}


@pytest.mark.parametrize("case", CASES)
def test_offset_expiry_real_broker_comes_to_the_model_s_verdict(broker: Cluster, case: str) -> None:
    """A real coordinator is told how long to keep the offsets, and purges them or not; a real consumer says where it begins."""
    knobs = SHORT | CASES[case]
    real, model = run("offset_expiry", backend="kafka", **knobs), run("offset_expiry", **knobs)
    assert str(judge(real)) == str(judge(model))

    def told(trace: Any) -> list[int]:
        return [step.data["offset"] for step in trace if step.what == "answer"][-2:]

    assert told(real) == told(model)


def test_coordinator_moves_real_broker_alone_cannot(broker: Cluster) -> None:
    """With one broker there is nowhere to move to, and it says what to do; an odd record and old rules are the model's."""
    with pytest.raises(LabError, match="kit up --brokers 3"):
        run("coordinator_moves", backend="kafka", records=2, others_records=3)
    with pytest.raises(KnobError, match="odd_record is later version: it would remain"):
        run("coordinator_moves", backend="kafka", odd_record="later version")
    with pytest.raises(KnobError, match=r"rules are 0\.9\.0: a real broker follows those of 4\.3\.1"):
        run("offset_expiry", backend="kafka", rules="0.9.0")


def test_find_coordinator_names_the_broker_that_answers(broker: Cluster) -> None:
    """The only broker is every group's coordinator; a group that never committed has no offset, without an error."""
    node, host, port = find_coordinator(broker, "never seen", 10.0)
    assert node == 1
    with CoordinatorWire.open(host, port) as wire:
        assert wire.find("never seen") == (node, host, port)
        assert wire.fetch_offsets("never seen", [("none", 0), ("none", 1)]) == (0, {("none", 0): -1, ("none", 1): -1})
        assert wire.commit_offsets("never seen", {("none", 0): 5}) == {("none", 0): 3}  # there is no such topic


def test_checked_every_ms_too_seldom_is_told(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's broker looks every second; one that looks every ten minutes is not waited for."""
    assert checked_every_ms(broker) == 1_000
    monkeypatch.setattr(kafka_coordinator, "broker_value", lambda *_: "600000")
    with pytest.raises(LabError, match=r"offsets\.retention\.check\.interval\.ms=600000, expected 1 to 5000"):
        checked_every_ms(broker)


def test_group_of_first_partition_is_kept_in_partition_0() -> None:
    """Whatever the number of partitions, an ending is found."""
    for partitions in (1, 4, 50):
        assert group_partition(group_of_first_partition("kit.run.group", partitions), partitions) == 0
