"""What a backend provides on the model and on Kafka is asked in the same words."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import isfunction, signature
from typing import Any

import pytest

from kitlib import experiments
from kitlib.experiments.run import Run


def _models() -> dict[str, type[Any]]:
    """Every class of the experiments that names its twin, by its name."""
    modules = [import_module(found.name) for found in pkgutil.walk_packages(experiments.__path__, "kitlib.experiments.")]
    classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    return {each.__name__: each for each in classes if isinstance(vars(each).get("on_kafka"), str) and each.on_kafka}


MODELS = _models()


def _verbs(kind: type) -> dict[str, list[str]]:
    """The public methods of a class, with their parameters."""
    found: dict[str, Any] = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: list(signature(verb).parameters) for name, verb in found.items() if isfunction(verb)}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_twin_is_asked_as_its_model_is(name: str) -> None:
    """A method that both have takes the same; what the model's takes beyond that, such as a time, is the model's alone.

    A run that is told a story in its own way is asked nothing else.
    """
    twin = pkgutil.resolve_name(MODELS[name].on_kafka)
    models, theirs = _verbs(MODELS[name]), _verbs(twin)
    has_own_way = issubclass(twin, Run) and twin.tell is not Run.tell
    both = {"tell"} if has_own_way else models.keys() & theirs.keys()
    assert both
    assert {verb for verb in both if theirs[verb] != models[verb][: len(theirs[verb])]} == set()
    if not issubclass(MODELS[name], Run):
        assert callable(twin.open) and callable(twin.close)


def test_twins_are_found() -> None:
    """Those of every domain that has a Kafka half."""
    assert MODELS.keys() >= {
        "ModelGroup", "ModelTransactions", "ModelLeader", "ModelKeyedTopic", "ModelWorkers", "SendRun",
        "ModelCompactedLog", "ModelCoordinator", "ModelDriver", "ModelOffsetsLog", "ModelTransactionalTopic",
    }  # fmt: skip
