"""Three real brokers: a leader that moves under a producer, acknowledgements whose only holder is destroyed, and logs cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kitlib.experiments import real_producers, run
from kitlib.lab.clients import Cluster
from kitlib.lab.three_brokers import three_brokers as borrowed_brokers
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from tests.conftest import mentions, our_processes
from tests.experiments.dance import Case, dance

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def three_brokers(kit_home: Path) -> Iterator[Cluster]:
    """A set of three as notebooks borrow it, which all tests of this file share."""
    users = os.environ["KIT_HOME"]
    with borrowed_brokers(lambda _: None) as cluster:
        home = Path(os.environ["KIT_HOME"])
        assert home.parent == kit_home / "run"
        yield cluster
    assert os.environ["KIT_HOME"] == users and not home.exists()
    assert not [process for process in our_processes() if mentions(process, str(home))]


def test_stale_metadata_real_leader_moves_and_nothing_is_lost(three_brokers: Cluster) -> None:
    """The old leader refuses, the client learns of the new one, the record is sent again, and each is stored once, in order."""
    knobs = {"records": 12, "every_ms": 20, "move_at_ms": 80}
    real = run("stale_metadata", backend="kafka", **knobs)
    assert str(judge(real)) == str(judge(run("stale_metadata", **knobs)))
    moved = next(step for step in real if step.what == "move_leader")
    after = real.steps[moved.number :]
    assert [step.data["error"] for step in after if step.what == "refuse"][:1] == ["NOT_LEADER_OR_FOLLOWER"]
    assert moved.data["to"] in {step.data["to"] for step in after if step.what == "leader"}
    assert sum(step.what == "delivered" for step in real) == 13


TRANSACTED = ["transition", "write", "marker", "fenced", "end", "read"]
AMONG_THREE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("zombie", {}, TRANSACTED), ("zombie", {"version": "2", "generation": False}, TRANSACTED),
]  # fmt: skip


@pytest.mark.parametrize(("name", "knobs", "words"), AMONG_THREE, ids=["librdkafka", "the kit's own client"])
def test_leaders_and_coordinators_are_found_among_three(
    name: str, knobs: dict[str, Any], words: list[str], three_brokers: Cluster
) -> None:
    """Transactions ask each broker what is its own, and it happens as often as in the model."""
    real, model = (run(name, backend, **knobs).words() for backend in ("kafka", "model"))
    assert {word: real[word] for word in words} == {word: model[word] for word in words}


def test_stale_metadata_real_client_is_given_the_knobs(three_brokers: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries, backoff and age are librdkafka's; with no retries it sends again all the same what the old leader refused."""
    given: list[dict[str, Any]] = []

    def make(config: dict[str, Any], **more: Any) -> Producer:
        given.append(config)
        return Producer(config, **more)

    monkeypatch.setattr(real_producers, "Producer", make)
    knobs = {"retries": 0, "retry_backoff_ms": 60, "metadata_max_age_ms": 200_000}
    real = run("stale_metadata", backend="kafka", records=6, every_ms=20, move_at_ms=40, **knobs)
    names = ("retries", "retry.backoff.ms", "topic.metadata.refresh.interval.ms")
    assert [[config[name] for name in names] for config in given] == [[0, 60, 200_000]]
    assert sum(step.what == "delivered" for step in real) == 7 and any(step.what == "refuse" for step in real)


def told(trace: Trace) -> list[tuple[str, str, dict[str, Any]]]:
    return [(step.actor, step.what, {name: value for name, value in step.data.items() if name != "topic"}) for step in trace]


def as_the_models(traces: list[Trace], cases: tuple[Case, ...]) -> None:
    """Every real step is the model's, and so is the verdict."""
    for trace, (name, knobs) in zip(traces, cases, strict=True):
        model = run(name, **knobs)
        assert told(trace) == told(model), (name, knobs)
        assert str(judge(trace)) == str(judge(model))


# One dance: 3 dies, 2 dies, 3 comes back, 2 comes back.
ELECTIONS: tuple[Case, ...] = (
    ("unclean_election", {}),
    ("unclean_election", {"unclean_leader_election": False}),
    ("truncated_commit", {"leader_epoch": True}),
    ("truncated_commit", {"leader_epoch": True, "library": "librdkafka"}),
    ("follower_cut", {"trouble": "killed"}),
)
RESTARTS: tuple[Case, ...] = (("flipped_bit", {}), ("flipped_bit", {"replicas": 1}))  # 2 dies and comes back


def test_set_of_three_that_runs_already_is_used_and_left_alone(three_brokers: Cluster) -> None:
    """Who borrows one while one runs gets that one."""
    for _ in range(2):
        with borrowed_brokers() as cluster:
            assert (cluster.bootstrap, cluster.cluster_id) == (three_brokers.bootstrap, three_brokers.cluster_id)


@pytest.mark.timeout(400)  # the dance ends itself before that, and tells who was late
def test_unclean_election_and_commits_of_another_history_are_the_models(
    three_brokers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lossy or unavailable, found out by the epoch or skipped in silence; with two of three in sync all is there (row 35)."""
    traces = dance(monkeypatch, *ELECTIONS)
    as_the_models(traces, ELECTIONS)
    assert [judge(trace).counts["lost"] for trace in traces] == [10, 0, 0, 10, 0]


@pytest.mark.timeout(400)
def test_flipped_bit_is_mended_from_the_other_broker(three_brokers: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker cuts its log off before the damaged record and copies the rest; alone, it has lost it (row 20)."""
    traces = dance(monkeypatch, *RESTARTS)
    as_the_models(traces, RESTARTS)
    assert [judge(trace).counts["lost"] for trace in traces] == [0, 13]


def test_follower_that_is_stopped_leaves_the_in_sync_set_and_comes_back(three_brokers: Cluster) -> None:
    """SIGSTOP: the set shrinks, records go on, the leader dies, another of the set leads, nothing is lost (row 35)."""
    case: Case = ("follower_cut", {})
    as_the_models([run("follower_cut", backend="kafka")], (case,))


def test_coordinator_moves_real_one_tells_the_last_offset(three_brokers: Cluster) -> None:
    """The old coordinator says that it is none, the new one has the last commit."""
    knobs: dict[str, Any] = {"records": 5, "others_records": 50, "records_while_loading": 0, "retry_ms": 10}
    real = run("coordinator_moves", backend="kafka", **knobs)
    moved = next(step for step in real if step.what == "move")
    told = [step for step in real.steps[moved.number :] if step.what == "answer"]
    assert told[0].data["error"] == "NOT_COORDINATOR" and told[0].actor == f"coordinator {moved.data['from']}"
    assert told[-1].data["offset"] == 10
    assert told[-1].actor == f"coordinator {moved.data['to']}" and judge(real).violations == ()
    assert judge(real).processed == judge(real).appended == 10
