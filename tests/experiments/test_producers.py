"""The idempotent producer's experiments on the model, beyond what `test_claims` counts: order, refusals, partitions; and any knobs."""

from __future__ import annotations

from collections import defaultdict

import pytest

from kitlib import experiments
from kitlib.experiments import get
from kitlib.experiments.idempotence.producer_run import ProducerRun
from kitlib.monitor.delivery import Verdict, judge
from kitlib.trace import Trace
from tests.experiments.knob_values import with_any_knobs

PRODUCING = [name for name in experiments.names() if issubclass(get(name).kind, ProducerRun)]


def test_verdict_without_a_setting_that_explains_it_is_a_violation() -> None:
    """The same trace, told under settings that promise more: its duplicates are a violation then."""
    trace = get("answers_lost").run(idempotence=False)
    trace.settings["idempotence"] = True
    verdict = judge(trace)
    assert verdict.violations == ("duplicated",) and verdict.first("duplicated").unit == "record"
    assert "Violation of the promise that no record is duplicated; no setting explains it." in verdict.sentence


def test_retry_is_put_back_in_its_place_and_goes_alone() -> None:
    """While it recovers, the producer has one request out, oldest batch first."""
    trace = get("broker_restart").run(restart="no")
    cut = next(step.number for step in trace if step.what == "cut")
    after = [step for step in trace.steps[cut:] if step.what == "request"]
    assert [step.data["batch"] for step in after] == [0, 1, 2, 3, 4]
    assert all(len(step.state["producer"]["in_flight"]) == 1 for step in after)
    before = [step for step in trace.steps[:cut] if step.what == "request"]
    assert [len(step.state["producer"]["in_flight"]) for step in before] == [1, 2, 3, 4, 5]


def test_six_in_flight_the_first_retry_is_refused_and_the_epoch_raised() -> None:
    """The broker remembers batches 1 to 5; batch 0 is a gap to it, and the client begins again with epoch 1."""
    trace = get("six_in_flight").run()
    refused = [step for step in trace if step.what == "refuse"]
    assert [(step.data["batch"], step.data["error"]) for step in refused] == [(0, "OUT_OF_ORDER_SEQUENCE_NUMBER")]
    assert [slot[0] for slot in refused[0].state["broker"]["remembered"]] == [5, 10, 15, 20, 25]
    written = [(step.data["epoch"], step.data["seq"]) for step in trace if step.what == "write"]
    assert written == [(epoch, seq) for epoch in (0, 1) for seq in range(0, 30, 5)]


def test_release_2_0_asks_for_a_new_id_where_4_3_raises_the_epoch() -> None:
    """After a batch expired with an attempt behind it."""
    changes = {
        release: [
            (step.data["why"], step.data["epoch"]) for step in get("batch_expires").run(release=release) if step.what == "id"
        ]
        for release in ("4.3", "2.0")
    }
    assert changes == {"4.3": [("init", 0), ("bump", 1)], "2.0": [("init", 0), ("init", 0)]}


@pytest.mark.parametrize("name", PRODUCING)
def test_producer_any_knobs_gives_a_trace_that_holds_together(name: str) -> None:
    """Whatever the knobs, bounds hold, and what the topic holds at the end is what was written."""

    def check(trace: Trace, verdict: Verdict) -> None:
        logs: dict[int, list[int]] = defaultdict(list)
        partition = 0
        for step in trace:
            state, data = step.state, step.data
            partition = data.get("partition", partition)
            written = logs[partition]
            if step.what == "write":
                assert data["offset"] == len(written)
                written += range(data["first"], data["last"] + 1)
            if state:
                assert state["log"] == state["broker"]["log_end"] == len(written) >= state["broker"]["log_start"]
                requests = {number for number, *_ in state["producer"]["in_flight"]}
                assert len(requests) <= trace.settings.max_in_flight
                assert len(state["broker"]["remembered"]) <= trace.settings.remembered_batches
            if step.what == "read":
                read = [record for low, high in data["records"] for record in range(low, high + 1)]
                assert read == written[data["first_offset"] :]

    with_any_knobs(name, 15, check)


def test_partition_that_recovers_stops_the_drain_and_the_others_wait_a_moment() -> None:
    """A batch whose turn it is not ends the drain: the other partitions' batches wait for milliseconds, its own for many."""
    zero, one, two = (lane.late_ms for lane in judge(get("one_partition_waits").run(rounds=40)).lanes)
    assert 5 < max(zero, two) < 20 and one > 100


def test_one_count_for_all_partitions_is_a_gap_in_each_of_them() -> None:
    """The leader of a partition sees only its own batches: numbers that went to another partition are missing there."""
    trace = get("one_partition_waits").run(numbered="by producer")
    refused = {step.data["error"] for step in trace if step.what == "refuse"}
    assert refused == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}
    assert not any(step.what == "refuse" for step in get("one_partition_waits").run(numbered="by producer", partitions=1, rounds=2))
