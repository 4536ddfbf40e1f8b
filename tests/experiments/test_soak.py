"""The soak: rounds drawn by a seed, the same verdict on both sides, and no acknowledged record gone after a fault."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kitlib.errors import KnobError, LabError, LateError
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.script import Script
from kitlib.experiments.soak import EVERY, Footprint, Round, _both, growth, soak
from kitlib.lab import created_resources
from kitlib.lab.clients import Cluster
from kitlib.trace import Trace


@pytest.mark.kafka
@pytest.mark.slow
def test_soak_draws_runs_and_faults_by_its_seed_and_leaves_nothing(broker: Cluster) -> None:
    """Three rounds agree on model and broker, a fault after them keeps what was acknowledged, and their topics are gone."""
    rounds = list(itertools.islice(soak(minutes=5, seed=3, only=("happy_path", "answers_lost")), EVERY + 1))
    assert [each.outcome for each in rounds] == ["agrees"] * EVERY + ["recovered"], [each.sentence for each in rounds]
    assert {each.script.split()[0] for each in rounds[:EVERY]} <= {"happy_path", "answers_lost"}
    assert all(each.footprint.processes >= 2 and each.footprint.memory_mb > 100 for each in rounds)
    assert not created_resources.read("soak")


def test_soak_says_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment that runs on the model alone, and a broker that is not the kit's to kill, are refused at once."""
    with pytest.raises(KnobError, match=r"^soak: zookeeper_group runs on the model alone"):
        next(soak(minutes=1, only=("zookeeper_group",)))
    monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", "127.0.0.1:9")
    with pytest.raises(LabError, match=r"^soak: the brokers at 127.0.0.1:9 are not the kit's to kill"):
        next(soak(minutes=1))


@pytest.mark.kafka
def test_a_bug_of_an_experiment_is_a_failed_round_with_its_script(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no one foresaw ends its round and not the soak; the round says what to run again."""

    def breaks(*_: object, **__: object) -> None:
        raise KeyError(3)

    monkeypatch.setattr(Experiment, "run", breaks)
    found = next(soak(minutes=1, only=("happy_path",)))
    assert found.is_bad and found.outcome == "failed" and found.script.startswith("happy_path")
    assert found.sentence.startswith("A bug of the kit's: KeyError: 3. Run this script again")


@pytest.mark.kafka
def test_run_that_is_late_once_is_run_again_and_one_that_is_late_twice_is_bad(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that never settles is no refusal: it is told as such, and the soak's exit code counts it."""
    run, late = Experiment.run, [True, False]

    def waits(self: Experiment, **how: Any) -> Trace:
        if how.get("backend") == "kafka" and late.pop(0):
            raise LateError("x: a stable group did not happen within 20000 ms.")
        return run(self, **how)

    monkeypatch.setattr(Experiment, "run", waits)
    assert next(soak(minutes=1, only=("happy_path",))).outcome == "agrees"
    late[:] = True, True
    found = next(soak(minutes=1, only=("happy_path",)))
    assert found.is_bad and found.outcome == "late" and found.sentence == "x: a stable group did not happen within 20000 ms."


@pytest.mark.parametrize(
    ("on_broker", "outcome"),
    [({"strategy": "cooperative-sticky"}, "races"), ({"commit_on_revoke": True}, "unalike"), ({}, "agrees")],
    ids=["fewer duplicates", "none at all", "as many"],
)
def test_real_members_that_do_something_more_or_less_often_race_and_those_that_do_something_else_are_told(
    on_broker: dict[str, Any], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many records two members both process hangs on the clock; whether any are is told by itself."""
    run = Experiment.run

    def as_on_a_broker(self: Experiment, backend: str = "model", **how: Any) -> Trace:
        return run(self, **(how if backend == "model" else on_broker))

    monkeypatch.setattr(Experiment, "run", as_on_a_broker)
    assert _both(Script.made("rebalance", 1, {}))[0] == outcome


def test_growth_is_that_of_the_medians_of_the_last_two_thirds() -> None:
    """What is taken once at the start is no growth; what rises from round to round is."""

    def rounds(*memory: float) -> list[Round]:
        return [Round(number, "", "agrees", "", 1.0, Footprint(mb, 10, 3)) for number, mb in enumerate(memory)]

    assert growth(rounds(100, 300, 500, 500, 500, 500, 500, 500, 500)) == {"memory_mb": 0, "files": 0, "processes": 0}
    assert growth(rounds(*range(100, 190, 10)))["memory_mb"] == 30
    assert growth(rounds(1, 2, 3)) == {}
