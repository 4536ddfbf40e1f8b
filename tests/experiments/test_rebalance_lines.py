"""What the logs of consumers and of a coordinator say of a rebalance; real ones are read in notebook 10b, which `tests/notebooks` runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from kitlib.errors import LabError
from kitlib.experiments.groups.rebalance_lines import Line, consumer_lines, coordinator_lines, observe_rebalance
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab.kafka_server import Cluster

HEAD = "2026-11-23 20:48:09.341 INFO org.apache.kafka.coordinator.group.GroupMetadataManager - [GroupCoordinator id=1] "


def test_line_of_a_coordinator_tells_group_generation_and_reason_without_random_ids() -> None:
    """A member id loses its random part, and the reason what the client adds to it; other groups' lines are left out."""
    member = "B-aed1d632-cbd0-4044-ab68-b6d8a0f8f90c"
    why = f"(reason: Adding new member {member} with group instance id null; client reason: x)."
    line = f"{HEAD}Preparing to rebalance group g in state PreparingRebalance with old generation 1 {why}"
    assert coordinator_lines([line, line.replace("group g ", "group h ")], "g") == [
        Line("rebalance", "broker", "generation 1, why Adding new member B")
    ]
    took = "in 49ms where 12ms was spent in the scheduler. Loaded 1 records which total to 138 bytes."
    loaded = f"{HEAD}Finished loading of metadata from __consumer_offsets-3 with epoch 2 {took}"
    assert [str(each).split() for each in coordinator_lines([loaded], "g")] == [
        ["broker", "loaded", "who", "__consumer_offsets-3,", "ms", "49,", "records", "1"]
    ]


def test_line_of_a_consumer_that_tells_nothing_of_a_rebalance_is_left_out() -> None:
    """Hostile text in a line stays one printable line."""
    assert consumer_lines(["2026-11-23 20:48:09.341 INFO x.Y - [Consumer clientId=A, groupId=g] Subscribed", "(Re-)joining group"]) == []
    [line] = consumer_lines(["[Consumer clientId=A, groupId=g] (Re-)joining group \x1b[31m<b>"])
    assert line.step == "3 assign" and line.text.isprintable()


@pytest.mark.kafka
def test_rebalance_on_a_foreign_broker_is_refused_before_anything_is_made(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a broker that the kit has not started cannot be read, and an old one in the workspace is not taken for it."""
    backend = KafkaBackend.open("rebalance-lines")
    backend.cluster = replace(broker, source="external")
    monkeypatch.setattr(KafkaBackend, "create_topic", lambda *_: pytest.fail("a topic was made"))
    with closing(backend), pytest.raises(LabError, match=r"the log of a broker: the brokers at .* are not the kit's"):
        observe_rebalance(backend)
