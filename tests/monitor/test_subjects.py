"""A run that followed no record says what it did to its own subject."""

from __future__ import annotations

import pytest

from kitlib.experiments import names, run
from kitlib.monitor.delivery import judge

TOLD = [
    (
        "connect_worker_lost",
        {},
        "6 tasks on 2 workers after 4 rebalances; 2 tasks moved. Longest without an owner: sink-2 and source-2, 312 s. "
        "300 s of that is scheduled.rebalance.max.delay.ms.",
    ),
    (
        "streams_tasks",
        {},
        "10 tasks on 2 instances after 2 rebalances; 600 records restored, 0 of 4 threads idle. "
        "Longest without an owner: all 10 tasks, 1 s.",
    ),
    (
        "streams_queries",
        {"stale": True},
        "10 tasks on 1 instance after 2 rebalances; 24,000 records restored, 0 of 1 thread idle. "
        "Longest without an owner: 1_1 and 1_3, 48.3 s. 11 queries = 4 right + 4 outdated + 2 null + 1 refused or unanswered.",
    ),
]


@pytest.mark.parametrize(("name", "knobs", "sentence"), TOLD, ids=[told[0] for told in TOLD])
def test_verdict_without_records_tells_of_tasks_rebalances_and_what_was_restored(name: str, knobs: dict[str, int], sentence: str) -> None:
    """The numbers are those of the run's last step, and no anomaly of records is counted."""
    verdict = judge(run(name, **knobs))
    assert (verdict.sentence, verdict.counts) == (sentence, {})


@pytest.mark.parametrize("name", names())
def test_no_experiment_ends_with_nothing_to_say(name: str) -> None:
    """Whatever an experiment is about, its verdict says something of it."""
    assert "No record was followed" not in judge(run(name)).sentence


def test_verdict_of_a_cut_run_without_records_claims_nothing() -> None:
    """Without its last step a run has no result to tell of."""
    sentence = judge(run("connect_layouts", max_steps=10)).sentence
    assert sentence == "The run was cut at max_steps=10, so the rest of its story is missing; no record was followed in this run."
