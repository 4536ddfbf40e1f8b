"""What each of the idempotent producer's experiments claims, on the model: counts and marks, by a table."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from kitlib import experiments
from kitlib.experiments import get
from kitlib.experiments.idempotence.producer_run import ProducerRun
from kitlib.monitor.delivery import Verdict, judge
from kitlib.trace import Trace
from tests.experiments.knob_values import with_any_knobs

PRODUCING = [name for name in experiments.names() if issubclass(get(name).kind, ProducerRun)]

# (experiment, knobs) -> stored and sent records, the counts that are not 0. No count is a violation.
Claim = tuple[str, dict[str, Any], tuple[int, int], dict[str, int]]
CLAIMS: dict[str, Claim] = {
    "lost answers, idempotent": ("answers_lost", {}, (60, 60), {}),
    "one in flight, idempotent": ("answers_lost", {"max_in_flight": 1}, (60, 60), {}),
    "two in flight, idempotent": ("answers_lost", {"max_in_flight": 2}, (60, 60), {}),
    "lost answers without idempotence": ("answers_lost", {"idempotence": False}, (60, 60), {"duplicated": 30}),
    "two in flight without idempotence": (
        "answers_lost", {"idempotence": False, "max_in_flight": 2, "lost_answers": 2}, (60, 60), {"duplicated": 30},
    ),
    "no answer is waited for": ("answers_lost", {"acks": "0"}, (60, 60), {}),
    "no retries: told failed, and stored": ("answers_lost", {"retries": 0}, (60, 60), {"indefinite": 30}),
    "every fifth answer lost by chance": ("answers_lost", {"answer_loss_percent": 20}, (60, 60), {}),
    "six in flight": ("six_in_flight", {}, (30, 30), {"duplicated": 30}),
    "six in flight, six remembered": ("six_in_flight", {"remembered_batches": 6}, (30, 30), {}),
    "five in flight, five remembered": ("six_in_flight", {"max_in_flight": 5}, (30, 30), {}),
    "one remembered": ("six_in_flight", {"max_in_flight": 5, "remembered_batches": 1}, (30, 30), {"duplicated": 25}),
    "the better rule mends six in flight": ("six_in_flight", {"older_is_duplicate": True}, (30, 30), {}),
    "a retry comes late": ("reordering_by_retry", {}, (25, 25), {"reordered": 5}),
    "a lost request comes late": ("reordering_by_retry", {"fault": "request lost"}, (25, 25), {"reordered": 15}),
    "one in flight keeps the order": ("reordering_by_retry", {"max_in_flight": 1}, (25, 25), {}),
    "idempotence keeps the order": ("reordering_by_retry", {"idempotence": True}, (25, 25), {}),
    "killed with five answers out": ("broker_restart", {}, (25, 25), {"duplicated": 25}),
    "stopped with five answers out": ("broker_restart", {"restart": "clean"}, (25, 25), {"duplicated": 25}),
    "killed with two answers out": ("broker_restart", {"max_in_flight": 2}, (25, 25), {"duplicated": 10}),
    "killed with one answer out": ("broker_restart", {"max_in_flight": 1}, (25, 25), {}),
    "five answers out, no restart": ("broker_restart", {"restart": "no"}, (25, 25), {}),
    "a replica remembers all five": ("broker_restart", {"restart": "fail over"}, (25, 25), {}),
    "the better rule mends a restart": ("broker_restart", {"older_is_duplicate": True}, (25, 25), {}),
    "told failed, and stored": ("batch_expires", {}, (20, 20), {"indefinite": 10}),
    "told failed, and not stored": ("batch_expires", {"lost": "request"}, (10, 20), {"lost": 10}),
    "sent again by the application": ("batch_expires", {"again": True}, (20, 20), {"duplicated": 5, "indefinite": 5}),
    "expired under the rules of 2.0": ("batch_expires", {"release": "2.0"}, (20, 20), {"indefinite": 5}),
    "fenced by the epoch": ("two_producers_one_id", {}, (20, 25), {"lost": 5}),
    "the same epoch": ("two_producers_one_id", {"second_epoch": "same"}, (15, 25), {"lost": 10}),
    "an id that was forgotten": ("producer_id_expired", {}, (15, 15), {"duplicated": 5}),
    "an id that was not forgotten": ("producer_id_expired", {"expires": False}, (15, 15), {}),
    "not even the better rule knows a forgotten id": (
        "producer_id_expired", {"older_is_duplicate": True}, (15, 15), {"duplicated": 5},
    ),
    "2.0 refuses an id that it has forgotten": (
        "producer_id_expired", {"release": "2.0"}, (15, 15), {"indefinite": 5},
    ),
    "the memory outlives the records": ("log_start_moved", {}, (20, 20), {}),
    "not across a restart": ("log_start_moved", {"restart": "clean"}, (20, 20), {"duplicated": 5}),
    "2.0 forgot with the records": ("log_start_moved", {"release": "2.0"}, (20, 20), {"duplicated": 5}),
    "one of three partitions fails": ("one_partition_waits", {}, (90, 90), {}),
    "without numbers its order is lost": ("one_partition_waits", {"idempotence": False}, (90, 90), {"reordered": 5}),
    "one count for all partitions": (
        "one_partition_waits", {"numbered": "by producer"}, (30, 90), {"lost": 60, "indefinite": 10},
    ),
    "an epoch is one partition's affair": ("new_id_for_all", {}, (280, 290), {"lost": 10}),
    "a new id is every partition's affair": ("new_id_for_all", {"release": "2.0"}, (335, 340), {"lost": 5, "indefinite": 10}),
    "two batches fit into a request": ("whose_turn", {}, (100, 100), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CLAIMS)
def test_producer_stores_what_the_settings_promise(case: str) -> None:
    """Each story's counts, and a setting that explains each of them."""
    name, knobs, (stored, sent), counts = CLAIMS[case]
    verdict = judge(get(name).run(**knobs))
    assert (verdict.processed, verdict.appended) == (stored, sent)
    assert {kind: count for kind, count in verdict.counts.items() if count} == counts
    assert verdict.violations == ()


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


def test_drain_from_where_the_last_ended_serves_every_partition_first() -> None:
    """A request that has room for two batches takes them from the next two partitions, not from the first two again."""
    turns = {}
    for drained_from in ("where the last ended", "the first"):
        trace = get("whose_turn").run(drained_from=drained_from)
        turns[drained_from] = [step.data["partition"] for step in trace if step.what == "request"]
    assert set(turns["where the last ended"][:6]) == {0, 1, 2, 3} and set(turns["the first"][:6]) == {0, 1}
