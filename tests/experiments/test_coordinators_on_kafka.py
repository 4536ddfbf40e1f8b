"""The same experiments with a real broker: its answers, its purge and its cleaner come to the model's counts."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.experiments import run
from kitlib.experiments.offsets import kafka_coordinator
from kitlib.experiments.offsets.kafka_coordinator import checked_every_ms
from kitlib.lab.clients import Cluster
from kitlib.monitor.delivery import judge

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
    """With one broker there is nowhere to move to, and it says what to do; old rules are the model's."""
    with pytest.raises(LabError, match="kit up --brokers 3"):
        run("coordinator_moves", backend="kafka", records=2, others_records=3)
    with pytest.raises(KnobError, match=r"rules are 0\.9\.0: a real broker follows those of 4\.3\.1"):
        run("offset_expiry", backend="kafka", rules="0.9.0")


def test_checked_every_ms_too_seldom_is_told(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's broker looks every second; one that looks every ten minutes is not waited for."""
    assert checked_every_ms(broker) == 1_000
    monkeypatch.setattr(kafka_coordinator, "broker_value", lambda *_: "600000")
    with pytest.raises(LabError, match=r"offsets\.retention\.check\.interval\.ms=600000, expected 1 to 5000"):
        checked_every_ms(broker)
