"""What a backend provides on the model and on Kafka is asked in the same way."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import Parameter, getmembers, isfunction, signature
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


def _asked_as(method: Any) -> list[tuple[str, Any, Any]]:
    """A method's parameters: their names, kinds and defaults."""
    return [(each.name, each.kind, each.default) for each in signature(method).parameters.values()]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_twin_is_asked_as_its_model_is(name: str) -> None:
    """What both have takes the same parameters. The backend can open the twin of a facet with what makes the model, and close it."""
    model = MODELS[name]
    twin = pkgutil.resolve_name(model.on_kafka)
    both = [method for method, _ in getmembers(model, isfunction) if method[0] != "_" and hasattr(twin, method)]
    different = {method for method in both if _asked_as(getattr(model, method)) != _asked_as(getattr(twin, method))}
    assert both and different == set()
    if not issubclass(model, Run):
        _, *opened = signature(twin.open).parameters.values()
        made = list(signature(model).parameters)
        required = [each.name for each in opened if each.default is Parameter.empty]
        assert hasattr(twin, "close") and required == made[: len(required)]


def test_twins_are_found() -> None:
    """The groups', the transactions' and the leader's among them."""
    assert {"ModelGroup", "ModelTransactions", "ModelLeader", "ModelKeyedTopic", "ModelWorkers", "SendRun"} <= MODELS.keys()
